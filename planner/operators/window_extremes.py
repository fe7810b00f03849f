"""A join of windows with their own maximum or minimum becomes a Top-N that computes the windows once::

    SELECT a.* FROM counts AS a JOIN (SELECT MAX(n) AS most, window_start, window_end FROM counts GROUP BY …) AS m
    ON a.window_start = m.window_start AND a.window_end = m.window_end AND a.n >= m.most

emits the rows of each window whose ``RANK() OVER (PARTITION BY window_start, window_end ORDER BY n DESC)`` is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.expressions import is_repeatable, substituted
from sqlstream.planner.fields import Item, Schema, field_of
from sqlstream.planner.firing import DEFAULT_FIRING
from sqlstream.planner.node import Conditions, Node, PushFilters
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan, Union
from sqlstream.planner.operators.over import Closing, Sorted, closing_of
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import AlignedWindow, Session

Values = dict[str, exp.Expression]
"""Expressions over the fields of the rows that both sides read, by the name of a field."""

_ORDERED = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})
"""Types whose order and equality are the same for aggregates, comparisons and Top-N. Of FLOAT and DOUBLE they are not:
NaN, and -0.0."""

_LARGEST_EXPRESSION = 30


@dataclass(frozen=True)
class JoinedWindows:
    """An inner join of rows of the same window. ``equal``: the equalities of ON, as triples of an expression over the
    first input, one over the second, and whether NULL equals NULL. ``schema``: the fields of the result, those of both
    inputs, whose names differ.
    """

    inputs: tuple[Node, Node]
    equal: tuple[tuple[exp.Expression, exp.Expression, bool], ...]
    schema: Schema

    def as_top_n(self, conditions: Conditions, push: PushFilters) -> Node | None:
        """The Top-N that gives the rows of the join that meet all ``conditions``; None where the join is needed.
        ``push`` filters a node by conditions.
        """
        for side in (1, 0):
            extreme = _extreme(self, side)
            rewritten = _top_n(self, conditions, extreme, push) if extreme is not None else None
            if rewritten is not None:
                return rewritten
        return None


@dataclass(frozen=True)
class _Extreme:
    """The sides of a join of ``rows`` with the largest or smallest value of their field ``value`` per ``keys``, fields
    among which are the bounds of a window.

    ``side``: the side of the join that aggregates. ``values``: the fields of both sides as expressions over ``rows``,
    in which the aggregate stands for the row's own value.
    """

    rows: Node
    keys: tuple[str, ...]
    value: str
    largest: bool
    side: int
    values: Values


def _extreme(join: JoinedWindows, side: int) -> _Extreme | None:
    """Reads one side of the join as the extreme values of the other."""
    aggregate, results = _unfolded(join.inputs[side])
    if not isinstance(aggregate, WindowAggregate) or not _is_plain(aggregate):
        return None
    (item,) = aggregate.aggregates
    call = item.expression
    if not isinstance(call, exp.Max | exp.Min) or not isinstance(call.this, exp.Column) or call.expressions:
        return None
    below, of_input = _unfolded(aggregate.input)
    rows, of_rows = _unfolded(join.inputs[1 - side])
    names = _equal_fields(rows, below)
    if names is None:
        return None
    of_input = {name: substituted(value, names) for name, value in of_input.items()}
    of_aggregate = {field.name: of_input[field.name] for field in aggregate.schema if field.name != item.name}
    of_aggregate[item.name] = of_input[call.this.name]
    fields = {name: substituted(value, of_aggregate) for name, value in results.items()}
    keys = [of_input[key] for key in (*aggregate.keys, aggregate.columns.start, aggregate.columns.end)]
    value = of_input[call.this.name]
    if not isinstance(value, exp.Column) or not all(isinstance(key, exp.Column) for key in keys):
        return None
    types = {field.name: field.type for field in rows.schema}
    if types[value.name].name not in _ORDERED or types[value.name] != item.type:
        return None
    key_names = tuple(dict.fromkeys(key.name for key in keys))
    return _Extreme(rows, key_names, value.name, isinstance(call, exp.Max), side, {**of_rows, **fields})


def _is_plain(aggregate: WindowAggregate) -> bool:
    """True for one aggregate over windows that were assigned below, emitted once when they close."""
    given = aggregate.window is None and aggregate.grouping_sets is None and aggregate.domain is TimeDomain.EVENT
    fires_once = aggregate.firing == DEFAULT_FIRING and aggregate.pane is None and aggregate.pane_index is None
    return given and fires_once and len(aggregate.aggregates) == 1


def _unfolded(node: Node) -> tuple[Node, Values]:
    """The first node that is not a projection, and the fields of ``node`` as expressions over it. Projections that
    compute much, or what may differ from call to call, are not followed.
    """
    values: Values = {field.name: field_of(field.name) for field in node.schema}
    while isinstance(node, Project):
        items: Values = {item.name: item.expression for item in node.items}
        below = {name: substituted(value, items) for name, value in values.items()}
        if not all(_is_small(value) and is_repeatable(value) for value in below.values()):
            break
        node, values = node.input, below
    return node, values


def _is_small(expression: exp.Expression) -> bool:
    return sum(1 for _ in expression.walk()) <= _LARGEST_EXPRESSION


def _equal_fields(rows: Node, others: Node) -> Values | None:
    """The fields of ``others`` as fields of ``rows``, where both have the same rows; None where they may differ.

    Aggregates over equal windows have the same rows whatever they compute.
    """
    if rows == others:
        return {field.name: field_of(field.name) for field in rows.schema}
    if not isinstance(rows, WindowAggregate) or not isinstance(others, WindowAggregate):
        return None
    if replace(rows, aggregates=()) != replace(others, aggregates=()):
        return None
    computed = {(item.expression, item.type): item.name for item in rows.aggregates}
    aggregates = {item.name: computed.get((item.expression, item.type)) for item in others.aggregates}
    if None in aggregates.values():
        return None
    shared = {field.name: field.name for field in others.schema if field.name not in aggregates}
    return {name: field_of(own) for name, own in {**shared, **aggregates}.items() if own is not None}


# --- the Top-N ------------------------------------------------------------------------------------------------


def _top_n(join: JoinedWindows, conditions: Conditions, extreme: _Extreme, push: PushFilters) -> Node | None:
    """The Top-N for a join with extreme values. None unless the join compares each row with the extreme of its own keys
    and window, and the rows are the same each time they are computed.
    """
    rows = extreme.rows
    equal = _equal_columns(join, extreme)
    if equal is None:
        return None
    matched = {name for name, _ in equal}
    compared = next((c for c in conditions if _compares(c, join, extreme)), None)
    if not {*extreme.keys, *_bounds(rows)} <= matched or (compared is None and extreme.value not in matched):
        return None
    closes = _closing(extreme)
    if closes is None or not _is_repeated(rows.pruned(frozenset({*extreme.keys, extreme.value}))):
        return None
    order = (Sorted(extreme.value, descending=extreme.largest, nulls_first=False),)
    ranked: Node = TopN(rows, extreme.keys, order, "rank", 1, 1, closes=closes)
    nullable = {field.name for field in rows.schema if field.nullable}
    never_null = {name for name, null_safe in equal if not null_safe}
    never_null |= {extreme.value} if compared is not None else set()
    present = [_is_not_null(name) for name in sorted(never_null & nullable)]
    ranked = push(ranked, present) if present else ranked
    items = (Item(f.name, extreme.values[f.name], f.type, f.nullable, f.time) for f in join.schema)
    result = Project(ranked, tuple(items))
    rest = [condition for condition in conditions if condition is not compared]
    return push(result, rest) if rest else result


def _equal_columns(join: JoinedWindows, extreme: _Extreme) -> list[tuple[str, bool]] | None:
    """For each equality of the join the field that it compares with itself, and whether NULL equals NULL there; None
    if one compares anything else.
    """
    equal = []
    for *sides, null_safe in join.equal:
        left, right = (_value(side, extreme) for side in sides)
        if left is None or left != right:
            return None
        equal.append((left, null_safe))
    return equal


def _value(expression: exp.Expr, extreme: _Extreme) -> str | None:
    """The field of the rows that an expression over the join's fields stands for; None for other expressions."""
    value = extreme.values.get(expression.name) if isinstance(expression, exp.Column) else None
    return value.name if isinstance(value, exp.Column) else None


def _compares(condition: exp.Expr, join: JoinedWindows, extreme: _Extreme) -> bool:
    """True if a condition holds only for rows with the extreme value: ``row.n >= most``, ``most = row.n`` and so on."""
    if not isinstance(condition, exp.GTE | exp.LTE | exp.EQ):
        return False
    sides = [condition.left, condition.right]
    if any(_value(side, extreme) != extreme.value for side in sides):
        return False
    on_right, on_left = (side.name in join.inputs[extreme.side].field_names for side in reversed(sides))
    reaches = exp.GTE if on_right is extreme.largest else exp.LTE
    return on_right is not on_left and isinstance(condition, (exp.EQ, reaches))


def _bounds(rows: Node) -> set[str | None]:
    info = rows.window_info
    return {None} if info is None else {info.start, info.end}


def _closing(extreme: _Extreme) -> Closing | None:
    rows = extreme.rows
    info = rows.window_info
    if info is None or info.domain is TimeDomain.PROCESSING or rows.changelog_mode != APPEND_ONLY:
        return None
    return closing_of(info, extreme.keys) if isinstance(info.window, AlignedWindow | Session) else None


def _is_repeated(rows: Node) -> bool:
    """True if rows are the same each time they are computed, and computing them writes nothing to other tables."""
    return all(map(_is_repeated_alone, rows.walk()))


def _is_repeated_alone(node: Node) -> bool:
    if node.side_table is not None:
        return False
    match node:
        case Scan():
            return not node.on_error.tolerates and all(map(is_repeatable, node.predicates))
        case AssignTime():
            return node.domain is TimeDomain.EVENT
        case Project():
            return all(is_repeatable(item.expression) for item in node.items)
        case Filter():
            return is_repeatable(node.condition)
        case AssignWindows():
            return isinstance(node.window, AlignedWindow | Session) and all(map(is_repeatable, node.window.expressions))
        case WindowAggregate():
            window = node.window is None or isinstance(node.window, AlignedWindow | Session)
            return window and node.firing.is_default and all(is_repeatable(item.expression) for item in node.aggregates)
    return isinstance(node, Union)


def _is_not_null(name: str) -> exp.Expression:
    return exp.Not(this=exp.Is(this=field_of(name), expression=exp.Null()))
