"""The rows that wait for answers: the order in which they leave, and how many there may be.

Entries are rows in order of arrival, and marks, such as watermarks or the end of the input: they are complete from the
start, and no row overtakes them in either direction. Both count against the capacity of a queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from sqlstream.udfs.lookup.answers import LookupBatch
from sqlstream.udfs.lookup.options import Order

Content = TypeVar("Content")


@dataclass(eq=False, slots=True)
class Entry(Generic[Content]):
    """An entry of a ``LookupQueue``. In KEY_ORDERED mode entries with an equal ``key`` leave the queue in order of
    arrival; None imposes no order. ``is_mark``: the entry has no rows, and no later entry overtakes it. ``done``: all
    answers have arrived.
    """

    content: Content
    key: Hashable = None
    is_mark: bool = False
    done: bool = False
    segment: _Segment[Content] | None = None


class LookupQueue(ABC, Generic[Content]):
    """A queue of at most ``capacity`` entries that wait for answers. The subclass defines the order in which complete
    entries leave.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0

    def __len__(self) -> int:
        """The number of entries that have not left, complete ones included."""
        return self._size

    @property
    def is_full(self) -> bool:
        """True where no entry can be added."""
        return self._size >= self._capacity

    def put(self, entry: Entry[Content]) -> bool:
        """Adds an entry and returns True. Returns False if the queue is full; the caller retries when others have
        left.
        """
        if self.is_full:
            return False
        self._size += 1
        self._put(entry)
        return True

    def complete(self, entry: Entry[Content]) -> None:
        """Mark the entry as complete: all its answers have arrived."""
        entry.done = True
        self._completed(entry)

    def pop(self) -> list[Entry[Content]]:
        """Removes and returns all entries that may leave now, in the order in which their rows are emitted."""
        left = self._pop()
        self._size -= len(left)
        return left

    @abstractmethod
    def holds(self, key: Hashable) -> bool:
        """True if a new entry with this key must wait for an earlier one with the same key, which has not left the
        queue (KEY_ORDERED).
        """
        ...

    @abstractmethod
    def _put(self, entry: Entry[Content]) -> None: ...

    @abstractmethod
    def _completed(self, entry: Entry[Content]) -> None: ...

    @abstractmethod
    def _pop(self) -> list[Entry[Content]]: ...


def queue_of(order: Order, capacity: int) -> LookupQueue[Content]:
    """An empty queue whose entries leave in the order that the option OUTPUT of the lookup prescribes. ``capacity``:
    the maximum number of entries.
    """
    if order is Order.ORDERED:
        return OrderedQueue(capacity)
    return SegmentedQueue(capacity, by_key=order is Order.KEY_ORDERED)


class OrderedQueue(LookupQueue[Content]):
    """A queue whose entries leave in order of arrival: a complete entry waits for all earlier ones."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._entries: deque[Entry[Content]] = deque()

    def holds(self, key: Hashable) -> bool:
        return False

    def _put(self, entry: Entry[Content]) -> None:
        entry.done |= entry.is_mark
        self._entries.append(entry)

    def _completed(self, entry: Entry[Content]) -> None:
        pass

    def _pop(self) -> list[Entry[Content]]:
        left = []
        while self._entries and self._entries[0].done:
            left.append(self._entries.popleft())
        return left


@dataclass(eq=False, slots=True)
class _Segment(Generic[Content]):
    """The rows between two marks: the number of incomplete ones, those that may leave, and the mark after them.

    ``lines``: by key the entries that may not leave yet, in order of arrival.
    """

    waiting: int = 0
    ready: deque[Entry[Content]] = field(default_factory=deque)
    lines: dict[Hashable, deque[Entry[Content]]] = field(default_factory=dict)
    mark: Entry[Content] | None = None


class SegmentedQueue(LookupQueue[Content]):
    """A queue whose entries leave as soon as they are complete; with ``by_key`` those of equal keys leave in order of
    arrival. An entry with ``is_mark``, such as the end of the input, divides the queue: no entry overtakes it.
    """

    def __init__(self, capacity: int, *, by_key: bool) -> None:
        super().__init__(capacity)
        self._by_key = by_key
        self._segments: deque[_Segment[Content]] = deque([_Segment()])

    def holds(self, key: Hashable) -> bool:
        return self._by_key and key is not None and any(key in segment.lines for segment in self._segments)

    def _put(self, entry: Entry[Content]) -> None:
        last = self._segments[-1]
        if entry.is_mark:
            last.mark = entry
            self._segments.append(_Segment())
            return
        entry.segment = last
        last.waiting += 1
        if self._by_key and entry.key is not None:
            last.lines.setdefault(entry.key, deque()).append(entry)
        if entry.done:
            self._completed(entry)

    def _completed(self, entry: Entry[Content]) -> None:
        segment = entry.segment
        assert segment is not None, "an entry that is not in the queue"
        line = segment.lines.get(entry.key)
        if line is None:
            self._ready(segment, entry)
            return
        while line and line[0].done:
            self._ready(segment, line.popleft())
        if not line:
            del segment.lines[entry.key]

    @staticmethod
    def _ready(segment: _Segment[Content], entry: Entry[Content]) -> None:
        segment.waiting -= 1
        segment.ready.append(entry)

    def _pop(self) -> list[Entry[Content]]:
        left: list[Entry[Content]] = []
        while True:
            first = self._segments[0]
            left += first.ready
            first.ready.clear()
            if first.waiting or first.mark is None:
                return left
            left.append(first.mark)
            self._segments.popleft()


# --- entries of the queue: rows of a batch that are emitted together ------------------------------------------


@dataclass(eq=False, slots=True)
class WaitingRows:
    """Rows of a batch that leave the lookup together; the content of a queue entry. In ORDERED mode these are all rows
    before the row index ``until`` that have not been emitted, otherwise the rows of ``groups`` (indices of groups of
    rows with the same keys). ``missing``: the number of answers that have not arrived.
    """

    batch: LookupBatch
    groups: np.ndarray
    until: int = 0
    missing: int = 0


QueuedRows = Entry[WaitingRows | None]
"""An entry of the queue; the mark at the end of the input has no rows."""

_NO_GROUPS = np.zeros(0, np.int64)


def entries_of(batch: LookupBatch, order: Order, queue: LookupQueue[WaitingRows | None]) -> Iterator[QueuedRows]:
    """Divides a batch into queue entries, in the order in which they must be added to ``queue``. The queue may still
    have entries of earlier batches.
    """
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
        blocked = [group for group in np.flatnonzero(done).tolist() if queue.holds(_key(batch, group))]
        done[blocked] = False
        for group in blocked:
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
