"""A size in rows over a slide in time: at each multiple of the slide, the last n rows of a key before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.assigners.aligned import aligned
from sqlstream.udfs.assigners.assigner import Flags, RowIndices, Times
from sqlstream.udfs.assigners.merging import MILLISECOND, Windows, on_line
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, Domain
from sqlstream.udfs.windows.endless import require_few
from sqlstream.udfs.windows.ranges import Ranges
from sqlstream.udfs.windows.timeline import NOT_COUNTED, Step, Timeline

MOST_FIRINGS = 1 << 18
"""So many firings are worked out at once."""


@dataclass(frozen=True)
class LastRows:
    """Fires 1 ms before each multiple of ``slide``, moved by ``offset``; also without new rows, as long as a key has
    any. At the end of time the last firing of a key is the first one after its newest row."""

    size: int
    slide: int
    offset: int = 0

    def timers(self, time: Times, now: int) -> Times:
        """1 ms before the next multiple, or before the one after where that has fired already."""
        following = self._next(time)
        if now < END_OF_TIME:
            following = np.maximum(following, self._next_after_firing(now))
        return following - MILLISECOND

    def late(self, time: Times, watermark: int) -> Flags:
        return self._next(time) - MILLISECOND <= watermark

    def step(self, rows: Timeline, domain: Domain, now: int) -> Step:
        waiting = rows.position == NOT_COUNTED
        begin = np.minimum.reduceat(rows.timer, rows.first) + MILLISECOND
        if now == END_OF_TIME:
            newest = np.maximum.reduceat(np.where(waiting, rows.timer, NO_WATERMARK), rows.first)
            return Step(self._firings(rows, begin, newest + MILLISECOND), ~waiting & waiting, rows.timer, rows.position)
        fired = self._next_after_firing(now) - self.slide
        waiting &= rows.timer > fired - MILLISECOND
        timer = np.where(waiting, rows.timer, fired + self.slide - MILLISECOND)
        firings = self._firings(rows, begin, np.full(len(begin), fired))
        return Step(firings, self._kept(rows, waiting), timer, np.where(waiting, NOT_COUNTED, 0))

    def _next(self, time: Times) -> Times:
        """The first multiple after each time."""
        return aligned(time, self.slide, self.offset) + self.slide

    def _next_after_firing(self, now: int) -> int:
        """The first multiple that the clock has not fired."""
        return now + MILLISECOND - (now + MILLISECOND - self.offset) % self.slide + self.slide

    def _kept(self, rows: Timeline, waiting: Flags) -> Flags:
        """Rows that have not been in a firing, and the newest of the others."""
        seen = np.add.reduceat((~waiting).astype(np.int64), rows.first)
        stop = (rows.first + seen)[rows.key]
        return waiting | (np.arange(len(rows.key)) >= stop - self.size)

    def _firings(self, rows: Timeline, begin: Times, end: Times) -> Iterator[Ranges]:
        """The firings of each key at each multiple from ``begin`` to ``end``, multiple by multiple."""
        fire = np.flatnonzero(end >= begin)
        if not len(fire):
            return
        longest = fire[np.argmax(end[fire] - begin[fire])]
        require_few(int(end[longest] - begin[longest]) // self.slide + 1, int(begin[longest]), int(end[longest]))
        multiples = max(1, MOST_FIRINGS // len(begin))
        low = int(begin.min())
        while low <= int(end.max()):
            high = low + multiples * self.slide
            here = np.arange(low, min(high, int(end.max()) + 1), self.slide)
            multiple, key = np.nonzero((begin <= here[:, np.newaxis]) & (here[:, np.newaxis] <= end))
            yield self._last_before(rows, key, here[multiple])
            later = np.maximum(begin, high)[end >= high]  # between the rows of different keys may be thousands of years
            low = int(later.min(initial=END_OF_TIME))

    def _last_before(self, rows: Timeline, key: RowIndices, multiple: Times) -> Ranges:
        asked = Windows(key, multiple, multiple)
        line = on_line(Windows(rows.key, rows.time, rows.time) + asked).start
        stop = np.searchsorted(line[: len(rows.key)], line[len(rows.key) :])
        return Ranges(np.maximum(rows.first[key], stop - self.size), stop)
