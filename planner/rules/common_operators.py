"""Operators with state that several inputs of a node read stay one operator when columns are pruned."""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.fields import FieldNames
from sqlstream.planner.node import Node
from sqlstream.planner.tails import over, readers, tail_of


def prune_columns_together(plan: Node) -> Node:
    """Remove columns that are not needed. An operator that several inserts of a statement set, branches of UNION ALL or
    sides of a join have in common, such as the windows of a view, keeps those that any of them needs, and so remains
    one operator.

    One with updates does not: with columns of another reader it would have changes that do not concern this one, and
    perhaps rows by another key.
    """
    return _pruned_together(plan, plan.field_names)


def _pruned_together(plan: Node, required: FieldNames) -> Node:
    pruned = plan.pruned(required)
    before, after = [*_taking_branches(plan)], [*_taking_branches(pruned)]
    if [type(node) for node in before] != [type(node) for node in after]:
        return pruned
    return _together(pruned, iter(before)) if any(map(readers, before)) else pruned


def _taking_branches(plan: Node) -> Iterator[Node]:
    return (node for node in plan.walk() if node.takes_branches)


def _together(node: Node, before: Iterator[Node]) -> Node:
    """``before``: the nodes that take branches as they were before columns were pruned, in the order of ``walk``."""
    whole = next(before) if node.takes_branches else None
    inputs = [_together(child, before) for child in node.inputs]
    for group in readers(whole) if whole is not None else ():
        operator = next(iter(group.values())).operator
        own = {place: tail.operator.field_names for place in group if (tail := tail_of(inputs[place])) is not None}
        if operator.changelog_mode == APPEND_ONLY and len(set(own.values())) > 1:
            common = _pruned_together(operator, frozenset().union(*own.values()))
            for place in own:
                inputs[place] = over(inputs[place], common)
    return node.with_inputs(tuple(inputs))
