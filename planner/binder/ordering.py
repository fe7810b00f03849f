"""ORDER BY, LIMIT and OFFSET of a query: a Top-N without keys, or a sort in the order of event time.

A column of ORDER BY is one of the select list, by name or number, or an expression over FROM, which is then selected
besides, and dropped above.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind
from sqlstream.planner.binder.scope import scope_of
from sqlstream.planner.binder.top_n import check_order
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project
from sqlstream.planner.operators.over import Sorted
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN

Bind = Callable[[exp.Expr], Relation]

WRONG_LIMIT = "SS642"
WRONG_ORDER = "SS643"

_CLAUSES = ("order", "limit", "offset")
_MOST = 10**9
_HINT = "Add LIMIT n for the first n rows of the order, or order by the column named by WATERMARK FOR first, ascending."
_OF_WINDOWS = "The inputs end, but a clause of streams, such as a window, makes a stream of the query: see EXPLAIN."
_HINT_OF_WINDOWS = "Or write the results into a table, which is finished data, and sort that."


def is_ordered(query: exp.Expr) -> bool:
    if isinstance(query, exp.Unnest):  # in parentheses, where a query may be; its ``offset`` is WITH ORDINALITY
        return False
    return any(query.args.get(clause) is not None for clause in _CLAUSES)


def bind_ordered(query: exp.Expr, context: Context, bind_plain: Bind) -> Relation:
    """The plan of a query with ORDER BY, LIMIT or OFFSET. SS217 for an order that only the end of the input tells."""
    order = query.args.get("order")
    ordered: list[exp.Expr] = list(order.expressions) if order is not None else []
    limit, offset = _count(query.args.get("limit"), "LIMIT", 1), _count(query.args.get("offset"), "OFFSET", 0)
    plain = query.copy()
    for clause in _CLAUSES:
        plain.set(clause, None)
    hidden = _add_hidden(plain, ordered)
    relation = bind_plain(plain)
    shown = len(relation.names) - len(hidden)
    columns = tuple(_sorted(column, i, hidden, relation, shown, context) for i, column in enumerate(ordered))
    context.stop_if_wrong()
    node = _limited(relation, columns, limit, offset, query, context)
    if hidden:
        node = Project(node, tuple(field.as_item for field in node.schema[:shown]))
    return Relation(node, relation.names[:shown])


def _limited(
    relation: Relation,
    columns: tuple[Sorted, ...],
    limit: int | None,
    offset: int | None,
    query: exp.Expr,
    context: Context,
) -> Node:
    node = relation.node
    if limit is None:
        if offset is not None:
            raise bind_error(WRONG_LIMIT, "OFFSET needs a LIMIT", query.args["offset"], "Write LIMIT n OFFSET m.")
        return _in_time(node, columns, query, context)
    check_order(columns, node, query.args.get("order") or query)
    first = (offset or 0) + 1
    # Without an order the first rows stay the first: forgotten ones would make place for others.
    ttl_ms = context.settings.state_ttl_ms if columns else 0
    top = TopN(node, (), columns, ROW_NUMBER, first, first + limit - 1, ttl_ms=ttl_ms)
    return check_changes(top, context, query.args["limit"])


def _in_time(node: Node, columns: tuple[Sorted, ...], query: exp.Expr, context: Context) -> Node:
    """Rows in the order of time; in processing time they are so as they come."""
    if not columns:
        raise unsupported.refusal("syntax", span_of(query))
    first, *ties = columns
    time = next(f.time for f in node.schema if f.name == first.name)
    if time is TimeDomain.PROCESSING and not first.descending and not ties:
        return node
    if time is None or time is TimeDomain.PROCESSING or first.descending:
        message = "ORDER BY needs all rows at once, and a query gives rows as they come"
        detail, hint = (_OF_WINDOWS, f"{_HINT} {_HINT_OF_WINDOWS}") if node.bounded else (None, _HINT)
        raise bind_error("SS217", message, query.args["order"], hint, detail)
    check_order(tuple(ties), node, query.args["order"])
    return check_changes(TemporalSort(node, first.name, tuple(ties)), context, query.args["order"])


def _count(clause: exp.Expr | None, name: str, least: int) -> int | None:
    """The number of rows of LIMIT or OFFSET. SS642."""
    if clause is None:
        return None
    value = clause.args.get("expression")
    plain = isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()
    if not isinstance(value, exp.Literal) or not plain or len(value.name) > 9 or int(value.name) < least:
        hint = f"Write a number of rows from {least} to {_MOST - 1:,}."
        raise bind_error(WRONG_LIMIT, f"{name} needs a whole number, written as such", clause, hint)
    return int(value.name)


# --- columns of the order -------------------------------------------------------------------------------------


def _add_hidden(query: exp.Expr, ordered: list[exp.Expr]) -> dict[int, int]:
    """Selects what the query does not show; the number of the hidden column by that of the column of ORDER BY."""
    if not isinstance(query, exp.Select):
        return {}
    names = {e.alias_or_name.casefold() for e in query.expressions}
    hidden: dict[int, int] = {}
    for i, column in enumerate(ordered):
        value = column.this
        named = isinstance(value, exp.Column) and not value.table and value.name.casefold() in names
        if not named and not _is_ordinal(value):
            name = value.name if isinstance(value, exp.Column) else "order_by"
            query.append("expressions", exp.alias_(value.copy(), name, quoted=True))
            hidden[i] = len(hidden)
    return hidden


def _is_ordinal(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()


def _sorted(
    ordered: exp.Expr, number: int, hidden: dict[int, int], relation: Relation, shown: int, context: Context
) -> Sorted:
    descending, first = bool(ordered.args.get("desc")), ordered.args.get("nulls_first")
    name = _field(ordered.this, number, hidden, relation, shown, context)
    return Sorted(name, descending, not descending if first is None else bool(first))


def _field(
    value: exp.Expr, number: int, hidden: dict[int, int], relation: Relation, shown: int, context: Context
) -> str:
    fields = relation.fields
    if number in hidden:
        return fields[shown + hidden[number]].name
    if _is_ordinal(value):
        position = int(value.name) if len(value.name) < 9 else 0
        if not 1 <= position <= shown:
            message = f"the query has no column number {value.name}"
            raise bind_error(WRONG_ORDER, message, value, f"It has columns 1 to {shown}.")
        return fields[position - 1].name
    scope = scope_of(Relation(relation.node, relation.names), None)
    bound = bind(value, scope, context, ClauseContext("ORDER BY"))
    if not isinstance(bound, exp.Column):
        hint = "Write the query into FROM, and ORDER BY above it."
        raise bind_error(WRONG_ORDER, "ORDER BY of this query takes columns of its result", value, hint)
    return bound.name
