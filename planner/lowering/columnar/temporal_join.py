"""Temporal joins: the columns of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.inputs import Inputs, came_at
from sqlstream.planner.lowering.columnar.join_inputs import column_of, condition_of, join_inputs, joined
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.temporal_join import TemporalJoin
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.processing_time_temporal_join import ProcessingTimeTemporalJoinKernel
from sqlstream.udfs.joins.temporal import TIME, TemporalJoinKernel


@lower_operator.register
def _(node: TemporalJoin, step: Operator, context: Context) -> DataFrame:
    def more(port: int, inputs: Inputs) -> None:
        if node.timed:
            inputs.time(node.times[port], TIME)
        if node.uses_processing_time:
            inputs.add_text(came_at(inputs.below, context), CLOCK)

    sides = join_inputs(node, step, context, more)
    left, right = sides
    shown, outer, ttl = (left.side(node.left_ttl_ms), right.side()), node.kind is JoinKind.LEFT, 1000 * node.ttl_ms
    null_safe = tuple(equality.null_safe for equality in node.equal)
    by = tuple(column_of(node, left, 0, name) for name in node.told_apart_by) if node.retracts else ()
    kernel: TemporalJoinKernel | ProcessingTimeTemporalJoinKernel
    if node.timed:
        first_by = None if node.first_by is None else tuple(column_of(node, right, 1, name) for name in node.first_by)
        condition = condition_of(node)
        kernel = TemporalJoinKernel(shown, outer, left.keys, null_safe, node.strict, first_by, condition, ttl, by)
    else:
        kernel = ProcessingTimeTemporalJoinKernel(shown, outer, left.keys, null_safe, condition_of(node), ttl, by)
    return joined(node, step, sides, kernel, context)
