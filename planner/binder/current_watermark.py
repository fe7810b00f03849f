"""CURRENT_WATERMARK(ts) in WHERE, the select list and what is aggregated: an operator below tells it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Field
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.naming import Names, shown_name
from sqlstream.planner.operators.current_watermark import CurrentWatermark
from sqlstream.planner.rewriting import over_children

_CALL = "current_watermark"
_WITH_WATERMARK = (TimeDomain.EVENT, TimeDomain.INGESTION)
_DECLARE = "Declare one in CREATE TABLE: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND."


def with_watermark(
    select: exp.Select, where: exp.Expr | None, scope: Scope, context: Context
) -> tuple[exp.Select, exp.Expr | None, Scope]:
    """The query over a scope that has the watermark as a column, and the column in place of the calls; itself where it
    calls it nowhere. SS210 for arguments that have no watermark, SS325 for rows that are updated.

    Calls in HAVING and elsewhere stay, and are refused: a group is no row that comes.
    """
    group = select.args.get("group")
    written = [e for e in (where, *select.expressions, group) if e is not None]
    calls = [call for expression in written for call in _calls(expression)]
    if not calls:
        return select, where, scope
    times = [field for call in calls if (field := _time(call, scope, context)) is not None]
    told: exp.Expr = exp.Null()
    if times:
        name = Names([*scope.fields, *(column.name for column in scope.columns)]).unique(_CALL)
        node = CurrentWatermark(scope.node, times[0].name, Field(name, times[0].type))
        scope = scope.with_columns(check_changes(node, context, calls[0]), (Visible(name, name, starred=False),))
        told = exp.column(exp.to_identifier(name, quoted=True))
    changed = select.copy()
    changed.set("expressions", [_named(e, told) for e in select.expressions])
    changed.set("group", None if group is None else _replaced(group, told))
    return changed, None if where is None else _replaced(where, told), scope


def _calls(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The calls in an expression, but for those of its subqueries."""
    return filter(_is_call, expression.walk(prune=lambda node: isinstance(node, exp.Query)))


def _is_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and spark_name(node) == _CALL


def _time(call: exp.Expr, scope: Scope, context: Context) -> Field | None:
    """The time attribute that a call names."""
    arguments = call.expressions
    if len(arguments) != 1:
        context.wrong("SS207", f'function "{_CALL}" takes 1 argument, not {len(arguments)}', call)
        return None
    try:
        resolved = scope.resolve(arguments[0]) if isinstance(arguments[0], exp.Column) else None
    except SqlStreamError as error:
        context.report(error)
        return None
    field = scope.fields.get(resolved.name) if isinstance(resolved, exp.Column) else None
    if field is not None and field.time in _WITH_WATERMARK:
        return field
    names = [f'"{c.name}"' for c in scope.columns if scope.fields[c.field].time in _WITH_WATERMARK]
    hint = f"{' and '.join(names)} has one." if names else _DECLARE
    context.wrong("SS210", "CURRENT_WATERMARK needs a column with a watermark", arguments[0], hint)
    return None


def _named(expression: exp.Expr, told: exp.Expr) -> exp.Expr:
    """A column of the select list, which keeps the name that the call gives it."""
    if next(_calls(expression), None) is None:
        return expression
    replaced = _replaced(expression, told)
    if isinstance(expression, exp.Alias | exp.Aliases):
        return replaced
    return exp.Alias(this=replaced, alias=exp.to_identifier(shown_name(expression), quoted=True))


def _replaced(node: exp.Expr, told: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Query):
        return node.copy()
    if _is_call(node):
        return told.copy()
    return over_children(node, lambda child: _replaced(child, told))
