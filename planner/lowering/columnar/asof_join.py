"""ASOF joins of updating rows: the columns of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.inputs import Inputs, came_at
from sqlstream.planner.lowering.columnar.join_inputs import column_of, condition_of, join_inputs, joined
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.asof_join import AsofJoin
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.asof import VALUE, AsofJoinKernel


@lower_operator.register
def _(node: AsofJoin, step: Operator, context: Context) -> DataFrame:
    def value(port: int, inputs: Inputs) -> None:
        inputs.add(node.values[port], name=VALUE)
        if node.ttl_ms:
            inputs.add_text(came_at(inputs.below, context), CLOCK)

    sides = join_inputs(node, step, context, value)
    left, right = sides
    kernel = AsofJoinKernel(
        (left.side(), right.side()),
        node.kind is JoinKind.LEFT,
        left.keys,
        tuple(equality.null_safe for equality in node.equal),
        node.above,
        node.strict,
        tuple(column_of(node, right, 1, name) for name in node.first_by),
        condition_of(node),
        1000 * node.ttl_ms,
    )
    return joined(node, step, sides, kernel, context)
