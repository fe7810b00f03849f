"""How many rows a micro-batch reads of those that wait, so that it takes no longer than is wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_FEWEST = 100
"""So many rows a micro-batch may read, however slow the last one was."""


class Pace:
    """The bound of a source's micro-batches: ``most`` rows (None: all), and as soon as one takes longer than
    ``wanted_ms``, as many as fit into that time by the speed of the last one. 0: a micro-batch takes as long as it
    needs. The sources of a query have the duration in common, so each of them reads less then.

    Spark asks what to read as soon as the last micro-batch is complete and its trigger does not wait, so a trigger must
    wait for less than ``wanted_ms``.
    """

    def __init__(self, most: int | None, wanted_ms: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._wanted, self._clock = most or sys.maxsize, wanted_ms / 1000, clock
        self._room = self._most
        self._rows, self._begun = 0, 0.0

    def room(self) -> int:
        """How many rows the micro-batch that is planned now reads at most."""
        if self._wanted and self._rows:
            seconds = max(self._clock() - self._begun, 0.001)
            fits = max(int(self._rows * self._wanted / seconds), _FEWEST)
            self._room = min(self._most, fits if seconds > self._wanted else max(self._room, fits))
            self._rows = 0
        return self._room

    def reads(self, rows: int) -> None:
        """The micro-batch that is planned now reads so many rows."""
        self._rows, self._begun = rows, self._clock()
