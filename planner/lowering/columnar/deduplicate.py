"""Deduplicate: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.inputs import came_at
from sqlstream.planner.lowering.columnar.ranked_inputs import ranked_input
from sqlstream.planner.lowering.columnar.watermarks import TIME
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.top_n.deduplicate import DeduplicateKernel


@lower_operator.register
def _(node: Deduplicate, step: Operator, context: Context) -> DataFrame:
    time = node.time if node.timed else None
    below = context.lower(step.input)
    clock = came_at(below, context) if node.ttl_ms else None
    ranked = ranked_input(node, node.keys, below, time=time, came_at=clock)
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
