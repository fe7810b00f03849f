"""Functions whose body is SQL: calls become the body with the arguments in place of the parameters. Named arguments."""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from sqlstream.grammar import parse_query
from sqlstream.grammar.spans import mark, span_of
from sqlstream.planner.binder.calls import check_arity
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.catalog import Catalog, Function, FunctionKind
from sqlstream.planner.rewriting import node_of, rewritten
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.types import DataType


def expanded(call: exp.Anonymous, context: Context) -> exp.Expr | None:
    """The call with its arguments in order, or what it stands for; None for calls that are as they should be."""
    function = context.catalog.function(call.name)
    if function is None:
        return None
    if any(isinstance(argument, exp.Kwarg) for argument in call.expressions):
        ordered = _in_order(call, function, context)
        return exp.Null() if ordered is None else ordered
    return _body(call, function, context) if function.kind is FunctionKind.SQL else None


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

    result = _cast(exp.Paren(this=rewritten(parsed(function.target), value)), function.returns)
    span = span_of(call)
    if span is not None:
        mark(node_of(result), span.start, span.end)
    return result


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


def _in_order(call: exp.Anonymous, function: Function, context: Context) -> exp.Expr | None:
    """The call with ``name => value`` in the places of the parameters. SS207."""
    names = [name.casefold() for name, _ in function.parameters]
    values: dict[str, exp.Expr] = {}
    for position, argument in enumerate(call.expressions):
        named = isinstance(argument, exp.Kwarg)
        if not named and (position >= len(names) or names[position] in values):
            context.report(bind_error("SS207", "an argument by position cannot follow a named one", argument))
            return None
        name = argument.this.name.casefold() if named else names[position]
        if name not in names or name in values:
            twice = name in values
            message = f'argument "{argument.this.name}" of "{function.name}" is given twice' if twice else (
                f'"{function.name}" has no argument "{argument.this.name}"'
            )  # fmt: skip
            hint = None if twice else did_you_mean(name, [n for n, _ in function.parameters], "arguments")
            context.report(bind_error("SS207", message, argument, hint))
            return None
        values[name] = argument.expression if named else argument
    return _filled(call, function, names, values, context)


def _filled(
    call: exp.Anonymous, function: Function, names: list[str], values: dict[str, exp.Expr], context: Context
) -> exp.Expr | None:
    """Defaults of the parameters before the last one that is given are written out."""
    defaults = {name.casefold(): text for name, text in function.defaults}
    last = max(names.index(name) for name in values)
    ordered: list[exp.Expr] = []
    for name in names[: last + 1]:
        if name not in values and name not in defaults:
            context.report(bind_error("SS207", f'"{function.name}" needs the argument "{name}"', call))
            return None
        ordered.append(values[name].copy() if name in values else parsed(defaults[name]).copy())
    copy = exp.Anonymous(this=call.this, expressions=ordered)
    span = span_of(call)
    if span is not None:
        mark(copy, span.start, span.end)
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
