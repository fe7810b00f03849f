"""Constant parts of expressions, computed where SQL's NULLs, types and overflows cannot make a difference."""

from __future__ import annotations

import operator
from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.fields import Item
from sqlstream.planner.rewriting import node_of, over_children

_INT_LIMIT = 2**31
_INT_DIGITS = 10

_ARITHMETIC = {exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul}
_COMPARISONS = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def folded_item(item: Item) -> Item:
    return replace(item, expression=folded(item.expression))


def folded(expression: exp.Expr) -> exp.Expression:
    """A copy with constant parts computed."""
    return node_of(_fold(over_children(expression, folded)))


def _fold(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Paren(this=exp.Column() | exp.Literal() | exp.Boolean() | exp.Paren() as inner):
            return inner
        case exp.Not(this=exp.Boolean() as inner):
            return exp.Boolean(this=not inner.this)
        case exp.And() | exp.Or():
            return _logic(node)
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(node)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison(node)
    return node


def _logic(node: exp.Connector) -> exp.Expr:
    """``x AND TRUE`` is x and ``x AND FALSE`` is FALSE, also for NULL; OR the other way round."""
    neutral = isinstance(node, exp.And)
    if is_boolean(node.left, neutral):
        return node.right
    if is_boolean(node.right, neutral):
        return node.left
    if is_boolean(node.left, not neutral) or is_boolean(node.right, not neutral):
        return exp.Boolean(this=not neutral)
    return node


def _arithmetic(node: exp.Binary) -> exp.Expr:
    """Of two INT literals whose result is an INT, so that neither the type nor an overflow error changes."""
    values = _integers(node)
    if values is None:
        return node
    result = _ARITHMETIC[type(node)](*values)
    if not -_INT_LIMIT < result < _INT_LIMIT:
        return node
    literal = exp.Literal.number(abs(result))
    return exp.Neg(this=literal) if result < 0 else literal


def _comparison(node: exp.Binary) -> exp.Expr:
    values = _integers(node)
    return node if values is None else exp.Boolean(this=_COMPARISONS[type(node)](*values))


def _integers(node: exp.Binary) -> tuple[int, int] | None:
    left, right = _integer(node.left), _integer(node.right)
    return None if left is None or right is None else (left, right)


def _integer(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _integer(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        digits = node.name.lstrip("0") or "0"  # Python reads no number of thousands of digits
        return value if len(digits) <= _INT_DIGITS and (value := int(digits)) < _INT_LIMIT else None
    return None


def is_boolean(node: exp.Expr, value: bool) -> bool:
    return isinstance(node, exp.Boolean) and node.this is value
