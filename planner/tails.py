"""What several inputs of a node, such as the inserts of a statement set or both sides of a join, do with the results of
an operator with state that they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.expressions import conjuncts, is_repeatable, substituted
from sqlstream.planner.fields import field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Insert, Project


@dataclass(frozen=True)
class Tail:
    """What filters and projects the rows of ``operator``: the ``values`` of the fields of an input of a node, or of the
    columns of an insert's table, for rows that fulfil all ``conditions``, as expressions over the fields of the
    operator.
    """

    operator: Node
    values: tuple[exp.Expression, ...]
    conditions: tuple[exp.Expression, ...]


def tail_of(top: Node) -> Tail | None:
    """What is between an operator with state and the input ``top`` of a node; None where that is more than filters and
    a projection, or they call functions of users or such as RAND(), whose calls must stay as many as they are.
    """
    top = top.input if isinstance(top, Insert) else top
    path, below = list[Filter | Project](), top
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
    values = tuple(fields[field.name] for field in top.schema)
    if not all(map(is_repeatable, (*conditions, *values))):
        return None
    return Tail(below, values, tuple(conditions))


def readers(node: Node) -> list[dict[int, Tail]]:
    """The tails of those inputs of a node that read equal operators, in which functions that fail have the same
    consequence: for each operator that several inputs read, those by the places of the inputs. Empty for a node that
    cannot take several inputs from one operator.
    """
    groups: dict[tuple[Node, OnError | None], dict[int, Tail]] = {}
    for place, top in enumerate(node.inputs if node.takes_branches else ()):
        if (tail := tail_of(top)) is not None:
            functions = top.functions if isinstance(top, Insert) else None
            groups.setdefault((tail.operator, functions), {})[place] = tail
    return [group for group in groups.values() if len(group) > 1]


def over(top: Node, operator: Node) -> Node:
    """The input ``top`` of a node over another operator, which has all fields of its own and perhaps more."""
    if isinstance(top, Insert):
        return top.with_inputs((over(top.input, operator),))

    def rebuilt(node: Node) -> Node:
        return node.with_inputs((rebuilt(node.input),)) if isinstance(node, Filter | Project) else operator

    changed = rebuilt(top)
    return changed if changed.schema == top.schema else Project(changed, tuple(field.as_item for field in top.schema))
