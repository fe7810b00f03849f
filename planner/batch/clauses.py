"""GROUP BY, ORDER BY and OVER where our dialect has forms that Spark SQL lacks."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import kind_of
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.binder.context import Context
from sqlstream.planner.expressions import has_subquery, rewritten, with_args
from sqlstream.planner.functions.calls import spark_name


def group_in_words_of_spark(select: exp.Expr) -> None:
    """Rewrite GROUP BY of a copied SELECT for Spark: (a, b) becomes the keys a and b, () becomes no key.

    Spark would read (a, b) as a row. GROUP BY () makes one group of all rows, even of none, as an aggregate without
    GROUP BY does.
    """
    group = select.args.get("group")
    if group is None or not any(isinstance(key, exp.Tuple) for key in group.expressions):
        return
    group.set("expressions", [key for term in group.expressions for key in _keys(term)])
    if any(value for value in group.args.values()):
        return
    select.set("group", None)
    if select.args.get("having") is None:
        select.set("having", exp.Having(this=exp.true()))  # without an aggregate, too, there is one row


def _keys(term: exp.Expr) -> list[exp.Expr]:
    return list(term.expressions) if isinstance(term, exp.Tuple) else [term]


_WITH_FRAME = "nth_value"


def window_in_words_of_spark(window: exp.Window, context: Context) -> None:
    """Adds an ORDER BY to OVER, in a copied SELECT, for functions such as ROW_NUMBER that Spark refuses without one;
    the order is arbitrary.

    Reports SS239 for a frame of such a function.
    """
    call = window.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    called = spark_name(call) if isinstance(call, exp.Func) else None
    if called is None or kind_of(called) is not BuiltinKind.WINDOW or called == _WITH_FRAME or window.args.get("alias"):
        return
    if window.args.get("spec") is not None:
        context.wrong("SS239", f"{called.upper()} takes no frame", call, "Leave ROWS or RANGE out.")
    if window.args.get("order") is None:
        window.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(1))]))


_AFTER_ROWS = ("order", "limit", "offset")


@on_deep_stack
def sorted_by_columns(query: exp.Expr) -> exp.Expr:
    """Rewrites ORDER BY with subqueries for Spark, which supports no IN, EXISTS or correlated subquery there: the
    SELECT moves into FROM and computes their values as additional columns, by which the query around it sorts and which
    it leaves out of its result.
    """
    return rewritten(query, _with_computed_order)


def _with_computed_order(select: exp.Expr) -> exp.Expr:
    if not isinstance(select, exp.Select) or select.args.get("order") is None or select.args.get("distinct"):
        return select
    if not any(has_subquery(by.this) for by in select.args["order"].expressions):
        return select
    parts = {part: given.copy() for part in (*_AFTER_ROWS, "with_") if (given := select.args.get(part)) is not None}
    shown = {expression.alias.casefold() for expression in select.expressions if isinstance(expression, exp.Alias)}
    inner, names = select.copy(), list[exp.Identifier]()
    for part in parts:
        inner.set(part, None)
    for by in parts["order"].expressions:
        key = by.this
        if isinstance(key, exp.Literal) or (isinstance(key, exp.Column) and key.name.casefold() in shown):
            continue
        names.append(exp.to_identifier(f"__order_{len(names)}", quoted=True))
        inner.append("expressions", exp.Alias(this=key.copy(), alias=names[-1].copy()))
        by.set("this", exp.column(names[-1].copy()))
    source = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("sorted")))
    return exp.Select(expressions=[exp.Star(except_=names)], from_=exp.From(this=source), **parts)


def with_selects(source: exp.Expr) -> exp.Expr:
    """``LATERAL (VALUES …)`` with a SELECT of each row in place of VALUES, which read no columns in Spark; other
    sources unchanged.
    """
    values = source.this.unnest() if isinstance(source, exp.Lateral) else None
    if not isinstance(values, exp.Values):
        return source
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    selects: list[exp.Expr] = [
        exp.select(*(exp.alias_(value.copy(), f"col{i}") for i, value in enumerate(row, 1))) for row in rows
    ]
    query = reduce(lambda before, after: exp.Union(this=before, expression=after, distinct=False), selects)
    return with_args(source, this=exp.Subquery(this=query))
