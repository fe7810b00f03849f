"""Adjacent projections become one, adjacent filters one, and projections that change nothing go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.nodes import Filter, Node, Project
from sqlstream.planner.rewriting import bottom_up, conjunction, conjuncts, is_repeatable, substituted


def merge_projects(plan: Node) -> Node:
    return bottom_up(plan, _merge)


def _merge(node: Node) -> Node:
    match node:
        case Filter(input=Filter() as inner):
            return Filter(inner.input, conjunction([*conjuncts(inner.condition), *conjuncts(node.condition)]))
        case Project(input=Project() as inner) if _may_merge(node, inner):
            return _merge(_merged(node, inner))
        case Project() if node.schema == node.input.schema and all(_is_same(i.name, i.expression) for i in node.items):
            return node.input
    return node


def _is_same(name: str, expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Column) and expression.name == name


def _may_merge(outer: Project, inner: Project) -> bool:
    """UNSAFE where an expression would be evaluated more often than before and is costly or gives another value."""
    reads = Counter(c.name for i in outer.items for c in i.expression.find_all(exp.Column))
    return all(_is_cheap(i.expression) or (reads[i.name] <= 1 and is_repeatable(i.expression)) for i in inner.items)


def _is_cheap(expression: exp.Expr) -> bool:
    return isinstance(expression, (exp.Column, exp.Literal, exp.Boolean, exp.Null))


def _merged(outer: Project, inner: Project) -> Project:
    values = {i.name: i.expression for i in inner.items}
    return Project(inner.input, tuple(replace(i, expression=substituted(i.expression, values)) for i in outer.items))
