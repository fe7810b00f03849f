"""Data of barrier alignment: what arrives on channels, what the state remembers of barriers, and what passes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Any, NamedTuple

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]


class MarkKind(IntEnum):
    """A row of data, the marker of a barrier, what cancels one, or the end of a channel."""

    ROW = 0
    MARKER = 1
    CANCEL = 2
    END = 3


class Items(NamedTuple):
    """What has arrived, in order: the number of its channel, its ``MarkKind``, and for marks of barriers their id."""

    channel: Values
    kind: Values
    id: Values

    @property
    def total(self) -> int:
        return len(self.channel)


class BarrierOutcome(Enum):
    """How a barrier ended. SUBSUMED: a newer one has begun. ENDED: the input ended before it was aligned."""

    ALIGNED = "aligned"
    SUBSUMED = "subsumed"
    CANCELLED = "cancelled"
    ENDED = "ended"


class Event(NamedTuple):
    """``position``: that of the item that decided."""

    position: int
    outcome: BarrierOutcome
    id: int


class Segment(NamedTuple):
    """Rows that pass, as positions in order; ``barrier`` is the last one aligned before them, None for none.

    ``begins``: it was aligned right here.
    """

    barrier: int | None
    rows: Values
    begins: bool = False


class Passage(NamedTuple):
    """The rows that pass in a call, and the positions of rows that wait. ``released``: held rows were among those that
    passed."""

    parts: list[Segment]
    held: Values
    events: list[Event]
    released: bool = False


@dataclass(frozen=True)
class Pending:
    """A barrier of which some channels have brought the marker, the first one at ``since``."""

    id: int
    since: int
    arrived: frozenset[int] = frozenset()

    def with_channel(self, channel: int) -> Pending:
        return replace(self, arrived=self.arrived | {channel})

    def started(self, since: int) -> Pending:
        return replace(self, since=since)


@dataclass
class Memory:
    """The state of the barriers of all channels.

    Barriers with ids up to ``newest`` are over. ``aligned``: the last barrier that was aligned. ``pending``: the
    barriers that wait, oldest first. ``ended``: channels whose input has ended, which count as arrived.
    """

    newest: int | None = None
    aligned: int | None = None
    pending: list[Pending] = field(default_factory=list)
    ended: frozenset[int] = frozenset()

    def copy(self) -> Memory:
        return replace(self, pending=list(self.pending))

    def is_new(self, barrier: int) -> bool:
        return self.newest is None or barrier > self.newest

    def is_complete(self, pending: Pending, channels: int) -> bool:
        return len(pending.arrived | self.ended) == channels

    def to_json(self) -> str:
        pending = [(p.id, p.since, sorted(p.arrived)) for p in self.pending]
        return json.dumps([self.newest, self.aligned, pending, sorted(self.ended)])

    @staticmethod
    def from_json(text: str) -> Memory:
        newest, aligned, pending, ended = json.loads(text)
        pending_barriers = [Pending(number, since, frozenset(arrived)) for number, since, arrived in pending]
        return Memory(newest, aligned, pending_barriers, frozenset(ended))


def waiting_since(pending: Iterable[Pending]) -> int | None:
    """When the oldest of them began."""
    return min((p.since for p in pending), default=None)
