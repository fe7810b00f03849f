"""OVER in any order: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.inputs import (
    InputField,
    Inputs,
    came_at,
    keys_among,
    kinds_of,
    passed_on,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run_by_keys
from sqlstream.planner.lowering.columnar.over import field_name, functions_of, result_name
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.updating_over import UpdatingOver
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.over.updating import UpdatingOverKernel
from sqlstream.udfs.top_n.order import Order


@lower_operator.register
def _(node: UpdatingOver, step: Operator, context: Context) -> DataFrame:
    rows = context.lower(step.input)
    inputs = Inputs(context, node.input.schema, rows)
    own = {field.name: inputs.field(field.name, field_name(i)) for i, field in enumerate(node.input.schema)}
    functions = tuple(functions_of(node.calls, inputs, in_time=node.in_time))
    by_key, key_names = keys_among(rows, node.keys, own)
    keys = tuple(key_names.values())
    clock = [F.expr(came_at(rows, context)).alias(CLOCK)] if node.ttl_ms else []
    projected = with_key_hash(rows.select(*by_key, *inputs.columns(), *kinds_of(node), *clock, *passed_on(rows)), keys)
    schema = kernel_schema(projected)
    order = tuple(Order(own[sort.name], sort.descending, sort.nulls_first) for sort in node.order)
    kernel = UpdatingOverKernel(schema, keys, order, tuple(own.values()), functions, node.ttl_ms * 1000)
    fields_of = {**inputs.fields_of, **{to: InputField(name) for name, to in key_names.items()}}
    emitted = run_by_keys(kernel, projected, keys, fields_of, inputs, step, context)
    fields = [column(to).alias(name) for name, to in own.items()]
    results = [column(result_name(i)).alias(field.name) for i, field in enumerate(node.results)]
    return emitted.select(*fields, *results, *hidden(emitted))
