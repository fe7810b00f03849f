"""Operators with state that several inserts of a statement set read stay one operator when columns are pruned."""

from __future__ import annotations

from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.fields import FieldNames
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import StatementSet
from sqlstream.planner.tails import over, tail_of


def prune_together(plan: Node, pruned: Node) -> Node:
    """``pruned`` is ``plan`` without columns that are not read. Returns it with those that another insert reads of an
    operator that was the same in both, such as the windows of a view.

    An operator with updates stays as it is: with columns of another insert it would have changes that do not concern
    this one, and perhaps rows by another key.
    """
    if not isinstance(plan, StatementSet) or not isinstance(pruned, StatementSet):
        return pruned
    inserts = list(pruned.inserts)
    readers: dict[tuple[Node, OnError], dict[int, FieldNames]] = {}
    for place, (insert, own) in enumerate(zip(plan.inserts, pruned.inserts, strict=True)):
        before, after = tail_of(insert), tail_of(own)
        if before is not None and after is not None and before.operator.changelog_mode == APPEND_ONLY:
            readers.setdefault((before.operator, insert.functions), {})[place] = after.operator.field_names
    for (operator, _), needed in readers.items():
        if len(set(needed.values())) > 1:
            common = operator.pruned(frozenset().union(*needed.values()))
            for place in needed:
                inserts[place] = over(inserts[place], common)
    return pruned.with_inputs(tuple(inserts))
