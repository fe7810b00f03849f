"""Rows of a batch that leave together, as entries of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.lookup.options import Order
from sqlstream.udfs.lookup.queue import Entry, LookupQueue
from sqlstream.udfs.lookup.taken import Taken


@dataclass(eq=False, slots=True)
class Part:
    """In ORDERED all rows up to ``until`` that have not left, else those of ``groups``.

    ``missing``: the answers that are not there yet.
    """

    taken: Taken
    groups: np.ndarray
    until: int = 0
    missing: int = 0


Waiting = Entry[Part | None]
"""An entry of the queue; the mark at the end of the input has no rows."""

_NO_GROUPS = np.zeros(0, np.int64)


def parts_of(taken: Taken, order: Order, queue: LookupQueue[Part | None]) -> Iterator[Waiting]:
    """The parts of a batch, in the order in which the queue, which holds those of earlier batches, must get them."""
    return _ordered(taken) if order is Order.ORDERED else _by_group(taken, queue, by_key=order is Order.KEY_ORDERED)


def _ordered(taken: Taken) -> Iterator[Waiting]:
    """Groups are numbered by first appearance: when one is done, rows up to the next one that is not may leave."""
    undone = taken.undone()
    ends = [*taken.groups.first[undone].tolist(), taken.batch.num_rows]
    yield Entry(Part(taken, _NO_GROUPS, ends[0]), done=True)
    for group, until in zip(undone, ends[1:], strict=True):
        yield Entry(Part(taken, np.array([group]), until))


def _by_group(taken: Taken, queue: LookupQueue[Part | None], *, by_key: bool) -> Iterator[Waiting]:
    """What is done leaves at once, in KEY ORDERED where no rows of its key wait."""
    undone = taken.undone()
    done = np.ones(taken.groups.count, np.bool_)
    done[undone] = False
    if by_key and len(queue):
        behind = [group for group in np.flatnonzero(done).tolist() if queue.holds(_key(taken, group))]
        done[behind] = False
        for group in behind:
            yield Entry(Part(taken, np.array([group])), _key(taken, group), done=True)
    if done.any():
        yield Entry(Part(taken, np.flatnonzero(done)), done=True)
    for group in undone.tolist():
        yield Entry(Part(taken, np.array([group])), _key(taken, group) if by_key else None)


def _key(taken: Taken, group: int) -> object:
    """The key that all lookups have in KEY ORDERED; None where it is NULL."""
    number = taken.numbers(group)[0]
    identities = taken.steps[0].identities
    return identities[number] if number < len(identities) else None
