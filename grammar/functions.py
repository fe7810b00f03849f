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

Builder = Callable[[list[Any]], exp.Expr]

_ONE_ARGUMENT: dict[str, type[exp.Func]] = {
    "AVG": exp.Avg,
    "COLLECT_SET": exp.ArrayUniqueAgg,
    "EXPLODE": exp.Explode,
    "MAX": exp.Max,
    "MIN": exp.Min,
    "SUM": exp.Sum,
}


def _exactly_one(name: str, kind: type[exp.Func]) -> Builder:
    """The typed node for one argument; with another number the call stays as written, for the binder to judge."""
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
    **{name: _exactly_one(name, kind) for name, kind in _ONE_ARGUMENT.items()},
    **{name: _unit_first(name) for name in ("DATEADD", "DATEDIFF", "DATE_ADD", "DATE_DIFF")},
    **{name: _unit_first(name) for name in ("TIMESTAMPADD", "TIMESTAMPDIFF")},
    "ARRAY": _array,
    "COALESCE": exp.Coalesce.from_arg_list,
    "COLLECT_LIST": _collect_list,
    "COUNT": exp.Count.from_arg_list,
    "CURRENT_DATE": _without_arguments("CURRENT_DATE", exp.CurrentDate),
    "CURRENT_TIMESTAMP": _without_arguments("CURRENT_TIMESTAMP", exp.CurrentTimestamp),
    "GROUP_ID": lambda args: exp.Anonymous(this="GROUP_ID" if args else "GROUPING_ID", expressions=args),
    "ROW": lambda args: exp.Anonymous(this="STRUCT", expressions=args),  # Flink's row constructor
}

ALIASED_ARGUMENTS = frozenset({"STRUCT"})

# Calls with keywords between their arguments; without the keyword they are ordinary calls.
KEYWORDS: dict[str, TokenType | str] = {
    "EXTRACT": TokenType.FROM,
    "OVERLAY": "PLACING",
    "POSITION": TokenType.IN,
    "SUBSTR": TokenType.FROM,
    "SUBSTRING": TokenType.FROM,
    "TRIM": TokenType.FROM,
}

SPECIAL_FORMS: dict[str, Callable[[Any], Any]] = {
    "CAST": SparkParser.FUNCTION_PARSERS["CAST"],
    "TRY_CAST": SparkParser.FUNCTION_PARSERS["TRY_CAST"],
    **{name: SparkParser.FUNCTION_PARSERS[name] for name in KEYWORDS},
}
