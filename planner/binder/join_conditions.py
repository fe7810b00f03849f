"""Conditions of joins, of ON and USING: which side each of their parts reads, and what two sides compare."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.functions.result_types import common_type
from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.expressions import as_expression, columns_of, conjunction, is_repeatable
from sqlstream.planner.fields import Item, UniqueNames, field_of
from sqlstream.planner.intervals import NotAnInterval, fold
from sqlstream.planner.kernel_expressions import pair_condition
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import extended
from sqlstream.planner.operators.join import Equality
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.type_inference import Types, cast
from sqlstream.udfs.joins import JoinKind


def is_always_true(condition: exp.Expr | None) -> bool:
    """Whether a join has no condition, or ON TRUE."""
    return condition is None or (isinstance(condition, exp.Boolean) and bool(condition.this))


def comparisons_of(condition: exp.Expression) -> list[exp.Expression]:
    """Returns the condition without parentheses, as a list with one element; ``x BETWEEN a AND b`` gives two,
    ``x >= a`` and ``x <= b``.
    """
    plain = condition.unnest()
    if isinstance(plain, exp.Between):
        low, high = plain.args["low"], plain.args["high"]
        return [exp.GTE(this=plain.this, expression=low), exp.LTE(this=plain.this.copy(), expression=high)]
    return [as_expression(plain)]


MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


class Sides:
    """Analyses the conditions of a join: which side an expression reads, which conditions are equalities, which are
    bounds of time.
    """

    def __init__(self, left: Node, right: Node) -> None:
        self._fields = [{f.name: f for f in side.schema} for side in (left, right)]
        self._types = Types((*left.schema, *right.schema))

    def side_of(self, expression: exp.Expr) -> int | None:
        """The side that an expression reads: 0 for left, 1 for right; None if it reads both sides or no column."""
        read = columns_of(expression)
        return next((side for side in (0, 1) if read and read <= self._fields[side].keys()), None)

    def equality(self, condition: exp.Expression) -> Equality | None:
        """The equality ``l.a = r.b``, cast to the common type; None for other conditions, or without a common type."""
        if not isinstance(condition, exp.EQ | exp.NullSafeEQ) or not is_repeatable(condition):
            return None
        left_value, right_value = as_expression(condition.left.unnest()), as_expression(condition.right.unnest())
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
        """A condition such as ``l.ts >= r.ts - INTERVAL '1' HOUR`` as a bound of time; None for other conditions.

        The result has both time fields, the comparison operator, and the bound of left minus right in microseconds.
        """
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
    """A field and the microseconds added to it; None for other expressions."""
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


def pair_conjunction(rest: list[exp.Expression], left: Node, right: Node) -> exp.Expression | None:
    """Joins the conditions ``rest`` by AND, and checks that kernels can evaluate the result on pairs of rows. Returns
    None if it is always true. BindError SS291 to SS293 if they cannot.
    """
    effective = [condition for condition in rest if not is_always_true(condition)]
    if not effective:
        return None
    condition = conjunction(effective)
    pair_condition(condition, left.schema, right.schema)
    return condition


# --- USING ----------------------------------------------------------------------------------------------------

VisibleColumns = tuple[Visible, ...]


def joined_using(
    names: list[exp.Expr], left: VisibleColumns, right: VisibleColumns
) -> tuple[list[exp.Expression], VisibleColumns]:
    """Binds USING. Returns a pair: the equalities of its columns, and the visible columns of both sides, in which the
    columns of USING are first and shown once.
    """
    conditions: list[exp.Expression] = []
    merged: list[Visible] = []
    for name in names:
        ours, theirs = _using_column(name, left, "left side"), _using_column(name, right, f'table "{right[0].table}"')
        condition = exp.EQ(this=field_of(ours.field), expression=field_of(theirs.field))
        mark_as(condition, name)
        conditions.append(condition)
        merged.append(ours)
        right = tuple(replace(v, starred=False, qualified=True) if v == theirs else v for v in right)
    return conditions, (*merged, *(v for v in left if v not in merged), *right)


def _using_column(name: exp.Expr, columns: tuple[Visible, ...], side: str) -> Visible:
    matching = [v for v in columns if v.matches(name.name, None)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise bind_error("SS204", f'column "{name.name}" of USING is ambiguous', name, "Write the condition with ON.")
    hint = did_you_mean(name.name, [v.name for v in columns], "columns")
    raise bind_error("SS201", f'column "{name.name}" of USING does not exist in the {side}', name, hint)


def with_using_columns(join: exp.Join, scope: Scope, left: Scope, right: Scope, kind: JoinKind) -> Scope:
    """Returns the scope after a join with USING. A shared column has the value of the side that always has a row (the
    right one in a RIGHT JOIN); in a FULL JOIN it has the first value that is not NULL.
    """
    names = [name.name for name in join.args.get("using") or ()]
    if not names or kind in (JoinKind.INNER, JoinKind.LEFT):
        return scope
    ours, theirs = (
        {name: next(c for c in side.columns if c.matches(name, None)) for name in names} for side in (left, right)
    )
    shown: list[Visible] = []
    items: list[Item] = []
    unique = UniqueNames(f.name for f in scope.node.schema)
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
