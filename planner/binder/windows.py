"""Time attributes of windows, and AssignWindows with the names of its columns."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.tables import conversion_hint
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.fields import Field
from sqlstream.planner.naming import Names
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Project, Scan
from sqlstream.planner.operators.regular_join import RegularJoin
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import Window, WindowColumns

TIME_LOST = "SS672"
WINDOW_COLUMNS = ("window_start", "window_end", "window_time")

# --- time columns ---------------------------------------------------------------------------------------------


def time_field(column: exp.Expr, resolved: exp.Expr, scope: Scope, window: str) -> Field:
    """The time attribute that ``column`` stands for; BindError SS210, SS672 with what to write instead."""
    field = scope.fields.get(resolved.name) if isinstance(resolved, exp.Column) else None
    if field is not None and field.time is not None:
        return field
    if field is None:
        message = f"{window} needs a time attribute, not an expression"
        raise bind_error("SS210", message, column, "Compute the column in CREATE TABLE and declare a WATERMARK for it.")
    name = column.name
    if not (field.type.is_timestamp or field.type.is_unknown):
        message = f'{window} needs a time attribute, but column "{name}" is of type {field.type}'
        raise bind_error("SS210", message, column, _attributes(scope) or conversion_hint(name, field.type))
    join = _lost_in(scope.node, field.name)
    if join is not None:
        raise _lost(join, name, window, column)
    message = f'column "{name}" has no watermark, so {window} cannot tell when a window is complete'
    lost = any(isinstance(n, AssignTime) for n in scope.node.walk())
    detail = "A time attribute may be renamed; any other expression of it is an ordinary column." if lost else None
    raise bind_error("SS210", message, column, _attributes(scope) or _watermark_hint(name, scope), detail)


def _lost_in(node: Node, name: str) -> RegularJoin | None:
    """The join whose output ``name`` would be a time attribute if its rows had an order in time."""
    if isinstance(node, Project):
        expression = next((item.expression for item in node.items if item.field.name == name), None)
        if not isinstance(expression, exp.Column):
            return None
        name = expression.name
    for below in node.inputs:
        field = next((f for f in below.schema if f.name == name), None)
        if field is None:
            continue
        if isinstance(node, RegularJoin) and field.time is not None:
            return node
        return _lost_in(below, name)
    return None


def _lost(join: RegularJoin, name: str, window: str, column: exp.Expr) -> BindError:
    """Why there are no windows above the join."""
    updates = join.changelog_mode != APPEND_ONLY
    what = "is updated later" if updates else "leaves when its partner comes"
    message = (
        f'column "{name}" is no time attribute above the {join.kind.value} JOIN without bounds on times, for {window}'
    )
    detail = f"A row of the join {what}, however far the watermark is then."
    hint = (
        "Bound the distance of time attributes of both sides in its condition, as in b.ts BETWEEN a.ts - INTERVAL '1' "
        "HOUR AND a.ts, or join the results of windows."
    )
    return bind_error(TIME_LOST, message, column, hint, detail)


def _attributes(scope: Scope) -> str | None:
    names = [f'"{c.name}"' for c in scope.columns if scope.fields[c.field].time is not None]
    return f"The time attributes here are {' and '.join(names)}." if names else None


def _watermark_hint(name: str, scope: Scope) -> str:
    tables = {n.table.name for n in scope.node.walk() if isinstance(n, Scan)}
    where = f' of "{tables.pop()}"' if len(tables) == 1 else ""
    return f"Add WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND to CREATE TABLE{where}."


def default_time(scope: Scope) -> Field | None:
    """The time of rows whose window names none: event time, else ingestion time, else PROCTIME(), else the clock."""
    times = [f for f in scope.node.schema if f.time is not None and any(c.field == f.name for c in scope.columns)]
    preferred = (TimeDomain.EVENT, TimeDomain.INGESTION, TimeDomain.PROCESSING)
    return min(times, key=lambda f: preferred.index(f.time or TimeDomain.PROCESSING), default=None)


def assign_windows(scope: Scope, window: Window, time: Field | None, partition_by: tuple[str, ...]) -> Scope:
    """The scope with each row once per window, and the window's columns visible; ``time`` None: the clock's."""
    names = Names(f.name for f in scope.node.schema)
    columns = WindowColumns(*(names.unique(n) for n in WINDOW_COLUMNS))
    domain = time.time if time is not None and time.time is not None else TimeDomain.PROCESSING
    node = AssignWindows(scope.node, window, time.name if time is not None else None, partition_by, columns, domain)
    fields = (columns.start, columns.end, columns.time)
    tables = scope.tables
    table = tables[0] if len(tables) == 1 else None
    visible = tuple(Visible(n, f, table) for n, f in zip(WINDOW_COLUMNS, fields, strict=True))
    return scope.with_columns(node, visible)
