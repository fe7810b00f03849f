"""Comparisons with ANY, SOME and ALL in words that Spark and the binder know: of a list, comparisons with OR or AND,
of a subquery IN or NOT IN. Others are refused (SS355), as Flink and Spark do.
"""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from sqlstream.grammar.spans import mark_as
from sqlstream.planner.rewriting import over_children, own_expressions, rewritten

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def without_quantifiers(select: exp.Select) -> exp.Select:
    """The SELECT without those comparisons with ANY, SOME and ALL that have other words."""
    if not any(isinstance(node, _COMPARISONS) and _quantifier(node) for node in own_expressions(select)):
        return select
    plain = over_children(select, lambda child: rewritten(child, _spelled))
    assert isinstance(plain, exp.Select)
    return plain


def spelled_out(node: exp.Expr) -> exp.Expr:
    """A comparison of such a kind in other words; any other expression itself."""
    if not isinstance(node, _COMPARISONS) or (quantifier := _quantifier(node)) is None:
        return node
    is_all, values = quantifier
    plain = _of_subquery(node, values[0], is_all) if _is_query(values[0]) else _of_list(node, values, is_all)
    if plain is not node:
        mark_as(plain, node)
    return plain


def _spelled(node: exp.Expr) -> exp.Expr:
    plain = spelled_out(node)
    return node if plain is node else over_children(plain, lambda child: rewritten(child, _spelled))


def _quantifier(node: exp.Expr) -> tuple[bool, list[exp.Expr]] | None:
    """Whether all comparisons must hold, and what is compared; None where no quantifier stands on the right side."""
    match node.expression:
        case exp.Any(this=inner) | exp.All(this=inner):
            if isinstance(inner, exp.Tuple):
                return isinstance(node.expression, exp.All), list(inner.expressions)
            return (isinstance(node.expression, exp.All), [inner]) if _is_query(inner) else None
        case exp.Anonymous(expressions=[first, *others]) as call if call.name.upper() in ("ALL", "SOME"):
            return (call.name.upper() == "ALL", [first, *others]) if others or _is_query(first) else None
    return None


def _is_query(value: exp.Expr) -> bool:
    return isinstance(value, exp.Query | exp.Values)


def _of_subquery(node: exp.Expr, query: exp.Expr, is_all: bool) -> exp.Expr:
    if not (isinstance(node, exp.NEQ) if is_all else isinstance(node, exp.EQ)):
        return node
    inner = query.copy()
    values = inner.this if isinstance(inner, exp.Subquery) else inner
    if isinstance(values, exp.Values):
        membership = exp.In(this=node.this.copy(), expressions=[values])
    else:
        membership = exp.In(
            this=node.this.copy(), query=inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner)
        )
    mark_as(membership, node)
    return exp.Not(this=membership) if is_all else membership


def _of_list(node: exp.Expr, values: list[exp.Expr], is_all: bool) -> exp.Expr:
    joined = exp.And if is_all else exp.Or
    comparisons: list[exp.Expr] = [type(node)(this=node.this.copy(), expression=value.copy()) for value in values]
    return exp.Paren(this=reduce(lambda a, b: joined(this=a, expression=b), comparisons))
