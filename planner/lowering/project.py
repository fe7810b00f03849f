"""Stateless operators of one input, and the roots."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden, hidden_results, is_late
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.nodes import Filter, Insert, Output, Project


@lower_node.register
def _(node: Project, context: Context) -> DataFrame:
    rows = context.lower(node.input)
    late = is_late(rows)
    values = [context.column(item.expression) for item in node.items]
    if late is not None:
        values = [F.when(~late, value) for value in values]
    items = [value.alias(item.name) for item, value in zip(node.items, values, strict=True)]
    return rows.select(*items, *hidden(rows))


@lower_node.register
def _(node: Filter, context: Context) -> DataFrame:
    rows = context.lower(node.input)
    condition, late = context.column(node.condition), is_late(rows)
    return rows.where(condition if late is None else late | condition)


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
