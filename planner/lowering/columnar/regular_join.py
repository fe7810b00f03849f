"""Regular joins: the columns of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.inputs import Inputs, came_at
from sqlstream.planner.lowering.columnar.join_inputs import condition_of, join_inputs, joined
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.regular_join import RegularJoin
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.joins.regular import RegularJoinKernel


@lower_operator.register
def _(node: RegularJoin, step: Operator, context: Context) -> DataFrame:
    def clock(port: int, inputs: Inputs) -> None:
        """When rows came: Spark's clock is behind by a micro-batch."""
        if any(node.ttl_ms):
            inputs.add_text(came_at(inputs.below, context), CLOCK)

    sides = join_inputs(node, step, context, clock)
    left, right = sides
    kernel = RegularJoinKernel(
        node.kind,
        (left.side(node.ttl_ms[0]), right.side(node.ttl_ms[1])),
        left.keys,
        tuple(equality.null_safe for equality in node.equal),
        condition_of(node),
    )
    return joined(node, step, sides, kernel, context)
