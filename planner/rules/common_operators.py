"""Operators with state that several inserts of a statement set read stay one operator when columns are pruned."""

from __future__ import annotations

from sqlstream.planner.fields import FieldNames
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import StatementSet
from sqlstream.planner.tails import over, tail_of


def prune_together(plan: Node, pruned: Node) -> Node:
    """``pruned`` is ``plan`` without columns that are not read. Returns it with those that another insert reads of an
    operator that was the same in both, such as an aggregate of a view.
    """
    if not isinstance(plan, StatementSet) or not isinstance(pruned, StatementSet):
        return pruned
    needed: dict[Node, FieldNames] = {}
    pairs = [(tail_of(insert), tail_of(less)) for insert, less in zip(plan.inserts, pruned.inserts, strict=True)]
    for tail, own in pairs:
        if tail is not None and own is not None:
            needed[tail.operator] = needed.get(tail.operator, frozenset()) | own.operator.field_names
    common = {operator: operator.pruned(names) for operator, names in needed.items()}
    inserts = [
        insert
        if tail is None or own is None or common[tail.operator] == own.operator
        else over(insert, common[tail.operator])
        for insert, (tail, own) in zip(pruned.inserts, pairs, strict=True)
    ]
    return pruned.with_inputs(tuple(inserts))
