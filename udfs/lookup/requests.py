"""Requests in a worker process: keys that are asked for, the waiters for each, and attempts to get answers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from sqlstream.udfs.lookup.metrics import Meter
from sqlstream.udfs.lookup.outcomes import LookupOutcome
from sqlstream.udfs.lookup.retrying import Attempts
from sqlstream.udfs.lookup.source import Key, Request


class Waiter:
    """One who waits for the answer to a key. ``sink(waiter, outcome)`` is called once, on the event loop."""

    __slots__ = ("key_id", "meter", "request", "sink")

    def __init__(self, sink: Callable[[Waiter, LookupOutcome], None], key_id: Any, meter: Meter) -> None:
        self.sink = sink
        self.key_id = key_id
        self.meter = meter
        self.request: KeyRequest | None = None


class KeyRequest:
    """A key that is asked for, over all its attempts. Its time begins with the first one.

    ``background``: rows in state wait for it. ``gone``: nobody waits for it any longer.
    """

    __slots__ = (
        "attempt",
        "attempts",
        "background",
        "gone",
        "identity",
        "key",
        "lane",
        "meter",
        "retry",
        "started",
        "waiters",
    )

    def __init__(self, key: Key, identity: Hashable, lane: Lane, meter: Meter) -> None:
        self.key = key
        self.identity = identity
        self.lane = lane
        self.meter = meter
        self.waiters: list[Waiter] = []
        self.attempts = Attempts()
        self.attempt: Attempt | None = None
        self.retry: asyncio.TimerHandle | None = None
        self.started = self.background = self.gone = False


class Attempt:
    """One question to the source, for one key or several. ``runs``: its task has made its first step."""

    __slots__ = ("begun", "cancelled", "lane", "requests", "runs", "task")

    def __init__(self, requests: list[KeyRequest], lane: Lane, begun: float) -> None:
        self.requests = requests
        self.lane = lane
        self.begun = begun
        self.cancelled = self.runs = False
        self.task: asyncio.Task[None] | None = None


class Lane:
    """Requests that share a capacity: attempts in flight, and keys that wait for their turn.

    A batch is sent when it is full, or when its first key has waited for ``within`` seconds; ``window`` is the timer
    of that, ``due`` the number of keys that have waited so long.
    """

    def __init__(self, capacity: int, batch: int, within: float) -> None:
        self._capacity = capacity
        self._batch = batch
        self.within = within
        self.in_flight = 0
        self.due = 0
        self.window: asyncio.TimerHandle | None = None
        self._waiting: OrderedDict[KeyRequest, None] = OrderedDict()

    @property
    def has_room(self) -> bool:
        return self.in_flight < self._capacity

    @property
    def waits_for_more(self) -> bool:
        """Too few keys for a batch, and time for others to come."""
        return bool(self._waiting) and not self._sends

    @property
    def _sends(self) -> bool:
        return bool(self._waiting) and (self.within == 0 or self.due > 0 or len(self._waiting) >= self._batch)

    def add(self, request: KeyRequest, *, first: bool = False) -> None:
        request.lane = self
        self._waiting[request] = None
        if first:
            self._waiting.move_to_end(request, last=False)

    def remove(self, request: KeyRequest) -> bool:
        """False where it does not wait here."""
        waits = request in self._waiting
        self._waiting.pop(request, None)
        return waits

    def next(self) -> list[KeyRequest]:
        """The keys of the next question; none where nothing may be asked now."""
        if not self._sends or not self.has_room:
            return []
        requests = [self._waiting.popitem(last=False)[0] for _ in range(min(self._batch, len(self._waiting)))]
        self.due = max(0, self.due - len(requests))
        return requests

    def window_is_over(self) -> None:
        self.window = None
        self.due = len(self._waiting)


_NAN = float("nan")
_COMPOSITE = frozenset({"ARRAY", "MAP", "STRUCT", "VARIANT", "FLOAT", "DOUBLE"})


def identities(request: Request) -> Callable[[Key], Hashable] | None:
    """Maps keys so that SQL's equality holds: NaN equals NaN, and lists are hashable. None if the keys behave so
    already."""
    return _identity if any(kind.name in _COMPOSITE for _, kind in request.keys) else None


def _identity(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(map(_identity, value))
    if isinstance(value, dict):
        return tuple((name, _identity(member)) for name, member in value.items())
    return _NAN if isinstance(value, float) and value != value else value
