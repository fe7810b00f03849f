"""Top-N: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.inputs import came_at
from sqlstream.planner.lowering.columnar.ranked_inputs import RankedInput, ranked_input
from sqlstream.planner.lowering.columns import column, micros
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.top_n import Closing, TopN
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.kernel import Kernel
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.kernel import TopNKernel, WindowTopNKernel
from sqlstream.udfs.top_n.order import Order, Ranking

_CLOSES = "__closes"
_NUMBER = "__number"


@lower_operator.register
def _(node: TopN, step: Operator, context: Context) -> DataFrame:
    below = context.lower(step.input)
    closes = [] if node.closes is None else [F.expr(_closes(node.closes)).alias(_CLOSES)]
    clock = came_at(below, context) if node.ttl_ms else None
    ranked = ranked_input(node, node.keys, below, closes, came_at=clock)
    emitted = ranked.emitted(_kernel(node, ranked), step, context)
    return ranked.results(emitted, [] if node.number is None else [column(_NUMBER).alias(node.number)])


def _closes(closing: Closing) -> str:
    return f"({micros(closing.field)}) + {closing.after_ms * 1000}L"


def _kernel(node: TopN, ranked: RankedInput) -> Kernel:
    order = tuple(Order(ranked.fields[key.name], key.descending, key.nulls_first) for key in node.order)
    function = Number(node.function)
    ranking = Ranking(ranked.keys, order, function, node.first, node.last, newest_first=node.newest_first)
    number = None if node.number is None else _NUMBER
    if node.closes is not None:
        return WindowTopNKernel(ranked.schema, ranking, ranked.passed, _CLOSES, number)
    return TopNKernel(ranked.schema, ranking, ranked.passed, number, node.ttl_ms * 1000)
