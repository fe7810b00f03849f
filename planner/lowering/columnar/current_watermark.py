"""CURRENT_WATERMARK: the fields of the rows, and the watermark as one more."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.ranked_inputs import ranked_input
from sqlstream.planner.lowering.columns import quoted
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.current_watermark import CurrentWatermark
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.current_watermark import NOW, CurrentWatermarkKernel


@lower_operator.register
def _(node: CurrentWatermark, step: Operator, context: Context) -> DataFrame:
    ranked = ranked_input(node, (), context.lower(step.input))
    kernel = CurrentWatermarkKernel(ranked.schema, ranked.passed)
    now = F.expr(f"CAST(timestamp_micros({quoted(NOW)}) AS {node.output.type.name})").alias(node.output.name)
    return ranked.results(ranked.emitted(kernel, step, context), [now])
