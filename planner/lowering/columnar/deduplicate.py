"""Deduplicate: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.operator import run, running, spark_schema
from sqlstream.planner.lowering.columnar.ranked_inputs import ranked_input
from sqlstream.planner.lowering.columns import micros
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.top_n.deduplicate import DeduplicateKernel

_TIME = "__row_time"


@lower_operator.register
def _(node: Deduplicate, step: Operator, context: Context) -> DataFrame:
    below = context.lower(step.input)
    time = [F.expr(micros(node.time)).alias(_TIME)] if node.timed else []
    found = ranked_input(node, node.keys, below, time, clocked=node.ttl_ms > 0)
    kernel = DeduplicateKernel(
        found.schema,
        found.keys,
        found.passed,
        _TIME if node.timed else None,
        node.last,
        before=not step.drops_before,
        ttl=node.ttl_ms * 1000,
    )
    output = spark_schema(kernel.output, found.types)
    emitted = run(found.rows, running(step, context.plan, kernel, output), context.runtime)
    return found.results(emitted)
