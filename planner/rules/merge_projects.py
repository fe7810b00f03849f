"""Adjacent projections become one, adjacent filters one, and projections that change nothing go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.node import Node, bottom_up
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.rewriting import (
    both,
    conjunction,
    conjuncts,
    fitted,
    is_repeatable_alone,
    node_of,
    rewritten,
)


def merge_projects(plan: Node) -> Node:
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
        remembered = self._repeatable.get(id(expression))
        if remembered is None:
            result = is_repeatable_alone(expression) and all(map(self._is_repeatable, expression.iter_expressions()))
            remembered = self._repeatable[id(expression)] = (expression, result)
        return remembered[1]


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
        return fitted(computed.copy() if _is_cheap(computed) else computed)

    items = tuple(replace(i, expression=node_of(rewritten(i.expression, value))) for i in outer.items)
    return Project(inner.input, items)
