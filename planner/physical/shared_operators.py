"""Operators with state that several queries of a statement set have in common: each runs once, and all these queries
take its results. Above it they only filter and project, so that one row of the operator gives a row of each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

from sqlglot import exp

from sqlstream.planner.fields import field_of
from sqlstream.planner.nodes import Insert
from sqlstream.planner.physical.steps import Compute, Operator, Reused, Step, Write
from sqlstream.planner.tails import readers

S = TypeVar("S", bound=Step)


def with_shared_operators(root: Step) -> Step:
    """The steps of a statement set, in which an operator that several inserts read runs once: at the first of them. The
    operators are numbered from 1.
    """
    writes, inserts = zip(*_writes(root), strict=True)
    steps = [*writes]
    for number, group in enumerate(readers(inserts), 1):
        below: Step = replace(reduce(_for_both, (_operator(steps[place]) for place in group)), reuse=number)
        for place, tail in group.items():
            steps[place] = replace(_over(steps[place], below), tail=tail)
            below = Reused(below.node, drops_before=below.drops_before, reuse=number)
    return replace(root, inputs=tuple(steps))


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


def branches(root: Step) -> list[list[Branch]]:
    """The inserts of a statement set: together those that read one operator, where the first of them is; each of the
    others over its own step, whose rows have the columns of its table.
    """
    groups: dict[int, list[Branch]] = {}
    for place, (write, insert) in enumerate(_writes(root)):
        if write.tail is None:
            columns = tuple(field_of(column.name) for column in insert.table.physical_columns)
            groups[-1 - place] = [Branch(insert, write, columns)]
            continue
        *above, below = _path(write)
        assert isinstance(below, Operator | Reused) and below.reuse is not None, below
        drops = any(each.drops_before for each in above)
        branch = Branch(insert, below, write.tail.values, write.tail.conditions, drops)
        groups.setdefault(below.reuse, []).append(branch)
    return [*groups.values()]


def _writes(root: Step) -> Iterator[tuple[Write, Insert]]:
    """The steps of a statement set's inserts."""
    for step in root.inputs:
        assert isinstance(step, Write) and isinstance(step.node, Insert), step
        yield step, step.node


def _operator(write: Write) -> Operator:
    operator = _path(write)[-1]
    assert isinstance(operator, Operator), operator
    return operator


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


def _over(step: S, below: Step) -> S:
    """The step of an insert over another operator, of whose rows it drops those that its own has dropped."""
    if not isinstance(step.input, Operator):
        return replace(step, inputs=(_over(step.input, below),))
    drops = step.input.drops_before and not below.drops_before
    return replace(step, inputs=(below,), drops_before=step.drops_before or drops)
