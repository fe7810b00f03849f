"""Temporal sort: the kernel of OVER, without functions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.operator import run, running, spark_schema
from sqlstream.planner.lowering.columnar.ranked_inputs import ranked_input
from sqlstream.planner.lowering.columns import micros
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.over.kernel import OverKernel, Tie

_TIME = "__row_time"


@lower_operator.register
def _(node: TemporalSort, step: Operator, context: Context) -> DataFrame:
    time = [F.expr(micros(node.time)).alias(_TIME)]
    found = ranked_input(node, (), context.lower(step.input), time, clocked=False)
    ties = tuple(Tie(found.fields[tie.name], tie.descending, tie.nulls_first) for tie in node.ties)
    kernel = OverKernel(found.schema, (), _TIME, found.passed, (), ties=ties)
    output = spark_schema(kernel.output, found.types)
    return found.results(run(found.rows, running(step, context.plan, kernel, output), context.runtime))
