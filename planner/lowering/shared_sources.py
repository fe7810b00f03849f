"""One source of Spark for each table of a statement set, however many of its queries read the table.

Spark knows a source by the relation that it stands in: rows, control rows and ticks are asked for once, and all
branches go on from the same DataFrame. So each epoch takes the same rows of a table to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import Function, Table
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.physical.steps import Read, Step
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.lookup.source import LookupSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor


class SharedSources:
    """The ``Runtime`` of a statement set over that of its job."""

    def __init__(self, runtime: Runtime, root: Step) -> None:
        reads = [step for step in root.walk() if isinstance(step, Read)]
        self._runtime = runtime
        self._ordered = {read.node.table.name for read in reads if read.in_order}
        self._columns = _read_columns(reads)
        self._tables: dict[str, DataFrame] = {}
        self._control: dict[str, DataFrame] = {}
        self._clock: DataFrame | None = None

    @property
    def spark(self) -> SparkSession:
        return self._runtime.spark

    @property
    def max_parallelism(self) -> int:
        return self._runtime.max_parallelism

    @property
    def run_id(self) -> str:
        return self._runtime.run_id

    @property
    def steps_clock(self) -> bool:
        return self._runtime.steps_clock

    def read(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """The columns of this scan, and the hidden ones, among those that all scans of the table read."""
        name = scan.table.name
        columns = self._columns[name]
        if name not in self._tables:
            whole = replace(scan, columns=columns, predicates=())
            self._tables[name] = self._runtime.read(whole, in_order=name in self._ordered)
        rows = self._tables[name]
        extra = [c for c in rows.columns if c not in columns and (in_order or c not in PARTS)]
        return rows.select(*map(column, (*scan.columns, *extra)))

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        raise AssertionError("Spark reads the tables of a statement set")

    def control(self, table: str) -> DataFrame:
        if table not in self._control:
            self._control[table] = self._runtime.control(table)
        return self._control[table]

    def clock(self) -> DataFrame:
        if self._clock is None:
            self._clock = self._runtime.clock()
        return self._clock

    def clocks(self) -> list[DataFrame]:
        """The control rows and ticks that were asked for."""
        return [*self._control.values(), *([self._clock] if self._clock is not None else [])]

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


def _read_columns(reads: Sequence[Read]) -> dict[str, tuple[str, ...]]:
    """By table, the columns that its scans read, in the table's order."""
    needed: dict[str, set[str]] = {}
    tables: dict[str, Table] = {}
    for scan in (read.node for read in reads):
        tables[scan.table.name] = scan.table
        needed.setdefault(scan.table.name, set()).update(columns_to_read(scan.table, scan.columns, scan.on_error))
    return {name: tuple(c.name for c in tables[name].columns if c.name in read) for name, read in needed.items()}
