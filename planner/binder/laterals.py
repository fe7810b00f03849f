"""LATERAL (SELECT …): each row beside those that a subquery gives for it; with ORDER BY and LIMIT its first ones.

What the subquery reads of the row becomes the condition of a join, and LIMIT a Top-N for each of the values that the
condition compares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.correlation import of_no_rows
from sqlstream.planner.binder.grouping import aliased
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.subqueries import Subqueries
from sqlstream.planner.binder.subquery_rows import SubqueryRows
from sqlstream.planner.binder.top_n import check_order
from sqlstream.planner.fields import Item
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.nodes import extended
from sqlstream.planner.operators.over import Sorted
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN
from sqlstream.planner.rewriting import node_of
from sqlstream.planner.suggestions import counted
from sqlstream.planner.type_inference import Types
from sqlstream.udfs.joins import JoinKind

_FORM = "LATERAL takes one SELECT, and ON TRUE."
_KINDS = frozenset({"", "CROSS", "INNER", "OUTER"})


@dataclass(frozen=True)
class _First:
    """The subquery without ORDER BY and LIMIT, whose last columns are what it orders by; the numbers of its rows."""

    select: exp.Select
    order: tuple[exp.Expr, ...]
    first: int = 1
    last: int | None = None


def is_lateral_query(join: exp.Expr) -> bool:
    return (
        isinstance(join, exp.Join) and isinstance(join.this, exp.Lateral) and isinstance(join.this.this, exp.Subquery)
    )


def lateral_join(join: exp.Join, scope: Scope, subqueries: Subqueries) -> Scope:
    """The scope of both sides. UnsupportedError SS308 for what cannot be joined."""
    context, lateral = subqueries.context, join.this
    refuse_rest(join, ("this", "side", "kind", "on"), context)
    refuse_rest(lateral, ("this", "view", "outer", "alias"), context)
    side, on = join.text("side").upper(), join.args.get("on")
    if side not in ("", "LEFT") or join.text("kind").upper() not in _KINDS or not _is_true(on):
        raise unsupported.refusal("correlated subquery", span_of(join), _FORM)
    limited = _limited(lateral.this, subqueries)
    rows, names = subqueries.rows_and_names(limited.select, scope, is_set=False, lists=True)
    own = len(rows.values) - len(limited.order)
    if limited.last is not None:
        rows = _with_first(rows, limited, join, subqueries)
    # An aggregate without GROUP BY gives a row for every row around it.
    fills = rows.read.one_row and bool(rows.keys)
    kind = JoinKind.LEFT if side == "LEFT" or fills else JoinKind.INNER
    joined = subqueries.joined(scope, rows.with_there() if fills else rows.all(), kind, rows.read.conditions, join)
    fields = [joined.find(rows.reference(f"value_{i}").name)[0].field for i in range(own)]
    if fills:
        there = joined.find(rows.reference("there").name)[0].field
        joined, fields = _filled(joined, fields, limited.select, there, subqueries)
    shown = _shown(lateral, names[:own])
    alias = lateral.alias or None
    visible = tuple(Visible(name, field, alias) for name, field in zip(shown, fields, strict=True))
    return Scope(joined.node, (*scope.columns, *visible))


def _is_true(condition: exp.Expr | None) -> bool:
    return condition is None or (isinstance(condition, exp.Boolean) and bool(condition.this))


def _shown(lateral: exp.Expr, names: tuple[str, ...]) -> tuple[str, ...]:
    alias = lateral.args.get("alias")
    columns = alias.columns if isinstance(alias, exp.TableAlias) else []
    if columns and len(columns) != len(names):
        message = f'"{lateral.alias}" has {counted(len(names), "column")}, not {len(columns)}'
        raise bind_error("SS216", message, alias)
    return tuple(column.name for column in columns) or names


# --- ORDER BY and LIMIT ---------------------------------------------------------------------------------------


def _limited(subquery: exp.Subquery, subqueries: Subqueries) -> _First:
    select = subquery.unnest()
    if not isinstance(select, exp.Select) or select.args.get("with_"):
        raise unsupported.refusal("correlated subquery", span_of(subquery), _FORM)
    order, limit, offset = (select.args.get(key) for key in ("order", "limit", "offset"))
    plain = select.copy()
    for key in ("order", "limit", "offset"):
        plain.set(key, None)
    if limit is None and offset is None:
        return _First(plain, ())
    count, skipped = _number(limit), _number(offset) if offset is not None else 0
    if count is None or skipped is None or plain.args.get("distinct"):
        detail = "LIMIT and OFFSET are whole numbers, written as such, LIMIT of one row or more, without DISTINCT."
        raise unsupported.refusal("correlated subquery", span_of(select), detail)
    ordered = tuple(order.expressions) if order is not None else ()
    plain.set("expressions", [*plain.expressions, *(_ordered_by(by.this, select).copy() for by in ordered)])
    return _First(plain, ordered, skipped + 1, skipped + count)


def _ordered_by(value: exp.Expr, select: exp.Select) -> exp.Expr:
    """The value of an ordinal or of a name of the select list."""
    if isinstance(value, exp.Literal) and value.name.isdigit() and 1 <= int(value.name) <= len(select.expressions):
        return node_of(select.expressions[int(value.name) - 1].unalias())
    column = aliased(value.name, select.expressions) if isinstance(value, exp.Column) and not value.table else None
    return value if column is None else column


def _number(clause: exp.Expr | None) -> int | None:
    value = clause.expression if clause is not None else None
    plain = isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit() and len(value.name) < 10
    assert value is not None or not plain
    count = int(value.name) if plain and value is not None else None
    return None if count == 0 and isinstance(clause, exp.Limit) else count


def _with_first(rows: SubqueryRows, limited: _First, at: exp.Expr, subqueries: Subqueries) -> SubqueryRows:
    """The first rows for each of the values that the condition of the join compares."""
    if not rows.read.keyed:
        detail = "With LIMIT it may read columns of the query around it in equalities alone."
        raise unsupported.refusal("correlated subquery", span_of(at), detail)
    fields = rows.values[len(rows.values) - len(limited.order) :]
    order = tuple(map(_sorted, limited.order, (field.name for field in fields)))
    check_order(order, rows.node, at)
    assert limited.last is not None
    keys = tuple(field.name for field in rows.keys)
    node = TopN(rows.node, keys, order, ROW_NUMBER, limited.first, limited.last, None, ttl_ms=rows.ttl_ms)
    return replace(rows, node=check_changes(node, subqueries.context, at))


def _sorted(ordered: exp.Expr, field: str) -> Sorted:
    descending, first = bool(ordered.args.get("desc")), ordered.args.get("nulls_first")
    return Sorted(field, descending, not descending if first is None else bool(first))


# --- aggregates of no rows ------------------------------------------------------------------------------------


def _filled(
    joined: Scope, fields: list[str], select: exp.Select, there: str, subqueries: Subqueries
) -> tuple[Scope, list[str]]:
    """With what aggregates are of no rows, such as a count of 0, where there is no row."""
    names, types = Names(f.name for f in joined.node.schema), Types(joined.node.schema)
    items: list[Item] = []
    filled: list[str] = []
    for field, expression in zip(fields, select.expressions, strict=False):
        default = of_no_rows(expression.unalias(), subqueries.context.catalog)
        if default is None:
            filled.append(field)
            continue
        missing = exp.Is(this=field_of(there), expression=exp.Null())
        value = exp.Case().when(missing, default).else_(field_of(field))
        items.append(Item(names.unique(field), value, types.of(value)))
        filled.append(items[-1].name)
    return joined.over(extended(joined.node, items)) if items else joined, filled
