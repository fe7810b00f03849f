"""Which calls become typed nodes of sqlglot.

sqlglot rewrites many functions on the way through its tree (``DATE_SUB(a, b)`` prints as ``DATE_ADD(a, b * -1)``,
``LOG10`` as ``LOG(10, …)``). Spark knows its own functions best, so a call stays ``exp.Anonymous`` and prints exactly
as it was written, except the few whose node the planner looks for and whose printing changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

from sqlstream.functions.builtin import Builtin
from sqlstream.functions.catalogue import FUNCTIONS

Builder = Callable[[list[Any]], exp.Expr]


def _exactly_one(function: Builtin) -> Builder:
    """The typed node for one argument; with another number the call stays as written, for the binder to judge."""
    name = function.name.upper()
    kind = getattr(exp, function.node or "")
    return lambda args: kind(this=args[0]) if len(args) == 1 else exp.Anonymous(this=name, expressions=args)


def _without_arguments(name: str, kind: type[exp.Func]) -> Builder:
    """``CURRENT_TIMESTAMP()`` is ``CURRENT_TIMESTAMP``."""
    return lambda args: exp.Anonymous(this=name, expressions=args) if args else kind()


def _collect_list(args: list[Any]) -> exp.Expr:
    if len(args) != 1 or isinstance(args[0], exp.Order):  # sqlglot would not print the order
        return exp.Anonymous(this="COLLECT_LIST", expressions=args)
    return exp.ArrayAgg(this=args[0], nulls_excluded=True)


_UNITS = frozenset({
    "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "DAYOFYEAR", "WEEK", "MONTH", "QUARTER", "YEAR",
})  # fmt: skip


def _unit_first(name: str) -> Builder:
    """``TIMESTAMPDIFF(DAY, a, b)``: of three arguments the first is a unit, not a column."""

    def call(args: list[Any]) -> exp.Expr:
        match args:
            case [exp.Column(table="", this=exp.Identifier(quoted=False) as unit), _, _] if unit.name.upper() in _UNITS:
                args = [exp.Var(this=unit.name.upper()), *args[1:]]
        return exp.Anonymous(this=name, expressions=args)

    return call


def _array(args: list[Any]) -> exp.Expr:
    return exp.Array(expressions=args)


BUILDERS: dict[str, Builder] = {
    **{
        name.upper(): _exactly_one(function)
        for name, function in FUNCTIONS.items()
        if function.node and not function.alias_of
    },
    **{name.upper(): _unit_first(name.upper()) for name, function in FUNCTIONS.items() if function.unit_first},
    "ARRAY": _array,
    "COALESCE": exp.Coalesce.from_arg_list,
    "COLLECT_LIST": _collect_list,
    "COUNT": exp.Count.from_arg_list,
    "CURRENT_DATE": _without_arguments("CURRENT_DATE", exp.CurrentDate),
    "CURRENT_TIMESTAMP": _without_arguments("CURRENT_TIMESTAMP", exp.CurrentTimestamp),
    "GROUP_ID": lambda args: exp.Anonymous(this="GROUP_ID" if args else "GROUPING_ID", expressions=args),
    "ROW": lambda args: exp.Anonymous(this="STRUCT", expressions=args),  # Flink's row constructor
}

_TOKENS = {"FROM": TokenType.FROM, "IN": TokenType.IN}

ALIASED_ARGUMENTS = frozenset({"STRUCT"})

KEYWORDS: dict[str, TokenType | str] = {
    f.name.upper(): _TOKENS.get(f.keyword, f.keyword) for f in FUNCTIONS.values() if f.keyword is not None
}
"""Calls with keywords between their arguments; without the keyword they are ordinary calls."""

SPECIAL_FORMS: dict[str, Callable[[Any], Any]] = {
    "CAST": SparkParser.FUNCTION_PARSERS["CAST"],
    "TRY_CAST": SparkParser.FUNCTION_PARSERS["TRY_CAST"],
    **{name: SparkParser.FUNCTION_PARSERS[name] for name in KEYWORDS},
}
