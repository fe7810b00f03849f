"""Conditions move towards the sources as far as they cannot change what is computed; projections are merged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

from sqlglot import exp

from sqlstream.planner.expressions import (
    as_expression,
    both,
    columns_of,
    conjunction,
    conjuncts,
    is_repeatable,
    is_repeatable_alone,
    parenthesized,
    rewritten,
)
from sqlstream.planner.node import Conditions, Node, bottom_up
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.type_inference import Types

# --- merging ---------------------------------------------------------------------------------------------------


def merge_projects(plan: Node) -> Node:
    """Adjacent projections become one, adjacent filters one, and projections that change nothing go."""
    merge = Merging()

    def rule(node: Node) -> Node:
        if isinstance(node, Filter) and isinstance(node.input, Filter):
            return Filter(node.input.input, both(node.input.condition, node.condition))
        return merge(node) if isinstance(node, Project) else node

    return bottom_up(bottom_up(plan, rule), with_balanced_condition)


def with_balanced_condition(node: Node) -> Node:
    """A filter whose conditions came one by one, with all of them as one balanced conjunction."""
    if isinstance(node, Filter) and isinstance(node.condition, exp.And):
        return replace(node, condition=conjunction(conjuncts(node.condition)))
    return node


class Merging:
    """Merges projections of one plan, from the sources upwards.

    What a projection below computes moves into the one above, and is not copied or looked through again: it grows with
    each projection that it moves into.
    """

    def __init__(self) -> None:
        # By identity, with the expression, which so keeps its identity.
        self._repeatable: dict[int, tuple[exp.Expr, bool]] = {}

    def __call__(self, node: Project) -> Node:
        while isinstance(node.input, Project) and self._may_merge(node, node.input):
            node = _merged(node, node.input)
        if node.schema == node.input.schema and all(_is_same(i.name, i.expression) for i in node.items):
            return node.input
        return node

    def _may_merge(self, outer: Project, inner: Project) -> bool:
        """UNSAFE where an expression would be evaluated more often than before and is costly or gives another value."""
        reads = Counter(c.name for i in outer.items for c in i.expression.find_all(exp.Column))
        return all(
            _is_cheap(i.expression) or (reads[i.name] <= 1 and self._is_repeatable(i.expression)) for i in inner.items
        )

    def _is_repeatable(self, expression: exp.Expr) -> bool:
        cached = self._repeatable.get(id(expression))
        if cached is None:
            result = is_repeatable_alone(expression) and all(map(self._is_repeatable, expression.iter_expressions()))
            cached = self._repeatable[id(expression)] = (expression, result)
        return cached[1]


def _is_same(name: str, expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Column) and expression.name == name


def _is_cheap(expression: exp.Expr) -> bool:
    return isinstance(expression, (exp.Column, exp.Literal, exp.Boolean, exp.Null))


def _merged(outer: Project, inner: Project) -> Project:
    values = {i.name: i.expression for i in inner.items}

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in values:
            return node
        computed = values[node.name]
        return parenthesized(computed.copy() if _is_cheap(computed) else computed)

    items = tuple(replace(i, expression=as_expression(rewritten(i.expression, value))) for i in outer.items)
    return Project(inner.input, items)


# --- pushing ---------------------------------------------------------------------------------------------------


def push_filters(plan: Node) -> Node:
    """Conditions move towards the sources.

    Projections are merged on the way, so that a condition passes one of them and not each.
    """
    merge = Merging()

    def rule(node: Node) -> Node:
        if isinstance(node, Filter):
            return filtered(node.input, conjuncts(node.condition))
        return merge(node) if isinstance(node, Project) else node

    return bottom_up(bottom_up(plan, rule), with_balanced_condition)


def filtered(node: Node, conditions: Conditions) -> Node:
    """``node`` filtered by all conditions, each as deep as it may go."""
    pushed, kept = _divided(node, conditions, guarded=False)
    below = _pushed_below(node, pushed) if pushed else node
    return Filter(below, conjunction(kept)) if kept else below


def _pushed_below(node: Node, conditions: Conditions) -> Node:
    """``node`` with conditions below it, each of which passes it."""
    return _beside(node, conditions) if isinstance(node, Filter) else node.with_pushed_filters(conditions, filtered)


def _beside(node: Filter, conditions: Conditions) -> Node:
    """``node``, whose own conditions can go no deeper, filtered by more conditions."""
    pushed, kept = _divided(node.input, conditions, guarded=True)
    below = _pushed_below(node.input, pushed) if pushed else node.input
    return Filter(below, both(node.condition, conjunction(kept)) if kept else node.condition)


def _divided(node: Node, conditions: Conditions, guarded: bool) -> tuple[Conditions, Conditions]:
    """The conditions that go below ``node``, and those that remain above it.

    UNSAFE to let a condition that can fail (a division, a cast) overtake one that guards it and remains; ``guarded``:
    there is one already.
    """
    pushed: Conditions = []
    kept: Conditions = []
    types = Types(node.schema)
    for condition in conditions:
        below = is_repeatable(condition) and _stays_small(node, condition) and node.passes_filter(columns_of(condition))
        if below and (not (guarded or kept) or _cannot_fail(condition, types)):
            pushed.append(condition)
        else:
            kept.append(condition)
    return pushed, kept


_MOST_ADDED = 30
"""Nodes that a condition may grow by on its way through a projection, which then computes the same."""


def _stays_small(node: Node, condition: exp.Expr) -> bool:
    """False where the condition would hold large expressions of a projection, or hold them often: each projection
    below might double it again."""
    if not isinstance(node, Project):
        return True
    values = {i.name: i.expression for i in node.items}
    added = 0
    for column in condition.find_all(exp.Column):
        value = values[column.name]
        if not isinstance(value, exp.Column):
            added += sum(1 for _ in islice(value.walk(), _MOST_ADDED + 1))
        if added > _MOST_ADDED:
            return False
    return True


_TOTAL = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ,
    exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like,
)  # fmt: skip


def _cannot_fail(condition: exp.Expr, types: Types) -> bool:
    """Comparisons of fields and literals of one type; others may cast, divide or call what raises an error."""
    if not all(isinstance(node, _TOTAL) for node in condition.walk()):
        return False
    values = [n for n in condition.walk() if isinstance(n, (exp.Column, exp.Literal))]
    families = {"NUMBER" if (kind := types.of(v)).is_numeric else kind.name for v in values}
    return len(families) == 1 and "UNKNOWN" not in families
