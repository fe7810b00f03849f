"""Operators with state that several inputs of a node read stay one operator when columns are pruned."""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.fields import FieldNames
from sqlstream.planner.node import Node
from sqlstream.planner.tails import Tail, over, readers, tail_of


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
    groups = [readers(node) for node in before]
    return _together(pruned, iter(groups)) if any(groups) else pruned


def _taking_branches(plan: Node) -> Iterator[Node]:
    return (node for node in plan.walk() if node.takes_branches)


def _together(node: Node, groups: Iterator[list[dict[int, Tail]]]) -> Node:
    """``groups``: the ``readers`` of each node that takes branches, before columns were pruned, in the order of
    ``walk``.
    """
    own_groups = next(groups) if node.takes_branches else []
    inputs = [_together(child, groups) for child in node.inputs]
    for group in own_groups:
        operator = next(iter(group.values())).operator
        own = {place: tail.operator.field_names for place in group if (tail := tail_of(inputs[place])) is not None}
        if operator.changelog_mode == APPEND_ONLY and len(set(own.values())) > 1:
            common = _pruned_together(operator, frozenset().union(*own.values()))
            for place in own:
                inputs[place] = over(inputs[place], common)
    return node.with_inputs(tuple(inputs))
