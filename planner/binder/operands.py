"""Operands that cannot go together, as far as that is certain without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from sqlstream.functions.coercion import incompatible
from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner.binder.context import Context
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.functions.patterns import misused_escape
from sqlstream.planner.type_inference import Types, call_arguments, member_type
from sqlstream.types import BOOLEAN, from_sqlglot

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_TEXT_AS_TIME = frozenset({"to_timestamp_ltz", "to_timestamp_ntz"})
_NESTED = ("ARRAY", "MAP", "STRUCT")
_NEVER_CALCULATED = (*_NESTED, "BOOLEAN", "BINARY", "VARIANT")
_NAMES = {exp.And: "AND", exp.Or: "OR", exp.Not: "NOT"}


def check_operands(bound: exp.Expr, types: Types, context: Context) -> None:
    """SS206 for conditions that are no conditions, and for values that do not go together; SS235 for LIKE."""
    for node in bound.walk():
        for kinds, check in _CHECKS:
            if isinstance(node, kinds):
                check(node, types, context)


def _check_conditions(node: exp.Expr, types: Types, context: Context) -> None:
    match node:
        case exp.And() | exp.Or():
            _check_condition(_NAMES[type(node)], node.left, types, context)
            _check_condition(_NAMES[type(node)], node.right, types, context)
        case exp.Not():
            _check_condition("NOT", node.this, types, context)
        case exp.Is(expression=exp.Boolean()):
            _check_condition("IS", node.this, types, context)
        case exp.Case() if node.this is None:
            for branch in node.args["ifs"]:
                _check_condition("WHEN", branch.this, types, context)


def _check_distinct(node: exp.Distinct, types: Types, context: Context) -> None:
    if not node.expressions:
        context.wrong("SS207", "DISTINCT needs a value", node.parent, "Write COUNT(DISTINCT a).")


def _check_condition(clause: str, operand: exp.Expr, types: Types, context: Context) -> None:
    kind = types.of(operand)
    # Spark reads strings such as 'true' as conditions.
    if kind == BOOLEAN or kind.is_unknown or kind.name in ("VOID", "STRING"):
        return
    message = f"{clause} needs a condition of type BOOLEAN, not {kind}"
    context.wrong("SS206", message, operand, "Compare the value, as in a > 0.")


def _check_type(node: exp.Cast, types: Types, context: Context) -> None:
    target = node.to
    defect = from_sqlglot(target).defect
    if defect is not None:
        context.wrong("SS206", f"type {target.sql(SqlStream)} {defect}", target)


def _check_comparison(node: exp.Binary, types: Types, context: Context) -> None:
    left, right = types.of(node.left), types.of(node.right)
    # Spark casts a string to the type of the other side.
    if "STRING" in (left.name, right.name) or not incompatible(left, right):
        return
    context.wrong(
        "SS206", f"values of type {left} and {right} cannot be compared", node, "Convert one of them with CAST."
    )


def _check_like(node: exp.Expr, types: Types, context: Context) -> None:
    misuse = misused_escape(node)
    if misuse is not None:
        where = f'stands before "{misuse.behind}"' if misuse.behind else "stands at the end of the pattern"
        hint = f"It goes before %, _ and itself only: write {misuse.better} where it means itself."
        context.wrong("SS235", f"the escape character of LIKE {where}", misuse.pattern, hint)


def _check_text_as_time(call: exp.Func, types: Types, context: Context) -> None:
    """Flink's TO_TIMESTAMP_LTZ takes numbers, Spark's function of that name takes text."""
    if spark_name(call) not in _TEXT_AS_TIME:
        return
    arguments = call_arguments(call)
    kind = types.of(arguments[0]) if arguments else None
    if kind is not None and kind.is_numeric:
        hint = "Write TO_TIMESTAMP_LTZ(n, 3) for milliseconds since 1970, TO_TIMESTAMP_LTZ(n, 0) for seconds."
        context.wrong("SS206", f"{(spark_name(call) or '').upper()} needs a text, not {kind}", call, hint)


def _check_arithmetic(node: exp.Expr, types: Types, context: Context) -> None:
    operands = [node.this] if isinstance(node, exp.Neg) else [node.this, node.expression]
    kinds = [types.of(operand) for operand in operands]
    wrong = [kind for kind in kinds if kind.name in _NEVER_CALCULATED]
    if wrong:
        context.wrong("SS206", f"a value of type {wrong[0]} is no number", node, "Convert it, as in CAST(x AS INT).")
    elif [kind.name for kind in kinds] == ["STRING", "STRING"]:
        hint = "Write a || b for a text of both, or convert one of them, as in CAST(x AS INT)."
        context.wrong("SS206", "two texts cannot be calculated with", node, hint)
    elif any(kind.is_timestamp for kind in kinds) and any(kind.is_numeric for kind in kinds):
        hint = "Write ts + INTERVAL '1' SECOND."
        context.wrong("SS206", "a timestamp and a number cannot be calculated with", node, hint)


def _check_text(node: exp.Expr, types: Types, context: Context) -> None:
    kind = types.of(node.this)
    if kind.name in _NESTED:
        context.wrong("SS206", f"a pattern needs a text, not {kind}", node.this)


def _check_container(node: exp.Bracket, types: Types, context: Context) -> None:
    kind = types.of(node.this)
    if not (kind.is_unknown or kind.name in (*_NESTED, "VARIANT", "VOID")):
        context.wrong("SS206", f"a value of type {kind} has no elements", node, "Brackets read from arrays and maps.")
    key = node.expressions[0] if node.expressions else None
    if kind.name == "STRUCT" and isinstance(key, exp.Literal) and member_type(kind, key.name).is_unknown:
        context.wrong("SS206", f'a value of type {kind} has no field "{key.name}"', key)


def _check_candidates(node: exp.Expr, types: Types, context: Context) -> None:
    """The values of IN and BETWEEN, which are compared with the one before."""
    kind = types.of(node.this)
    candidates = node.expressions if isinstance(node, exp.In) else [node.args["low"], node.args["high"]]
    for candidate in candidates:
        other = types.of(candidate)
        if "STRING" not in (kind.name, other.name) and incompatible(kind, other):
            message = f"values of type {kind} and {other} cannot be compared"
            context.wrong("SS206", message, node, "Convert one of them with CAST.")
            return


def _check_cast(node: exp.Cast, types: Types, context: Context) -> None:
    """A nested type comes from one of its own kind; everything becomes a text."""
    source, target = types.of(node.this), from_sqlglot(node.to)
    nested = [kind for kind in (source, target) if kind.name in _NESTED]
    free = source.is_unknown or target.is_unknown or {"VOID", "VARIANT"} & {source.name, target.name}
    if nested and not free and source.name != target.name and target.name != "STRING":
        context.wrong("SS206", f"a value of type {source} cannot be converted to {target}", node)
    elif target.name == "VOID":
        context.wrong("SS206", "nothing can be converted to VOID", node, "Write NULL.")


_CHECKS: tuple[tuple[Any, Callable[..., None]], ...] = (
    ((exp.And, exp.Or, exp.Not, exp.Is, exp.Case), _check_conditions),
    (exp.Cast, _check_type),
    (exp.Cast, _check_cast),
    (exp.Distinct, _check_distinct),
    (_COMPARISONS, _check_comparison),
    ((exp.In, exp.Between), _check_candidates),
    ((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg), _check_arithmetic),
    ((exp.Like, exp.ILike, exp.RegexpLike), _check_text),
    (exp.Bracket, _check_container),
    (exp.Func, _check_text_as_time),
    ((exp.Func, exp.Like, exp.ILike), _check_like),
)
"""By kind of expression what is looked at."""
