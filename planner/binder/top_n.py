"""ROW_NUMBER, RANK and DENSE_RANK that a condition bounds: Top-N, and first and last rows.

Where they stand, nobody knows yet what the query above asks for. ``Ranked`` stands there in their place, and a filter
above makes of it what its condition says: ``rn <= 3`` a Top-N, ``rn = 1`` in the order of a time attribute a
deduplication. What nobody bounds is OVER, which updates the numbers where the order is not that of time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.planner import unsupported
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.caching import cached_per_node
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.fields import Field, Item, Schema
from sqlstream.planner.node import Node, Unary, bottom_up
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.over import Over, OverCall, Sorted
from sqlstream.planner.operators.top_n import INT, ROW_NUMBER, Closing, TopN, between
from sqlstream.planner.operators.updating_over import UpdatingOver
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.rewriting import conjunction, conjuncts
from sqlstream.planner.windows import AlignedWindow, Hop, Session, Tumble

NO_NUMBER = "SS640"
NO_ORDER = "SS641"

_UNORDERED = ("ARRAY", "MAP", "STRUCT", "VARIANT", "INTERVAL")
_MOST = 10**9


@dataclass(frozen=True)
class Ranked(Unary):
    """Numbers of rows that nobody has bounded yet; fields as of TopN. ``at``: where they are written."""

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
        """Of the time attribute that leads the order."""
        return next(f.time for f in self.input.schema if f.name == self.order[0].name)

    @property
    def in_time(self) -> bool:
        """True where rows are numbered in the order of time, as OVER does."""
        return self.domain is not None and not self.order[0].descending

    def over(self) -> Over:
        """The numbers of all rows."""
        domain = self.domain
        assert domain is not None and self.in_time
        time, *ties = self.order
        return Over(self.input, self.keys, time.name, (self._call,), domain, tuple(ties))

    def updating(self) -> UpdatingOver:
        """The numbers of all rows in an order that rows to come may stand before."""
        return UpdatingOver(self.input, self.keys, self.order, (self._call,), self.ttl_ms)

    @property
    def _call(self) -> OverCall:
        return OverCall(Item(self.number, exp.Anonymous(this=self.function, expressions=[]), INT, False), None)

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info


def check_order(order: tuple[Sorted, ...], node: Node, at: exp.Expr) -> None:
    """BindError SS641 for columns whose values have no order here."""
    types = {f.name: f.type for f in node.schema}
    wrong = next((types[key.name] for key in order if types[key.name].name in _UNORDERED), None)
    if wrong is not None:
        hint = "Order by a number, a text or a time, such as an element of it."
        raise bind_error(NO_ORDER, f"ORDER BY takes no values of type {wrong.name}", at, hint)


# --- numbers that nobody bounds -------------------------------------------------------------------------------


def resolved(node: Node, context: Context) -> Node:
    """The plan of a whole query, without ``Ranked``. SS304 where the rows that came last are numbered first."""

    def rule(operator: Node) -> Node:
        if not isinstance(operator, Ranked):
            return operator
        if operator.domain is TimeDomain.PROCESSING and not operator.in_time:
            context.report(unsupported.diagnostic("over", operator.at))
            return operator
        return check_changes(operator.over() if operator.in_time else operator.updating(), context, operator.at)

    return bottom_up(node, rule)


# --- conditions on numbers ------------------------------------------------------------------------------------


def bounded(node: Filter, context: Context, at: exp.Expr) -> Node:
    """The filter, or what its condition makes of the numbers of rows below it. BindError SS640 for bounds that no
    number is within."""
    names = _numbers_below(node.input)
    if not names or context.problems:
        return node
    limits = [(condition, _limit(condition, names)) for condition in conjuncts(node.condition)]
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
    below = _with_best(node.input, first, min(last, _MOST), context)
    return Filter(below, conjunction(rest)) if rest else below


@cached_per_node
def _numbers_below(node: Node) -> frozenset[str]:
    """The fields of ``node`` that are numbers nobody has bounded, as they are; filters and projections may stand
    between."""
    match node:
        case Ranked():
            return frozenset({node.number})
        case Filter():
            return _numbers_below(node.input)
        case Project():
            below = _numbers_below(node.input)
            return frozenset(
                i.name for i in node.items if isinstance(i.expression, exp.Column) and i.expression.name in below
            )
    return frozenset()


def _with_best(node: Node, first: int, last: int, context: Context) -> Node:
    """The node with the numbers below it bounded."""
    if isinstance(node, Ranked):
        return best(node, first, last, context)
    assert isinstance(node, Unary)
    return replace(node, input=_with_best(node.input, first, last, context))


@dataclass(frozen=True)
class _Limit:
    first: int = 1
    last: int | None = None


_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def _limit(condition: exp.Expr, names: frozenset[str]) -> _Limit | None:
    """The bounds that a condition gives a number."""
    condition = condition.unnest()
    if isinstance(condition, exp.Between):
        low, high = _integer(condition.args["low"]), _integer(condition.args["high"])
        is_bounded = _is_number(condition.this, names) and low is not None and high is not None
        return _Limit(low or 0, high) if is_bounded else None
    if not isinstance(condition, exp.Binary) or type(condition) not in _MIRRORED:
        return None
    kind: type[exp.Expr] = type(condition)
    left, right = condition.left.unnest(), condition.right.unnest()
    if not _is_number(left, names):
        left, right, kind = right, left, _MIRRORED[kind]
    value = _integer(right)
    if not _is_number(left, names) or value is None:
        return None
    limits: dict[type[exp.Expr], _Limit] = {
        exp.LT: _Limit(1, value - 1), exp.LTE: _Limit(1, value), exp.EQ: _Limit(value, value),
        exp.GT: _Limit(value + 1), exp.GTE: _Limit(value),
    }  # fmt: skip
    return limits[kind]


def _is_number(value: exp.Expr, names: frozenset[str]) -> bool:
    return isinstance(value.unnest(), exp.Column) and value.unnest().name in names


_MOST_DIGITS = 15


def _integer(value: exp.Expr) -> int | None:
    value = value.unnest()
    if isinstance(value, exp.Neg):
        inner = _integer(value.this)
        return None if inner is None else -inner
    plain = isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()
    return int(value.name) if plain and len(value.name) <= _MOST_DIGITS else None


# --- the operators --------------------------------------------------------------------------------------------


def best(ranked: Ranked, first: int, last: int, context: Context) -> Node:
    """The rows with the numbers from ``first`` to ``last``, and these numbers."""
    node, order, at = ranked.input, ranked.order, ranked.at
    only_one = ranked.function == ROW_NUMBER and first == last == 1
    closes = _closing(node, ranked.keys)
    by_time = len(order) == 1 and ranked.domain is not None
    top = TopN(node, ranked.keys, order, ranked.function, first, last, ranked.number)
    if closes is not None:
        newest = only_one and by_time and order[0].descending
        return check_changes(replace(top, closes=closes, newest_first=newest), context, at)
    if only_one and by_time and node.changelog_mode == APPEND_ONLY:
        assert ranked.domain is not None
        deduplicated = Deduplicate(node, ranked.keys, order[0].name, ranked.domain, order[0].descending, ranked.ttl_ms)
        first_number = Item(ranked.number, exp.Literal.number(1), INT, False)
        return Project(deduplicated, (*(field.as_item for field in node.schema), first_number))
    if ranked.domain is TimeDomain.PROCESSING and ranked.in_time:
        # Who came first stays first: numbers do not change.
        return Filter(check_changes(ranked.over(), context, at), between(ranked.number, first, last))
    return check_changes(replace(top, ttl_ms=ranked.ttl_ms), context, at)


def _closing(node: Node, keys: tuple[str, ...]) -> Closing | None:
    """When the windows of the keys have all their rows; None where the keys tell no window that closes once."""
    info = node.window_info
    if info is None or info.domain is TimeDomain.PROCESSING or node.changelog_mode != APPEND_ONLY:
        return None
    if not isinstance(info.window, AlignedWindow | Session) or not all(map(_closes_once, node.walk())):
        return None
    size_ms = info.window.size_ms if isinstance(info.window, Tumble | Hop) else None
    for field, after_ms in ((info.time, 0), (info.end, -1), (info.start, None if size_ms is None else size_ms - 1)):
        if field is not None and field in keys and after_ms is not None:
            return Closing(field, after_ms)
    return None


def _closes_once(node: Node) -> bool:
    return node.firing.is_default if isinstance(node, WindowAggregate) else not isinstance(node, Ranked)
