"""Protection against windows that fire without end: a row with a very old time would cause firings for every interval
since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.event_times import time_text
from sqlstream.udfs.kernel import END_OF_TIME

Values = np.ndarray[Any, np.dtype[Any]]

TOO_MANY_FIRINGS = repeating("SS468")

_LOOKS = 1000
"""The number of rounds of firings after which their pace is checked."""

MOST_FIRINGS = 100_000_000
"""The limit of results of one key in one step of a clock: one per second for three years."""


def require_few(firings: int, begin: int, end: int) -> None:
    """ExecutionError SS468 for too many ``firings`` between the times ``begin`` and ``end``, in microseconds."""
    if firings > MOST_FIRINGS:
        until = f"until {time_text(end)}" if end != END_OF_TIME else "until the end of the input"
        raise ExecutionError(
            TOO_MANY_FIRINGS,
            f"a window would fire {firings:,} times from {time_text(begin)} {until}, and may {MOST_FIRINGS:,} times",
            hint="Filter out rows of so old a time, as by WHERE ts >= TIMESTAMP '2000-01-01 00:00:00', or let the "
            "window fire less often.",
        )


@dataclass
class FiringPace:
    """Extrapolates the number of firings of windows that fire in rounds, the earliest timer of each in every round."""

    _rounds: int = 0
    _first: int = 0

    def fires(self, timer: Values, until: Values) -> None:
        """Notes the next firing of all windows: its time, and the time up to which the window may fire. SS468 where, at
        the pace so far, there would be too many firings."""
        if self._rounds == 0 and len(timer):
            self._first = int(timer.min())
        self._rounds += 1
        if self._rounds % _LOOKS or not len(timer):
            return
        latest = int(np.argmin(timer))
        now, end = int(timer[latest]), int(until[latest])
        if now > self._first and end != END_OF_TIME:
            require_few((end - self._first) * self._rounds // (now - self._first), self._first, end)
