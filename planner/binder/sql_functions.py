"""Functions whose body is SQL: calls become the body with the arguments in place of the parameters. Named arguments."""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query
from sqlstream.grammar.spans import mark, mark_as, span_of
from sqlstream.planner.binder.calls import check_arity
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.named_arguments import has_names, in_order
from sqlstream.planner.catalog import Catalog, Function, FunctionKind
from sqlstream.planner.expressions import node_of, rewritten
from sqlstream.types import DataType

_CUT = "cut"
"""Metadata of calls whose result is cut to its length above them."""


def expanded(call: exp.Anonymous, context: Context) -> exp.Expr | None:
    """The call with its arguments in order, or what it stands for; None for calls that are as they should be."""
    function = context.catalog.function(call.name)
    if function is None:
        return None
    if has_names(call):
        return _in_order(call, function, context)
    if function.kind is FunctionKind.SQL:
        return _body(call, function, context)
    return _cut(call, function.declared) if function.declared is not None and _CUT not in call.meta else None


def _cut(call: exp.Anonymous, declared: str) -> exp.Expr:
    """The result of a call as long as the function says."""
    copy = call.copy()
    copy.meta[_CUT] = True
    return _cast_to(copy, declared)


def _body(call: exp.Anonymous, function: Function, context: Context) -> exp.Expr:
    mistakes = len(context.problems)
    check_arity(call, function, context)
    if len(context.problems) > mistakes:
        return exp.Null()
    arguments = dict(zip((name.casefold() for name, _ in function.parameters), call.expressions, strict=False))
    types = {name.casefold(): kind for name, kind in function.parameters}
    defaults = {name.casefold(): text for name, text in function.defaults}

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = node.name.casefold()
        argument = arguments[name] if name in arguments else parsed(defaults[name])
        return _cast(argument, types[name])

    body = exp.Paren(this=rewritten(parsed(function.target), value))
    result = _cast(body, function.returns) if function.declared is None else _cast_to(body, function.declared)
    span = span_of(call)
    if span is not None:
        mark(node_of(result), span.start, span.end)
    return result


def _cast_to(value: exp.Expr, declared: str) -> exp.Expr:
    return exp.cast(value, exp.DataType.build(declared, dialect="sqlstream"))


def _cast(value: exp.Expr, kind: DataType) -> exp.Expr:
    return value.copy() if kind.is_unknown else exp.cast(value.copy(), kind.to_sqlglot())


@cache
def parsed(text: str) -> exp.Expr:
    """The expression of a text, without the places in it, which are none of the script."""
    expression: exp.Expr
    (expression,) = parse_query(f"SELECT {text}").expressions
    for node in expression.walk():
        node._meta = None
    return expression


def _in_order(call: exp.Anonymous, function: Function, context: Context) -> exp.Expr:
    """The call with ``name => value`` in the places of the parameters. SS207."""
    defaults = {name.casefold(): parsed(text) for name, text in function.defaults}
    parameters = {name: defaults.get(name.casefold()) for name, _ in function.parameters}
    try:
        copy = exp.Anonymous(this=call.this, expressions=in_order(call, function.name, parameters))
    except SqlStreamError as error:
        context.report(error)
        return exp.Null()
    mark_as(copy, call)
    return copy


def sql_functions_in(expression: exp.Expr, catalog: Catalog) -> set[str]:
    """The names of the functions with a body of SQL that an expression calls, also through others."""
    names: set[str] = set()
    waiting = [expression]
    while waiting:
        for call in waiting.pop().find_all(exp.Anonymous):
            function = catalog.function(call.name)
            if function is not None and function.kind is FunctionKind.SQL and function.name.casefold() not in names:
                names.add(function.name.casefold())
                waiting.append(parsed(function.target))
    return names
