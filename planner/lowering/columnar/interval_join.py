"""Interval joins: the columns of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sqlstream.planner.lowering.columnar.inputs import clock_of
from sqlstream.planner.lowering.columnar.join_inputs import condition_of, fields_of, join_inputs
from sqlstream.planner.lowering.columnar.operator import run, running, spark_schema
from sqlstream.planner.lowering.columns import micros
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.joins.interval import TIME, IntervalJoinKernel, Side
from sqlstream.udfs.joins.pairs import Bounds
from sqlstream.udfs.kernel import Domain


@lower_operator.register
def _(node: IntervalJoin, step: Operator, context: Context) -> DataFrame:
    def time(port: int, rows: DataFrame) -> dict[str, str]:
        named = (node.left_time, node.right_time)[port]
        return {TIME: clock_of(rows) if node.by_clock else micros(named)}

    left, right = join_inputs(node, step, context, time)
    kernel = IntervalJoinKernel(
        Side(left.schema, left.passed),
        Side(right.schema, right.passed),
        node.kind,
        left.keys,
        tuple(equality.null_safe for equality in node.equal),
        Bounds(node.lower_us, node.upper_us),
        Domain.PROCESSING if node.by_clock else Domain.EVENT,
        condition_of(node),
    )
    both = StructType([*left.rows.schema, *right.rows.schema])
    output = spark_schema(kernel.output, both)
    emitted = run([left.rows, right.rows], running(step, context.plan, kernel, output), context.runtime)
    return fields_of(node, emitted)
