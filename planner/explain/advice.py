"""What is worth knowing about a plan before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.explain.first_result import first_result
from sqlstream.planner.explain.window_text import window_text
from sqlstream.planner.functions.kinds import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.nodes import (
    AlignedWindow,
    AssignTime,
    AssignWindows,
    Cumulate,
    Hop,
    Lookup,
    Node,
    WindowAggregate,
)
from sqlstream.planner.properties import keeps_rows, window_of
from sqlstream.planner.rules import STAGES, Stage, optimize

_ARRIVAL = frozenset({"collect_list", "array_agg", "listagg", "string_agg"})
_MANY_PANES = 100


def advice(plan: Node, rules: Sequence[Stage] = STAGES) -> list[str]:
    """Sentences about a bound plan, most important first."""
    optimized = optimize(plan, rules)
    return [
        *latency(optimized),
        *_kept_rows(optimized),
        *_unused_watermarks(plan, optimized),
        *_many_windows(optimized),
        *_arrival(optimized),
        *_one_at_a_time(optimized),
    ]


def latency(plan: Node) -> Iterator[str]:
    """The latency floor of each windowed operator: no result can come earlier."""
    yield from dict.fromkeys(first_result(n) for n in _firing(plan))


def _firing(plan: Node) -> Iterator[AssignWindows | WindowAggregate]:
    """The nodes that wait for their windows to fire."""
    for node in plan.walk():
        if isinstance(node, WindowAggregate) or (
            isinstance(node, AssignWindows) and not isinstance(node.window, AlignedWindow)
        ):
            yield node


def _kept_rows(plan: Node) -> Iterator[str]:
    for node in _firing(plan):
        reason = keeps_rows(node)
        info = window_of(node)
        if reason is not None and info is not None:
            yield f"{window_text(info.window)} keeps its rows, not aggregates of them: {reason}."


def _unused_watermarks(plan: Node, optimized: Node) -> Iterator[str]:
    used = {(n.table, n.column) for n in optimized.walk() if isinstance(n, AssignTime)}
    seen: set[tuple[str, str]] = set()
    for node in plan.walk():
        if isinstance(node, AssignTime) and node.domain is TimeDomain.EVENT:
            key = (node.table, node.column)
            if key not in used and key not in seen:
                yield f'The watermark of "{node.table}" on "{node.column}" is not used: no window waits for it.'
            seen.add(key)


def _many_windows(plan: Node) -> Iterator[str]:
    for node in plan.walk():
        if not isinstance(node, AssignWindows | WindowAggregate):
            continue
        match node.window:
            case Hop(slide_ms=part, size_ms=size) | Cumulate(step_ms=part, size_ms=size) if size // part >= _MANY_PANES:
                yield f"{window_text(node.window)}: each row belongs to up to {-(-size // part)} windows."


def _arrival(plan: Node) -> Iterator[str]:
    for node in plan.walk():
        if isinstance(node, WindowAggregate):
            for item in node.aggregates:
                name = _order_of_arrival(item.expression)
                if name:
                    order = "lists values in the order of arrival; SORT_ARRAY makes it certain"
                    yield f'"{item.name}" ({name.upper()}) {order}.'


def _one_at_a_time(plan: Node) -> Iterator[str]:
    for node in plan.walk():
        if isinstance(node, Lookup) and not node.options.asynchronous:
            yield f'"{node.source.name}" is asked for one row after the other: LOOKUP ASYNC asks for many at once.'


def _order_of_arrival(call: exp.Expr) -> str | None:
    inner = call
    while isinstance(inner, AGGREGATE_WRAPPERS):
        inner = inner.this
    name = spark_name(inner) if isinstance(inner, exp.Func) else None
    return name if name in _ARRIVAL else None
