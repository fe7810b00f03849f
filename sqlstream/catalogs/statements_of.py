"""From a definition back to the statement that declares it."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar import nodes, parse_query
from sqlstream.planner.catalog import Column, Table, Watermark
from sqlstream.planner.durations import as_interval
from sqlstream.types import DataType


def create_table(table: Table) -> nodes.CreateTable:
    watermark = table.watermark
    return nodes.CreateTable(
        name=nodes.Name((table.name,)),
        columns=tuple(_column(c) for c in table.columns),
        watermark=None if watermark is None else nodes.WatermarkDef(watermark.column, _watermark(watermark)),
        primary_key=table.primary_key,
        options=tuple(nodes.Option(k, v) for k, v in (("connector", table.connector), *table.options)),
        comment=table.comment,
    )


def _column(column: Column) -> nodes.Column:
    if column.expression is not None:
        return nodes.ComputedColumn(column.name, column.expression, column.comment)
    if column.metadata_key is not None:
        kind, comment = column.type.to_sqlglot(), column.comment
        return nodes.MetadataColumn(column.name, kind, column.metadata_key, column.virtual, comment=comment)
    kind = _declared(column.type)
    if column.declared is not None:
        kind = exp.DataType.build(column.declared, dialect="sqlstream")
    return nodes.PhysicalColumn(column.name, kind, column.nullable, column.comment)


def _declared(kind: DataType) -> exp.DataType:
    """With what is NOT NULL inside."""
    if kind.declaration() == kind.ddl():
        return kind.to_sqlglot()
    return exp.DataType.build(kind.declaration(), dialect="sqlstream")


def _watermark(watermark: Watermark) -> exp.Expression:
    if watermark.expression is not None:
        return watermark.expression
    column = exp.column(watermark.column, quoted=True)
    delay = f" - {as_interval(watermark.delay_ms)}" if watermark.delay_ms else ""
    query = parse_query(f"SELECT {column.sql(dialect='spark')}{delay}")
    assert isinstance(query, exp.Select)
    expression = query.selects[0]
    assert isinstance(expression, exp.Expression)
    return expression
