"""GROUP BY without a window: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.lowering.columnar.aggregate_calls import split
from sqlstream.planner.lowering.columnar.inputs import (
    InputField,
    Inputs,
    came_at,
    key,
    kinds_of,
    passed_on,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run_by_keys
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.grouping_sets import grouping_id, in_sets, key_in_sets, set_keys
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.groups.kernel import GroupAggregateKernel, strategies_of
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.state.time_to_live import TimeToLive


@lower_operator.register
def _(node: GroupAggregate, step: Operator, context: Context) -> DataFrame:
    rows = in_sets(node, context.lower(step.input))
    calls = [split(item, rows, context) for item in node.aggregates]
    inputs = Inputs(context, node.input.schema, rows)
    for call in calls:
        for name, expression in call.columns:
            inputs.add(expression, name=name)
    if node.ttl_ms:  # rows that come before the first tick of the clock have all their time to live, too
        inputs.add_text(came_at(rows, context), CLOCK)
    keys = (*_keys(node), *set_keys(node))
    own = (*_key_columns(node, rows), *inputs.columns(), *kinds_of(node))
    projected = with_key_hash(rows.select(*own, *passed_on(rows)), keys)
    schema = kernel_schema(projected)
    named = [replace(call.call, name=f"__result_{i}") for i, call in enumerate(calls)]
    living = TimeToLive(1000 * node.ttl_ms)
    strategies = strategies_of(named, keys, schema, updates=ROW_KIND in schema.names, living=living)
    updates = node.changelog_mode != APPEND_ONLY
    kernel = GroupAggregateKernel(schema, keys, strategies, tuple(c.name for c in named), living, emits_kinds=updates)
    fields_of = {**inputs.fields_of, **{own: InputField(name) for own, name in _keys(node).items()}}
    emitted = run_by_keys(kernel, projected, keys, fields_of, inputs, step, context)
    return emitted.select(*_results(node), *hidden(emitted))


def _keys(node: GroupAggregate) -> dict[str, str]:
    """Fields by the kernel's own names for them, which none of the plan's can be."""
    return {f"__key_{i}": name for i, name in enumerate(node.keys)}


def _key_columns(node: GroupAggregate, rows: DataFrame) -> list[Column]:
    keys = {own: key(name, rows.schema[name].dataType) for own, name in _keys(node).items()}
    in_set = (key_in_sets(node, _keys(node)[own], value).alias(own) for own, value in keys.items())
    return [*in_set, *map(column, set_keys(node))]


def _results(node: GroupAggregate) -> list[Column]:
    return [
        *(column(own).alias(name) for own, name in _keys(node).items()),
        *grouping_id(node),
        *(column(f"__result_{i}").alias(item.name) for i, item in enumerate(node.aggregates)),
    ]
