"""The outputs of a query: side outputs as bytes in hidden columns, and the inserts of a statement set.

There are three kinds of side outputs: rows that were late for all their windows (LATE DATA TO), rows whose lookup
failed (ON ERROR TO), and dead letters (``bad_rows``). A row with LATE_TABLE holds some of them in LATE and NULL in all
other columns; every operator passes it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.catalog import Table
from sqlstream.planner.fields import Field
from sqlstream.planner.firing import LateAction
from sqlstream.planner.lowering.bad_rows import letters_for
from sqlstream.planner.lowering.branches import each_taken, is_for
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.hidden_columns import aligned, column, passes_by, present, quoted
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import StatementSet, dead_letter_tables
from sqlstream.planner.operators.lookup import failed_marker, lookup_nodes
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical.engine import stateful_nodes
from sqlstream.planner.physical.shared_operators import Branch, branches
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.exchange import LATE, LATE_TABLE, from_bytes
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.spark.batches import Batches, SideRows


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
    groups = [(inserts, _rows_below(inserts[0], node, context)) for inserts in branches(step)]
    updating = [inserts for inserts, rows in groups if ROW_KIND in rows.columns]
    updated = {node.inserts[branch.place].table.name for inserts in updating for branch in inserts}
    side = {name for _, rows in groups for name in present(rows, (LATE_TABLE, LATE))}
    written = _Rows(node, updated, side, context)
    return _counted(reduce(DataFrame.union, [written.numbered(rows, inserts) for inserts, rows in groups]), node)


def _rows_below(branch: Branch, plan: StatementSet, context: Context) -> DataFrame:
    return context.with_functions(plan.inserts[branch.place].functions).lower(branch.below)


def _number(plan: StatementSet, table: Table) -> int:
    return [output_table.name for output_table in plan.tables].index(table.name)


def _struct(number: int) -> str:
    return f"__table_{number}"


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
        if len(inserts) == 1:
            passing = passes_by(rows)
            return self._selected(rows, [(inserts[0], None if passing is None else ~passing)])
        each = each_taken(rows, inserts, self.context)
        return self._selected(each, [(branch, is_for(number)) for number, branch in enumerate(inserts)])

    def _selected(self, rows: DataFrame, inserts: Sequence[tuple[Branch, Column | None]]) -> DataFrame:
        """``rows``, of which each is for the insert whose condition it fulfils; None: all are for it."""
        numbers, values = F.lit(None).cast("INT"), dict[int, Column]()
        for branch, its_own in reversed(inserts):
            own = _number(self.plan, self.plan.inserts[branch.place].table)
            others = values.get(own, F.lit(None))
            row = self._values(branch, rows)
            values[own] = row if its_own is None else F.when(its_own, row).otherwise(others)
            numbers = F.lit(own) if its_own is None else F.when(its_own, F.lit(own)).otherwise(numbers)
        structs = [
            values.get(i, F.lit(None).cast(_ddl(table, table.name in self.updated))).alias(_struct(i))
            for i, table in enumerate(self.plan.tables)
        ]
        return rows.select(numbers.alias(TABLE_NUMBER), *structs, *aligned(rows, self.side))

    def _values(self, branch: Branch, rows: DataFrame) -> Column:
        table = self.plan.inserts[branch.place].table
        fields = [
            self.context.column(value).cast(column.type.ddl()).alias(column.name)
            for value, column in zip(branch.taken.values, table.physical_columns, strict=True)
        ]
        return F.struct(*fields, *(aligned(rows, {ROW_KIND}) if table.name in self.updated else []))


def _ddl(table: Table, updated: bool) -> str:
    fields = [f"{quoted(c.name)}: {c.type.ddl()}" for c in table.physical_columns]
    kind = [f"{ROW_KIND}: STRING"] if updated else []
    return f"STRUCT<{', '.join([*fields, *kind])}>"


def _counted(rows: DataFrame, plan: StatementSet) -> DataFrame:
    counts = [F.count_if(column(TABLE_NUMBER) == F.lit(i)).alias(f"rows_{i}") for i in range(len(plan.tables))]
    return rows.observe("/".join([TABLES_METRIC, *(quote(t.name, safe="") for t in plan.tables)]), *counts)
