"""Operands that cannot go together, as far as that is certain without Spark."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner.binder.context import Context
from sqlstream.planner.functions.coercion import incompatible
from sqlstream.planner.functions.kinds import spark_name
from sqlstream.planner.functions.patterns import misused_escape
from sqlstream.planner.type_inference import Types, call_arguments
from sqlstream.types import BOOLEAN, from_sqlglot

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_TEXT_AS_TIME = frozenset({"to_timestamp_ltz", "to_timestamp_ntz"})
_NAMES = {exp.And: "AND", exp.Or: "OR", exp.Not: "NOT"}


def check_operands(bound: exp.Expr, types: Types, context: Context) -> None:
    """SS206 for conditions that are no conditions and comparisons of what cannot be compared, SS235 for LIKE."""
    for node in bound.walk():
        match node:
            case exp.And() | exp.Or():
                _check_condition(_NAMES[type(node)], node.left, types, context)
                _check_condition(_NAMES[type(node)], node.right, types, context)
            case exp.Not():
                _check_condition("NOT", node.this, types, context)
            case exp.Case() if node.this is None:
                for branch in node.args["ifs"]:
                    _check_condition("WHEN", branch.this, types, context)
            case exp.Cast():
                _check_type(node.to, context)
            case exp.Distinct(expressions=[]):
                context.wrong("SS207", "DISTINCT needs a value", node.parent, "Write COUNT(DISTINCT a).")
        if isinstance(node, _COMPARISONS):
            _check_comparison(node, types, context)
        elif isinstance(node, exp.Func | exp.Like | exp.ILike):
            _check_call(node, types, context)


def _check_condition(clause: str, operand: exp.Expr, types: Types, context: Context) -> None:
    found = types.of(operand)
    # Spark reads strings such as 'true' as conditions.
    if found == BOOLEAN or found.is_unknown or found.name in ("VOID", "STRING"):
        return
    message = f"{clause} needs a condition of type BOOLEAN, not {found}"
    context.wrong("SS206", message, operand, "Compare the value, as in a > 0.")


def _check_type(target: exp.DataType, context: Context) -> None:
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


def _check_call(node: exp.Expr, types: Types, context: Context) -> None:
    if isinstance(node, exp.Func) and spark_name(node) in _TEXT_AS_TIME:
        _check_text_as_time(node, types, context)
    else:
        _check_like(node, context)


def _check_like(node: exp.Expr, context: Context) -> None:
    found = misused_escape(node)
    if found is not None:
        where = f'stands before "{found.behind}"' if found.behind else "stands at the end of the pattern"
        hint = f"It goes before %, _ and itself only: write {found.better} where it means itself."
        context.wrong("SS235", f"the escape character of LIKE {where}", found.pattern, hint)


def _check_text_as_time(call: exp.Func, types: Types, context: Context) -> None:
    """Flink's TO_TIMESTAMP_LTZ takes numbers, Spark's function of that name takes text."""
    arguments = call_arguments(call)
    found = types.of(arguments[0]) if arguments else None
    if found is not None and found.is_numeric:
        hint = "Write TIMESTAMP_MILLIS(n) or TIMESTAMP_SECONDS(n) for a number since 1970."
        context.wrong("SS206", f"{(spark_name(call) or '').upper()} needs a text, not {found}", call, hint)
