"""Operators with state that several queries of a statement set have in common: each runs once, and all these queries
take its results. Above it they only filter and project, so that one row of the operator gives a row of each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

from sqlglot import exp

from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.fields import field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert
from sqlstream.planner.physical.steps import Compute, Operator, Reused, Step, Write
from sqlstream.planner.tails import tail_of

S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class Branch:
    """An insert of a statement set over the rows of the step ``below``: the ``values`` of its table's columns, for rows
    that fulfil all ``conditions``, as expressions over the columns of these rows. ``drops_before``: without -U rows.
    """

    insert: Insert
    below: Step
    values: tuple[exp.Expression, ...]
    conditions: tuple[exp.Expression, ...] = ()
    drops_before: bool = False


def with_shared_operators(root: Step) -> Step:
    """The steps of a statement set, in which an operator that several inserts read runs once: at the first of them. The
    operators are numbered from 1.
    """
    operators: dict[tuple[Node, OnError], dict[int, Operator]] = {}
    for place, step in enumerate(root.inputs):
        insert, below = _insert(step), _path(step)[-1]
        if isinstance(below, Operator) and (tail := tail_of(insert)) is not None:
            operators.setdefault((tail.operator, insert.functions), {})[place] = below
    inputs = list(root.inputs)
    for number, alike in enumerate((alike for alike in operators.values() if len(alike) > 1), 1):
        once = replace(reduce(_for_both, alike.values()), reuse=number)
        later = Reused(once.node, drops_before=once.drops_before, reuse=number)
        for place in alike:
            inputs[place] = _over(inputs[place], once if place == min(alike) else later)
    return replace(root, inputs=tuple(inputs))


def branches(steps: Sequence[Step]) -> list[list[Branch]]:
    """The inserts of a statement set: together those that read one operator, where the first of them is; each of the
    others over its own step, whose rows have the columns of its table.
    """
    groups: dict[int, list[Branch]] = {}
    for place, step in enumerate(steps):
        insert, (*above, below) = _insert(step), _path(step)
        number = below.reuse if isinstance(below, Operator | Reused) else None
        if number is None:
            columns = tuple(field_of(column.name) for column in insert.table.physical_columns)
            groups[-1 - place] = [Branch(insert, step, columns)]
        elif (tail := tail_of(insert)) is not None:
            drops = any(step.drops_before for step in above)
            groups.setdefault(number, []).append(Branch(insert, below, tail.values, tail.conditions, drops))
    return [*groups.values()]


def _insert(step: Step) -> Insert:
    assert isinstance(step.node, Insert), step
    return step.node


def _path(step: Step) -> list[Step]:
    """The steps of an insert down to its topmost operator, or to what else is below its filters and projections."""
    path = [step]
    while isinstance(path[-1], Write | Compute) and len(path[-1].inputs) == 1:
        path.append(path[-1].input)
    return path


def _for_both(step: S, other: Step) -> S:
    """The first of two equal steps, which drops only rows before updates that neither of them reads."""
    inputs = tuple(_for_both(below, of_other) for below, of_other in zip(step.inputs, other.inputs, strict=True))
    return replace(step, inputs=inputs, drops_before=step.drops_before and other.drops_before)


def _over(step: Step, below: Step) -> Step:
    """The step of an insert over another operator, of whose rows it drops those that its own has dropped."""
    if not isinstance(step.input, Operator):
        return replace(step, inputs=(_over(step.input, below),))
    drops = step.input.drops_before and not below.drops_before
    return replace(step, inputs=(below,), drops_before=step.drops_before or drops)
