"""The runtime of a job for lowering: the session's sources and functions, and the job's control rows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.fingerprint import DEFAULT_KEY_GROUPS
from sqlstream.planner.catalog import Function
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.udfs.lookup.source import LookupSource
from sqlstream.udfs.text_files import TextFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor

RunningOperator: TypeAlias = "tuple[tuple[int, ...], KernelProcessor]"


class Sources(Protocol):
    """The tables and users' functions that a job reads. ``planner.lowering.Runtime`` says what each method returns."""

    def read(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """The rows of a scan as a streaming DataFrame."""
        ...

    def reads_files(self, scan: Scan) -> bool:
        """Whether tasks read the files of a scan themselves; see ``planner.physical.EngineSettings``."""
        ...

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """The files of a scan, for an exchange that reads them itself."""
        ...

    def text_format(self, scan: Scan) -> TextFormat | None:
        """How an exchange reads these files as text; None for Parquet."""
        ...

    def lookup(self, node: Lookup) -> LookupSource:
        """The source that answers the requests of a lookup."""
        ...

    def function(self, name: str) -> Function | None:
        """The function with this name; None where there is none."""
        ...

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        ...


@dataclass(frozen=True)
class JobRuntime:
    """The ``planner.lowering.Runtime`` of a job.

    ``operators`` collects the kernels' processors of the lowered plan. Without ``rows_move_time`` rows do not advance
    watermarks, only the end of the input does; then no row is late.
    """

    spark: SparkSession
    sources: Sources
    control_rows: ControlRows
    max_parallelism: int = DEFAULT_KEY_GROUPS
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False)
    rows_move_time: bool = True
    operators: list[RunningOperator] = field(default_factory=list, compare=False, repr=False)

    @property
    def steps_clock(self) -> bool:
        """Whether the caller moves the clock: False, the clock of a job runs by itself."""
        return False

    def read(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """The rows of a scan, from the session's sources."""
        return self.sources.read(scan, in_order=in_order)

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """The files of a scan, from the session's sources."""
        return self.sources.places(scan, in_order=in_order)

    def text_format(self, scan: Scan) -> TextFormat | None:
        """How an exchange reads these files as text, from the session's sources."""
        return self.sources.text_format(scan)

    def lookup(self, node: Lookup) -> LookupSource:
        """The source that answers the requests of a lookup."""
        return self.sources.lookup(node)

    def control(self, table: str) -> DataFrame:
        """The control rows of a table as a stream."""
        return self.control_rows.stream(self.spark, table)

    def clock(self) -> DataFrame:
        """The ticks of processing time as a stream."""
        return self.control_rows.clock(self.spark)

    def runs(self, numbers: tuple[int, ...], processor: KernelProcessor) -> None:
        """Record the processor that runs the operators with these numbers."""
        self.operators.append((numbers, processor))

    def timed(self, rows: DataFrame, column: str, delay_ms: int, table: str | None) -> DataFrame:
        """The rows with Spark's watermark on the column."""
        return rows.withWatermark(column, f"{delay_ms} milliseconds")

    def stepped(self, blobs: DataFrame, processor: KernelProcessor, number: int) -> DataFrame | None:
        """None: a job runs its operators on Spark's ``transformWithState``, not step by step as tests do."""
        return None

    def event_time_from_rows(self, table: str) -> bool:
        """Whether rows of the table advance its watermark."""
        return self.rows_move_time

    def function(self, name: str) -> Function | None:
        """The function with this name; None where there is none."""
        return self.sources.function(name)

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        return self.sources.implementation(function)
