"""One Spark source for all scans of a table.

Spark knows a source by the relation that it stands in: rows, control rows and ticks are asked for once, and all
branches go on from the same DataFrame. So each epoch takes the same rows of a table to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import Function, Table
from sqlstream.planner.lowering.hidden_columns import column
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.physical.sources import Source, source_of
from sqlstream.planner.physical.steps import Read, Step
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.kafka.rows import SplitFormat
from sqlstream.udfs.lookup.source import LookupSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor


class SharedSources:
    """A ``Runtime`` with which all scans of a table in ``shared`` read one source."""

    def __init__(self, runtime: Runtime, root: Step, shared: frozenset[Source]) -> None:
        reads = [step for step in root.walk() if isinstance(step, Read) and source_of(step.node) in shared]
        self._runtime = runtime
        self._ordered = {source_of(read.node) for read in reads if read.in_order}
        self._columns = _read_columns(reads)
        self._tables: dict[Source, DataFrame] = {}
        self._control: dict[str, DataFrame] = {}
        self._clock: DataFrame | None = None

    @property
    def spark(self) -> SparkSession:
        return self._runtime.spark

    @property
    def max_parallelism(self) -> int:
        return self._runtime.max_parallelism

    @property
    def state_memory(self) -> int:
        return self._runtime.state_memory

    @property
    def run_id(self) -> str:
        return self._runtime.run_id

    @property
    def steps_clock(self) -> bool:
        return self._runtime.steps_clock

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        """The columns of this scan, and the hidden ones, from the shared source of the table, if it has one."""
        source = source_of(scan)
        if source not in self._columns:
            return self._runtime.read(scan, in_order=in_order, located=located)
        columns = self._columns[source]
        if source not in self._tables:
            whole = replace(scan, columns=columns, predicates=())
            self._tables[source] = self._runtime.read(whole, in_order=source in self._ordered, located=True)
        rows = self._tables[source]
        extra = [c for c in rows.columns if c not in columns and (in_order or c not in PARTS)]
        return rows.select(*map(column, (*scan.columns, *extra)))

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Asked once for a table with one reader; several share what they read (``SharedRead``)."""
        return self._runtime.places(scan, in_order=in_order)

    def record_format(self, scan: Scan) -> SplitFormat | None:
        return self._runtime.record_format(scan)

    def control(self, table: str) -> DataFrame:
        if table not in self._control:
            self._control[table] = self._runtime.control(table)
        return self._control[table]

    def clock(self) -> DataFrame:
        if self._clock is None:
            self._clock = self._runtime.clock()
        return self._clock

    def after_control_rows(self, rows: DataFrame) -> DataFrame:
        """The ``rows`` that were lowered with this runtime, behind the sources of control rows and ticks that they use.

        Spark looks for new data from left to right: so it never sees a control row without the rows that were written
        before it.
        """
        clocks = [*self._control.values(), *([self._clock] if self._clock is not None else [])]
        return reduce(DataFrame.union, [*(_without_rows(clock, rows) for clock in clocks), rows])

    def lookup(self, node: Lookup) -> LookupSource:
        return self._runtime.lookup(node)

    def runs(self, numbers: tuple[int, ...], processor: KernelProcessor) -> None:
        self._runtime.runs(numbers, processor)

    def timed(self, rows: DataFrame, column: str, delay_ms: int, table: str | None) -> DataFrame:
        return self._runtime.timed(rows, column, delay_ms, table)

    def stepped(self, blobs: DataFrame, processor: KernelProcessor, number: int) -> DataFrame | None:
        return self._runtime.stepped(blobs, processor, number)

    def event_time_from_rows(self, table: str) -> bool:
        return self._runtime.event_time_from_rows(table)

    def function(self, name: str) -> Function | None:
        return self._runtime.function(name)

    def implementation(self, function: Function) -> object:
        return self._runtime.implementation(function)


def _read_columns(reads: Sequence[Read]) -> dict[Source, tuple[str, ...]]:
    """By source, the columns that its scans read, in the table's order."""
    needed: dict[Source, set[str]] = {}
    tables: dict[Source, Table] = {}
    for scan in (read.node for read in reads):
        tables[source_of(scan)] = scan.table
        columns = columns_to_read(scan.table, scan.columns, scan.on_error, checked=True)
        needed.setdefault(source_of(scan), set()).update(columns)
    return {one: tuple(c.name for c in tables[one].columns if c.name in read) for one, read in needed.items()}


def _without_rows(clock: DataFrame, like: DataFrame) -> DataFrame:
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in like.schema]
    return clock.where(F.lit(False)).select(*nulls)
