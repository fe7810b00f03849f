"""Columns that nobody reads are not read, computed or carried along."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.naming import passed
from sqlstream.planner.nodes import AssignTime, Correlate, Filter, Node, Project, Scan, StatementSet, Unary, Union
from sqlstream.planner.rewriting import columns_of, with_inputs

Names = frozenset[str]


def prune_columns(plan: Node) -> Node:
    return pruned(plan, all_fields(plan))


def all_fields(node: Node) -> Names:
    """The names of all fields of a node."""
    return frozenset(f.name for f in node.schema)


@singledispatch
def pruned(node: Node, required: Names) -> Node:
    """``node`` with at least the ``required`` fields. Roots need all fields of their input."""
    assert isinstance(node, Unary), f"no pruning for {type(node).__name__}"
    return replace(node, input=pruned(node.input, all_fields(node.input)))


@pruned.register
def _(node: Scan, required: Names) -> Node:
    # Predicates are evaluated over the columns that are read.
    needed = required.union(*(columns_of(p) for p in node.predicates))
    kept = tuple(c for c in node.columns if c in needed)
    return replace(node, columns=kept or node.columns[:1])


@pruned.register
def _(node: Filter, required: Names) -> Node:
    return replace(node, input=pruned(node.input, required | columns_of(node.condition)))


@pruned.register
def _(node: Project, required: Names) -> Node:
    # Rows are counted by what is left, so one column stays.
    items = tuple(i for i in node.items if i.name in required) or node.items[:1]
    needed = frozenset().union(*(columns_of(i.expression) for i in items))
    return replace(node, items=items, input=pruned(node.input, needed))


@pruned.register
def _(node: Union, required: Names) -> Node:
    names = [f.name for f in node.schema if f.name in required] or [node.schema[0].name]
    return replace(node, branches=tuple(_exactly(pruned(b, frozenset(names)), names) for b in node.branches))


def _exactly(branch: Node, names: list[str]) -> Node:
    """Branches of a union must agree, so what a filter still carries is projected away."""
    if [f.name for f in branch.schema] == names:
        return branch
    fields = {f.name: f for f in branch.schema}
    chosen = (fields[n] for n in names)
    return Project(branch, tuple(map(passed, chosen)))


@pruned.register
def _(node: AssignTime, required: Names) -> Node:
    if node.domain is TimeDomain.EVENT:
        needed = {node.column} if node.follows is None else {node.column, node.follows}
        return replace(node, input=pruned(node.input, required | needed))
    if node.column not in required:
        return pruned(node.input, required)
    return replace(node, input=pruned(node.input, required - {node.column}))


@pruned.register
def _(node: Correlate, required: Names) -> Node:
    # The outputs belong together: a generator makes all or none of them.
    outputs = {f.name for f in node.outputs}
    return replace(node, input=pruned(node.input, (required - outputs) | columns_of(node.function)))


@pruned.register
def _(node: StatementSet, required: Names) -> Node:
    return with_inputs(node, tuple(pruned(insert, all_fields(insert)) for insert in node.inserts))
