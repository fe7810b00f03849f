"""The interface through which lowering uses the layer that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sqlstream.planner.catalog import Function
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.udfs.lookup.source import LookupSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor


class Runtime(Protocol):
    """Sources, control rows and functions of one job."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def max_parallelism(self) -> int:
        """The number of key groups of operators with state on the columnar engine; a checkpoint fixes it."""
        ...

    @property
    def run_id(self) -> str:
        """Identifies this query among all others, earlier ones of the same text included; it stays the same where
        the query goes on from its checkpoint. Lookups keep nothing for another one."""
        ...

    @property
    def steps_clock(self) -> bool:
        """True where a test moves the clock: sources stamp it on their rows, and ticks tell it. That of the machine has
        nothing to say then."""
        ...

    def read(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """A streaming DataFrame with exactly the columns of the scan, in order.

        It may add the hidden column ``__processing_time TIMESTAMP``, the clock of each row; without it the clock is
        that of the micro-batch. ``in_order``: where Spark mixes the parts of a source, files for instance, the hidden
        columns ``udfs.exchange.PARTS`` tell their order.
        """
        ...

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Where the rows of the scan are in Parquet files that ``udfs.parquet`` reads.

        A streaming DataFrame of the columns FILE, LENGTH, SHARE and SHARES, a partition with all files for each share,
        and ``in_order``, where times of files do not tell their order, the name of the file (PARTS).
        """
        ...

    def control(self, table: str) -> DataFrame:
        """A new streaming DataFrame of the table's control rows: one column ``watermark_ms BIGINT``.

        Each row lifts the watermark of the table to exactly ``watermark_ms`` (milliseconds since 1970).
        """
        ...

    def clock(self) -> DataFrame:
        """A new streaming DataFrame of ticks: one column ``processing_time_ms BIGINT`` (milliseconds since 1970).

        END_OF_INPUT_MS as a tick ends processing time. Asked for where ``PlanClocks.needs_ticks``.
        """
        ...

    def lookup(self, node: Lookup) -> LookupSource:
        """The source that answers the node's lookups; its request names the node's keys, ``read`` fields and
        filters."""
        ...

    def runs(self, numbers: tuple[int, ...], processor: KernelProcessor) -> None:
        """Told of each operator of Spark with state on the columnar engine. ``numbers``: those of the plan that run in
        it, the lowest first; they are numbered from the top."""
        ...

    def timed(self, rows: DataFrame, column: str, delay_ms: int, table: str | None) -> DataFrame:
        """The rows, of which the newest time in ``column`` less ``delay_ms`` is a watermark of the query: that of the
        table, or of the clock where that is None."""
        ...

    def stepped(self, blobs: DataFrame, processor: KernelProcessor, number: int) -> DataFrame | None:
        """What the processor of operator ``number`` gives where state is kept from step to step of a test; None where
        Spark keeps it."""
        ...

    def event_time_from_rows(self, table: str) -> bool:
        """True where rows move the watermark of the table, as declared; False where control rows alone do."""
        ...

    def function(self, name: str) -> Function | None:
        """The function from CREATE FUNCTION with this name, in any case; None for a function of Spark."""
        ...

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        ...
