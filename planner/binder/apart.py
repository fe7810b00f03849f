"""Windows that only the node which assigns them can fire: of rows, with clauses of their own, without an end."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.windows import AlignedWindow, Session


def apart(node: WindowAggregate, select: exp.Expr) -> WindowAggregate:
    """The aggregate, assigning its windows where it must. SS213, SS320, SS349 where it cannot."""
    if node.window is not None or not _must_assign(node):
        return node
    aggregate = node.with_windows_fused()
    if aggregate.window is None:
        raise _not_fused(node, select)
    return aggregate


def _must_assign(node: WindowAggregate) -> bool:
    info = node.window_info
    assert info is not None
    closes = isinstance(info.window, AlignedWindow | Session)
    return not closes or not node.firing.is_default or node.pane is not None or node.pane_index is not None


def _not_fused(node: WindowAggregate, select: exp.Expr) -> SqlStreamError:
    at = select.args.get("group") or select
    info = node.input.window_info
    assert info is not None
    window = {node.columns.start, node.columns.end, node.columns.time}
    if any(columns_of(a.expression) & window for a in node.aggregates):
        return unsupported.refusal("window columns in aggregates", span_of(at))
    if not isinstance(info.window, AlignedWindow) and info.keys is not None and set(info.keys) != set(node.keys):
        kind = info.window.sql_name
        keys = ", ".join(info.keys) if info.keys else "no key"
        message = f"GROUP BY must name the keys of PARTITION BY, {keys}, because each has its own windows of {kind}"
        return bind_error("SS213", message, at, "Name the same columns in PARTITION BY and in GROUP BY.")
    return unsupported.refusal("window apart", span_of(at))
