"""What is worth knowing about windows before they run."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.planner.explain.advice import Remark, Topic, remarks
from sqlstream.planner.explain.first_result import first_result
from sqlstream.planner.explain.window_text import window_text
from sqlstream.planner.firing import Trigger
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.properties import keeps_rows, keeps_state, watermark_delay_ms, window_of
from sqlstream.planner.windows import Cumulate, Hop

_ARRIVAL = frozenset({"collect_list", "array_agg", "listagg", "string_agg"})
_MANY_PANES = 100


@remarks.register
def _(node: AssignWindows) -> Iterator[Remark]:
    yield from _of_firing(node, None) if keeps_state(node) else ()
    yield from _many_windows(node)


@remarks.register
def _(node: WindowAggregate) -> Iterator[Remark]:
    yield from _of_firing(node, node.firing.trigger)
    yield from _many_windows(node)
    for item in node.aggregates:
        name = _order_of_arrival(item.expression)
        if name:
            order = "lists values in the order of arrival; SORT_ARRAY makes it certain"
            yield Topic.ARRIVAL, f'"{item.name}" ({name.upper()}) {order}.'


def _of_firing(node: AssignWindows | WindowAggregate, trigger: Trigger | None) -> Iterator[Remark]:
    """Of a node that waits for its windows to fire."""
    info, reason = window_of(node), keeps_rows(node)
    assert info is not None
    yield Topic.LATENCY, first_result(info, trigger, watermark_delay_ms(node) or 0)
    if reason is not None:
        yield Topic.KEPT_ROWS, f"{window_text(info.window)} keeps its rows, not aggregates of them: {reason}."


def _many_windows(node: AssignWindows | WindowAggregate) -> Iterator[Remark]:
    match node.window:
        case Hop(slide_ms=part, size_ms=size) | Cumulate(step_ms=part, size_ms=size) if size // part >= _MANY_PANES:
            text = f"{window_text(node.window)}: each row belongs to up to {-(-size // part)} windows."
            yield Topic.MANY_WINDOWS, text


def _order_of_arrival(call: exp.Expr) -> str | None:
    inner = call
    while isinstance(inner, AGGREGATE_WRAPPERS):
        inner = inner.this
    name = spark_name(inner) if isinstance(inner, exp.Func) else None
    return name if name in _ARRIVAL else None
