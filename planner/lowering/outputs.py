"""The outputs of a query: side outputs as bytes in hidden columns, and the inserts of a statement set.

There are three kinds of side outputs: rows that were late for all their windows (LATE DATA TO), rows whose lookup
failed (ON ERROR TO), and dead letters (``bad_rows``). A row with LATE_TABLE holds some of them in LATE and NULL in all
other columns; every operator passes it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import Function, Table
from sqlstream.planner.fields import Field
from sqlstream.planner.firing import LateAction
from sqlstream.planner.lowering.bad_rows import letters_for
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.hidden_columns import aligned, column, is_not_before, passes_by, quoted
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.lowering.stateless import all_hold
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan, StatementSet, dead_letter_tables
from sqlstream.planner.operators.lookup import Lookup, failed_marker, lookup_nodes
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical.shared_operators import Branch, branches
from sqlstream.planner.physical.sources import Source, source_of
from sqlstream.planner.physical.steps import Read, Step, stateful_nodes
from sqlstream.udfs.exchange import LATE, LATE_TABLE, PARTS, from_bytes
from sqlstream.udfs.kafka.rows import SplitFormat
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.source import LookupSource
from sqlstream.udfs.spark.batches import Batches, SideRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor


def main_rows(rows: DataFrame) -> DataFrame:
    """The rows of the query's own result, without those of side outputs. ``rows`` is a micro-batch or a stream."""
    return rows.where(f"{LATE_TABLE} IS NULL").drop(LATE_TABLE, LATE)


def side_rows(rows: DataFrame, plan: Node, table: Table) -> DataFrame:
    """Selects the rows of the side output for ``table`` from a micro-batch of ``plan``, with the physical columns of
    the table.
    """
    outputs = [_rows_of(sender, rows) for sender in _senders(plan) if sender.table == table]
    outputs += [letters_for(table, rows)] if table in dead_letter_tables(plan) else []
    return reduce(lambda left, right: left.union(right), outputs)


# --- those who send -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sender:
    """``fields`` are what the bytes hold, ``values`` the SQL texts of the table's physical columns over them."""

    marker: str
    table: Table
    fields: tuple[Field, ...]
    values: tuple[str, ...]


def _senders(plan: Node) -> Iterator[_Sender]:
    for number, node in enumerate(stateful_nodes(plan)):
        if isinstance(node, WindowAggregate) and node.firing.late.action is LateAction.TO:
            yield _of_window(node, number)
    for number, lookup in enumerate(lookup_nodes(plan)):
        if lookup.failed is not None:
            yield _of_lookup(lookup.failed.table, number)


def _of_window(node: WindowAggregate, number: int) -> _Sender:
    late, late_rows_marker = node.firing.late, node.late_marker(number)
    assert late.table is not None and late_rows_marker is not None, "a table gets the late rows"
    fields = (*node.late_fields, *node.columns.fields(None)[:2])
    values = tuple(value.sql(dialect=SparkWithTime, comments=False) for value in late.values)
    return _Sender(late_rows_marker, late.table, fields, values)


def _of_lookup(table: Table, number: int) -> _Sender:
    fields = tuple(Field(c.name, c.type) for c in table.physical_columns)
    return _Sender(failed_marker(table, number), table, fields, tuple(quoted(f.name) for f in fields))


def _rows_of(sender: _Sender, rows: DataFrame) -> DataFrame:
    schema = ", ".join(f"{quoted(f.name)} {f.type.ddl()}" for f in sender.fields)
    blobs = rows.where(column(LATE_TABLE) == F.lit(sender.marker)).select(LATE)
    decoded = blobs.mapInArrow(_decoder([f.name for f in sender.fields]), schema)
    values = zip(sender.values, sender.table.physical_columns, strict=True)
    return decoded.select(*(F.expr(value).alias(c.name) for value, c in values))


def _decoder(names: list[str]) -> Batches:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(0):
                yield from from_bytes(blob.as_py()).rename_columns(names).to_batches()

    return decode


# --- rows whose lookup failed ---------------------------------------------------------------------------------


def with_side_columns(rows: DataFrame) -> DataFrame:
    """The rows with the hidden columns LATE_TABLE and LATE of side outputs; they are NULL if the rows did not have
    them.
    """
    if LATE_TABLE in rows.columns:
        return rows
    return rows.select("*", F.lit(None).cast("STRING").alias(LATE_TABLE), F.lit(None).cast("BINARY").alias(LATE))


def sent_aside(rows: DataFrame, markers: Mapping[str, str]) -> DataFrame:
    """Turns rows into rows of side outputs. ``markers`` maps a STRUCT column to the value of LATE_TABLE for a table:
    where the column is not NULL, its value is the row for that table.
    """
    kept = [f for f in rows.schema.fields if f.name not in markers]
    schema = rows.select(*(column(f.name) for f in kept)).schema
    for field in schema.fields:
        field.nullable = True
    return rows.mapInArrow(SideRows(tuple(markers.items())).rows, schema)


def struct_of(table: Table, values: Sequence[str]) -> Column:
    """Returns a STRUCT column that is a row for ``table``; ``values`` are the SQL texts of its physical columns."""
    named = zip(values, table.physical_columns, strict=True)
    return F.struct(*(F.expr(value).cast(c.type.ddl()).alias(c.name) for value, c in named))


# --- one Spark source for each table of a statement set -------------------------------------------------------
# Spark knows a source by the relation that it stands in: rows, control rows and ticks are asked for once, and all
# branches go on from the same DataFrame. So each epoch takes the same rows of a table to all of them.


class SharedSources:
    """The ``Runtime`` that lowers a statement set: all its queries read a table from one source, but where an OPTIONS
    hint or the time of FOR SYSTEM_TIME make it another one.
    """

    def __init__(self, runtime: Runtime, root: Step) -> None:
        reads = [step for step in root.walk() if isinstance(step, Read)]
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
        """The columns of this scan, and the hidden ones, from the shared source of the table."""
        source = source_of(scan)
        columns = self._columns[source]
        if source not in self._tables:
            whole = replace(scan, columns=columns, predicates=())
            self._tables[source] = self._runtime.read(whole, in_order=source in self._ordered, located=True)
        rows = self._tables[source]
        extra = [c for c in rows.columns if c not in columns and (in_order or c not in PARTS)]
        return rows.select(*map(column, (*scan.columns, *extra)))

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Asked once for a table: several readers share what they read (``SharedRead``)."""
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

    def clocks(self) -> list[DataFrame]:
        """The DataFrames of control rows that operators have requested, one per table, and the one of ticks if any
        operator needs it.
        """
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


def _read_columns(reads: Sequence[Read]) -> dict[Source, tuple[str, ...]]:
    """By source, the columns that its scans read, in the table's order."""
    needed: dict[Source, set[str]] = {}
    tables: dict[Source, Table] = {}
    for scan in (read.node for read in reads):
        tables[source_of(scan)] = scan.table
        columns = columns_to_read(scan.table, scan.columns, scan.on_error, checked=True)
        needed.setdefault(source_of(scan), set()).update(columns)
    return {one: tuple(c.name for c in tables[one].columns if c.name in read) for one, read in needed.items()}


# --- statement sets: the rows of all inserts as one stream, split where a micro-batch is written --------------
# A row has the number of its table in TABLE_NUMBER and its values in the struct of that table; those of the others are
# NULL. A struct per table costs Spark's cache less than half the time that columns of their own do, of which most are
# NULL: 13 s instead of 33 s for 9 M rows of three tables with five columns each.


TABLE_NUMBER = "__table"

TABLES_METRIC = "tables"
"""What the name of the metric with the rows of each table begins with; the names of the tables end it, in order."""


def rows_of(batch: DataFrame, plan: StatementSet, table: Table) -> DataFrame:
    """Selects from a micro-batch of a statement set the rows that one table receives, with the table's columns, and
    ROW_KIND if there is one.
    """
    number = _number(plan, table)
    return batch.where(column(TABLE_NUMBER) == F.lit(number)).select(f"{quoted(_struct(number))}.*")


def lower_statement_set(node: StatementSet, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of a statement set: the rows of all inserts, each with the number of its table."""
    sources = SharedSources(context.runtime, step)
    shared = replace(context, runtime=sources)
    lowered = [(inserts, _rows_below(inserts[0], shared)) for inserts in branches(step)]
    updated = {i.insert.table.name for inserts, rows in lowered for i in inserts if ROW_KIND in rows.columns}
    side = {name for _, rows in lowered for name in (LATE_TABLE, LATE) if name in rows.columns}
    written = _Rows(node, updated, side, shared)
    numbered = [written.numbered(rows, inserts) for inserts, rows in lowered]
    # Spark looks for new data from left to right: it never sees a control row without the rows written before it.
    clocks = [_without_rows(rows, numbered[0]) for rows in sources.clocks()]
    return _counted(reduce(DataFrame.union, [*clocks, *numbered]), node)


def _rows_below(branch: Branch, context: Context) -> DataFrame:
    return context.with_functions(branch.insert.functions).lower(branch.below)


def _number(plan: StatementSet, table: Table) -> int:
    return [output_table.name for output_table in plan.tables].index(table.name)


def _struct(number: int) -> str:
    return f"__table_{number}"


_TAKER = "__taker"
"""For which insert a row is of those that read one operator: its number among them; their count for side outputs."""


@dataclass(frozen=True)
class _Rows:
    """What becomes of rows in a statement set. ``updated``: the names of the tables that get the kinds of their rows.
    ``side``: the hidden columns of side outputs that rows of the set have.
    """

    plan: StatementSet
    updated: set[str]
    side: set[str]
    context: Context

    def numbered(self, rows: DataFrame, inserts: Sequence[Branch]) -> DataFrame:
        """The rows of all inserts, which read ``rows``: each with the number of its table, and a column for each table,
        of which its own has the values.
        """
        passing = passes_by(rows)
        if len(inserts) == 1:
            (branch,) = inserts
            return self._selected(rows, [(branch, None if passing is None else ~passing)])
        takers = [self._taker(number, branch, rows, passing) for number, branch in enumerate(inserts)]
        takers += [] if passing is None else [F.when(passing, F.lit(len(inserts)))]
        each = rows.select("*", F.explode(F.array_compact(F.array(*takers))).alias(_TAKER))
        return self._selected(each, [(branch, column(_TAKER) == F.lit(n)) for n, branch in enumerate(inserts)])

    def _taker(self, number: int, branch: Branch, rows: DataFrame, passing: Column | None) -> Column:
        """The number, where the insert takes a row of an operator; else NULL."""
        conditions = [] if passing is None else [~passing]
        conditions += [all_hold(branch.conditions, self.context, rows)] if branch.conditions else []
        conditions += [is_not_before()] if branch.drops_before and ROW_KIND in rows.columns else []
        return F.when(reduce(and_, conditions), F.lit(number)) if conditions else F.lit(number)

    def _selected(self, rows: DataFrame, inserts: Sequence[tuple[Branch, Column | None]]) -> DataFrame:
        """``rows``, of which each is for the insert whose condition it fulfils; None: all are for it."""
        numbers, values = F.lit(None).cast("INT"), dict[int, Column]()
        for branch, is_for in reversed(inserts):
            own = _number(self.plan, branch.insert.table)
            others = values.get(own, F.lit(None))
            row = self._values(branch, rows)
            values[own] = row if is_for is None else F.when(is_for, row).otherwise(others)
            numbers = F.lit(own) if is_for is None else F.when(is_for, F.lit(own)).otherwise(numbers)
        structs = [
            values.get(i, F.lit(None).cast(_ddl(table, table.name in self.updated))).alias(_struct(i))
            for i, table in enumerate(self.plan.tables)
        ]
        return rows.select(numbers.alias(TABLE_NUMBER), *structs, *aligned(rows, self.side))

    def _values(self, branch: Branch, rows: DataFrame) -> Column:
        table = branch.insert.table
        fields = [
            self.context.column(value).cast(column.type.ddl()).alias(column.name)
            for value, column in zip(branch.values, table.physical_columns, strict=True)
        ]
        return F.struct(*fields, *(aligned(rows, {ROW_KIND}) if table.name in self.updated else []))


def _ddl(table: Table, updated: bool) -> str:
    fields = [f"{quoted(c.name)}: {c.type.ddl()}" for c in table.physical_columns]
    kind = [f"{ROW_KIND}: STRING"] if updated else []
    return f"STRUCT<{', '.join([*fields, *kind])}>"


def _without_rows(clock: DataFrame, like: DataFrame) -> DataFrame:
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in like.schema]
    return clock.where(F.lit(False)).select(*nulls)


def _counted(rows: DataFrame, plan: StatementSet) -> DataFrame:
    counts = [F.count_if(column(TABLE_NUMBER) == F.lit(i)).alias(f"rows_{i}") for i in range(len(plan.tables))]
    return rows.observe("/".join([TABLES_METRIC, *(quote(t.name, safe="") for t in plan.tables)]), *counts)
