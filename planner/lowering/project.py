"""Stateless operators of one input, and the roots."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.expressions import conjuncts
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.conditions import where_all
from sqlstream.planner.lowering.hidden import hidden, hidden_results, passes_by
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.lowering.tolerant_calls import with_calls
from sqlstream.planner.nodes import Filter, Insert, Output, Project
from sqlstream.planner.physical.steps import Step


@lower_node.register
def _(node: Project, step: Step, context: Context) -> DataFrame:
    rows, expressions = with_calls(context.lower(step.input), [item.expression for item in node.items], context)
    passing = passes_by(rows)
    values = [context.column(expression, rows) for expression in expressions]
    if passing is not None:
        values = [F.when(~passing, value) for value in values]
    items = [value.alias(item.name) for item, value in zip(node.items, values, strict=True)]
    return rows.select(*items, *hidden(rows))


@lower_node.register
def _(node: Filter, step: Step, context: Context) -> DataFrame:
    given = context.lower(step.input)
    rows, (condition,) = with_calls(given, [node.condition], context)
    kept = where_all(rows, conjuncts(condition), context)
    return kept if rows is given else kept.select(*(column(f.name) for f in node.schema), *hidden(kept))


@lower_node.register
def _(node: Output, step: Step, context: Context) -> DataFrame:
    rows = context.with_functions(node.functions).lower(step.input)
    return rows.select(*(column(f.name) for f in node.input.schema), *hidden_results(rows))


@lower_node.register
def _(node: Insert, step: Step, context: Context) -> DataFrame:
    names = [c.name for c in node.table.physical_columns]
    fields = node.input.schema
    assert len(names) == len(fields), (names, fields)
    columns = (column(f.name).alias(name) for f, name in zip(fields, names, strict=True))
    rows = context.with_functions(node.functions).lower(step.input)
    return rows.select(*columns, *hidden_results(rows))
