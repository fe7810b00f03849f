"""Side outputs: rows on their way to other tables leave the query beside its result, as bytes in hidden columns.

There are three kinds: rows that were late for all their windows (LATE DATA TO), rows whose lookup failed (ON ERROR
TO), and dead letters (``bad_rows``). A row with LATE_TABLE holds some of them in LATE and NULL in all other columns;
every operator passes it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.catalog import Table
from sqlstream.planner.fields import Field
from sqlstream.planner.firing import LateAction
from sqlstream.planner.lowering.bad_rows import letters_for
from sqlstream.planner.lowering.columns import column, quoted
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import dead_letter_tables
from sqlstream.planner.operators.lookup import failed_marker, lookup_nodes
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical.clocks import stateful_nodes
from sqlstream.udfs.exchange import LATE, LATE_TABLE, from_bytes
from sqlstream.udfs.spark.batches import Batches, SideRows


def main_rows(rows: DataFrame) -> DataFrame:
    """The rows of the plan itself, of a micro-batch or a stream."""
    return rows.where(f"{LATE_TABLE} IS NULL").drop(LATE_TABLE, LATE)


def side_rows(rows: DataFrame, plan: Node, table: Table) -> DataFrame:
    """The rows for one table among the rows of a micro-batch, with the physical columns of the table."""
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
    """The rows with LATE_TABLE and LATE, NULL where they have had none."""
    if LATE_TABLE in rows.columns:
        return rows
    return rows.select("*", F.lit(None).cast("STRING").alias(LATE_TABLE), F.lit(None).cast("BINARY").alias(LATE))


def sent_aside(rows: DataFrame, markers: Mapping[str, str]) -> DataFrame:
    """Rows with a STRUCT of a table's columns become side rows under its marker; ``markers`` are by STRUCT column."""
    kept = [f for f in rows.schema.fields if f.name not in markers]
    schema = rows.select(*(column(f.name) for f in kept)).schema
    for field in schema.fields:
        field.nullable = True
    return rows.mapInArrow(SideRows(tuple(markers.items())).rows, schema)


def struct_of(table: Table, values: Sequence[str]) -> Column:
    """The row of a table from SQL texts of its physical columns."""
    named = zip(values, table.physical_columns, strict=True)
    return F.struct(*(F.expr(value).cast(c.type.ddl()).alias(c.name) for value, c in named))
