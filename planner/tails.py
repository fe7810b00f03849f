"""What several inputs of a node, such as the inserts of a statement set or both sides of a join, do with the results of
an operator with state that they have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.expressions import conjuncts, is_repeatable, substituted
from sqlstream.planner.fields import field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Insert, Project


@dataclass(frozen=True)
class Taken:
    """What an input takes of the rows of an operator: the ``values`` of its fields (of an insert: of the columns of its
    table), for rows that fulfil all ``conditions``, as expressions over the fields of the operator. ``drops_before``:
    no -U rows.
    """

    values: tuple[exp.Expression, ...]
    conditions: tuple[exp.Expression, ...] = ()
    drops_before: bool = False


@dataclass(frozen=True)
class Tail:
    """An input of a node that filters and projects the rows of ``operator``."""

    operator: Node
    taken: Taken


def tail_of(top: Node) -> Tail | None:
    """What is between an operator with state and the input ``top`` of a node; None where that is more than filters and
    a projection, or they call functions of users or such as RAND(), whose calls must stay as many as they are.
    """
    operator = _operator_of(top)
    if operator is None:
        return None
    top = top.input if isinstance(top, Insert) else top
    fields: dict[str, exp.Expression] = {field.name: field_of(field.name) for field in operator.schema}
    conditions = list[exp.Expression]()
    for node in reversed([*_between(top)]):
        if isinstance(node, Filter):
            conditions += (substituted(condition, fields) for condition in conjuncts(node.condition))
        else:
            fields = {item.name: substituted(item.expression, fields) for item in node.items}
    values = tuple(fields[field.name] for field in top.schema)
    if not all(map(is_repeatable, (*conditions, *values))):
        return None
    return Tail(operator, Taken(values, tuple(conditions)))


def readers(node: Node) -> list[dict[int, Tail]]:
    """The tails of those inputs of a node that read equal operators, in which functions that fail have the same
    consequence: for each operator that several inputs read, those by the places of the inputs. Empty for a node that
    cannot take several inputs from one operator.
    """
    if not node.takes_branches:
        return []
    # Whole plans are compared only where they look alike: in a chain of joins, each would be at every join above it.
    alike: dict[object, list[int]] = {}
    for place, top in enumerate(node.inputs):
        if (operator := _operator_of(top)) is not None:
            functions = top.functions if isinstance(top, Insert) else None
            alike.setdefault((type(operator), operator.field_names, functions), []).append(place)
    return [group for places in alike.values() if len(places) > 1 for group in _of_equal_operators(node, places)]


def _of_equal_operators(node: Node, places: Sequence[int]) -> list[dict[int, Tail]]:
    """The tails of the inputs at these ``places``, as ``readers`` returns them."""
    groups: dict[Node, dict[int, Tail]] = {}
    for place in places:
        if (tail := tail_of(node.inputs[place])) is not None:
            groups.setdefault(tail.operator, {})[place] = tail
    return [group for group in groups.values() if len(group) > 1]


def _operator_of(top: Node) -> Node | None:
    """The operator with state below filters and at most one projection. A second one is where expressions would be
    computed more than once without it.
    """
    top = top.input if isinstance(top, Insert) else top
    path = [*_between(top)]
    below = path[-1].input if path else top
    return below if below.keeps_state and sum(isinstance(node, Project) for node in path) <= 1 else None


def _between(top: Node) -> Iterator[Filter | Project]:
    while isinstance(top, Filter | Project):
        yield top
        top = top.input


def over(top: Node, operator: Node) -> Node:
    """The input ``top`` of a node over another operator, which has all fields of its own and perhaps more."""
    if isinstance(top, Insert):
        return top.with_inputs((over(top.input, operator),))

    def rebuilt(node: Node) -> Node:
        return node.with_inputs((rebuilt(node.input),)) if isinstance(node, Filter | Project) else operator

    changed = rebuilt(top)
    return changed if changed.schema == top.schema else Project(changed, tuple(field.as_item for field in top.schema))
