"""Operators with state that several inserts of a statement set read stay one operator when columns are pruned."""

from __future__ import annotations

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import StatementSet
from sqlstream.planner.tails import over, readers, tail_of


def prune_columns_together(plan: Node) -> Node:
    """Remove columns that are not needed. An operator that several inserts of a statement set have in common, such as
    the windows of a view, keeps those that any of them needs, and so remains one operator.

    One with updates does not: with columns of another insert it would have changes that do not concern this one, and
    perhaps rows by another key.
    """
    pruned = plan.pruned(plan.field_names)
    if not isinstance(plan, StatementSet) or not isinstance(pruned, StatementSet):
        return pruned
    inserts = list(pruned.inserts)
    for group in readers(plan.inserts):
        operator = next(iter(group.values())).operator
        own = {place: tail.operator.field_names for place in group if (tail := tail_of(inserts[place])) is not None}
        if operator.changelog_mode == APPEND_ONLY and len(set(own.values())) > 1:
            common = operator.pruned(frozenset().union(*own.values()))
            for place in own:
                inserts[place] = over(inserts[place], common)
    return pruned.with_inputs(tuple(inserts))
