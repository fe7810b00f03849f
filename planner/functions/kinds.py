"""Which functions exist, by kind, and how a parsed call is named in Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from sqlglot import exp

from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.elsewhere import instead_of
from sqlstream.grammar.json_calls import JsonCall
from sqlstream.planner.functions import flink_names, spark_names
from sqlstream.planner.suggestions import one_of_many


class SparkFunctionKind(Enum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    GENERATOR = "generator"
    WINDOW = "window"
    TABLE = "table"


# Forms of Spark's grammar that look like calls and that SHOW FUNCTIONS does not list.
_SYNTAX = frozenset({"cast", "try_cast", "timestampadd", "timestampdiff", "trim", "exists", "filter", "any", "all"})

_KINDS: dict[str, SparkFunctionKind] = {
    **dict.fromkeys(spark_names.SCALAR | _SYNTAX, SparkFunctionKind.SCALAR),
    **dict.fromkeys(spark_names.AGGREGATE, SparkFunctionKind.AGGREGATE),
    **dict.fromkeys(spark_names.GENERATOR, SparkFunctionKind.GENERATOR),
    **dict.fromkeys(spark_names.WINDOW, SparkFunctionKind.WINDOW),
    **dict.fromkeys(spark_names.TABLE, SparkFunctionKind.TABLE),
    **dict.fromkeys(flink_names.SCALAR, SparkFunctionKind.SCALAR),
    **dict.fromkeys(flink_names.AGGREGATE, SparkFunctionKind.AGGREGATE),
}

# Wrappers around one aggregate call that belong to it.
AGGREGATE_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

_ALL = "SHOW FUNCTIONS lists all there are; CREATE FUNCTION adds one in Python."
_CALL = re.compile(r"`?(\w+)`?(?:\(|$)")


def names() -> frozenset[str]:
    return frozenset(_KINDS)


def callable_functions() -> dict[str, SparkFunctionKind]:
    """Those that an expression may call; the others need OVER, or stand in FROM."""
    kinds = (SparkFunctionKind.SCALAR, SparkFunctionKind.AGGREGATE, SparkFunctionKind.GENERATOR)
    return {name: kind for name, kind in _KINDS.items() if kind in kinds}


def kind_of(name: str) -> SparkFunctionKind | None:
    """The kind of the function of Spark, or of Flink, of that name; None where there is none."""
    return _KINDS.get(name.lower())


def hint_for(name: str, users: Iterable[str]) -> str:
    """What to write for a function that does not exist: by meaning, else a name that is spelled nearly so."""
    return instead_of(name) or one_of_many(name, [*names(), *users]) or _ALL


def spark_name(call: exp.Expr) -> str | None:
    """The lower-case name under which Spark knows a call; None for operators and special forms."""
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
