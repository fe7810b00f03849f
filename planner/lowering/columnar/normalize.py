"""Normalize: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.inputs import came_at, key, passed_on, row_kind, with_key_hash
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.normalize import Normalize
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.changes.normalize import NormalizeKernel
from sqlstream.udfs.exchange import CLOCK


@lower_operator.register
def _(node: Normalize, step: Operator, context: Context) -> DataFrame:
    rows = context.lower(step.input)
    fields = {f"__field_{i}": f.name for i, f in enumerate(node.schema)}
    keys = {f"__key_{i}": name for i, name in enumerate(node.keys)}
    by_key = [key(name, rows.schema[name].dataType).alias(own) for own, name in keys.items()]
    named = [column(name).alias(own) for own, name in fields.items()]
    # Rows that come before the first tick of the clock have all their time to live, too.
    clock = [F.expr(came_at(rows, context)).alias(CLOCK)] if node.ttl_ms else []
    projected = with_key_hash(rows.select(*by_key, *named, row_kind(), *clock, *passed_on(rows)), tuple(keys))
    schema = kernel_schema(projected)
    kernel = NormalizeKernel(schema, tuple(keys), tuple(fields), node.ttl_ms * 1000)
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    return emitted.select(*(column(own).alias(name) for own, name in fields.items()), *hidden(emitted))
