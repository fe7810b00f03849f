"""ON ERROR TO t: which table gets the rows whose lookup failed, and what it gets of them."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar.nodes import LookupAsync
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.side_tables import SideRowFields, target, values_by_name
from sqlstream.planner.fields import Field
from sqlstream.planner.operators.lookup import LOOKUP_ERROR, FailedRows
from sqlstream.types import STRING


def failed_rows(table: exp.Table, clause: LookupAsync, scope: Scope, context: Context) -> FailedRows:
    """By name the columns of the left side and ``error``, what went wrong. SS202, SS206, SS216."""
    table_of_failed = target(table, context)
    fields: dict[str, Field] = {}
    for visible in scope.columns:
        fields.setdefault(visible.name.casefold(), scope.fields[visible.field])
    fields.setdefault("error", Field(LOOKUP_ERROR, STRING, False))
    rows = SideRowFields("failed", "columns of the left side, and error, what went wrong", fields)
    return FailedRows(table_of_failed, values_by_name(table_of_failed, rows, clause.span, context))
