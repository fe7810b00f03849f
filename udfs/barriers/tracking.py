"""MODE AT_LEAST_ONCE: barriers are tracked and nothing is held; several may be pending.

The semantics are those of Flink's CheckpointBarrierTracker: a barrier that completes drops all older ones, a cancel
mark cancels them, and of more than MOST_PENDING the oldest is forgotten.
"""

from __future__ import annotations

import numpy as np

from sqlstream.udfs.barriers.marks import BarrierOutcome, Event, Items, MarkKind, Memory, Passage, Pending, Segment

MOST_PENDING = 50
"""Flink's MAX_CHECKPOINTS_TO_TRACK."""

_NOTHING = np.zeros(0, np.int64)


def track(memory: Memory, items: Items, channels: int, now: int) -> Passage:
    """Takes ``items`` and changes ``memory``."""
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
    """Only the newest of those that are complete is aligned: it stands for the older ones."""
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
