"""Conditions of joins of two streams: what they say of each side and of both, and the names of both sides."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.functions.coercion import common_type
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.fields import Item
from sqlstream.planner.intervals import NotAnInterval, fold
from sqlstream.planner.join_conditions import pair_condition
from sqlstream.planner.joining import Equality
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project, extended
from sqlstream.planner.operators.regular_join import RegularJoin
from sqlstream.planner.rewriting import columns_of, conjunction, is_repeatable, node_of
from sqlstream.planner.type_inference import Types
from sqlstream.udfs.joins import JoinKind


def apart_from(right: Scope, left: Scope) -> Scope:
    """The right side without names of fields that the left side has."""
    names = Names(f.name for f in left.node.schema)
    renamed = {f.name: names.unique(f.name) for f in right.node.schema}
    if all(name == own for own, name in renamed.items()):
        return right
    node = Project(right.node, tuple(replace(f.as_item, name=renamed[f.name]) for f in right.node.schema))
    return Scope(node, tuple(replace(column, field=renamed[column.field]) for column in right.columns))


def scope_of_both(left: Scope, right: Scope) -> Scope:
    """What conditions of a join see: the columns of both sides, whose fields have different names."""
    return Scope(RegularJoin(left.node, right.node, JoinKind.INNER, ()), (*left.columns, *right.columns))


# --- what conditions say --------------------------------------------------------------------------------------


def parts_of(condition: exp.Expression) -> list[exp.Expression]:
    plain = condition.unnest()
    if isinstance(plain, exp.Between):
        low, high = plain.args["low"], plain.args["high"]
        return [exp.GTE(this=plain.this, expression=low), exp.LTE(this=plain.this.copy(), expression=high)]
    return [node_of(plain)]


MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


class Sides:
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
        left_value, right_value = node_of(condition.left.unnest()), node_of(condition.right.unnest())
        sides = self.side_of(left_value), self.side_of(right_value)
        if sides == (1, 0):
            left_value, right_value = right_value, left_value
        elif sides != (0, 1):
            return None
        kinds = [self._types.of(value) for value in (left_value, right_value)]
        kind = common_type(kinds)
        if kind.is_unknown:
            return None
        left_value, right_value = (
            v if k == kind else cast(v, kind) for v, k in zip((left_value, right_value), kinds, strict=True)
        )
        return Equality(left_value, right_value, isinstance(condition, exp.NullSafeEQ))

    def time_bound(self, condition: exp.Expression) -> tuple[tuple[str, str], type[exp.Expr], int] | None:
        """The times, and left - right compared with a distance, of ``l.ts >= r.ts - INTERVAL '1' HOUR``."""
        operator: type[exp.Expr] = type(condition)
        if operator not in MIRRORED:
            return None
        left_time, right_time = _moved_time(condition.this), _moved_time(condition.expression)
        if left_time is None or right_time is None:
            return None
        if self.side_of(exp.column(left_time[0])) == 1:
            left_time, right_time, operator = right_time, left_time, MIRRORED[operator]
        left, right = self._fields[0].get(left_time[0]), self._fields[1].get(right_time[0])
        if left is None or right is None or left.time is None or left.time is not right.time:
            return None
        return (left.name, right.name), operator, right_time[1] - left_time[1]


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
        microseconds = fold(interval) * 1000
    except NotAnInterval:
        return None
    return int(microseconds) if microseconds.denominator == 1 else None


def decided_on_pairs(rest: list[exp.Expression], left: Node, right: Node) -> exp.Expression | None:
    """BindError SS291 to SS293 for what kernels cannot decide on pairs of rows."""
    asked = [condition for condition in rest if not _is_true(condition)]
    if not asked:
        return None
    condition = conjunction(asked)
    pair_condition(condition, left.schema, right.schema)
    return condition


def _is_true(condition: exp.Expression) -> bool:
    return isinstance(condition, exp.Boolean) and bool(condition.this)


# --- USING ----------------------------------------------------------------------------------------------------


def with_one_of_each(join: exp.Join, scope: Scope, left: Scope, right: Scope, kind: JoinKind) -> Scope:
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
