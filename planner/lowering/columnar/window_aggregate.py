"""Aggregates per key and window: columns for the kernel below, the kernel, the names of the plan above."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame

from sqlstream.planner.lowering.columnar.aggregate_calls import split
from sqlstream.planner.lowering.columnar.chains import Prepared, handover_of
from sqlstream.planner.lowering.columnar.from_files import files_of, hashed_by_exchange
from sqlstream.planner.lowering.columnar.inputs import InputField, inputs_of, key, kinds_of, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.kernels import design_of, kernel_of
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columns import column, micros
from sqlstream.planner.lowering.grouping_sets import grouping_id, in_sets, key_in_sets, set_keys
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.lowering.windows import window_columns
from sqlstream.planner.node import Link
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.exchange import Handed
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.windows.emission import PANE, PANE_INDEX, WINDOW_END, WINDOW_START


@lower_operator.register
def _(node: WindowAggregate, step: Operator, context: Context) -> DataFrame:
    prepared = _prepared(step, node, context)
    emitted = run(prepared.rows, prepared.operator, context.runtime, prepared.files, prepared.above)
    return emitted.select(*_results(node), *hidden(emitted))


def _prepared(step: Operator, node: WindowAggregate, context: Context) -> Prepared:
    link = step.link
    below = _prepared(step.operator_below, _below(link), context) if link is not None else None
    rows = in_sets(node, context.lower(step.input)) if below is None or link is None else _rows_of(below, link)
    calls = [split(item, rows, context) for item in node.aggregates]
    inputs = inputs_of(step, rows, context)
    for call in calls:
        for name, expression in call.columns:
            inputs.add(expression, name=name)
    keys = _key_columns(node, rows)
    names = (*map(_key, range(len(node.keys))), *set_keys(node))
    design = design_of(node, names, inputs)
    projected = with_key_hash(rows.select(*keys, *inputs.columns(), *kinds_of(node), *passed_on(rows)), names)
    schema = kernel_schema(projected)
    named = tuple(replace(call.call, name=_result(i)) for i, call in enumerate(calls))
    updating = ROW_KIND in schema.names
    identified_by = (design.time,) if updating and node.time is not None else ()
    aggregates = Aggregates(named, schema, updating=updating, identified_by=identified_by)
    kernel = kernel_of(design, aggregates, schema)
    operator = running(step, context.plan, kernel, spark_schema(kernel.output, projected.schema))
    operator = replace(operator, late_table=node.late_marker(step.number))
    fields_of = {**inputs.fields_of, **{_key(i): InputField(name) for i, name in enumerate(node.keys)}}
    if below is not None and link is not None:
        return below.with_above(operator, handover_of(link, _emitted(_below(link)), fields_of, names, schema))
    hashed = hashed_by_exchange(names, schema)
    operator = replace(operator, hashed=hashed)
    return Prepared(projected, operator, files_of(step, fields_of, inputs, schema, hashed, context))


def _rows_of(below: Prepared, link: Link) -> DataFrame:
    """The columns that the node reads of the operator below. This DataFrame never runs; it gives names and types."""
    return below.results.select(*_results(_below(link))).select(
        *(column(name).alias(field) for field, name in link.fields)
    )  # fmt: skip


def _below(link: Link) -> WindowAggregate:
    assert isinstance(link.below, WindowAggregate), link.below
    return link.below


# Names of the kernel's own, which none of the plan's can be.


def _key(index: int) -> str:
    return f"__key_{index}"


def _result(index: int) -> str:
    return f"__result_{index}"


def _key_columns(node: WindowAggregate, rows: DataFrame) -> list[Column]:
    keys = (key_in_sets(node, name, key(name, rows.schema[name].dataType)) for name in node.keys)
    return [*(value.alias(_key(i)) for i, value in enumerate(keys)), *map(column, set_keys(node))]


def _results(node: WindowAggregate) -> list[Column]:
    panes = [(node.pane, PANE), (node.pane_index, PANE_INDEX)]
    return [
        *(column(_key(i)).alias(name) for i, name in enumerate(node.keys)),
        *grouping_id(node),
        *window_columns(node.columns, micros(WINDOW_START), micros(WINDOW_END)),
        *(column(_result(i)).alias(item.name) for i, item in enumerate(node.aggregates)),
        *(column(own).alias(name) for name, own in panes if name is not None),
    ]


def _emitted(node: WindowAggregate) -> dict[str, Handed]:
    """The columns of the kernel's output by field of the node: ``_results`` without SQL."""
    columns = node.columns
    panes = {name: Handed(own) for name, own in ((node.pane, PANE), (node.pane_index, PANE_INDEX)) if name is not None}
    return {
        **{name: Handed(_key(i)) for i, name in enumerate(node.keys)},
        columns.start: Handed(WINDOW_START),
        columns.end: Handed(WINDOW_END),
        columns.time: Handed(WINDOW_END, earlier=1000),
        **{item.name: Handed(_result(i)) for i, item in enumerate(node.aggregates)},
        **panes,
    }
