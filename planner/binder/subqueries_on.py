"""Subqueries in ON: conditions of inner joins hold of their rows, others are of one side and decided below the join."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.subqueries import Subqueries
from sqlstream.planner.expressions import conjunction, conjuncts, has_subquery, node_of, with_args

_BOTH = "It reads both sides of a join that is not INNER."


def without_subqueries_on(
    join: exp.Join, left: Scope, right: Scope, subqueries: Subqueries
) -> tuple[exp.Join, Scope, Scope, list[exp.Expr]]:
    """The join without subqueries in ON, its sides, and the conditions that its rows must fulfil besides.

    UnsupportedError SS308 for a condition that reads both sides of an outer, semi or anti join.
    """
    on = join.args.get("on")
    if on is None or not has_subquery(on):
        return join, left, right, []
    conditions = conjuncts(on)
    rest: list[exp.Expr] = [condition for condition in conditions if not has_subquery(condition)]
    asking = [condition for condition in conditions if has_subquery(condition)]
    above: list[exp.Expr] = []
    given = left
    kept_left, kept_right = _kept(join)
    for condition in asking:
        if not kept_left and not kept_right:
            above.append(condition)
            continue
        side = _side_of(condition, left, right)
        if side == 0 and not kept_left:
            left = subqueries.filtered(left, [condition])
        elif side == 1 and not kept_right:
            right = subqueries.filtered(right, [condition])
        elif side == 0:
            left, value = subqueries.valued(condition, left)
            rest.append(value)
        elif side == 1 and left is given:  # whose subqueries would have the same names
            right, value = subqueries.valued(condition, right)
            rest.append(value)
        else:
            raise unsupported.refusal("subquery", span_of(condition), _BOTH)
    on = conjunction([node_of(condition) for condition in rest]) if rest else exp.true()
    return with_args(join, on=on), left, right, above


def _kept(join: exp.Join) -> tuple[bool, bool]:
    """Of which side rows come out, or decide what does, that fail the condition."""
    side, kind = join.text("side").upper(), join.text("kind").upper()
    if kind in ("SEMI", "ANTI"):
        return kind == "ANTI", False
    return side in ("LEFT", "FULL"), side in ("RIGHT", "FULL")


def _side_of(condition: exp.Expr, left: Scope, right: Scope) -> int | None:
    """The side that a condition reads, the left one where it reads none."""
    outside = condition.walk(prune=lambda node: isinstance(node, exp.Query))
    columns = [node for node in outside if isinstance(node, exp.Column)]
    own = {table.alias_or_name.casefold() for table in condition.find_all(exp.Table)}
    around = {name.casefold() for side in (left, right) for name in side.tables} - own
    columns += [
        c for q in condition.find_all(exp.Query) for c in q.find_all(exp.Column) if c.table.casefold() in around
    ]
    return next((i for i, side in enumerate((left, right)) if all(map(side.knows, columns))), None)
