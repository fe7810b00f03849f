"""Joins of two streams: what ON, USING and WHERE say of their rows, and which operator carries that out.

Equal windows make a window join, bounds on the distance of two time attributes an interval join; every other join is a
regular one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition
from sqlstream.planner.binder.join_sides import (
    Sides,
    apart_from,
    decided_on_pairs,
    parts_of,
    scope_of_both,
    with_one_of_each,
)
from sqlstream.planner.binder.lookup_conditions import joined_using
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.state_ttl import ttl_ms_of
from sqlstream.planner.binder.window_joins import window_join, with_one_window
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.joining import Equality, Join
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.regular_join import RegularJoin
from sqlstream.planner.rewriting import conjunction, conjuncts, has_subquery, is_repeatable
from sqlstream.udfs.joins import JoinKind

_KINDS = {
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
    """The scope of both sides, and those conditions of WHERE, of ``where``, that all its rows fulfil.

    The conditions of WHERE say of inner joins what ON could. BindError SS239 for a condition that is missing, SS291 to
    SS293 for one that kernels cannot decide.
    """
    kind = _kind(join)
    refuse_rest(join, ("this", "side", "kind", "method", "on", "using"), context)
    if join.args.get("method"):
        join = _natural(join, left, right)
    right = apart_from(right, left)
    pairs = scope_of_both(left, right)
    conditions: list[exp.Expression] = []
    columns = pairs.columns
    if join.args.get("using"):
        conditions, columns = joined_using(join.args["using"], left.columns, right.columns)
    elif join.args.get("on") is not None:
        conditions = conjuncts(bind_condition(join.args["on"], pairs, context, ClauseContext("ON")))
    elif kind is not JoinKind.INNER:
        hint = "Write ON with an equality of columns of both sides, or ON TRUE."
        raise bind_error("SS239", f"{kind.value} JOIN needs a condition", join, hint)
    context.stop_if_wrong()
    implied = _implied(where, pairs, context) if kind is JoinKind.INNER else []
    node = joined(left, right, kind, conditions, join, context, [bound for _, bound in implied])
    if not kind.pairs:
        return Scope(node, left.columns), []
    fulfilled = [written for written, bound in implied if _is_fulfilled(bound, node, left.node, right.node)]
    return with_one_window(with_one_of_each(join, Scope(node, columns), left, right, kind)), fulfilled


def joined(
    left: Scope,
    right: Scope,
    kind: JoinKind,
    conditions: Iterable[exp.Expression],
    at: exp.Expr,
    context: Context,
    implied: Iterable[exp.Expression] = (),
) -> Node:
    """The join of two sides, whose fields have different names, on bound conditions; below what else an inner join asks
    for. ``implied`` conditions are checked above again, unless ``_is_fulfilled``. SS291 to SS293, SS325."""
    conditions_by_use = _Conditions()
    _divide(conditions, conditions_by_use, left.node, right.node, kind)
    _divide(implied, conditions_by_use, left.node, right.node, kind, implied=True)
    node = _joined(
        conditions_by_use, left.node, right.node, kind, lambda side: ttl_ms_of((left, right)[side].tables, context)
    )
    if isinstance(node, Filter):
        return Filter(check_changes(node.input, context, at), node.condition)
    return check_changes(node, context, at)


def _kind(join: exp.Join) -> JoinKind:
    side, kind, method = ((join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    join_kind = _KINDS.get((side, kind))
    if method not in ("", "NATURAL") or join_kind is None:
        words = " ".join(word for word in (method, side, kind) if word)
        raise unsupported.refusal("kind of join", span_of(join), f"It is {words} JOIN.")
    return join_kind


def _natural(join: exp.Join, left: Scope, right: Scope) -> exp.Join:
    """NATURAL JOIN as one with USING of the columns that both sides have; without any it pairs all rows."""
    theirs = {column.name.casefold() for column in right.stars(None)}
    names = [column.name for column in left.stars(None) if column.name.casefold() in theirs]
    rewritten = join.copy()
    rewritten.set("using", [exp.to_identifier(name, quoted=True) for name in names])
    if not names:
        rewritten.set("on", exp.true())
    return rewritten


class Asked:
    """Conditions of WHERE by the first names in them, of which each join sees those that may be about its right side:
    others are of its left side alone, which says nothing of the join, or of sides that come later."""

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
        """Those that name the right side or a column of it, in order."""
        names = {visible.name.casefold() for visible in right.columns}
        names |= {(table or "").casefold().split(".")[0] for table in right.tables}
        indices = {i for name in names for i in self._by_name.get(name, ())}
        return [self._where[i] for i in sorted(indices)]


def _implied(where: Sequence[exp.Expr], pairs: Scope, context: Context) -> list[tuple[exp.Expr, exp.Expression]]:
    """What WHERE says of these two sides alone, as it is written and bound."""
    implied = []
    for condition in where:
        if _is_of(condition, pairs):
            quiet = replace(context, problems={})
            bound = bind_condition(condition, pairs, quiet, ClauseContext("WHERE"))
            if not quiet.problems and is_repeatable(bound):
                implied.append((condition, bound))
    return implied


def _is_of(condition: exp.Expr, scope: Scope) -> bool:
    columns = list(condition.find_all(exp.Column))
    if not columns or not all(map(scope.knows, columns)):
        return False
    if has_subquery(condition) or condition.find(exp.Window, exp.AggFunc) is not None:
        return False
    try:
        return bool([scope.resolve(column) for column in columns])
    except SqlStreamError:
        return False


# --- what the conditions say ----------------------------------------------------------------------------------


@dataclass
class _Bounds:
    """Of left time - right time, in microseconds; with the conditions that say so."""

    lower: int | None = None
    upper: int | None = None
    told_by: list[exp.Expression] = field(default_factory=list)

    @property
    def hold_equal(self) -> bool:
        """Are equal times within the bounds?"""
        return (self.lower is None or self.lower <= 0) and (self.upper is None or self.upper >= 0)

    def add(self, operator: type[exp.Expr], distance: int) -> None:
        if operator in (exp.GT, exp.GTE, exp.EQ):
            lower = distance + (operator is exp.GT)
            self.lower = lower if self.lower is None else max(self.lower, lower)
        if operator in (exp.LT, exp.LTE, exp.EQ):
            upper = distance - (operator is exp.LT)
            self.upper = upper if self.upper is None else min(self.upper, upper)


@dataclass
class _Conditions:
    """``bounds`` by the fields of the times of both sides; ``of_side``: conditions that read one side alone."""

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
    """Adds what the conditions say; of those that are ``implied``, and checked above again, only what joins go by."""
    sides = Sides(left, right)
    for condition in (conjunct for whole in conditions for conjunct in parts_of(whole)):
        bound = sides.time_bound(condition)
        equality = sides.equality(condition) if bound is None else None
        side = sides.side_of(condition)
        if bound is not None:
            times, operator, distance = bound
            bounds = by_use.bounds.setdefault(times, _Bounds())
            bounds.add(operator, distance)
            bounds.told_by += [] if implied else [condition]
        elif equality is not None:
            by_use.equal.append(equality)
        elif not implied and side is not None and _goes_below(side, kind):
            by_use.of_side[side].append(condition)
        elif not implied:
            by_use.rest.append(condition)


def _is_fulfilled(condition: exp.Expression, node: Node, left: Node, right: Node) -> bool:
    """Do the rows of the join fulfil all parts of the condition?"""
    sides = Sides(left, right)
    join = node.input if isinstance(node, Filter) else node
    times = (join.left_time, join.right_time) if isinstance(join, IntervalJoin) else None
    for conjunct in parts_of(condition):
        bound = sides.time_bound(conjunct)
        if bound is not None and bound[0] != times:
            return False
        if bound is None and sides.equality(conjunct) is None:
            return False
    return True


def _goes_below(side: int, kind: JoinKind) -> bool:
    """Is a row of the side that fails the condition as good as none? Not where it comes out without a partner."""
    return not kind.padded[side]


# --- the operator ---------------------------------------------------------------------------------------------


def _joined(by_use: _Conditions, left: Node, right: Node, kind: JoinKind, ttl_ms: Callable[[int], int]) -> Node:
    """The join, over what each side must hold, below what else an inner join asks for."""
    left, right = (
        Filter(side, conjunction(own)) if own else side for side, own in zip((left, right), by_use.of_side, strict=True)
    )
    equal = tuple(by_use.equal)
    within = next(((t, b) for t, b in by_use.bounds.items() if b.lower is not None and b.upper is not None), None)
    loose = [c for times, b in by_use.bounds.items() if within is None or times != within[0] for c in b.told_by]
    rest = [*loose, *by_use.rest]
    above = rest if kind is JoinKind.INNER else []
    condition = decided_on_pairs(rest, left, right) if kind is not JoinKind.INNER else None
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
