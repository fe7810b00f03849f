"""Expressions: names to fields, functions checked, everything that is no row expression refused.

Mistakes are reported to the context and replaced by NULL, so that all of one query show at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.spans import mark, span_of
from sqlstream.planner import intervals
from sqlstream.planner.binder.calls import aggregate_name, check_call
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.functions.kinds import AGGREGATE_WRAPPERS
from sqlstream.planner.type_inference import Types
from sqlstream.types import BOOLEAN, DataType

Resolver = Callable[[exp.Column], "exp.Expression | None"]


@dataclass(frozen=True)
class Place:
    """Where an expression stands, for messages: ``clause`` such as "WHERE"; ``aggregates`` allowed or not.

    Outside of aggregates ``names`` may answer for a column before the scope does, and ``calls`` for a function.
    """

    clause: str
    aggregates: bool = False
    names: Resolver = lambda _: None
    calls: Callable[[exp.Expression], exp.Expression | None] = lambda _: None


def bind(expression: exp.Expression, scope: Scope, context: Context, place: Place) -> exp.Expression:
    """A copy over the fields of ``scope``."""
    bound = _bind(expression, scope, context, place, inside=None)
    assert bound is not None
    return bound


def bind_condition(expression: exp.Expression, scope: Scope, context: Context, place: Place) -> exp.Expression:
    """A bound expression that is BOOLEAN, or of unknown type. SS206."""
    bound = bind(expression, scope, context, place)
    found = types_of(scope, context).of(bound)
    if not (found.is_unknown or found == BOOLEAN or found.name == "VOID"):
        message = f"{place.clause} needs a condition of type BOOLEAN, not {found}"
        context.wrong("SS206", message, expression, "Compare the value, as in a > 0.")
    return bound


def types_of(scope: Scope, context: Context) -> Types:
    return Types(scope.node.schema, context.catalog.function)


def type_in(scope: Scope, context: Context, bound: exp.Expression) -> DataType:
    return types_of(scope, context).of(bound)


def _bind(
    node: exp.Expression, scope: Scope, context: Context, place: Place, inside: str | None
) -> exp.Expression:
    """``inside`` is the name of the aggregate around ``node``."""
    match node:
        case exp.Column() if isinstance(node.this, exp.Star):
            return _wrong(context, bind_error("SS207", "* is not allowed here", node))
        case exp.Column():
            return _column(node, scope, context, place, inside)
        case exp.Window():
            return _refused(context, "over", node)
        case exp.In() if node.args.get("query"):
            return _refused(context, "subquery", node)
        case exp.Query():
            return _refused(context, "subquery", node)
        case exp.Exists() if isinstance(node.this, exp.Query):
            return _refused(context, "subquery", node)
        case exp.Interval():
            return _interval(node, scope, context, place, inside)
        case exp.Kwarg():
            return _refused(context, "named arguments", node)
    special = _special(node, context, place) if inside is None and isinstance(node, exp.Func) else None
    if special is not None:
        return special
    aggregate = aggregate_name(node, context.catalog)
    if aggregate is not None and not isinstance(node, AGGREGATE_WRAPPERS):
        _check_aggregate(node, aggregate, inside, place, context)
        inside = aggregate
    check_call(node, context)
    return _children(node, scope, context, place, inside)


def _children(
    node: exp.Expression, scope: Scope, context: Context, place: Place, inside: str | None
) -> exp.Expression:
    copy = type(node)()
    copy._meta = node._meta
    for key, value in node.args.items():
        if isinstance(value, list):
            bound: object = [_bind_value(v, scope, context, place, inside) for v in value]
        else:
            bound = _bind_value(value, scope, context, place, inside)
        copy.set(key, bound)
    return copy


def _bind_value(value: object, scope: Scope, context: Context, place: Place, inside: str | None) -> object:
    if isinstance(value, exp.DataType):
        return value.copy()
    return _bind(value, scope, context, place, inside) if isinstance(value, exp.Expression) else value


def _column(
    node: exp.Column, scope: Scope, context: Context, place: Place, inside: str | None
) -> exp.Expression:
    try:
        # Inside an aggregate a name means the input's column, elsewhere a name of the select list goes first.
        found = place.names(node) if inside is None else None
        resolved = found if found is not None else scope.resolve(node)
    except SqlStreamError as error:
        return _wrong(context, error)
    span = span_of(node)
    if span is not None:
        mark(resolved, span.start, span.end)
    return resolved


def _special(node: exp.Expression, context: Context, place: Place) -> exp.Expression | None:
    try:
        return place.calls(node)
    except SqlStreamError as error:
        return _wrong(context, error)


def _interval(
    node: exp.Interval, scope: Scope, context: Context, place: Place, inside: str | None
) -> exp.Expression:
    """Constant intervals in seconds where Spark does not know the spelling; others stay as they are."""
    if not isinstance(node.this, exp.Literal):
        return _children(node, scope, context, place, inside)
    try:
        rewritten = intervals.for_spark(node)
    except intervals.NotAnInterval as error:
        return _wrong(context, bind_error("SS212", f"the interval {error.reason}", node, error.hint))
    return rewritten


def _check_aggregate(
    node: exp.Expression, name: str, inside: str | None, place: Place, context: Context
) -> None:
    if inside is not None:
        hint = "Compute the inner aggregate in a subquery in FROM."
        context.wrong("SS209", f'aggregate "{name}" stands inside aggregate "{inside}"', node, hint)
    elif not place.aggregates:
        hint = "Use HAVING for conditions on aggregates." if place.clause == "WHERE" else None
        context.wrong("SS209", f'aggregate "{name}" is not allowed in {place.clause}', node, hint)


def _refused(context: Context, feature: str, node: exp.Expression) -> exp.Expression:
    context.refuse(feature, node)
    return exp.Null()


def _wrong(context: Context, error: SqlStreamError) -> exp.Expression:
    context.report(error)
    return exp.Null()
