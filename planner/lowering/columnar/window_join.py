"""Window joins: the columns of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.inputs import Inputs
from sqlstream.planner.lowering.columnar.join_inputs import condition_of, join_inputs, joined
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.window_join import WindowJoin
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.joins.window import END, WindowJoinKernel


@lower_operator.register
def _(node: WindowJoin, step: Operator, context: Context) -> DataFrame:
    def end(port: int, inputs: Inputs) -> None:
        inputs.time(node.ends[port], END)

    sides = join_inputs(node, step, context, end)
    left, right = sides
    null_safe = tuple(equality.null_safe for equality in node.equal)
    result_sides = left.side(), right.side()
    return joined(
        node, step, sides, WindowJoinKernel(node.kind, result_sides, left.keys, null_safe, condition_of(node)), context
    )
