"""Numbers that triggers and evictors compare."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, type_in
from sqlstream.planner.binder.scope import Scope


def bind_number(expression: exp.Expression, clause: str, scope: Scope, context: Context) -> exp.Expression:
    """An expression of the row that is a number, or of unknown type. SS206."""
    bound = bind(expression, scope, context, ClauseContext(clause))
    kind = type_in(scope, context, bound)
    if not (kind.is_numeric or kind.is_unknown or kind.name == "VOID"):
        hint = "Make a number of it, such as UNIX_MILLIS(ts) of a time."
        context.wrong("SS206", f"{clause} needs a number, not {kind}", expression, hint)
    return bound


def constant_number(expression: exp.Expression, clause: str, scope: Scope, context: Context) -> exp.Expression:
    """A number that is the same for all rows. SS206."""
    if expression.find(exp.Column):
        hint = "Subtract it from the value, and compare with 0."
        raise bind_error("SS206", f"the threshold of {clause} must be a constant number", expression, hint)
    return bind_number(expression, clause, scope, context)
