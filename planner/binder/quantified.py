"""Comparisons with ANY, SOME and ALL in words that Spark and the binder know: of a list, comparisons with OR or AND,
of a subquery IN or NOT IN, or comparisons with its least and greatest value. Those of an array are refused (SS355), as
Flink and Spark do. SINGLE_VALUE is spelled out beside them.
"""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from sqlstream.grammar.spans import mark_as
from sqlstream.planner.expressions import fitted, node_of, over_children, own_expressions, rewritten
from sqlstream.planner.functions.templates import filled

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def without_quantifiers(select: exp.Select) -> exp.Select:
    """The SELECT without those comparisons with ANY, SOME and ALL that have other words."""
    if not any(_is_spelled_out(node) for node in own_expressions(select)):
        return select
    plain = over_children(select, lambda child: rewritten(child, _spelled))
    assert isinstance(plain, exp.Select)
    return plain


def spelled_out(node: exp.Expr) -> exp.Expr:
    """A comparison of such a kind, or SINGLE_VALUE, in other words; any other expression itself."""
    if _is_single_value(node):
        single = filled(_SINGLE, *node.expressions)
        mark_as(single, node)
        return single
    if not isinstance(node, _COMPARISONS) or (quantifier := _quantifier(node)) is None:
        return node
    is_all, values = quantifier
    plain = _of_subquery(node, values[0], is_all) if _is_query(values[0]) else _of_list(node, values, is_all)
    if plain is not node:
        mark_as(plain, node)
    return plain


def _is_spelled_out(node: exp.Expr) -> bool:
    return (isinstance(node, _COMPARISONS) and _quantifier(node) is not None) or _is_single_value(node)


def _is_single_value(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "SINGLE_VALUE" and len(node.expressions) == 1


_SINGLE = "CASE WHEN COUNT(*) > 1 THEN RAISE_ERROR('SINGLE_VALUE got more than one row') ELSE ANY_VALUE(p1) END"


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
        return _of_extremes(node, query, is_all)
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


def _of_extremes(node: exp.Expr, query: exp.Expr, is_all: bool) -> exp.Expr:
    """All values are less than something where the greatest is. Without rows ALL is TRUE and ANY is FALSE, and a NULL
    among the values makes NULL of what it could change."""
    inner = query.this if isinstance(query, exp.Subquery) else query
    named = exp.TableAlias(this=exp.to_identifier("q"), columns=[exp.to_identifier("v")])
    source = exp.Subquery(this=inner.copy(), alias=named)

    def told(value: str) -> exp.Expr:
        return exp.Subquery(this=exp.Select(expressions=[filled(value)], from_=exp.From(this=source.copy())))

    def compared(kind: type[exp.Expr], extreme: str) -> exp.Expr:
        return kind(this=fitted(node_of(node.this.copy())), expression=told(extreme))

    if isinstance(node, (exp.EQ, exp.NEQ)):
        plain = exp.And(this=compared(exp.EQ, "MIN(v)"), expression=compared(exp.EQ, "MAX(v)"))
        answer = filled(_OF_ALL, told("COUNT(*)"), exp.Paren(this=plain), told("COUNT(v)"), told("COUNT(*)"))
        return (
            exp.Paren(this=exp.Not(this=exp.Paren(this=answer)))
            if isinstance(node, exp.NEQ)
            else exp.Paren(this=answer)
        )
    greatest = isinstance(node, (exp.GT, exp.GTE)) == is_all
    over_one: exp.Expr = compared(type(node), "MAX(v)" if greatest else "MIN(v)")
    template = _OF_ALL if is_all else _OF_ANY
    answer = filled(template, told("COUNT(*)"), exp.Paren(this=over_one), told("COUNT(v)"), told("COUNT(*)"))
    return exp.Paren(this=answer)


_OF_ALL = "p1 = 0 OR (p2 AND CASE WHEN p3 = p4 THEN TRUE END)"
_OF_ANY = "p1 > 0 AND (p2 OR CASE WHEN p3 = p4 THEN FALSE END)"


def _of_list(node: exp.Expr, values: list[exp.Expr], is_all: bool) -> exp.Expr:
    joined = exp.And if is_all else exp.Or
    comparisons: list[exp.Expr] = [type(node)(this=node.this.copy(), expression=value.copy()) for value in values]
    return exp.Paren(this=reduce(lambda a, b: joined(this=a, expression=b), comparisons))
