"""Top-N: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columnar.ranked_inputs import RankedInput, ranked_input
from sqlstream.planner.lowering.columns import column, micros
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.top_n import Closing, TopN
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.kernel import Kernel
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.kernel import TopNKernel
from sqlstream.udfs.top_n.order import Order
from sqlstream.udfs.top_n.ranking import Ranking
from sqlstream.udfs.top_n.windowed import WindowTopNKernel

_CLOSES = "__closes"
_NUMBER = "__number"


@lower_operator.register
def _(node: TopN, step: Operator, context: Context) -> DataFrame:
    below = context.lower(step.input)
    closes = [] if node.closes is None else [F.expr(_closes(node.closes)).alias(_CLOSES)]
    found = ranked_input(node, node.keys, below, closes, clocked=node.ttl_ms > 0)
    emitted = found.emitted(_kernel(node, found), step, context)
    return found.results(emitted, [] if node.number is None else [column(_NUMBER).alias(node.number)])


def _closes(closing: Closing) -> str:
    return f"({micros(closing.field)}) + {closing.after_ms * 1000}L"


def _kernel(node: TopN, found: RankedInput) -> Kernel:
    order = tuple(Order(found.fields[by.name], by.descending, by.nulls_first) for by in node.order)
    function = Number(node.function)
    ranking = Ranking(found.keys, order, function, node.first, node.last, newest_first=node.newest_first)
    number = None if node.number is None else _NUMBER
    if node.closes is not None:
        return WindowTopNKernel(found.schema, ranking, found.passed, _CLOSES, number)
    return TopNKernel(found.schema, ranking, found.passed, number, node.ttl_ms * 1000)
