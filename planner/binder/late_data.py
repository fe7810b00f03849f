"""LATE DATA: how long windows wait for late rows, and where those go that come later still."""

from __future__ import annotations

from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.side_tables import SideRowFields, target, values_by_name
from sqlstream.planner.durations import readable
from sqlstream.planner.fields import Field
from sqlstream.planner.firing import LateAction, LateData
from sqlstream.planner.intervals import interval_ms
from sqlstream.planner.windows import WindowColumns
from sqlstream.types import TIMESTAMP


def bind_late_data(clause: syntax.LateData | None, scope: Scope, columns: WindowColumns, context: Context) -> LateData:
    """The clause over rows of ``scope`` and windows with these ``columns``. BindError SS202, SS216, SS228."""
    if clause is None:
        return LateData()
    allow = 0
    if clause.allow is not None:
        at = span_of(clause.allow) or clause.span
        allow = interval_ms(clause.allow, "the interval of ALLOW", at)
        if allow < 0:
            raise bind_error("SS212", f"the interval of ALLOW must not be negative, but is {readable(allow)}", at)
    action = LateAction[clause.action.name] if clause.action else LateAction.DROP
    if clause.table is None:
        return LateData(allow, action)
    table = target(clause.table, context)
    available = _available(scope, columns)
    rows = SideRowFields("late", "columns of the window's input, and its bounds", available)
    return LateData(allow, action, table, values_by_name(table, rows, clause.span, context))


def _available(scope: Scope, columns: WindowColumns) -> dict[str, Field]:
    """What a late row has: the columns of the window's input and the bounds of the window, by name."""
    bounds = {"window_start": columns.start, "window_end": columns.end}
    fields = {name: Field(field, TIMESTAMP, False) for name, field in bounds.items()}
    for visible in scope.columns:
        fields.setdefault(visible.name.casefold(), scope.fields[visible.field])
    return fields
