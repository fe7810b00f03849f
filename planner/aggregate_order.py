"""ORDER BY of an aggregate: one form for both of its spellings, and the sorted lists of Spark SQL that give its result.

``ARRAY_AGG(x ORDER BY y)`` becomes ``ARRAY_AGG(x) WITHIN GROUP (ORDER BY y)``, which is all that the binder and the
kernels know. Spark SQL orders LISTAGG alone, so a batch sorts a list of the rows, by Spark's order of values and then
by arrival, as the kernels do.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream.functions.builtin import Aggregate
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar.spans import mark_as
from sqlstream.planner.aggregate_calls import CallParts, call_parts
from sqlstream.planner.expressions import as_expression, rewritten
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.functions.spelling import called, case, filled, text
from sqlstream.planner.type_inference import call_arguments

_TREATMENTS = (exp.IgnoreNulls, exp.RespectNulls)


def order_inside(call: exp.Expr) -> exp.Order | None:
    """The ORDER BY that is written among the arguments of a call; None if there is none."""
    for argument in call_arguments(call) if isinstance(call, exp.Func) else ():
        inner = argument.this if isinstance(argument, _TREATMENTS) else argument
        if isinstance(inner, exp.Order):
            return inner
    return None


def with_order_behind(call: exp.Expr) -> exp.Expr:
    """The call with the ORDER BY among its arguments moved into WITHIN GROUP; any other expression unchanged."""
    if order_inside(call) is None or isinstance(call.parent, exp.WithinGroup):
        return call
    plain = call.copy()
    order = order_inside(plain)
    assert order is not None
    columns = order.expressions
    order.replace(order.this)
    ordered = exp.WithinGroup(this=plain, expression=exp.Order(expressions=columns))
    mark_as(ordered, call)
    return ordered


def with_orders_behind(query: exp.Expr) -> exp.Expr:
    """The query with the ORDER BY of each aggregate moved into WITHIN GROUP."""
    if not any(order_inside(node) for node in query.find_all(exp.Func)):
        return query

    def behind(node: exp.Expr) -> exp.Expr:
        ordered = with_order_behind(node)
        if ordered is not node:
            ordered.set("this", rewritten(ordered.this, behind))
        return ordered

    return rewritten(query, behind)


def is_orderable(name: str) -> bool:
    """True if the built-in aggregate ``name`` supports ORDER BY."""
    function = FUNCTIONS.get(name)
    return isinstance(function, Aggregate) and function.orderable


# --- in the words of Spark ------------------------------------------------------------------------------------

_LISTS = frozenset({"collect_list", "array_agg"})
_TEXTS = frozenset({"listagg", "string_agg"})
_FIRST = frozenset({"first", "first_value", "any_value"})
_LAST = frozenset({"last", "last_value"})


def in_words_of_spark(query: exp.Expr) -> exp.Expr:
    """Returns the query for Spark SQL, which has no ordered aggregates: functions over sorted lists replace them."""
    # Where Spark rewrites aggregates with DISTINCT, it confuses the arguments of an ordered LISTAGG and fails.
    alone = query.find(exp.Distinct) is None
    if all(_sorted_aggregate(node, alone) is node for node in query.find_all(exp.Window, *AGGREGATE_WRAPPERS)):
        return query
    return rewritten(query, lambda node: _sorted_aggregate(node, alone))


def _sorted_aggregate(node: exp.Expr, alone: bool) -> exp.Expr:
    """``alone``: whether Spark may order LISTAGG itself, as it can without OVER."""
    window = node if isinstance(node, exp.Window) else None
    call = node.this if window is not None else node
    if not isinstance(call, AGGREGATE_WRAPPERS) or call.find(exp.WithinGroup) is None:
        return node
    parts = call_parts(as_expression(call))
    name = spark_name(parts.call) or ""
    if name in _LISTS:
        return _sorted_values(parts, window, keeps_nulls=parts.nulls is exp.RespectNulls)
    if name in _FIRST | _LAST:
        ignores = parts.nulls is exp.IgnoreNulls or parts.values[1:] == [exp.true()]
        values = _sorted_values(parts, window, keeps_nulls=not ignores)
        return filled("GET(p1, 0)" if name in _FIRST else "TRY_ELEMENT_AT(p1, -1)", values)
    if name in _TEXTS and (window is not None or not alone):
        separator = parts.values[1] if len(parts.values) > 1 else text("")
        texts = _sorted_values(parts, window, keeps_nulls=False, kind="STRING")
        return filled("CASE WHEN SIZE(p1) > 0 THEN ARRAY_JOIN(p1, p2) END", texts, separator)
    return node


def _sorted_values(
    parts: CallParts, window: exp.Window | None, *, keeps_nulls: bool, kind: str | None = None
) -> exp.Expr:
    """The array of the first argument of all rows, in order, cast to ``kind``. FILTER is part of what is collected,
    because OVER takes none."""
    value = parts.values[0]
    shown = value.copy() if kind is None else exp.cast(value.copy(), kind)
    members = [exp.alias_(shown, "v")]
    members += [exp.alias_(as_expression(by.this).copy(), f"k{i}") for i, by in enumerate(parts.order)]
    row: exp.Expr = called("STRUCT", *members)
    conditions = [parts.condition.copy()] if parts.condition is not None else []
    conditions += [] if keeps_nulls else [filled("p1 IS NOT NULL", value)]
    if conditions:
        row = case([(exp.and_(*conditions), row)])
    collected: exp.Expr = called("COLLECT_SET" if parts.distinct else "COLLECT_LIST", row)
    if window is not None:
        rest = {key: part for key, part in window.args.items() if key != "this"}
        collected = exp.Window(this=collected, **rest)
    return filled(f"TRANSFORM(ARRAY_SORT(p1, {_comparator(parts.order)}), __e -> __e.v)", collected)


def _comparator(order: Sequence[exp.Ordered]) -> str:
    """The function that compares two rows. ARRAY_SORT keeps the order of equal ones."""
    branches = "".join(_branches(f"__a.k{i}", f"__b.k{i}", ordered) for i, ordered in enumerate(order))
    return f"(__a, __b) -> CASE{branches} ELSE 0 END"


def _branches(one: str, other: str, ordered: exp.Ordered) -> str:
    before, after = ("1", "-1") if ordered.args.get("desc") else ("-1", "1")
    null_before, null_after = ("-1", "1") if ordered.args.get("nulls_first") else ("1", "-1")
    return (
        f" WHEN {one} IS NULL AND {other} IS NOT NULL THEN {null_before}"
        f" WHEN {one} IS NOT NULL AND {other} IS NULL THEN {null_after}"
        f" WHEN {one} < {other} THEN {before} WHEN {one} > {other} THEN {after}"
    )
