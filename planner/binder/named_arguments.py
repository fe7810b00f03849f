"""Arguments by name, ``f(b => 1, a => 2)``, put into the order of the parameters. Functions of Spark that take names
have theirs here, those of users in the catalog (``sql_functions``); all others are refused by ``_Binder`` (SS338).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.rewriting import over_children, own_expressions, rewritten
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.planner.type_inference import call_arguments

WRONG_ARGUMENTS = "SS207"

Parameters = Mapping[str, exp.Expr | None]
"""The names of parameters, with their defaults; None: an argument must be given."""

_BUILTIN: Mapping[str, Parameters] = {
    **{name: {"collection": None} for name in ("explode", "explode_outer", "posexplode", "posexplode_outer")},
    **{name: {"input": None} for name in ("inline", "inline_outer")},
    "mask": {
        "str": None,
        "upperChar": exp.Literal.string("X"),
        "lowerChar": exp.Literal.string("x"),
        "digitChar": exp.Literal.string("n"),
        "otherChar": exp.Null(),
    },
    "count_min_sketch": dict.fromkeys(("column", "epsilon", "confidence", "seed")),
}
"""Those of functions of Spark."""


def with_positions(select: exp.Select, context: Context) -> exp.Select:
    """The SELECT whose calls have their arguments by position. BindError SS207 for names that do not fit."""
    if not any(isinstance(node, exp.Kwarg) for node in own_expressions(select)):
        return select
    positional = over_children(select, lambda child: rewritten(child, lambda node: _positional(node, context)))
    assert isinstance(positional, exp.Select)
    return positional


def _positional(node: exp.Expr, context: Context) -> exp.Expr:
    if not isinstance(node, exp.Func) or not has_names(node):
        return node
    name = node.name if isinstance(node, exp.Anonymous) else (spark_name(node) or "")
    parameters = _BUILTIN.get(spark_name(node) or "")
    if parameters is None or context.catalog.function(name) is not None:
        return node
    ordered = in_order(node, name, parameters)
    arguments = [rewritten(argument, lambda inner: _positional(inner, context)) for argument in ordered]
    copy = node.copy()
    if isinstance(node, exp.Anonymous):
        copy.set("expressions", arguments)
    else:
        copy.set("this", arguments[0])
    mark_as(copy, node)
    return copy


def has_names(call: exp.Func) -> bool:
    """True where an argument is given by name."""
    return any(isinstance(argument, exp.Kwarg) for argument in call_arguments(call))


def in_order(call: exp.Func, name: str, parameters: Parameters) -> list[exp.Expr]:
    """The values of a call in the order of the parameters, with defaults where others follow. BindError SS207."""
    values = _by_parameter(call, name, parameters)
    last = max(position for position, parameter in enumerate(parameters) if parameter in values)
    ordered: list[exp.Expr] = []
    for parameter in [*parameters][: last + 1]:
        value = values.get(parameter, parameters[parameter])
        if value is None:
            raise bind_error(WRONG_ARGUMENTS, f'function "{name}" needs the argument "{parameter}"', call)
        ordered.append(value.copy())
    return ordered


def _by_parameter(call: exp.Func, name: str, parameters: Parameters) -> dict[str, exp.Expr]:
    values: dict[str, exp.Expr] = {}
    named = False
    for position, argument in enumerate(call_arguments(call)):
        named = named or isinstance(argument, exp.Kwarg)
        if named and not isinstance(argument, exp.Kwarg):
            raise bind_error(WRONG_ARGUMENTS, "an argument by position cannot follow a named one", argument)
        if not named and position >= len(parameters):
            message = f'function "{name}" takes at most {counted(len(parameters), "argument")}'
            raise bind_error(WRONG_ARGUMENTS, message, argument)
        parameter = _parameter(argument, name, parameters) if named else [*parameters][position]
        if parameter in values:
            message = f'argument "{parameter}" of function "{name}" is given twice'
            raise bind_error(WRONG_ARGUMENTS, message, argument)
        values[parameter] = argument.expression if isinstance(argument, exp.Kwarg) else argument
    return values


def _parameter(argument: exp.Expr, name: str, parameters: Parameters) -> str:
    given = argument.this.name
    parameter = next((known for known in parameters if known.casefold() == given.casefold()), None)
    if parameter is None:
        raise _no_argument(argument, name, given, parameters)
    return parameter


def _no_argument(argument: exp.Expr, name: str, given: str, parameters: Parameters) -> BindError:
    hint = did_you_mean(given, parameters, "arguments")
    return bind_error(WRONG_ARGUMENTS, f'function "{name}" has no argument "{given}"', argument, hint)
