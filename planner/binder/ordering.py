"""ORDER BY, LIMIT and OFFSET, and row numbers that a condition bounds: sorts by time, Top-N and deduplication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import NO_ORDER, UNORDERED
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, is_whole_number
from sqlstream.planner.binder.scope import scope_of
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.expressions import conjunction, conjuncts
from sqlstream.planner.fields import Field, Item, Schema
from sqlstream.planner.node import Node, Unary, bottom_up, cached_per_node
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.operators.over import Closing, Over, OverCall, Sorted, UpdatingOver, closing_of
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.operators.top_n import INT, ROW_NUMBER, TopN, number_between
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.windows import AlignedWindow, Session

# --- ORDER BY, LIMIT and OFFSET -------------------------------------------------------------------------------

Bind = Callable[[exp.Expr], Relation]

WRONG_LIMIT = "SS642"
WRONG_ORDER = "SS643"

_CLAUSES = ("order", "limit", "offset")
_MOST = 10**9
_ORDER_HINT = (
    "Add LIMIT n for the first n rows of the order, or order by the column named by WATERMARK FOR first, ascending."
)
_BOUNDED_DETAIL = "The inputs end, but a clause of streams, such as a window, makes a stream of the query: see EXPLAIN."
_BOUNDED_HINT = "Or write the results into a table, which is finished data, and sort that."


def is_ordered(query: exp.Expr) -> bool:
    """Whether a query has ORDER BY, LIMIT or OFFSET."""
    if isinstance(query, exp.Unnest):  # in parentheses, where a query may be; its ``offset`` is WITH ORDINALITY
        return False
    return any(query.args.get(clause) is not None for clause in _CLAUSES)


def bind_ordered(query: exp.Expr, context: Context, bind_plain: Bind) -> Relation:
    """Plans a query with ORDER BY, LIMIT or OFFSET: as a Top-N without keys, or a sort by event time. ``bind_plain``
    binds the query without them.

    A column of ORDER BY is one of the select list, by name or number, or an expression over FROM, which is selected in
    addition and dropped by a projection above. BindError SS217 for an order that is complete only at the end of the
    input.
    """
    order = query.args.get("order")
    ordered: list[exp.Expr] = list(order.expressions) if order is not None else []
    any_order = context.settings.any_order
    limit = None if any_order else _row_count(query.args.get("limit"), "LIMIT", 0)
    offset = None if any_order else _row_count(query.args.get("offset"), "OFFSET", 0)
    plain = query.copy()
    for clause in _CLAUSES:
        plain.set(clause, None)
    hidden = _add_hidden(plain, ordered)
    relation = bind_plain(plain)
    shown = len(relation.names) - len(hidden)
    columns = tuple(_order_column(column, i, hidden, relation, shown, context) for i, column in enumerate(ordered))
    context.stop_if_wrong()
    node = relation.node if any_order else _limited(relation, columns, limit, offset, query, context)
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
        return _time_sorted(node, columns, query, context)
    check_order(columns, node, query.args.get("order") or query)
    if limit == 0:
        return TopN(Filter(node, exp.false()), (), (), ROW_NUMBER, 1, 0)
    first = (offset or 0) + 1
    # Without an order, the first rows that arrive are the result for good: expired ones must not be replaced.
    ttl_ms = context.settings.state_ttl_ms if columns else 0
    top = TopN(node, (), columns, ROW_NUMBER, first, first + limit - 1, ttl_ms=ttl_ms)
    return check_changes(top, context, query.args["limit"])


def _time_sorted(node: Node, columns: tuple[Sorted, ...], query: exp.Expr, context: Context) -> Node:
    """Rows in the order of event time. In the order of processing time they arrive."""
    if not columns:
        raise unsupported.refusal("syntax", span_of(query))
    first, *ties = columns
    time = next(f.time for f in node.schema if f.name == first.name)
    if time is TimeDomain.PROCESSING and not first.descending and not ties:
        return node
    if time is None or time is TimeDomain.PROCESSING or first.descending:
        message = "ORDER BY needs all rows at once, and a query gives rows as they come"
        detail, hint = (_BOUNDED_DETAIL, f"{_ORDER_HINT} {_BOUNDED_HINT}") if node.bounded else (None, _ORDER_HINT)
        raise bind_error("SS217", message, query.args["order"], hint, detail)
    check_order(tuple(ties), node, query.args["order"])
    return check_changes(TemporalSort(node, first.name, tuple(ties)), context, query.args["order"])


def _row_count(clause: exp.Expr | None, name: str, least: int) -> int | None:
    """The number in LIMIT or OFFSET. SS642."""
    if clause is None:
        return None
    if not is_row_count(clause, least):
        hint = f"Write a number of rows from {least} to {_MOST - 1:,}."
        raise bind_error(WRONG_LIMIT, f"{name} needs a whole number, written as such", clause, hint)
    return int(clause.args["expression"].name)


def is_row_count(clause: exp.Expr | None, least: int) -> bool:
    """True if the clause (LIMIT or OFFSET) is None, or its number is a literal of at least ``least``; False for any
    other expression.
    """
    if clause is None:
        return True
    value = clause.args.get("expression")
    return value is not None and is_whole_number(value) and least <= int(value.name) < _MOST


def _add_hidden(query: exp.Expr, ordered: list[exp.Expr]) -> dict[int, int]:
    """Adds expressions of ORDER BY that are not selected to ``query``; returns the number of the added column by the
    position in ORDER BY."""
    if not isinstance(query, exp.Select):
        return {}
    names = {e.alias_or_name.casefold() for e in query.expressions}
    hidden: dict[int, int] = {}
    for i, column in enumerate(ordered):
        value = column.this
        named = isinstance(value, exp.Column) and not value.table and value.name.casefold() in names
        if not named and not is_whole_number(value):
            name = value.name if isinstance(value, exp.Column) else "order_by"
            query.append("expressions", exp.alias_(value.copy(), name, quoted=True))
            hidden[i] = len(hidden)
    return hidden


def sorted_by(ordered: exp.Expr, field: str) -> Sorted:
    """Returns a sort column for one item of ORDER BY whose value is in ``field``. By default NULLs are first, or last
    in a descending order.
    """
    descending, nulls_first = bool(ordered.args.get("desc")), ordered.args.get("nulls_first")
    return Sorted(field, descending, not descending if nulls_first is None else bool(nulls_first))


def _order_column(
    ordered: exp.Expr, number: int, hidden: dict[int, int], relation: Relation, shown: int, context: Context
) -> Sorted:
    return sorted_by(ordered, _order_field(ordered.this, number, hidden, relation, shown, context))


def _order_field(
    value: exp.Expr, number: int, hidden: dict[int, int], relation: Relation, shown: int, context: Context
) -> str:
    fields = relation.fields
    if number in hidden:
        return fields[shown + hidden[number]].name
    if is_whole_number(value):
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


# --- ROW_NUMBER, RANK and DENSE_RANK --------------------------------------------------------------------------

NO_NUMBER = "SS640"


@dataclass(frozen=True)
class Ranked(Unary):
    """A temporary plan node for ROW_NUMBER, RANK or DENSE_RANK. It exists until outer queries are bound, because they
    may have a condition on the number.

    Such a filter decides what replaces the node: ``rn <= 3`` makes a Top-N, ``rn = 1`` in the order of a time attribute
    a deduplication. Without a condition it becomes OVER, whose numbers are updated unless the order is that of time.
    The fields are those of TopN; ``at`` is where the call is written.
    """

    keys: tuple[str, ...]
    order: tuple[Sorted, ...]
    function: str
    number: str
    ttl_ms: int
    at: Span | None = None

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, Field(self.number, INT, False))

    @property
    def domain(self) -> TimeDomain | None:
        """The time domain of the first ORDER BY column; None if that is not a time attribute."""
        return next(f.time for f in self.input.schema if f.name == self.order[0].name)

    @property
    def in_time(self) -> bool:
        """True if rows are numbered in ascending order of a time attribute, as OVER numbers them."""
        return self.domain is not None and not self.order[0].descending

    def over(self) -> Over:
        """The OVER operator that numbers all rows in the order of time."""
        domain = self.domain
        assert domain is not None and self.in_time
        time, *ties = self.order
        return Over(self.input, self.keys, time.name, (self._call,), domain, tuple(ties))

    def updating(self) -> UpdatingOver:
        """The OVER operator that numbers the rows in an order other than that of time. It updates the numbers when rows
        arrive before others in that order.
        """
        return UpdatingOver(self.input, self.keys, self.order, (self._call,), self.ttl_ms)

    @property
    def _call(self) -> OverCall:
        return OverCall(Item(self.number, exp.Anonymous(this=self.function, expressions=[]), INT, False), None)

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info


def check_order(order: tuple[Sorted, ...], node: Node, at: exp.Expr) -> None:
    """Raises BindError SS641 if a column of ORDER BY has a type that cannot be ordered."""
    types = {f.name: f.type for f in node.schema}
    wrong = next((types[key.name] for key in order if types[key.name].name in UNORDERED), None)
    if wrong is not None:
        hint = "Order by a number, a text or a time, such as an element of it."
        raise bind_error(NO_ORDER, f"ORDER BY takes no values of type {wrong.name}", at, hint)


# --- numbers without a bound ----------------------------------------------------------------------------------


def resolve_ranks(node: Node, context: Context) -> Node:
    """Replaces the temporary ``Ranked`` nodes that are left in a whole plan by OVER nodes. UnsupportedError SS304 for a
    descending order of processing time.
    """

    def rule(operator: Node) -> Node:
        if not isinstance(operator, Ranked):
            return operator
        if operator.domain is TimeDomain.PROCESSING and not operator.in_time:
            context.report(unsupported.diagnostic("over", operator.at))
            return operator
        return check_changes(operator.over() if operator.in_time else operator.updating(), context, operator.at)

    return bottom_up(node, rule)


# --- conditions on numbers ------------------------------------------------------------------------------------


def filter_rank(node: Filter, context: Context, at: exp.Expr) -> Node:
    """Combines a filter with the row number that is computed directly below it. Returns the operator that emits only
    the rows with these numbers; the filter unchanged if its condition does not bound a row number.

    BindError SS640 for bounds that exclude every number.
    """
    names = _unbounded_ranks(node.input)
    if not names or context.problems:
        return node
    limits = [(condition, _rank_bounds(condition, names)) for condition in conjuncts(node.condition)]
    first, last = 1, None
    for _, limit in limits:
        if limit is not None:
            first = max(first, limit.first)
            last = limit.last if last is None or (limit.last is not None and limit.last < last) else last
    if last is None:
        return node
    if last < first:
        message = f"no row has the number {last}" if last < 1 else "no number is within these bounds"
        raise bind_error(NO_NUMBER, message, at, "Rows are numbered from 1 on.")
    rest = [condition for condition, limit in limits if limit is None]
    below = _with_top_rows(node.input, first, min(last, _MOST), context)
    return Filter(below, conjunction(rest)) if rest else below


@cached_per_node
def _unbounded_ranks(node: Node) -> frozenset[str]:
    """The fields of ``node`` that are row numbers without a bound, through filters and projections."""
    match node:
        case Ranked():
            return frozenset({node.number})
        case Filter():
            return _unbounded_ranks(node.input)
        case Project():
            below = _unbounded_ranks(node.input)
            return frozenset(
                i.name for i in node.items if isinstance(i.expression, exp.Column) and i.expression.name in below
            )
    return frozenset()


def _with_top_rows(node: Node, first: int, last: int, context: Context) -> Node:
    """The node with the row numbers below it bounded."""
    if isinstance(node, Ranked):
        return top_rows(node, first, last, context)
    assert isinstance(node, Unary)
    return replace(node, input=_with_top_rows(node.input, first, last, context))


@dataclass(frozen=True)
class _Bounds:
    first: int = 1
    last: int | None = None


_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def _rank_bounds(condition: exp.Expr, names: frozenset[str]) -> _Bounds | None:
    """The bounds that a condition gives a row number; None for another condition."""
    condition = condition.unnest()
    if isinstance(condition, exp.Between):
        low, high = _constant_integer(condition.args["low"]), _constant_integer(condition.args["high"])
        is_bounded = _is_rank(condition.this, names) and low is not None and high is not None
        return _Bounds(low or 0, high) if is_bounded else None
    if not isinstance(condition, exp.Binary) or type(condition) not in _MIRRORED:
        return None
    kind: type[exp.Expr] = type(condition)
    left, right = condition.left.unnest(), condition.right.unnest()
    if not _is_rank(left, names):
        left, right, kind = right, left, _MIRRORED[kind]
    value = _constant_integer(right)
    if not _is_rank(left, names) or value is None:
        return None
    limits: dict[type[exp.Expr], _Bounds] = {
        exp.LT: _Bounds(1, value - 1), exp.LTE: _Bounds(1, value), exp.EQ: _Bounds(value, value),
        exp.GT: _Bounds(value + 1), exp.GTE: _Bounds(value),
    }  # fmt: skip
    return limits[kind]


def _is_rank(value: exp.Expr, names: frozenset[str]) -> bool:
    return isinstance(value.unnest(), exp.Column) and value.unnest().name in names


_MOST_DIGITS = 15


def _constant_integer(value: exp.Expr) -> int | None:
    value = value.unnest()
    if isinstance(value, exp.Neg):
        inner = _constant_integer(value.this)
        return None if inner is None else -inner
    return int(value.name) if is_whole_number(value) and len(value.name) <= _MOST_DIGITS else None


# --- operators of bounded numbers -----------------------------------------------------------------------------


def top_rows(ranked: Ranked, first: int, last: int, context: Context) -> Node:
    """Returns the operator that emits the rows numbered ``first`` to ``last``: a Top-N, a deduplication, or OVER in
    processing time.
    """
    node, order, at = ranked.input, ranked.order, ranked.at
    only_one = ranked.function == ROW_NUMBER and first == last == 1
    closes = window_closing(node, ranked.keys)
    by_time = len(order) == 1 and ranked.domain is not None
    top = TopN(node, ranked.keys, order, ranked.function, first, last, ranked.number)
    if closes is not None:
        timed = len(order) == 1 and _is_time_below(node, order[0].name)
        newest = only_one and timed and order[0].descending
        return check_changes(replace(top, closes=closes, newest_first=newest), context, at)
    if only_one and by_time and node.changelog_mode == APPEND_ONLY:
        assert ranked.domain is not None
        deduplicated = Deduplicate(node, ranked.keys, order[0].name, ranked.domain, order[0].descending, ranked.ttl_ms)
        first_number = Item(ranked.number, exp.Literal.number(1), INT, False)
        return Project(deduplicated, (*(field.as_item for field in node.schema), first_number))
    if ranked.domain is TimeDomain.PROCESSING and ranked.in_time:
        # In the order of arrival the numbers never change.
        return Filter(check_changes(ranked.over(), context, at), number_between(ranked.number, first, last))
    return check_changes(replace(top, ttl_ms=ranked.ttl_ms), context, at)


def _is_time_below(node: Node, name: str) -> bool:
    """True for a field that is a time attribute, or was one below a window function, above which only the time of the
    window is. So the last of equal times is the newest row in windows, too, as in Flink."""
    if any(field.name == name and field.time is not None for field in node.schema):
        return True
    match node:
        case Filter() | AssignWindows() | Lookup():
            below = node.input
            return any(field.name == name for field in below.schema) and _is_time_below(below, name)
        case Project():
            source = next(item.expression for item in node.items if item.name == name)
            return isinstance(source, exp.Column) and _is_time_below(node.input, source.name)
    return False


def window_closing(node: Node, keys: tuple[str, ...]) -> Closing | None:
    """Returns when the window of a row closes, as one of the fields ``keys`` (the window's start, end or time) and a
    number of milliseconds after its value. None if no key is such a field, and for windows that may fire several times.
    """
    info = node.window_info
    if info is None or info.domain is TimeDomain.PROCESSING or node.changelog_mode != APPEND_ONLY:
        return None
    if not isinstance(info.window, AlignedWindow | Session) or not all(map(_closes_once, node.walk())):
        return None
    return closing_of(info, keys)


def _closes_once(node: Node) -> bool:
    return node.firing.is_default if isinstance(node, WindowAggregate) else not isinstance(node, Ranked)
