"""Timers of many waits that all last equally long: one timer of the event loop for the earliest."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Wait = TypeVar("Wait")


class Deadlines(Generic[Wait]):
    """``expired`` is called for a wait that was not removed ``seconds`` after it was added."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expired: Callable[[Wait], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._expired = expired
        self._ends: OrderedDict[Wait, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The waits that go on."""
        return len(self._ends)

    @property
    def is_armed(self) -> bool:
        return self._timer is not None

    def add(self, wait: Wait) -> None:
        """Does nothing for a wait that has begun already."""
        if wait in self._ends:
            return
        self._ends[wait] = self._loop.time() + self._seconds
        if self._timer is None:
            self._arm()

    def remove(self, wait: Wait) -> None:
        """Does nothing for a wait that is over or was never added."""
        self._ends.pop(wait, None)
        if not self._ends and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._loop.call_at(next(iter(self._ends.values())), self._fire)

    def _fire(self) -> None:
        self._timer = None
        while self._ends:
            wait, end = next(iter(self._ends.items()))
            if end > self._loop.time():
                break
            del self._ends[wait]
            self._expired(wait)
        if self._ends and self._timer is None:
            self._arm()
