"""Arguments by name, ``f(b => 1, a => 2)``, put into the order of the parameters: those of functions of Spark that take
names. Spark refuses them for all others, and so does ``_Binder`` (SS338); users' functions are bound in
``sql_functions``.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.functions.kinds import spark_name
from sqlstream.planner.rewriting import over_children, own_expressions, rewritten
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.type_inference import call_arguments

WRONG_ARGUMENTS = "SS207"

_REQUIRED = ""
_BUILTIN: Mapping[str, Mapping[str, str]] = {
    **{name: {"collection": _REQUIRED} for name in ("explode", "explode_outer", "posexplode", "posexplode_outer")},
    **{name: {"input": _REQUIRED} for name in ("inline", "inline_outer")},
    "mask": {"str": _REQUIRED, "upperChar": "'X'", "lowerChar": "'x'", "digitChar": "'n'", "otherChar": "NULL"},
    "count_min_sketch": dict.fromkeys(("column", "epsilon", "confidence", "seed"), _REQUIRED),
}
"""The parameters of functions of Spark, with their defaults as SQL."""


def with_positions(select: exp.Select, context: Context) -> exp.Select:
    """The SELECT whose calls have their arguments by position. BindError SS207 for names that do not fit."""
    if not any(isinstance(node, exp.Kwarg) for node in own_expressions(select)):
        return select
    positional = over_children(select, lambda child: rewritten(child, lambda node: _positional(node, context)))
    assert isinstance(positional, exp.Select)
    return positional


def _positional(node: exp.Expr, context: Context) -> exp.Expr:
    if not isinstance(node, exp.Func) or not any(isinstance(a, exp.Kwarg) for a in call_arguments(node)):
        return node
    parameters = _BUILTIN.get(spark_name(node) or "")
    if parameters is None or context.catalog.function(_name(node)) is not None:
        return node
    arguments = [rewritten(a, lambda inner: _positional(inner, context)) for a in _ordered(node, parameters)]
    copy = node.copy()
    if isinstance(node, exp.Anonymous):
        copy.set("expressions", arguments)
    else:
        copy.set("this", arguments[0])
    mark_as(copy, node)
    return copy


def _ordered(call: exp.Func, parameters: Mapping[str, str]) -> list[exp.Expr]:
    """The values in the order of the parameters, with defaults where others follow."""
    names, given = {name.casefold(): name for name in parameters}, dict[str, exp.Expr]()
    for position, argument in enumerate(call_arguments(call)):
        if not isinstance(argument, exp.Kwarg):
            if len(given) < position or position >= len(parameters) or given.keys() - [*parameters][:position]:
                raise _wrong("by position stand before those by name", argument, call)
            given[[*parameters][position]] = argument
            continue
        name = names.get(argument.this.name.casefold())
        if name is None:
            message = f'function "{_name(call)}" has no argument "{argument.this.name}"'
            hint = did_you_mean(argument.this.name, parameters, "arguments")
            raise bind_error(WRONG_ARGUMENTS, message, argument, hint)
        if name in given:
            raise _wrong(f'name "{name}" twice', argument, call)
        given[name] = argument.expression
    last = max(i for i, name in enumerate(parameters) if name in given)
    values = []
    for name in [*parameters][: last + 1]:
        if name not in given and parameters[name] == _REQUIRED:
            raise _wrong(f'lack "{name}"', call, call)
        values.append(given[name] if name in given else exp.maybe_parse(parameters[name]))
    return values


def _wrong(what: str, at: exp.Expr, call: exp.Func) -> Exception:
    return bind_error(WRONG_ARGUMENTS, f'the arguments of function "{_name(call)}" {what}', at)


def _name(call: exp.Func) -> str:
    return call.name if isinstance(call, exp.Anonymous) else (spark_name(call) or "")
