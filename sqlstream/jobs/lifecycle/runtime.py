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
from sqlstream.planner.physical.sources import PlannedSources
from sqlstream.udfs.kafka.rows import SplitFormat
from sqlstream.udfs.lookup.source import LookupSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor

RunningOperator: TypeAlias = "tuple[tuple[int, ...], KernelProcessor]"


class UserFunctions(Protocol):
    """The functions that users have defined, by name, and the Python objects that implement them."""

    def function(self, name: str) -> Function | None:
        """Returns the user-defined function called ``name``; None where there is none."""
        ...

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        ...


class Sources(PlannedSources, UserFunctions, Protocol):
    """The tables and users' functions that a job reads. ``planner.lowering.Runtime`` says what each method returns."""

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        """Returns the rows of a scan as a streaming DataFrame. ``in_order``: the query depends on the order of rows, so
        columns that define it are added where necessary. ``located``: each row says in which file and line it was read.
        """
        ...

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Returns a streaming DataFrame of the file splits of a scan, for an exchange that reads the files itself.
        ``in_order``: the query depends on the order of rows, so a column that orders the files is added where
        necessary.
        """
        ...

    def record_format(self, scan: Scan) -> SplitFormat | None:
        """Returns how tasks read the records of a scan's files, or its messages; None for Parquet files."""
        ...

    def lookup(self, node: Lookup) -> LookupSource:
        """The source that answers the requests of a lookup."""
        ...


@dataclass(frozen=True)
class JobRuntime:
    """What lowering needs to know about a job: implements ``planner.lowering.Runtime``.

    ``operators``: filled while the plan is lowered, with the kernel processor of each stateful operator.
    ``rows_move_time``: False if only the end of the input advances watermarks, and rows do not; then no row is late.
    """

    spark: SparkSession
    sources: Sources
    control_rows: ControlRows
    max_parallelism: int = DEFAULT_KEY_GROUPS
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False)
    rows_move_time: bool = True
    state_memory: int = 0
    operators: list[RunningOperator] = field(default_factory=list, compare=False, repr=False)

    @property
    def steps_clock(self) -> bool:
        """False: the clock of a job runs by itself. Only tests move the clock step by step."""
        return False

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        """Returns the rows of a scan as a streaming DataFrame. ``in_order``: the query depends on the order of rows.
        ``located``: each row says in which file and line it was read.
        """
        return self.sources.read(scan, in_order=in_order, located=located)

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Returns a streaming DataFrame of the file splits of a scan. ``in_order``: the query depends on the order of
        rows.
        """
        return self.sources.places(scan, in_order=in_order)

    def record_format(self, scan: Scan) -> SplitFormat | None:
        """Returns how tasks read the records of a scan's files, or its messages; None for Parquet files."""
        return self.sources.record_format(scan)

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
        """Called by lowering for each stateful operator of Spark: records its kernel processor. ``numbers``: the
        operators of the plan that run in it as a chain.
        """
        self.operators.append((numbers, processor))

    def timed(self, rows: DataFrame, column: str, delay_ms: int, table: str | None) -> DataFrame:
        """Returns the rows with Spark's watermark: the maximum of ``column`` minus ``delay_ms`` milliseconds.
        ``table``: the table whose watermark it is; None for the clock of processing time.
        """
        return rows.withWatermark(column, f"{delay_ms} milliseconds")

    def stepped(self, blobs: DataFrame, processor: KernelProcessor, number: int) -> DataFrame | None:
        """None: a job runs its operators on Spark's ``transformWithState``, not step by step as tests do."""
        return None

    def event_time_from_rows(self, table: str) -> bool:
        """Whether rows of the table advance its watermark."""
        return self.rows_move_time

    def function(self, name: str) -> Function | None:
        """Returns the user-defined function called ``name``; None where there is none."""
        return self.sources.function(name)

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        return self.sources.implementation(function)
