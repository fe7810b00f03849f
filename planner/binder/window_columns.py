"""The window's columns in the input of an aggregation: which are there, and how the missing ones follow from them."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.windows import WINDOW_COLUMNS
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Item
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.nodes import extended
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.windows import Hop, Tumble, WindowColumns
from sqlstream.types import TIMESTAMP


def complete_columns(
    scope: Scope, attached: WindowInfo, grouped: set[str], at: exp.Expr
) -> tuple[Scope, WindowColumns]:
    """The scope with all three columns of the window.

    The start or end of a TUMBLE or HOP determines the other; those of a CUMULATE or SESSION do not (SS213).
    """
    if not isinstance(attached.window, Tumble | Hop):
        _check_both(attached, grouped, at)
    unique = Names(f.name for f in scope.node.schema)
    present = dict(zip(WINDOW_COLUMNS, attached.columns, strict=True))
    names = {shown: field or unique.unique(shown) for shown, field in present.items()}
    columns = WindowColumns(*names.values())
    missing = [shown for shown, field in present.items() if field is None]
    if not missing:
        return scope, columns
    items = [_computed(shown, names[shown], attached) for shown in missing]
    node = extended(scope.node, items)
    visible_names = {c.name for c in scope.columns}
    tables = scope.tables
    table = tables[0] if len(tables) == 1 else None
    visible = tuple(Visible(s, names[s], table, starred=False) for s in missing if s not in visible_names)
    return scope.with_columns(node, visible), columns


def _check_both(attached: WindowInfo, grouped: set[str], at: exp.Expr) -> None:
    missing = [n for n, f in zip(WINDOW_COLUMNS[:2], attached.columns[:2], strict=True) if f not in grouped]
    if not missing:
        return
    kind = attached.window.sql_name
    present = "window_end" if missing == ["window_start"] else "window_start"
    message = f"GROUP BY {present} without {missing[0]} does not tell the windows of {kind} apart"
    if len(missing) == 2:
        message = f"GROUP BY window_time does not tell the windows of {kind} apart"
    raise bind_error("SS213", message, at, f"Add {' and '.join(missing)} to GROUP BY.")


def _computed(shown: str, name: str, attached: WindowInfo) -> Item:
    """A missing column from those that are there."""
    time: TimeDomain | None = attached.domain if shown == "window_time" else None
    size = _size_ms(attached)
    # Milliseconds from the column that is there to the end of the window.
    for field, to_end in ((attached.end, 0), (attached.time, 1), (attached.start, size)):
        if field is not None and to_end is not None:
            from_end = {"window_start": -(size or 0), "window_end": 0, "window_time": -1}[shown]
            return Item(name, _shifted(field, to_end + from_end), TIMESTAMP, False, time)
    raise AssertionError(f"no column of the window is left to compute {shown} from")


def _size_ms(attached: WindowInfo) -> int | None:
    return attached.window.size_ms if isinstance(attached.window, (Tumble, Hop)) else None


def _shifted(field: str, milliseconds: int) -> exp.Expression:
    if milliseconds == 0:
        return field_of(field)
    seconds = f"{abs(milliseconds) // 1000}.{abs(milliseconds) % 1000:03}".rstrip("0").rstrip(".")
    interval = exp.Interval(this=exp.Literal.string(seconds), unit=exp.var("SECOND"))
    operator = exp.Add if milliseconds > 0 else exp.Sub
    return operator(this=field_of(field), expression=interval)
