"""Joins of two streams: what their conditions and WHERE say of rows, and the operator that joins them.

Equal windows make a window join, bounds on the distance of two time attributes an interval join. Any other join is a
regular one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, bind_error, refuse_rest
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition, check_operands, types_of
from sqlstream.planner.binder.hints import ttl_ms_of
from sqlstream.planner.binder.join_conditions import (
    Sides,
    VisibleColumns,
    comparisons_of,
    joined_using,
    pair_conjunction,
    with_using_columns,
)
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.expressions import conjunction, conjuncts, has_subquery, is_repeatable
from sqlstream.planner.fields import UniqueNames, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.join import Equality, Join, RegularJoin, WindowJoin
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.windows import AlignedWindow, Cumulate, Session
from sqlstream.udfs.joins import JoinKind

JOIN_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("", "SEMI"): JoinKind.SEMI,
    ("", "ANTI"): JoinKind.ANTI,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
    **{(kind.value, outer): kind for kind in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL) for outer in ("", "OUTER")},
}


def stream_join(
    join: exp.Join, left: Scope, right: Scope, where: Sequence[exp.Expr], context: Context
) -> tuple[Scope, list[exp.Expr]]:
    """Binds a join of two streams. Returns the scope of its rows, and those conditions of ``where`` that the join
    itself applies, so that no filter has to.

    An inner join uses conditions of WHERE like those of ON. BindError SS239 for a missing condition, SS291 to SS293 for
    one that kernels cannot evaluate.
    """
    kind = _join_kind(join)
    refuse_rest(join, ("this", "side", "kind", "method", "on", "using"), context)
    if join.args.get("method"):
        join = _natural(join, left, right)
    right = with_distinct_fields(right, left)
    pairs = scope_of_both(left, right)
    conditions, columns = written_conditions(join, left, right, pairs, context)
    if kind is not JoinKind.INNER and not join.args.get("using") and join.args.get("on") is None:
        hint = "Write ON with an equality of columns of both sides, or ON TRUE."
        raise bind_error("SS239", f"{kind.value} JOIN needs a condition", join, hint)
    context.stop_if_wrong()
    implied = _implied_conditions(where, pairs, context) if kind is JoinKind.INNER else []
    node = join_sides(left, right, kind, conditions, join, context, [bound for _, bound in implied])
    if not kind.pairs:
        return Scope(node, left.columns), []
    fulfilled = [written for written, bound in implied if _is_fulfilled(bound, node, left.node, right.node)]
    return with_one_window(with_using_columns(join, Scope(node, columns), left, right, kind)), fulfilled


def written_conditions(
    join: exp.Join, left: Scope, right: Scope, pairs: Scope, context: Context
) -> tuple[list[exp.Expression], VisibleColumns]:
    """Binds ON or USING. Returns a pair: the list of conditions, and the visible columns of both sides, in which a
    column of USING is shown once.
    """
    if join.args.get("using"):
        conditions, columns = joined_using(join.args["using"], left.columns, right.columns)
        for condition in conditions:
            check_operands(condition, types_of(pairs, context), context)
        return conditions, columns
    if join.args.get("on") is not None:
        condition = bind_condition(join.args["on"], pairs, context, ClauseContext("ON"))
        return conjuncts(condition), pairs.columns
    return [], pairs.columns


def join_sides(
    left: Scope,
    right: Scope,
    kind: JoinKind,
    conditions: Iterable[exp.Expression],
    at: exp.Expr,
    context: Context,
    implied: Iterable[exp.Expression] = (),
) -> Node:
    """Returns the plan of a join of two sides on bound conditions. No field name may occur on both sides.

    Conditions that the join cannot evaluate become a filter above an inner join. ``implied`` are conditions that WHERE
    applies again later; the join may use them, but needs no filter for them. Mistakes raise SS291 to SS293, SS325. For
    finished data the plan is a join without conditions, because Spark SQL evaluates them.
    """
    if context.settings.any_order:
        return RegularJoin(left.node, right.node, kind, (), None)
    conditions_by_use = _Conditions()
    _divide(conditions, conditions_by_use, left.node, right.node, kind)
    _divide(implied, conditions_by_use, left.node, right.node, kind, implied=True)
    node = _join_node(
        conditions_by_use, left.node, right.node, kind, lambda side: ttl_ms_of((left, right)[side].tables, context)
    )
    if isinstance(node, Filter):
        return Filter(check_changes(node.input, context, at), node.condition)
    return check_changes(node, context, at)


def _join_kind(join: exp.Join) -> JoinKind:
    side, kind, method = ((join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    join_kind = JOIN_KINDS.get((side, kind))
    if method not in ("", "NATURAL") or join_kind is None:
        words = " ".join(word for word in (method, side, kind) if word)
        raise unsupported.refusal("kind of join", span_of(join), f"It is {words} JOIN.")
    return join_kind


def _natural(join: exp.Join, left: Scope, right: Scope) -> exp.Join:
    """NATURAL JOIN as USING of the columns that both sides have; without common columns it pairs all rows."""
    theirs = {column.name.casefold() for column in right.stars(None)}
    names = [column.name for column in left.stars(None) if column.name.casefold() in theirs]
    rewritten = join.copy()
    using = [exp.to_identifier(name, quoted=True) for name in names]
    for name in using:
        mark_as(name, join)
    rewritten.set("using", using)
    if not names:
        rewritten.set("on", exp.true())
    return rewritten


class WhereConditions:
    """The conditions of WHERE that are connected by AND. Each join of FROM asks for those that may read its right
    side.
    """

    def __init__(self, where: Sequence[exp.Expr]) -> None:
        self._where = where

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = {}
        for i, condition in enumerate(self._where):
            if not has_subquery(condition):
                for name in {column.parts[0].name.casefold() for column in condition.find_all(exp.Column)}:
                    by_name.setdefault(name, []).append(i)
        return by_name

    def of(self, right: Scope) -> list[exp.Expr]:
        """The conditions without subqueries that name the table on the right side of a join, or one of its columns, in
        their order.
        """
        names = {visible.name.casefold() for visible in right.columns}
        names |= {(table or "").casefold().split(".")[0] for table in right.tables}
        indices = {i for name in names for i in self._by_name.get(name, ())}
        return [self._where[i] for i in sorted(indices)]


def _implied_conditions(
    where: Sequence[exp.Expr], pairs: Scope, context: Context
) -> list[tuple[exp.Expr, exp.Expression]]:
    """The conditions of WHERE that read these two sides alone, as written and as bound."""
    implied = []
    for condition in where:
        if _reads_only(condition, pairs):
            quiet = replace(context, problems={})
            bound = bind_condition(condition, pairs, quiet, ClauseContext("WHERE"))
            if not quiet.problems and is_repeatable(bound):
                implied.append((condition, bound))
    return implied


def _reads_only(condition: exp.Expr, scope: Scope) -> bool:
    columns = list(condition.find_all(exp.Column))
    if not columns or not all(map(scope.knows, columns)):
        return False
    if has_subquery(condition) or condition.find(exp.Window, exp.AggFunc) is not None:
        return False
    try:
        return bool([scope.resolve(column) for column in columns])
    except SqlStreamError:
        return False


# --- conditions by what the join does with them ---------------------------------------------------------------


@dataclass
class _Bounds:
    """Bounds of left time - right time in microseconds, and the conditions that they come from."""

    lower: int | None = None
    upper: int | None = None
    conditions: list[exp.Expression] = field(default_factory=list)

    @property
    def hold_equal(self) -> bool:
        """Whether equal times are within the bounds."""
        return (self.lower is None or self.lower <= 0) and (self.upper is None or self.upper >= 0)

    def add(self, operator: type[exp.Expr], distance: int) -> None:
        """Narrow the bounds by ``left - right <operator> distance``."""
        if operator in (exp.GT, exp.GTE, exp.EQ):
            lower = distance + (operator is exp.GT)
            self.lower = lower if self.lower is None else max(self.lower, lower)
        if operator in (exp.LT, exp.LTE, exp.EQ):
            upper = distance - (operator is exp.LT)
            self.upper = upper if self.upper is None else min(self.upper, upper)


@dataclass
class _Conditions:
    """Conditions by what the join does with them. ``bounds`` are keyed by the time fields of both sides; ``of_side``
    are the conditions that read one side alone."""

    equal: list[Equality] = field(default_factory=list)
    bounds: dict[tuple[str, str], _Bounds] = field(default_factory=dict)
    of_side: tuple[list[exp.Expression], list[exp.Expression]] = field(default_factory=lambda: ([], []))
    rest: list[exp.Expression] = field(default_factory=list)


def _divide(
    conditions: Iterable[exp.Expression],
    by_use: _Conditions,
    left: Node,
    right: Node,
    kind: JoinKind,
    *,
    implied: bool = False,
) -> None:
    """Sorts conditions into ``by_use``; of ``implied`` ones, which are checked above again, only equalities and
    bounds."""
    sides = Sides(left, right)
    for condition in (conjunct for whole in conditions for conjunct in comparisons_of(whole)):
        bound = sides.time_bound(condition)
        equality = sides.equality(condition) if bound is None else None
        side = sides.side_of(condition)
        if bound is not None:
            times, operator, distance = bound
            bounds = by_use.bounds.setdefault(times, _Bounds())
            bounds.add(operator, distance)
            bounds.conditions += [] if implied else [condition]
        elif equality is not None:
            by_use.equal.append(equality)
        elif not implied and side is not None and not kind.padded[side]:
            # A row that fails the condition has no partner; where the side is padded it must still be emitted.
            by_use.of_side[side].append(condition)
        elif not implied:
            by_use.rest.append(condition)


def _is_fulfilled(condition: exp.Expression, node: Node, left: Node, right: Node) -> bool:
    """Whether the join itself guarantees all parts of the condition."""
    sides = Sides(left, right)
    join = node.input if isinstance(node, Filter) else node
    times = (join.left_time, join.right_time) if isinstance(join, IntervalJoin) else None
    for conjunct in comparisons_of(condition):
        bound = sides.time_bound(conjunct)
        if bound is not None and bound[0] != times:
            return False
        if bound is None and sides.equality(conjunct) is None:
            return False
    return True


# --- the operator ---------------------------------------------------------------------------------------------


def _join_node(by_use: _Conditions, left: Node, right: Node, kind: JoinKind, ttl_ms: Callable[[int], int]) -> Node:
    """The join, over filters of single sides, below a filter with the rest of an inner join's condition."""
    left, right = (
        Filter(side, conjunction(own)) if own else side for side, own in zip((left, right), by_use.of_side, strict=True)
    )
    equal = tuple(by_use.equal)
    within = next(((t, b) for t, b in by_use.bounds.items() if b.lower is not None and b.upper is not None), None)
    loose = [c for times, b in by_use.bounds.items() if within is None or times != within[0] for c in b.conditions]
    rest = [*loose, *by_use.rest]
    above = rest if kind is JoinKind.INNER else []
    condition = pair_conjunction(rest, left, right) if kind is not JoinKind.INNER else None
    in_windows = window_join(left, right, kind, equal, condition)
    if in_windows is not None and (within is None or within[1].hold_equal):
        node: Join = in_windows
    elif within is None:
        node = RegularJoin(left, right, kind, equal, condition, (ttl_ms(0), ttl_ms(1)))
    else:
        (left_time, right_time), bounds = within
        assert bounds.lower is not None and bounds.upper is not None
        domain = next(f.time for f in left.schema if f.name == left_time) or TimeDomain.EVENT
        limits = (bounds.lower, bounds.upper)
        node = IntervalJoin(left, right, kind, equal, condition, left_time, right_time, *limits, domain)
    return Filter(node, conjunction(above)) if above else node


# --- window joins ---------------------------------------------------------------------------------------------


def window_join(
    left: Node, right: Node, kind: JoinKind, equal: tuple[Equality, ...], condition: exp.Expression | None
) -> WindowJoin | None:
    """Returns the join of rows whose windows are equal. None if the conditions do not compare windows, or if rows of a
    window may arrive after its end.

    Windows are equal if both bounds are, or one bound where it determines the other.
    """
    windows = _joinable_window(left), _joinable_window(right)
    if windows[0] is None or windows[1] is None:
        return None
    starts, ends = (windows[0].start, windows[1].start), (windows[0].end, windows[1].end)
    named = {(e.left.name, e.right.name) for e in equal if _is_field(e.left) and _is_field(e.right)}
    missing = [bounds for bounds in (starts, ends) if bounds not in named]
    same = windows[0].window == windows[1].window and not isinstance(windows[0].window, Cumulate | Session)
    if None in (*starts, *ends) or len(missing) > (1 if same else 0):
        return None
    assert ends[0] is not None and ends[1] is not None
    more = tuple(
        Equality(field_of(left_column or ""), field_of(right_column or "")) for left_column, right_column in missing
    )
    return WindowJoin(left, right, kind, (*equal, *more), condition, (ends[0], ends[1]))


def with_one_window(scope: Scope) -> Scope:
    """For an inner join of rows in the same window: the scope in which the window columns of the right side stand for
    the equal fields of the left side, so that GROUP BY may name either. Any other scope is unchanged.
    """
    node = scope.node.input if isinstance(scope.node, Filter) else scope.node
    if not isinstance(node, WindowJoin) or node.kind is not JoinKind.INNER:
        return scope
    left, right = node.left.window_info, node.right.window_info
    assert left is not None and right is not None, "both sides carry windows"
    same = {theirs: own for own, theirs in zip(left.columns, right.columns, strict=True) if own and theirs}
    columns = tuple(replace(column, field=same.get(column.field, column.field)) for column in scope.columns)
    return Scope(scope.node, columns)


def _is_field(value: exp.Expression) -> bool:
    return isinstance(value, exp.Column)


def _joinable_window(side: Node) -> WindowInfo | None:
    """The window of a side, if it is complete when the watermark passes its end."""
    window = side.window_info
    if window is None or window.domain is not TimeDomain.EVENT or side.changelog_mode != APPEND_ONLY:
        return None
    if not isinstance(window.window, AlignedWindow | Session):
        return None
    fired_otherwise = any(isinstance(node, WindowAggregate) and not node.firing.is_default for node in side.walk())
    return None if fired_otherwise else window


# --- both sides and their names -------------------------------------------------------------------------------


def with_distinct_fields(right: Scope, left: Scope) -> Scope:
    """Returns the right side of a join, with those fields renamed whose names occur on the left side too."""
    names = UniqueNames(f.name for f in left.node.schema)
    renamed = {f.name: names.unique(f.name) for f in right.node.schema}
    if all(name == own for own, name in renamed.items()):
        return right
    node = Project(right.node, tuple(replace(f.as_item, name=renamed[f.name]) for f in right.node.schema))
    return Scope(node, tuple(replace(column, field=renamed[column.field]) for column in right.columns))


def scope_of_both(left: Scope, right: Scope) -> Scope:
    """Returns the scope in which a join's conditions are bound: the columns of both sides. No field name may occur on
    both.
    """
    return Scope(RegularJoin(left.node, right.node, JoinKind.INNER, ()), (*left.columns, *right.columns))


# --- tables between commas ------------------------------------------------------------------------------------

_LISTED_SOURCES = (exp.Table, exp.Subquery)
_EXPLICIT_JOIN = ("side", "method", "on", "using")


def in_order_of_keys(first: exp.Expr, steps: Sequence[exp.Expr], where: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Returns the joins of FROM in a better order, if all are written as commas: where possible, each table is joined
    on an equality of WHERE.

    A join without an equality is computed in one task. Joins that are not written as commas keep their order.
    """
    if not steps or not all(map(_is_comma_join, steps)):
        return list(steps)
    places: dict[str, list[int]] = {}
    for i, step in enumerate(steps):
        places.setdefault(_source_name(step.this), []).append(i)
    joined_by: dict[str, list[int]] = {}
    for one, other in filter(None, map(_equated_tables, where)):
        joined_by.setdefault(one, []).extend(places.get(other, ()))
        joined_by.setdefault(other, []).extend(places.get(one, ()))
    keyed = joined_by.pop(_source_name(first), [])
    heapify(keyed)
    waiting, chosen = deque(range(len(steps))), dict[int, exp.Expr]()
    while waiting or keyed:
        i = heappop(keyed) if keyed else waiting.popleft()
        if i in chosen:
            continue
        chosen[i] = steps[i]
        for joined in joined_by.pop(_source_name(steps[i].this), ()):
            heappush(keyed, joined)
    return list(chosen.values())


def in_order_of_text(scope: Scope, first: exp.Expr, steps: Sequence[exp.Expr]) -> Scope:
    """Returns the scope with its columns in the order in which the user wrote the tables in FROM, after the joins were
    reordered.
    """
    places = {name: i for i, name in enumerate([_source_name(first), *(_source_name(step.this) for step in steps)])}
    if not all(column.table is not None and column.table.casefold() in places for column in scope.columns):
        return scope
    ordered = sorted(scope.columns, key=lambda column: places[(column.table or "").casefold()])
    return replace(scope, columns=tuple(ordered))


def _is_comma_join(step: exp.Expr) -> bool:
    return (
        isinstance(step, exp.Join)
        and isinstance(step.this, _LISTED_SOURCES)
        and bool(step.this.alias_or_name)
        and step.text("kind").upper() in ("", "CROSS")
        and not any(step.args.get(key) for key in _EXPLICIT_JOIN)
    )


def _equated_tables(condition: exp.Expr) -> tuple[str, str] | None:
    """The two tables that an equality compares; None for other conditions."""
    plain = condition.unnest()
    if not isinstance(plain, exp.EQ) or has_subquery(plain):
        return None
    sides = [{column.table.casefold() for column in side.find_all(exp.Column)} for side in (plain.left, plain.right)]
    if any(len(side) != 1 for side in sides) or "" in sides[0] | sides[1]:
        return None
    return sides[0].pop(), sides[1].pop()


def _source_name(source: exp.Expr) -> str:
    return source.alias_or_name.casefold()
