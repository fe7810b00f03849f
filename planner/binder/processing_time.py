"""PROCTIME() as a column of a select list: a processing-time attribute, as one of CREATE TABLE is."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.select_list import Selected
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Names, field_of
from sqlstream.planner.nodes import AssignTime, Scan


def with_processing_time(columns: list[Selected], scope: Scope) -> tuple[Scope, list[Selected]]:
    """The columns over a scope that has the time; where it reads several tables they stay, and are refused as calls."""
    if not any(map(is_marker, columns)):
        return scope, columns
    name = next((f.name for f in scope.node.schema if f.time is TimeDomain.PROCESSING), None)
    if name is None:
        tables = {n.table.name for n in scope.node.walk() if isinstance(n, Scan)}
        if len(tables) != 1:
            return scope, columns
        name = Names(f.name for f in scope.node.schema).unique("proctime")
        scope = scope.over(AssignTime(scope.node, name, 0, TimeDomain.PROCESSING, *tables))
    return scope, [replace(c, bound=field_of(name)) if is_marker(c) else c for c in columns]


def is_marker(column: Selected) -> bool:
    """True for PROCTIME() alone."""
    call = column.expression
    named = isinstance(call, exp.Anonymous) and call.name.upper() == "PROCTIME" and not call.expressions
    return column.bound is None and named
