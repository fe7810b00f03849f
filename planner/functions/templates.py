"""Expressions written as SQL with ``p1``, ``p2``, … in place of operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from sqlglot import exp

from sqlstream.grammar import parse_query
from sqlstream.planner.expressions import as_expression, parenthesized


@cache
def _parsed(template: str) -> exp.Expr:
    expression: exp.Expr
    (expression,) = parse_query(f"SELECT {template}").expressions
    for node in expression.walk():
        node._meta = None  # places in the template are none of the script
    return expression


def filled(template: str, *operands: exp.Expr) -> exp.Expression:
    """The expression of the template over the operands, in parentheses where they need them."""
    values = {f"p{i}": operand for i, operand in enumerate(operands, 1)}

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name in values:
            return parenthesized(as_expression(values[node.name].copy()))
        return node

    return as_expression(_parsed(template).copy().transform(replaced, copy=False))


def text(value: str) -> exp.Expression:
    """A string literal."""
    return exp.Literal.string(value)


def called(name: str, *arguments: exp.Expr) -> exp.Expression:
    """A function of the arguments that makes a call of ``name``."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def with_value(value: exp.Expr, name: str, body: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The body over a value that is computed once, by the name of a lambda's variable."""
    if isinstance(value, exp.Column | exp.Literal):
        return body(value)
    variable = exp.to_identifier(name)
    function = exp.Lambda(this=body(exp.column(variable.copy())), expressions=[variable])
    return called("GET", called("TRANSFORM", called("ARRAY", value), function), exp.Literal.number(0))


def case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None = None) -> exp.Expression:
    """``CASE WHEN … THEN … ELSE default END``."""
    made = exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in branches])
    if default is not None:
        made.set("default", default)
    return made
