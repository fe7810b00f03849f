"""Temporal sort: the kernel of OVER, without functions."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columnar.ranked_inputs import ranked_input
from sqlstream.planner.lowering.columnar.watermarks import TIME
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.over.kernel import OverKernel
from sqlstream.udfs.over.line import Tie


@lower_operator.register
def _(node: TemporalSort, step: Operator, context: Context) -> DataFrame:
    ranked = ranked_input(node, node.keys, context.lower(step.input), time=node.time)
    ties = tuple(Tie(ranked.fields[tie.name], tie.descending, tie.nulls_first) for tie in node.ties)
    kernel = OverKernel(ranked.schema, ranked.keys, TIME, ranked.passed, (), ties=ties)
    return ranked.results(ranked.emitted(kernel, step, context))
