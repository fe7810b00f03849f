"""LATE DATA: how long windows wait for late rows, and where those go that come later still."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.inserts import storable
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.catalog import Column, Table, View
from sqlstream.planner.durations import readable
from sqlstream.planner.firing import LateAction, LateData
from sqlstream.planner.intervals import interval_ms
from sqlstream.planner.naming import field_of
from sqlstream.planner.nodes import Field, WindowColumns
from sqlstream.planner.suggestions import did_you_mean
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
    table = _target(clause.table, context)
    available = _available(scope, columns)
    values = tuple(_value(c, table, available, clause, context) for c in table.physical_columns)
    return LateData(allow, action, table, values)


def _target(table: exp.Table, context: Context) -> Table:
    name = ".".join(p.name for p in table.parts)
    match context.catalog.relation(name):
        case Table() as found:
            return found
        case View():
            raise bind_error("SS202", f'"{name}" is a view, which takes no rows', table)
    hint = did_you_mean(name, context.catalog.relation_names(), "tables") or "Create it with CREATE TABLE."
    raise bind_error("SS202", f'table "{name}" does not exist', table, hint)


def _available(scope: Scope, columns: WindowColumns) -> dict[str, Field]:
    """What a late row has: the columns of the window's input and the bounds of the window, by name."""
    bounds = {"window_start": columns.start, "window_end": columns.end}
    found = {name: Field(field, TIMESTAMP, False) for name, field in bounds.items()}
    for visible in scope.columns:
        found.setdefault(visible.name.casefold(), scope.fields[visible.field])
    return found


def _value(
    column: Column, table: Table, available: dict[str, Field], clause: syntax.LateData, context: Context
) -> exp.Expression:
    """The value of a column of the table, by name."""
    field = available.get(column.name.casefold())
    if field is None:
        message = f'late rows have no column "{column.name}", which table "{table.name}" has'
        hint = f"They have {', '.join(available)}: columns of the window's input, and its bounds."
        context.wrong("SS216", message, clause.span, hint)
        return exp.Null()
    if not storable(field.type, column.type):
        message = f'column "{column.name}" of type {column.type} cannot store late values of type {field.type}'
        context.wrong("SS206", message, clause.span, f'Declare it as {field.type} in table "{table.name}".')
    value: exp.Expression = field_of(field.name)
    return value if field.type == column.type else cast(value, column.type)
