"""Deduplicate: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.ranked_inputs import ranked_input
from sqlstream.planner.lowering.columnar.watermarks import TIME
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.top_n.deduplicate import DeduplicateKernel


@lower_operator.register
def _(node: Deduplicate, step: Operator, context: Context) -> DataFrame:
    time = node.time if node.timed else None
    ranked = ranked_input(node, node.keys, context.lower(step.input), time=time, clocked=node.ttl_ms > 0)
    kernel = DeduplicateKernel(
        ranked.schema,
        ranked.keys,
        ranked.passed,
        TIME if node.timed else None,
        node.last,
        before=not step.drops_before,
        ttl=node.ttl_ms * 1000,
    )
    return ranked.results(ranked.emitted(kernel, step, context))
