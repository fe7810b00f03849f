"""Entries of the lookup's queue: rows of a batch that are emitted together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.lookup.batch import LookupBatch
from sqlstream.udfs.lookup.options import Order
from sqlstream.udfs.lookup.queue import Entry, LookupQueue


@dataclass(eq=False, slots=True)
class WaitingRows:
    """In ORDERED mode all rows up to ``until`` that are still there, else the rows of ``groups``.

    ``missing``: how many answers have not arrived.
    """

    batch: LookupBatch
    groups: np.ndarray
    until: int = 0
    missing: int = 0


QueuedRows = Entry[WaitingRows | None]
"""An entry of the queue; the mark at the end of the input has no rows."""

_NO_GROUPS = np.zeros(0, np.int64)


def entries_of(batch: LookupBatch, order: Order, queue: LookupQueue[WaitingRows | None]) -> Iterator[QueuedRows]:
    """The entries of a batch, in the order in which the queue must get them. The queue still holds entries of earlier
    batches."""
    return _ordered(batch) if order is Order.ORDERED else _by_group(batch, queue, by_key=order is Order.KEY_ORDERED)


def _ordered(batch: LookupBatch) -> Iterator[QueuedRows]:
    """Groups are numbered by first appearance: when one is done, rows up to the next one that is not may leave."""
    undone = batch.undone()
    ends = [*batch.groups.first[undone].tolist(), batch.rows.num_rows]
    yield Entry(WaitingRows(batch, _NO_GROUPS, ends[0]), done=True)
    for group, until in zip(undone, ends[1:], strict=True):
        yield Entry(WaitingRows(batch, np.array([group]), until))


def _by_group(batch: LookupBatch, queue: LookupQueue[WaitingRows | None], *, by_key: bool) -> Iterator[QueuedRows]:
    """Rows whose answers are known may be emitted at once; in KEY_ORDERED only if no earlier rows of their key wait."""
    undone = batch.undone()
    done = np.ones(batch.groups.count, np.bool_)
    done[undone] = False
    if by_key and len(queue):
        behind = [group for group in np.flatnonzero(done).tolist() if queue.holds(_key(batch, group))]
        done[behind] = False
        for group in behind:
            yield Entry(WaitingRows(batch, np.array([group])), _key(batch, group), done=True)
    if done.any():
        yield Entry(WaitingRows(batch, np.flatnonzero(done)), done=True)
    for group in undone.tolist():
        yield Entry(WaitingRows(batch, np.array([group])), _key(batch, group) if by_key else None)


def _key(batch: LookupBatch, group: int) -> object:
    """The key that all lookups have in KEY ORDERED; None where it is NULL."""
    number = batch.numbers(group)[0]
    identities = batch.steps[0].identities
    return identities[number] if number < len(identities) else None
