"""What the inserts of a statement set do with the results of their topmost operator with state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.expressions import conjuncts, is_repeatable, substituted
from sqlstream.planner.fields import field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Insert, Project


@dataclass(frozen=True)
class Tail:
    """An insert that filters and projects the rows of ``operator``: the ``values`` of its table's columns, for rows
    that fulfil all ``conditions``, as expressions over the fields of the operator.
    """

    operator: Node
    values: tuple[exp.Expression, ...]
    conditions: tuple[exp.Expression, ...]


def tail_of(insert: Insert) -> Tail | None:
    """What is above the topmost operator with state of an insert; None where that is more than filters and a
    projection, or they call functions of users or such as RAND(), whose calls must stay as many as they are.
    """
    path, below = list[Filter | Project](), insert.input
    while isinstance(below, Filter | Project):
        path.append(below)
        below = below.input
    if not below.keeps_state or sum(isinstance(node, Project) for node in path) > 1:
        return None  # a second projection is where expressions would be computed more than once without it
    fields: dict[str, exp.Expression] = {field.name: field_of(field.name) for field in below.schema}
    conditions = list[exp.Expression]()
    for node in reversed(path):
        if isinstance(node, Filter):
            conditions += (substituted(condition, fields) for condition in conjuncts(node.condition))
        else:
            fields = {item.name: substituted(item.expression, fields) for item in node.items}
    values = tuple(fields[field.name] for field in insert.input.schema)
    if not all(map(is_repeatable, (*conditions, *values))):
        return None
    return Tail(below, values, tuple(conditions))


def readers(inserts: Sequence[Insert]) -> list[dict[int, Tail]]:
    """The tails of inserts that read equal operators, in which functions that fail have the same consequence: for each
    operator of several inserts, those by the places of the inserts.
    """
    groups: dict[tuple[Node, OnError], dict[int, Tail]] = {}
    for place, insert in enumerate(inserts):
        if (tail := tail_of(insert)) is not None:
            groups.setdefault((tail.operator, insert.functions), {})[place] = tail
    return [group for group in groups.values() if len(group) > 1]


def over(insert: Insert, operator: Node) -> Insert:
    """The insert over another operator, which has all fields of its own and perhaps more."""

    def rebuilt(node: Node) -> Node:
        return node.with_inputs((rebuilt(node.input),)) if isinstance(node, Filter | Project) else operator

    changed = rebuilt(insert.input)
    if changed.schema != insert.input.schema:
        changed = Project(changed, tuple(field.as_item for field in insert.input.schema))
    rebuilt_insert = insert.with_inputs((changed,))
    assert isinstance(rebuilt_insert, Insert)
    return rebuilt_insert
