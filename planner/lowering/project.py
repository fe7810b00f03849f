"""Stateless operators of one input, and the roots."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.lowering.time import hidden_clock
from sqlstream.planner.nodes import Filter, Insert, Output, Project


@lower_node.register
def _(node: Project, context: Context) -> DataFrame:
    rows = context.lower(node.input)
    items = [context.column(item.expression).alias(item.name) for item in node.items]
    return rows.select(*items, *hidden_clock(rows))


@lower_node.register
def _(node: Filter, context: Context) -> DataFrame:
    return context.lower(node.input).where(context.column(node.condition))


@lower_node.register
def _(node: Output, context: Context) -> DataFrame:
    return context.lower(node.input).select(*(column(f.name) for f in node.input.schema))


@lower_node.register
def _(node: Insert, context: Context) -> DataFrame:
    names = [c.name for c in node.table.physical_columns]
    fields = node.input.schema
    assert len(names) == len(fields), (names, fields)
    columns = (column(f.name).alias(name) for f, name in zip(fields, names, strict=True))
    return context.lower(node.input).select(*columns)
