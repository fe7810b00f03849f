"""Alignment of barriers. MODE EXACTLY_ONCE: after its marker a channel is blocked until the markers of all channels
have arrived.

The semantics are those of Flink's BarrierBuffer (1.8) and, for ended channels, of its SingleCheckpointBarrierHandler:
held rows are released, in order of arrival, before anything newer; a newer barrier cancels an incomplete older one;
late and cancelled barriers are ignored; an ended channel counts as arrived.

Between two releases a channel passes everything up to the marker that blocks it, so Python loops over marks and
channels, and rows are slices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

_NOTHING = np.zeros(0, np.int64)


def align(memory: Memory, items: Items, channels: int, now: int, *, ends: bool = False) -> Passage:
    """Processes the rows and markers ``items``, of which those held back by earlier calls are first, in the aligned
    mode (exactly-once), and updates ``memory``. Returns which rows pass, which are held back, and which barriers ended.
    ``channels`` is the number of input channels, ``now`` the processing time in microseconds; ``ends``: the input has
    ended, so all rows pass.
    """
    walk = _Walk(memory, items, channels, now)
    walk.run()
    if ends:
        walk.end()
    return walk.passage()


class _Walk:
    """One pass over the items. A round is what passes between two releases."""

    def __init__(self, memory: Memory, items: Items, channels: int, now: int) -> None:
        self._memory = memory
        self._items = items
        self._channels = channels
        self._now = now
        self._rows, self._marks = _by_channel(items)
        self._rows_taken = dict.fromkeys(self._rows, 0)
        self._marks_seen = dict.fromkeys(self._marks, 0)
        self._blocked = {channel for pending in memory.pending for channel in pending.arrived}
        self._freed: set[int] = set()
        self._round: list[Values] = []
        self._begins = False
        self._parts: list[Segment] = []
        self._events: list[Event] = []
        self._released = False
        self._next_marks: list[tuple[int, int]] = []
        for channel in self._marks:
            self._push(channel)

    def run(self) -> None:
        while self._next_marks:
            position, channel = heappop(self._next_marks)
            self._marks_seen[channel] += 1
            self._take_mark(position, channel)
            for freed in self._freed | {channel}:
                self._push(freed)
            self._freed.clear()
        self._close(self._items.total)

    def end(self) -> None:
        """Discards the marks among the held items."""
        for pending in self._memory.pending:
            self._cancel(self._items.total, BarrierOutcome.ENDED, pending)
        self._marks_seen = {channel: len(marks) for channel, marks in self._marks.items()}
        self._close(self._items.total)

    def passage(self) -> Passage:
        waiting = [rows[self._rows_taken[channel] :] for channel, rows in self._rows.items()]
        waiting += [np.array(marks[self._marks_seen[c] :], np.int64) for c, marks in self._marks.items()]
        parts = [segment for segment in self._parts if segment.begins or len(segment.rows)]
        return Passage(parts, _sorted(waiting), self._events, self._released)

    # --- marks ------------------------------------------------------------------------------------------------

    def _take_mark(self, position: int, channel: int) -> None:
        barrier = int(self._items.id[position])
        match self._items.kind[position]:
            case MarkKind.MARKER:
                self._marker(position, channel, barrier)
            case MarkKind.CANCEL:
                self._cancel_mark(position, barrier)
            case MarkKind.END:
                self._memory.ended |= {channel}
        self._complete(position)

    def _marker(self, position: int, channel: int, barrier: int) -> None:
        pending = self._pending
        if pending is not None and barrier == pending.id:
            self._arrive(position, channel, pending)
        elif self._memory.is_new(barrier):
            if pending is not None:
                self._cancel(position, BarrierOutcome.SUBSUMED, pending)
            self._memory.newest = barrier
            self._arrive(position, channel, Pending(barrier, self._now))

    def _cancel_mark(self, position: int, barrier: int) -> None:
        pending = self._pending
        if pending is not None and barrier == pending.id:
            self._cancel(position, BarrierOutcome.CANCELLED, pending)
        elif self._memory.is_new(barrier):
            if pending is not None:
                self._cancel(position, BarrierOutcome.SUBSUMED, pending)
            self._memory.newest = barrier
            self._events.append(Event(position, BarrierOutcome.CANCELLED, barrier))

    def _arrive(self, position: int, channel: int, pending: Pending) -> None:
        self._take(channel, position)
        self._blocked.add(channel)
        self._memory.pending = [pending.with_channel(channel)]

    def _complete(self, position: int) -> None:
        pending = self._pending
        if pending is not None and self._memory.is_complete(pending, self._channels):
            self._release(position)
            self._memory.aligned = pending.id
            self._begins = True
            self._events.append(Event(position, BarrierOutcome.ALIGNED, pending.id))

    def _cancel(self, position: int, outcome: BarrierOutcome, pending: Pending) -> None:
        self._release(position)
        self._events.append(Event(position, outcome, pending.id))

    @property
    def _pending(self) -> Pending | None:
        return self._memory.pending[0] if self._memory.pending else None

    # --- rows -------------------------------------------------------------------------------------------------

    def _release(self, position: int) -> None:
        self._close(position)
        self._memory.pending = []
        self._freed |= self._blocked
        self._blocked.clear()
        self._released = True

    def _close(self, position: int) -> None:
        """Ends the round: everything that is not blocked has passed up to ``position``."""
        for channel in self._rows:
            if channel not in self._blocked:
                self._take(channel, position)
        self._parts.append(Segment(self._memory.aligned, _sorted(self._round), self._begins))
        self._round, self._begins = [], False

    def _take(self, channel: int, position: int) -> None:
        """The rows of a channel before a position pass."""
        rows = self._rows.get(channel, _NOTHING)
        start, stop = self._rows_taken.get(channel, 0), int(np.searchsorted(rows, position))
        if stop > start:
            self._round.append(rows[start:stop])
            self._rows_taken[channel] = stop

    def _push(self, channel: int) -> None:
        marks, seen = self._marks.get(channel, []), self._marks_seen.get(channel, 0)
        if channel not in self._blocked and seen < len(marks):
            heappush(self._next_marks, (marks[seen], channel))


def _by_channel(items: Items) -> tuple[dict[int, Values], dict[int, list[int]]]:
    """The positions of the rows, and of the marks, of each channel."""
    order = np.argsort(items.channel, kind="stable")
    channels, starts = np.unique(items.channel[order], return_index=True)
    cut = dict(zip(channels.tolist(), np.split(order, starts[1:]), strict=False))
    is_row = items.kind == MarkKind.ROW
    rows = {channel: positions[is_row[positions]] for channel, positions in cut.items()}
    return rows, {channel: positions[~is_row[positions]].tolist() for channel, positions in cut.items()}


def _sorted(positions: list[Values]) -> Values:
    if len(positions) == 1:
        return positions[0]
    return np.sort(np.concatenate(positions), kind="stable") if positions else _NOTHING


# --- marks, channels and state --------------------------------------------------------------------------------


Values = np.ndarray[Any, np.dtype[Any]]


class MarkKind(IntEnum):
    """The kind of an input item: a row of data, or one of three markers: a barrier, the cancellation of a barrier, or
    the end of a channel.
    """

    ROW = 0
    MARKER = 1
    CANCEL = 2
    END = 3


class Items(NamedTuple):
    """The items of a call, rows and markers, in order of arrival: for each the index of its input channel, its
    ``MarkKind`` and, for markers of barriers, the id of the barrier.
    """

    channel: Values
    kind: Values
    id: Values

    @property
    def total(self) -> int:
        """The number of items, rows and markers."""
        return len(self.channel)


class BarrierOutcome(Enum):
    """How a barrier ended. ALIGNED: its marker arrived on all channels. SUBSUMED: a newer barrier began. CANCELLED: by
    a marker or by the timeout. ENDED: the input ended before it was aligned.
    """

    ALIGNED = "aligned"
    SUBSUMED = "subsumed"
    CANCELLED = "cancelled"
    ENDED = "ended"


class Event(NamedTuple):
    """The end of one barrier. ``position`` is the position, among the items of the call, of the item that ended it."""

    position: int
    outcome: BarrierOutcome
    id: int


class Segment(NamedTuple):
    """Consecutive rows that pass, as positions among the items of the call, in order.

    ``barrier`` is the id of the last barrier aligned before them, None for none; ``begins``: it was aligned immediately
    before them.
    """

    barrier: int | None
    rows: Values
    begins: bool = False


class Passage(NamedTuple):
    """The outcome of one call: the rows that pass (``parts``), the positions of the rows and markers that are ``held``
    back, and the barriers that ended (``events``).

    ``released`` is true if rows held back earlier are among those that passed.
    """

    parts: list[Segment]
    held: Values
    events: list[Event]
    released: bool = False


@dataclass(frozen=True)
class Pending:
    """A barrier that is not yet aligned: its marker has arrived on some channels, on the first one at the processing
    time ``since`` (microseconds).
    """

    id: int
    since: int
    arrived: frozenset[int] = frozenset()

    def with_channel(self, channel: int) -> Pending:
        """A copy in which the barrier's marker has also arrived on ``channel``."""
        return replace(self, arrived=self.arrived | {channel})

    def started(self, since: int) -> Pending:
        """A copy with the start time ``since``, in microseconds of processing time."""
        return replace(self, since=since)


@dataclass
class Memory:
    """The alignment state of all channels, stored between calls.

    ``newest``: the greatest id of a barrier that has arrived; barriers up to it that are not pending are finished.
    ``aligned``: the last aligned barrier. ``pending``: the barriers that are not finished, oldest first. ``ended``: the
    channels whose input has ended, which count as if the marker had arrived.
    """

    newest: int | None = None
    aligned: int | None = None
    pending: list[Pending] = field(default_factory=list)
    ended: frozenset[int] = frozenset()

    def copy(self) -> Memory:
        """A copy that can be changed independently."""
        return replace(self, pending=list(self.pending))

    def is_new(self, barrier: int) -> bool:
        """True if the id ``barrier`` is greater than those of all barriers that have arrived before."""
        return self.newest is None or barrier > self.newest

    def is_complete(self, pending: Pending, channels: int) -> bool:
        """True if the marker of the barrier ``pending`` has arrived on all channels that have not ended."""
        return len(pending.arrived | self.ended) == channels

    def to_json(self) -> str:
        """The state as JSON."""
        pending = [(p.id, p.since, sorted(p.arrived)) for p in self.pending]
        return json.dumps([self.newest, self.aligned, pending, sorted(self.ended)])

    @staticmethod
    def from_json(text: str) -> Memory:
        """The state that ``to_json`` wrote."""
        newest, aligned, pending, ended = json.loads(text)
        pending_barriers = [Pending(number, since, frozenset(arrived)) for number, since, arrived in pending]
        return Memory(newest, aligned, pending_barriers, frozenset(ended))


def waiting_since(pending: Iterable[Pending]) -> int | None:
    """The time at which the oldest of the pending barriers began, in microseconds of processing time; None if none is
    pending.
    """
    return min((p.since for p in pending), default=None)


# --- MODE AT_LEAST_ONCE: barriers are tracked, no row is held back --------------------------------------------
# The semantics are those of Flink's CheckpointBarrierTracker: a completed barrier drops all older ones, a cancel mark
# cancels them, and when more than MOST_PENDING are pending the oldest is dropped.


MOST_PENDING = 50
"""Flink's MAX_CHECKPOINTS_TO_TRACK."""


def track(memory: Memory, items: Items, channels: int, now: int) -> Passage:
    """Processes the rows and markers ``items`` in the unaligned mode (at-least-once): all rows pass, and ``memory`` is
    updated with the barriers that have arrived. Returns the rows, divided at aligned barriers, and which barriers
    ended. ``channels`` is the number of input channels, ``now`` the processing time in microseconds.
    """
    first, events = memory.aligned, []
    for position in np.flatnonzero(items.kind != MarkKind.ROW).tolist():
        events += _taken(memory, items, position, channels, now)
    rows = np.flatnonzero(items.kind == MarkKind.ROW)
    aligned = [event for event in events if event.outcome is BarrierOutcome.ALIGNED]
    cuts = np.searchsorted(rows, [event.position for event in aligned])
    parts = np.split(rows, cuts)
    segments = [Segment(first, parts[0])] if len(parts[0]) else []
    segments += [Segment(event.id, row_indices, True) for event, row_indices in zip(aligned, parts[1:], strict=True)]
    return Passage(segments, _NOTHING, events)


def _taken(memory: Memory, items: Items, position: int, channels: int, now: int) -> list[Event]:
    channel, barrier = int(items.channel[position]), int(items.id[position])
    match items.kind[position]:
        case MarkKind.MARKER:
            _marker(memory, channel, barrier, now)
        case MarkKind.CANCEL:
            return [Event(position, BarrierOutcome.CANCELLED, cancelled) for cancelled in _cancelled(memory, barrier)]
        case MarkKind.END:
            memory.ended |= {channel}
    return _completed(memory, position, channels)


def _marker(memory: Memory, channel: int, barrier: int, now: int) -> None:
    """A late or cancelled barrier is ignored."""
    if memory.is_new(barrier):
        memory.newest = barrier
        memory.pending = [*memory.pending, Pending(barrier, now)][-MOST_PENDING:]
    memory.pending = [p.with_channel(channel) if p.id == barrier else p for p in memory.pending]


def _completed(memory: Memory, position: int, channels: int) -> list[Event]:
    """Only the newest complete barrier is aligned; it supersedes the older ones."""
    complete = [number for number, p in enumerate(memory.pending) if memory.is_complete(p, channels)]
    if not complete:
        return []
    memory.aligned = memory.pending[complete[-1]].id
    memory.pending = memory.pending[complete[-1] + 1 :]
    return [Event(position, BarrierOutcome.ALIGNED, memory.aligned)]


def _cancelled(memory: Memory, barrier: int) -> list[int]:
    """The barriers that a cancel mark cancels: pending ones up to its own, and its own where that is new."""
    gone = [p.id for p in memory.pending if p.id <= barrier]
    memory.pending = [p for p in memory.pending if p.id > barrier]
    if memory.is_new(barrier):
        memory.newest = barrier
        gone.append(barrier)
    return gone
