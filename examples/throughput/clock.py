"""How fast rows come out of something, without its start and its end."""

from __future__ import annotations

import time
from typing import NamedTuple

TRIMMED = 0.1
"""The share of the rows at either end that counts for no rate."""


class Speed(NamedTuple):
    """Rows per second, and milliseconds of this process's processors per row."""

    rate: float
    cpu_ms: float


class Clock:
    """Starts when it is made; ``done`` rows of ``rows`` have come out."""

    def __init__(self, rows: int) -> None:
        self.done = 0
        self._rows = rows
        self._cpu = time.process_time()
        self._seen = [(0, time.perf_counter())]

    def count(self, rows: int = 1) -> None:
        self.done += rows
        self._seen.append((self.done, time.perf_counter()))

    def speed(self) -> Speed:
        """Of all that came where few batches came."""
        cpu = (time.process_time() - self._cpu) * 1000 / self._rows
        low, high = TRIMMED * self._rows, (1 - TRIMMED) * self._rows
        middle = [(done, at) for done, at in self._seen if low <= done <= high]
        if len(middle) < 2 or middle[-1][0] - middle[0][0] < self._rows / 2:
            middle = [self._seen[0], self._seen[-1]]
        (first, begin), (last, end) = middle[0], middle[-1]
        return Speed((last - first) / (end - begin), cpu)
