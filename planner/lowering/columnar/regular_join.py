"""Regular joins: the columns of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sqlstream.planner.lowering.columnar.inputs import clock_of
from sqlstream.planner.lowering.columnar.join_inputs import JoinInput, condition_of, fields_of, join_inputs
from sqlstream.planner.lowering.columnar.operator import run, running, spark_schema
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.regular_join import RegularJoin
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.joins.kept import Side
from sqlstream.udfs.joins.regular import RegularJoinKernel


@lower_operator.register
def _(node: RegularJoin, step: Operator, context: Context) -> DataFrame:
    def clock(port: int, rows: DataFrame) -> dict[str, str]:
        """When rows came: Spark's clock is behind by a micro-batch."""
        return {CLOCK: clock_of(rows)} if any(node.ttl_ms) else {}

    left, right = join_inputs(node, step, context, clock)
    kernel = RegularJoinKernel(
        node.kind,
        (_side(left, node.ttl_ms[0]), _side(right, node.ttl_ms[1])),
        left.keys,
        tuple(equality.null_safe for equality in node.equal),
        condition_of(node),
    )
    both = StructType([*left.rows.schema, *right.rows.schema])
    output = spark_schema(kernel.output, both)
    emitted = run([left.rows, right.rows], running(step, context.plan, kernel, output), context.runtime)
    return fields_of(node, emitted)


def _side(of: JoinInput, ttl_ms: int) -> Side:
    return Side(of.schema, tuple((name, name) for name in of.passed), 1000 * ttl_ms)
