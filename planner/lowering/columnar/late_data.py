"""Late rows on their way to tables: they leave the query with the main result, as bytes in hidden columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.catalog import Table
from sqlstream.planner.firing import LateAction
from sqlstream.planner.lowering.columnar.clocks import window_nodes
from sqlstream.planner.lowering.columns import column, quoted
from sqlstream.planner.nodes import Field, Node, WindowAggregate
from sqlstream.planner.rewriting import columns_of
from sqlstream.udfs.exchange import LATE, LATE_TABLE, from_bytes
from sqlstream.udfs.spark.batches import Batches


def late_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that get late rows, each once."""
    found = (node.firing.late.table for _, node in _senders(plan))
    return tuple({table.name: table for table in found if table is not None}.values())


def main_rows(rows: DataFrame) -> DataFrame:
    """The rows of the plan itself, of a micro-batch or a stream."""
    return rows.where(f"{LATE_TABLE} IS NULL").drop(LATE_TABLE, LATE)


def late_rows(rows: DataFrame, plan: Node, table: Table) -> DataFrame:
    """The late rows for one table among the rows of a micro-batch, with the physical columns of the table."""
    senders = [(number, node) for number, node in _senders(plan) if node.firing.late.table == table]
    return reduce(lambda left, right: left.union(right), (_rows_of(node, number, rows) for number, node in senders))


def marker(node: WindowAggregate, number: int) -> str | None:
    """What LATE_TABLE says of the late rows of a node: its number among the nodes with state, and the table."""
    table = node.firing.late.table
    return f"{number}/{table.name}" if table is not None else None


def late_fields(node: WindowAggregate) -> tuple[Field, ...]:
    """The fields of the node's input that the values of late rows read, without the bounds of the window."""
    read = set[str]().union(*(columns_of(value) for value in node.firing.late.values))
    bounds = {node.columns.start, node.columns.end}
    return tuple(f for f in node.input.schema if f.name in read - bounds)


def _senders(plan: Node) -> Iterator[tuple[int, WindowAggregate]]:
    for number, node in enumerate(window_nodes(plan)):
        if isinstance(node, WindowAggregate) and node.firing.late.action is LateAction.TO:
            yield number, node


def _rows_of(node: WindowAggregate, number: int, rows: DataFrame) -> DataFrame:
    late = node.firing.late
    assert late.table is not None, "a table gets the late rows"
    fields = (*late_fields(node), *node.columns.fields(None)[:2])
    schema = ", ".join(f"{quoted(f.name)} {f.type.ddl()}" for f in fields)
    blobs = rows.where(column(LATE_TABLE) == F.lit(marker(node, number))).select(LATE)
    decoded = blobs.mapInArrow(_decoder([f.name for f in fields]), schema)
    values = zip(late.values, late.table.physical_columns, strict=True)
    return decoded.select(*(F.expr(value.sql(dialect="spark", comments=False)).alias(c.name) for value, c in values))


def _decoder(names: list[str]) -> Batches:
    """Late rows of a kernel: the fields, then the bounds of the window."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(0):
                yield from from_bytes(blob.as_py()).rename_columns(names).to_batches()

    return decode
