"""Comparisons with ANY, SOME and ALL, SINGLE_VALUE, and rows beside lists, in forms that the rest of the binder has."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from sqlglot import exp

from sqlstream.grammar.nodes import StreamClauses
from sqlstream.grammar.spans import mark_as
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner.aggregate_order import order_inside, with_order_behind
from sqlstream.planner.binder.scope import COMPARED_VALUES
from sqlstream.planner.expressions import (
    as_expression,
    own_expressions,
    parenthesized,
    rewritten,
    with_args,
    with_children_changed,
)
from sqlstream.planner.functions.spelling import filled
from sqlstream.planner.row_values import MAY_COMPARE_ROWS, field_by_field, row_values

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def without_quantifiers(select: exp.Select) -> exp.Select:
    """Returns the SELECT with some operators rewritten: comparisons with ANY, SOME and ALL, row comparisons,
    SINGLE_VALUE, and ORDER BY in aggregates.

    A comparison of rows becomes comparisons of their fields. A comparison with a list becomes comparisons joined by OR
    or AND. A comparison with a subquery becomes IN or NOT IN, or a comparison with its least or greatest value. A
    comparison with an array is refused later (SS355), as in Flink and Spark.
    """
    if not any(_is_spelled_out(node) for node in own_expressions(select)):
        return select
    plain = with_children_changed(select, lambda child: rewritten(child, _spelled_out_below))
    assert isinstance(plain, exp.Select)
    return plain


def all_spelled_out(expression: exp.Expr) -> exp.Expr:
    """Returns a copy of the expression in which comparisons with ANY, SOME or ALL, row comparisons, SINGLE_VALUE and
    aggregates with ORDER BY are rewritten, at every depth.
    """
    return rewritten(expression, _spelled_out_below)


def spelled_out(node: exp.Expr) -> exp.Expr:
    """The rewritten form of a comparison with ANY, SOME or ALL, or of rows, of SINGLE_VALUE, or of an aggregate with
    ORDER BY.

    Any other expression is unchanged.
    """
    if _is_single_value(node):
        single = filled(_SINGLE, *node.expressions)
        mark_as(single, node)
        return single
    if isinstance(node, MAY_COMPARE_ROWS) and (compared := field_by_field(node)) is not None:
        mark_as(compared, node)
        return compared
    if isinstance(node, exp.In) and (by_columns := _by_columns(node)) is not None:
        mark_as(by_columns, node)
        return by_columns
    if isinstance(node, exp.In) and (by_values := _row_before(node)) is not None:
        mark_as(by_values, node)
        return by_values
    if isinstance(node, exp.Func) and order_inside(node) is not None:
        return with_order_behind(node)
    if not isinstance(node, _COMPARISONS) or (quantifier := _quantifier(node)) is None:
        return node
    is_all, values = quantifier
    plain = (
        _compared_with_subquery(node, values[0], is_all)
        if _is_query(values[0])
        else _compared_with_list(node, values, is_all)
    )
    if plain is not node:
        mark_as(plain, node)
    return plain


def _row_before(node: exp.In) -> exp.Expr | None:
    """``ROW(a, b) IN (SELECT x, y …)`` as ``(a, b) IN (SELECT x, y …)``; None for any other IN."""
    row, query = row_values(node.this), node.args.get("query")
    first = query
    while isinstance(first, exp.Subquery | exp.SetOperation):
        first = first.this
    if row is None or query is None or isinstance(node.this.unnest(), exp.Tuple) or not isinstance(first, exp.Select):
        return None
    if len(first.expressions) != len(row) or first.is_star:
        return None
    return exp.In(this=exp.Tuple(expressions=[value.copy() for value in row]), query=query.copy())


def _is_spelled_out(node: exp.Expr) -> bool:
    if isinstance(node, MAY_COMPARE_ROWS) and row_values(node.this) is not None:
        return True
    if isinstance(node, exp.In) and (_by_columns(node) is not None or _row_before(node) is not None):
        return True
    if isinstance(node, exp.Func) and order_inside(node) is not None:
        return True
    return (isinstance(node, _COMPARISONS) and _quantifier(node) is not None) or _is_single_value(node)


def _by_columns(node: exp.In) -> exp.Expr | None:
    """``(a, b) IN (SELECT ROW(x, y) …)`` with a subquery of columns; None for any other IN."""
    row, query = row_values(node.this), node.args.get("query")
    select = query.this if isinstance(query, exp.Subquery) else query
    if (
        row is None
        or query is None
        or not isinstance(select, exp.Select)
        or len(select.expressions) != 1
        or select.args.get("order")
    ):
        return None
    fields = row_values(select.expressions[0].unalias(), len(row))
    if fields is None:
        return None
    columns = [exp.alias_(field.copy(), f"col{i}") for i, field in enumerate(fields, 1)]

    rows = query.copy()
    plain = rows.this if isinstance(rows, exp.Subquery) else rows
    plain.set("expressions", columns)
    return exp.In(this=exp.Tuple(expressions=[value.copy() for value in row]), query=rows)


def _is_single_value(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "SINGLE_VALUE" and len(node.expressions) == 1


_SINGLE = "CASE WHEN COUNT(*) > 1 THEN RAISE_ERROR('SINGLE_VALUE got more than one row') ELSE ANY_VALUE(p1) END"


def _spelled_out_below(node: exp.Expr) -> exp.Expr:
    plain = spelled_out(node)
    return node if plain is node else with_children_changed(plain, lambda child: rewritten(child, _spelled_out_below))


def _quantifier(node: exp.Expr) -> tuple[bool, list[exp.Expr]] | None:
    """Whether all comparisons must hold, and the values or the query; None without ANY, SOME or ALL on the right
    side."""
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


def _compared_with_subquery(node: exp.Expr, query: exp.Expr, is_all: bool) -> exp.Expr:
    if not (isinstance(node, exp.NEQ) if is_all else isinstance(node, exp.EQ)):
        row = row_values(node.this)
        if row is not None:
            return _rows_compared(node, len(row), query, is_all)
        return _compared_with_extremes(node, query, is_all)
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


def _compared_with_extremes(node: exp.Expr, query: exp.Expr, is_all: bool) -> exp.Expr:
    """A comparison with all or any rows of a subquery, as one with its MIN or MAX: all values are less than x if the
    greatest is. Without rows ALL is TRUE and ANY is FALSE; a NULL among the rows makes the result NULL unless the other
    rows decide it."""
    select = _plain_select(query)

    def aggregate(call: str) -> exp.Expr:
        if select is None:
            source = exp.From(this=_compared_source(query, ["v"]))
            return exp.Subquery(this=exp.Select(expressions=[filled(call, exp.column("v"))], from_=source))
        value = as_expression(select.expressions[0].unalias())
        return exp.Subquery(this=with_args(select, expressions=[filled(call, value)], distinct=None, order=None))

    def compared(kind: type[exp.Expr], extreme: str) -> exp.Expr:
        return kind(this=parenthesized(as_expression(node.this.copy())), expression=aggregate(extreme))

    if isinstance(node, (exp.EQ, exp.NEQ)):
        plain = exp.And(this=compared(exp.EQ, "MIN(p1)"), expression=compared(exp.EQ, "MAX(p1)"))
        answer = filled(
            _HOLDS_FOR_ALL, aggregate("COUNT(*)"), exp.Paren(this=plain), aggregate("COUNT(p1)"), aggregate("COUNT(*)")
        )
        return (
            exp.Paren(this=exp.Not(this=exp.Paren(this=answer)))
            if isinstance(node, exp.NEQ)
            else exp.Paren(this=answer)
        )
    greatest = isinstance(node, (exp.GT, exp.GTE)) == is_all
    over_one: exp.Expr = compared(type(node), "MAX(p1)" if greatest else "MIN(p1)")
    template = _HOLDS_FOR_ALL if is_all else _HOLDS_FOR_ANY
    answer = filled(
        template, aggregate("COUNT(*)"), exp.Paren(this=over_one), aggregate("COUNT(p1)"), aggregate("COUNT(*)")
    )
    return exp.Paren(this=answer)


_OF_ONE_ROW = (exp.Cast, exp.Case, exp.If, exp.Coalesce, exp.Connector)


def _plain_select(query: exp.Expr) -> exp.Select | None:
    """The SELECT of one value of each row of its FROM, which may read the query around it; None for any other query,
    whose rows an aggregate reads from FROM.
    """
    select = query.this if isinstance(query, exp.Subquery) and not query.args.get("with_") else query
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or not select.args.get("from_"):
        return None
    if any(select.args.get(key) for key in ("with_", "group", "having", "qualify", "windows", "limit", "offset")):
        return None
    distinct, (value,) = select.args.get("distinct"), select.expressions
    if (distinct is not None and distinct.args.get("on")) or clauses_of(select) != StreamClauses():
        return None
    is_of_row = not any(
        isinstance(node, exp.Star | exp.Query | exp.Window)
        or (isinstance(node, exp.Func) and not isinstance(node, _OF_ONE_ROW))
        for node in value.walk()
    )
    return select if is_of_row else None


def _compared_source(query: exp.Expr, columns: list[str]) -> exp.Subquery:
    """The subquery in FROM, with such names of its columns."""
    inner = query.this if isinstance(query, exp.Subquery) else query
    named = exp.TableAlias(this=exp.to_identifier("q"), columns=[*map(exp.to_identifier, columns)])
    mark_as(named, query)
    named.meta[COMPARED_VALUES] = len(columns)
    return exp.Subquery(this=inner.copy(), alias=named)


def _rows_compared(node: exp.Expr, width: int, query: exp.Expr, is_all: bool) -> exp.Expr:
    """A comparison of a row of values with all or any rows of a subquery: whether there is a row for which it is false,
    or true, and if not, one for which it is unknown. Rows have no least and greatest one where fields are NULL.
    """
    names = [f"__value_{i}" for i in range(width)]
    columns = exp.Tuple(expressions=[exp.column(name, table="q") for name in names])

    def some(is_so: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        compared = exp.Paren(this=type(node)(this=node.this.copy(), expression=columns.copy()))
        where = exp.Where(this=is_so(compared))
        source = exp.From(this=_compared_source(query, names))
        return exp.Exists(this=exp.Select(expressions=[exp.Literal.number(1)], from_=source, where=where))

    decides = some(lambda compared: exp.Not(this=compared) if is_all else compared)
    unknown = some(lambda compared: exp.Is(this=compared, expression=exp.Null()))
    decided, otherwise = (exp.false(), exp.true()) if is_all else (exp.true(), exp.false())
    return exp.Paren(this=exp.Case().when(decides, decided).when(unknown, exp.Null()).else_(otherwise))


_HOLDS_FOR_ALL = "p1 = 0 OR (p2 AND CASE WHEN p3 = p4 THEN TRUE END)"
_HOLDS_FOR_ANY = "p1 > 0 AND (p2 OR CASE WHEN p3 = p4 THEN FALSE END)"


def _compared_with_list(node: exp.Expr, values: list[exp.Expr], is_all: bool) -> exp.Expr:
    joined = exp.And if is_all else exp.Or
    comparisons: list[exp.Expr] = [type(node)(this=node.this.copy(), expression=value.copy()) for value in values]
    return exp.Paren(this=reduce(lambda a, b: joined(this=a, expression=b), comparisons))
