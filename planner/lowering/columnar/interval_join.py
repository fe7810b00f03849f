"""Interval joins: the columns of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.inputs import Inputs, clock_of
from sqlstream.planner.lowering.columnar.join_inputs import condition_of, join_inputs, joined
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.joins.interval import TIME, IntervalJoinKernel
from sqlstream.udfs.joins.pairs import Bounds
from sqlstream.udfs.kernel import Domain


@lower_operator.register
def _(node: IntervalJoin, step: Operator, context: Context) -> DataFrame:
    def time(port: int, inputs: Inputs) -> None:
        if node.by_clock:
            inputs.add_text(clock_of(inputs.below), TIME)
            inputs.add_text(clock_of(inputs.below), CLOCK)  # before its first watermark Spark has no clock
            inputs.fired(node.inputs[port], node.times[port])
        else:
            inputs.time(node.times[port], TIME)

    sides = join_inputs(node, step, context, time)
    left, right = sides
    kernel = IntervalJoinKernel(
        left.side(),
        right.side(),
        node.kind,
        left.keys,
        tuple(equality.null_safe for equality in node.equal),
        Bounds(node.lower_us, node.upper_us),
        Domain.PROCESSING if node.by_clock else Domain.EVENT,
        condition_of(node),
    )
    return joined(node, step, sides, kernel, context)
