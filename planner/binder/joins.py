"""Joins of two streams: what ON, USING and WHERE say of their rows, and which operator carries that out.

Bounds on the distance of two time attributes make an interval join; every other join is a regular one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import Place, bind_condition
from sqlstream.planner.binder.lookup_conditions import joined_using
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.state_ttl import ttl_ms_of
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.functions.coercion import common_type
from sqlstream.planner.intervals import NotAnInterval, fold
from sqlstream.planner.join_conditions import pair_condition
from sqlstream.planner.joining import Equality, Join
from sqlstream.planner.naming import Names, extended, field_of, passed
from sqlstream.planner.nodes import Filter, Item, Node, Project
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.regular_join import RegularJoin
from sqlstream.planner.rewriting import columns_of, conjunction, conjuncts, is_repeatable, node_of
from sqlstream.planner.type_inference import Types
from sqlstream.udfs.joins.kinds import JoinKind

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
    both = Scope(RegularJoin(left.node, right.node, JoinKind.INNER, ()), (*left.columns, *right.columns))
    conditions: list[exp.Expression] = []
    columns = both.columns
    if join.args.get("using"):
        conditions, columns = joined_using(join.args["using"], left.columns, right.columns)
    elif join.args.get("on") is not None:
        conditions = conjuncts(bind_condition(join.args["on"], both, context, Place("ON")))
    elif kind is not JoinKind.INNER:
        hint = "Write ON with an equality of columns of both sides, or ON TRUE."
        raise bind_error("SS239", f"{kind.value} JOIN needs a condition", join, hint)
    context.stop_if_wrong()
    implied = _implied(where, both, context) if kind is JoinKind.INNER else []
    node = joined(left, right, kind, conditions, join, context, [bound for _, bound in implied])
    if not kind.pairs:
        return Scope(node, left.columns), []
    fulfilled = [written for written, bound in implied if _is_fulfilled(bound, node, left.node, right.node)]
    return _with_one_of_each(join, Scope(node, columns), left, right, kind), fulfilled


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
    found = _Found()
    _divide(conditions, found, left.node, right.node, kind)
    _divide(implied, found, left.node, right.node, kind, implied=True)
    node = _joined(found, left.node, right.node, kind, lambda side: ttl_ms_of((left, right)[side].tables, context))
    if isinstance(node, Filter):
        return Filter(check_changes(node.input, context, at), node.condition)
    return check_changes(node, context, at)


def _kind(join: exp.Join) -> JoinKind:
    side, kind, method = ((join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    found = _KINDS.get((side, kind))
    if method not in ("", "NATURAL") or found is None or (method and not found.pairs):
        words = " ".join(word for word in (method, side, kind) if word)
        raise unsupported.refusal("kind of join", span_of(join), f"It is {words} JOIN.")
    return found


def _natural(join: exp.Join, left: Scope, right: Scope) -> exp.Join:
    """NATURAL JOIN as one with USING of the columns that both sides have; without any it pairs all rows."""
    theirs = {column.name.casefold() for column in right.stars(None)}
    names = [column.name for column in left.stars(None) if column.name.casefold() in theirs]
    found = join.copy()
    found.set("using", [exp.to_identifier(name, quoted=True) for name in names])
    if not names:
        found.set("on", exp.true())
    return found


def apart_from(right: Scope, left: Scope) -> Scope:
    """The right side without names of fields that the left side has."""
    names = Names(f.name for f in left.node.schema)
    renamed = {f.name: names.unique(f.name) for f in right.node.schema}
    if all(name == own for own, name in renamed.items()):
        return right
    node = Project(right.node, tuple(replace(passed(f), name=renamed[f.name]) for f in right.node.schema))
    return Scope(node, tuple(replace(column, field=renamed[column.field]) for column in right.columns))


def _implied(where: Sequence[exp.Expr], both: Scope, context: Context) -> list[tuple[exp.Expr, exp.Expression]]:
    """What WHERE says of these two sides alone, as it is written and bound."""
    found = []
    for condition in where:
        if _is_of(condition, both):
            quiet = replace(context, problems={})
            bound = bind_condition(condition, both, quiet, Place("WHERE"))
            if not quiet.problems and is_repeatable(bound):
                found.append((condition, bound))
    return found


def _is_of(condition: exp.Expr, scope: Scope) -> bool:
    if condition.find(exp.Query, exp.Window, exp.AggFunc) is not None:
        return False
    try:
        return bool([scope.resolve(column) for column in condition.find_all(exp.Column)])
    except SqlStreamError:
        return False


# --- what the conditions say ----------------------------------------------------------------------------------


@dataclass
class _Bounds:
    """Of left time - right time, in microseconds; with the conditions that say so."""

    lower: int | None = None
    upper: int | None = None
    told_by: list[exp.Expression] = field(default_factory=list)

    def add(self, operator: type[exp.Expr], distance: int) -> None:
        if operator in (exp.GT, exp.GTE, exp.EQ):
            lower = distance + (operator is exp.GT)
            self.lower = lower if self.lower is None else max(self.lower, lower)
        if operator in (exp.LT, exp.LTE, exp.EQ):
            upper = distance - (operator is exp.LT)
            self.upper = upper if self.upper is None else min(self.upper, upper)


@dataclass
class _Found:
    """``bounds`` by the fields of the times of both sides; ``of_side``: conditions that read one side alone."""

    equal: list[Equality] = field(default_factory=list)
    bounds: dict[tuple[str, str], _Bounds] = field(default_factory=dict)
    of_side: tuple[list[exp.Expression], list[exp.Expression]] = field(default_factory=lambda: ([], []))
    rest: list[exp.Expression] = field(default_factory=list)


def _divide(
    conditions: Iterable[exp.Expression],
    found: _Found,
    left: Node,
    right: Node,
    kind: JoinKind,
    *,
    implied: bool = False,
) -> None:
    """Adds what the conditions say; of those that are ``implied``, and checked above again, only what joins go by."""
    sides = _Sides(left, right)
    for condition in (part for whole in conditions for part in _parts(whole)):
        bound = sides.time_bound(condition)
        equality = sides.equality(condition) if bound is None else None
        side = sides.side_of(condition)
        if bound is not None:
            times, operator, distance = bound
            bounds = found.bounds.setdefault(times, _Bounds())
            bounds.add(operator, distance)
            bounds.told_by += [] if implied else [condition]
        elif equality is not None:
            found.equal.append(equality)
        elif not implied and side is not None and _goes_below(side, kind):
            found.of_side[side].append(condition)
        elif not implied:
            found.rest.append(condition)


def _is_fulfilled(condition: exp.Expression, node: Node, left: Node, right: Node) -> bool:
    """Do the rows of the join fulfil all parts of the condition?"""
    sides = _Sides(left, right)
    join = node.input if isinstance(node, Filter) else node
    times = (join.left_time, join.right_time) if isinstance(join, IntervalJoin) else None
    for part in _parts(condition):
        bound = sides.time_bound(part)
        if bound is not None and bound[0] != times:
            return False
        if bound is None and sides.equality(part) is None:
            return False
    return True


def _goes_below(side: int, kind: JoinKind) -> bool:
    """Is a row of the side that fails the condition as good as none? Not where it comes out without a partner."""
    return not kind.padded[side]


def _parts(condition: exp.Expression) -> list[exp.Expression]:
    plain = condition.unnest()
    if isinstance(plain, exp.Between):
        low, high = plain.args["low"], plain.args["high"]
        return [exp.GTE(this=plain.this, expression=low), exp.LTE(this=plain.this.copy(), expression=high)]
    return [node_of(plain)]


_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


class _Sides:
    """What expressions over both sides read."""

    def __init__(self, left: Node, right: Node) -> None:
        self._fields = [{f.name: f for f in side.schema} for side in (left, right)]
        self._types = Types((*left.schema, *right.schema))

    def side_of(self, expression: exp.Expr) -> int | None:
        read = columns_of(expression)
        return next((side for side in (0, 1) if read and read <= self._fields[side].keys()), None)

    def equality(self, condition: exp.Expression) -> Equality | None:
        """``l.a = r.b``, of one type or of types that have a common one."""
        if not isinstance(condition, exp.EQ | exp.NullSafeEQ) or not is_repeatable(condition):
            return None
        one, other = node_of(condition.left.unnest()), node_of(condition.right.unnest())
        sides = self.side_of(one), self.side_of(other)
        if sides == (1, 0):
            one, other = other, one
        elif sides != (0, 1):
            return None
        kinds = [self._types.of(value) for value in (one, other)]
        kind = common_type(kinds)
        if kind.is_unknown:
            return None
        one, other = (v if k == kind else cast(v, kind) for v, k in zip((one, other), kinds, strict=True))
        return Equality(one, other, isinstance(condition, exp.NullSafeEQ))

    def time_bound(self, condition: exp.Expression) -> tuple[tuple[str, str], type[exp.Expr], int] | None:
        """The times, and left - right compared with a distance, of ``l.ts >= r.ts - INTERVAL '1' HOUR``."""
        operator: type[exp.Expr] = type(condition)
        if operator not in _MIRRORED:
            return None
        one, other = _moved_time(condition.this), _moved_time(condition.expression)
        if one is None or other is None:
            return None
        if self.side_of(exp.column(one[0])) == 1:
            one, other, operator = other, one, _MIRRORED[operator]
        left, right = self._fields[0].get(one[0]), self._fields[1].get(other[0])
        if left is None or right is None or left.time is None or left.time is not right.time:
            return None
        return (left.name, right.name), operator, other[1] - one[1]


def _moved_time(value: exp.Expr) -> tuple[str, int] | None:
    """The field and the microseconds added to it."""
    match value:
        case exp.Column():
            return value.name, 0
        case exp.Paren():
            return _moved_time(value.this)
        case exp.Add() | exp.Sub():
            base, moved = _moved_time(value.left), _microseconds(value.right)
            if base is None and isinstance(value, exp.Add):
                base, moved = _moved_time(value.right), _microseconds(value.left)
            if base is None or moved is None:
                return None
            return base[0], base[1] + (moved if isinstance(value, exp.Add) else -moved)
    return None


def _microseconds(interval: exp.Expr) -> int | None:
    try:
        found = fold(interval) * 1000
    except NotAnInterval:
        return None
    return int(found) if found.denominator == 1 else None


# --- the operator ---------------------------------------------------------------------------------------------


def _joined(found: _Found, left: Node, right: Node, kind: JoinKind, ttl_ms: Callable[[int], int]) -> Node:
    """The join, over what each side must hold, below what else an inner join asks for."""
    left, right = (
        Filter(side, conjunction(own)) if own else side for side, own in zip((left, right), found.of_side, strict=True)
    )
    equal = tuple(found.equal)
    within = next(((t, b) for t, b in found.bounds.items() if b.lower is not None and b.upper is not None), None)
    loose = [c for times, b in found.bounds.items() if within is None or times != within[0] for c in b.told_by]
    rest = [*loose, *found.rest]
    above = rest if kind is JoinKind.INNER else []
    condition = _condition(rest, left, right) if kind is not JoinKind.INNER else None
    if within is None:
        node: Join = RegularJoin(left, right, kind, equal, condition, (ttl_ms(0), ttl_ms(1)))
    else:
        (left_time, right_time), bounds = within
        assert bounds.lower is not None and bounds.upper is not None
        domain = next(f.time for f in left.schema if f.name == left_time) or TimeDomain.EVENT
        limits = (bounds.lower, bounds.upper)
        node = IntervalJoin(left, right, kind, equal, condition, left_time, right_time, *limits, domain)
    return Filter(node, conjunction(above)) if above else node


def _condition(rest: list[exp.Expression], left: Node, right: Node) -> exp.Expression | None:
    """BindError SS291 to SS293 for what kernels cannot decide on pairs of rows."""
    asked = [condition for condition in rest if not _is_true(condition)]
    if not asked:
        return None
    condition = conjunction(asked)
    pair_condition(condition, left.schema, right.schema)
    return condition


def _is_true(condition: exp.Expression) -> bool:
    return isinstance(condition, exp.Boolean) and bool(condition.this)


def _with_one_of_each(join: exp.Join, scope: Scope, left: Scope, right: Scope, kind: JoinKind) -> Scope:
    """With the columns of USING as they are known: those of the side that is always there, or of either."""
    names = [name.name for name in join.args.get("using") or ()]
    if not names or kind in (JoinKind.INNER, JoinKind.LEFT):
        return scope
    ours, theirs = (
        {name: next(c for c in side.columns if c.matches(name, None)) for name in names} for side in (left, right)
    )
    shown: list[Visible] = []
    items: list[Item] = []
    unique = Names(f.name for f in scope.node.schema)
    types = Types(scope.node.schema)
    for name in names:
        value = field_of(theirs[name].field)
        if kind is JoinKind.FULL:
            either = exp.Coalesce(this=field_of(ours[name].field), expressions=[value])
            items.append(Item(unique.unique(name), either, types.of(either)))
            shown.append(Visible(ours[name].name, items[-1].name))
        else:
            shown.append(Visible(ours[name].name, theirs[name].field))
    hidden = {ours[name] for name in names}
    rest = (replace(c, starred=False, qualified=True) if c in hidden else c for c in scope.columns)
    node = extended(scope.node, items) if items else scope.node
    return Scope(node, (*shown, *rest))
