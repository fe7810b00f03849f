"""Stateless operators of one input, and the roots."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden, hidden_results, passes_by
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.nodes import Filter, Insert, Output, Project


@lower_node.register
def _(node: Project, context: Context) -> DataFrame:
    rows = context.lower(node.input)
    passing = passes_by(rows)
    values = [context.column(item.expression) for item in node.items]
    if passing is not None:
        values = [F.when(~passing, value) for value in values]
    items = [value.alias(item.name) for item, value in zip(node.items, values, strict=True)]
    return rows.select(*items, *hidden(rows))


@lower_node.register
def _(node: Filter, context: Context) -> DataFrame:
    rows = context.lower(node.input)
    condition, passing = context.column(node.condition), passes_by(rows)
    return rows.where(condition if passing is None else passing | condition)


@lower_node.register
def _(node: Output, context: Context) -> DataFrame:
    rows = context.lower(node.input)
    return rows.select(*(column(f.name) for f in node.input.schema), *hidden_results(rows))


@lower_node.register
def _(node: Insert, context: Context) -> DataFrame:
    names = [c.name for c in node.table.physical_columns]
    fields = node.input.schema
    assert len(names) == len(fields), (names, fields)
    columns = (column(f.name).alias(name) for f, name in zip(fields, names, strict=True))
    rows = context.lower(node.input)
    return rows.select(*columns, *hidden_results(rows))
