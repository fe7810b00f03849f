"""How a parsed call is named in Spark, and what to write for a function that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.functions.elsewhere import instead_of
from sqlstream.grammar.calls import JsonCall
from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner.suggestions import one_of_many

# Wrappers around one aggregate call that belong to it.
AGGREGATE_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

_ALL = "SHOW FUNCTIONS lists all there are; CREATE FUNCTION adds one in Python."
_CALL = re.compile(r"`?(\w+)`?(?:\(|$)")


def hint_for(name: str, users: Iterable[str]) -> str:
    """Returns the hint for an unknown function ``name``: the function with the same meaning in this dialect, else one
    with a similar name (also among ``users``, the names of users' functions), else where all functions are listed.
    """
    return instead_of(name) or one_of_many(name, [*FUNCTIONS, *users]) or _ALL


def spark_name(call: exp.Expr) -> str | None:
    """The lower-case name of a call in Spark; None for operators and special forms."""
    if isinstance(call, exp.Anonymous | JsonCall):
        return call.name.lower()
    # Operators such as RLIKE are functions to sqlglot, and print their left operand first.
    if not isinstance(call, exp.Func) or isinstance(call, (exp.Binary, exp.Case, exp.Cast)):
        return None
    name_of_type = _NAMES_OF_TYPES.get(type(call))
    if name_of_type is not None:
        return name_of_type
    match = _CALL.match(_outline(call, 2).sql(SqlStream))
    return match[1].lower() if match else None


# How these print, whatever their arguments are.
_NAMES_OF_TYPES: dict[type[exp.Expr], str] = {
    exp.Avg: "avg", exp.Coalesce: "coalesce", exp.Count: "count", exp.If: "if", exp.Max: "max", exp.Min: "min",
    exp.Sum: "sum",
}  # fmt: skip


def _outline(node: exp.Expr, levels: int) -> exp.Expr:
    """The node with so many levels of what is inside: all of it would be printed again for each call around it."""

    def inside(value: object) -> object:
        if not isinstance(value, exp.Expr):
            return value
        return _outline(value, levels - 1) if levels else exp.Null()

    copy = type(node)()
    for key, value in node.args.items():
        copy.set(key, [inside(v) for v in value] if isinstance(value, list) else inside(value))
    return copy
