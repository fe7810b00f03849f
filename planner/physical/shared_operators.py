"""Operators with state that several inputs of a step have in common, such as the inserts of a statement set, branches
of UNION ALL or sides of a join: each runs once, and all of them take its results. Above it they only filter and
project, so that one row of the operator gives a row of each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from typing import TypeVar

from sqlstream.planner.fields import field_of
from sqlstream.planner.nodes import Insert
from sqlstream.planner.physical.steps import Compute, Operator, Reused, Step, Write
from sqlstream.planner.tails import Taken, readers

S = TypeVar("S", bound=Step)


def with_shared_operators(root: Step, *, in_queries: bool) -> Step:
    """The steps, in which an operator that several inputs of a step read runs once: at the first of them. The operators
    are numbered from 1. ``in_queries``: False if only the inserts of a statement set, the inputs of its root, do.
    """
    numbers = count(1)
    return _shared_everywhere(root, numbers) if in_queries else _shared(root, numbers)


def _shared_everywhere(step: Step, numbers: Iterator[int]) -> Step:
    if isinstance(step, Reused):
        return step
    shared = _shared(step, numbers)
    return replace(shared, inputs=tuple(_shared_everywhere(below, numbers) for below in shared.inputs))


def _shared(step: S, numbers: Iterator[int]) -> S:
    """The step, whose inputs have in common what they can."""
    groups = [] if isinstance(step, Operator) and step.ticks else readers(step.node)  # which only one input gets
    inputs, taken = [*step.inputs], list[Taken | None]([None] * len(step.inputs))
    for group in groups:
        number = next(numbers)
        below: Step = replace(reduce(_for_both, (_operator(inputs[place]) for place in group)), reuse=number)
        for place, tail in group.items():
            *between, own = _path(inputs[place])
            drops = any(each.drops_before for each in between) or (own.drops_before and not below.drops_before)
            taken[place] = replace(tail.taken, drops_before=drops)
            inputs[place] = _over(inputs[place], below)
            below = Reused(below.node, drops_before=below.drops_before, reuse=number)
    return replace(step, inputs=tuple(inputs), takes=tuple(taken)) if groups else step


@dataclass(frozen=True)
class Branch:
    """An input of a step, at this ``place``, and what it has ``taken`` of the rows of the step ``below``."""

    place: int
    below: Step
    taken: Taken


def branches(step: Step) -> list[list[Branch]]:
    """The inputs of a step: together those that read one operator, where the first of them is; each of the others over
    its own step, whose rows have the columns of the input.
    """
    groups: dict[int, list[Branch]] = {}
    takes = step.takes or (None,) * len(step.inputs)
    for place, (above, taken) in enumerate(zip(step.inputs, takes, strict=True)):
        if taken is None:
            groups[-1 - place] = [Branch(place, above, Taken(tuple(map(field_of, _columns(above)))))]
            continue
        below = _path(above)[-1]
        assert isinstance(below, Operator | Reused) and below.reuse is not None, below
        groups.setdefault(below.reuse, []).append(Branch(place, below, taken))
    return [*groups.values()]


def _columns(step: Step) -> Iterator[str]:
    """The columns of a step's rows."""
    if isinstance(step, Write) and isinstance(step.node, Insert):
        return (column.name for column in step.node.table.physical_columns)
    return (field.name for field in step.node.schema)


def _operator(step: Step) -> Operator:
    operator = _path(step)[-1]
    assert isinstance(operator, Operator), operator
    return operator


def _path(step: Step) -> list[Step]:
    """The steps of an input down to its topmost operator, or to what else is below its filters and projections."""
    path = [step]
    while isinstance(path[-1], Write | Compute) and len(path[-1].inputs) == 1:
        path.append(path[-1].input)
    return path


def _for_both(step: S, other: Step) -> S:
    """The first of two equal steps, which drops only rows before updates that neither of them reads."""
    assert step.node == other.node, (step, other)
    inputs = tuple(_for_both(below, of_other) for below, of_other in zip(step.inputs, other.inputs, strict=True))
    return replace(step, inputs=inputs, drops_before=step.drops_before and other.drops_before)


def _over(step: Step, below: Step) -> Step:
    """The input of a step over another operator, of whose rows it drops those that its own has dropped."""
    if isinstance(step, Operator):
        return below
    if not isinstance(step.input, Operator):
        return replace(step, inputs=(_over(step.input, below),))
    drops = step.input.drops_before and not below.drops_before
    return replace(step, inputs=(below,), drops_before=step.drops_before or drops)
