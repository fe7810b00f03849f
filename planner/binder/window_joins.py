"""Joins of rows in the same windows: which equalities of ON make one."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.joining import Equality
from sqlstream.planner.naming import field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_join import WindowJoin
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.windows import AlignedWindow, Cumulate, Session
from sqlstream.udfs.joins import JoinKind


def window_join(
    left: Node, right: Node, kind: JoinKind, equal: tuple[Equality, ...], condition: exp.Expression | None
) -> WindowJoin | None:
    """The join of rows whose windows are equal, by both bounds or, where one tells the other, by one of them; None
    where it is another join, or rows of a window may still come after its end."""
    windows = _window(left), _window(right)
    if windows[0] is None or windows[1] is None:
        return None
    starts, ends = (windows[0].start, windows[1].start), (windows[0].end, windows[1].end)
    named = {(e.left.name, e.right.name) for e in equal if _is_field(e.left) and _is_field(e.right)}
    missing = [bounds for bounds in (starts, ends) if bounds not in named]
    same = windows[0].window == windows[1].window and not isinstance(windows[0].window, Cumulate | Session)
    if None in (*starts, *ends) or len(missing) > (1 if same else 0):
        return None
    assert ends[0] is not None and ends[1] is not None
    more = tuple(
        Equality(field_of(left_column or ""), field_of(right_column or "")) for left_column, right_column in missing
    )
    return WindowJoin(left, right, kind, (*equal, *more), condition, (ends[0], ends[1]))


def with_one_window(scope: Scope) -> Scope:
    """The scope of an inner window join, in which the bounds of both windows are the same fields: grouping by those of
    the right side is grouping by the windows, too."""
    node = scope.node.input if isinstance(scope.node, Filter) else scope.node
    if not isinstance(node, WindowJoin) or node.kind is not JoinKind.INNER:
        return scope
    left, right = node.left.window_info, node.right.window_info
    assert left is not None and right is not None, "both sides carry windows"
    same = {theirs: own for own, theirs in zip(left.columns, right.columns, strict=True) if own and theirs}
    columns = tuple(replace(column, field=same.get(column.field, column.field)) for column in scope.columns)
    return Scope(scope.node, columns)


def _is_field(value: exp.Expression) -> bool:
    return isinstance(value, exp.Column)


def _window(side: Node) -> WindowInfo | None:
    """The window whose rows are all there when the watermark closes it."""
    window = side.window_info
    if window is None or window.domain is not TimeDomain.EVENT or side.changelog_mode != APPEND_ONLY:
        return None
    if not isinstance(window.window, AlignedWindow | Session):
        return None
    fired_otherwise = any(isinstance(node, WindowAggregate) and not node.firing.is_default for node in side.walk())
    return None if fired_otherwise else window
