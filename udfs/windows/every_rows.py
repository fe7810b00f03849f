"""A slide in rows over a size in time: at every n-th row of a key, the rows in ``(time - size, time]`` of that row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.assigners.assigner import Flags, RowIndices, Times
from sqlstream.udfs.kernel import END_OF_TIME, Domain
from sqlstream.udfs.windows.ranges import Ranges
from sqlstream.udfs.windows.timeline import NOT_COUNTED, Step, Timeline


@dataclass(frozen=True)
class EveryRows:
    """In event time a row counts when the watermark reaches it, and rows of the same time are in each other's window.
    In processing time a row counts when it arrives, and what comes after it in the same instant is not there yet."""

    slide: int
    size: int

    def timers(self, time: Times, now: int) -> Times:
        return time

    def late(self, time: Times, watermark: int) -> Flags:
        return time <= watermark

    def step(self, rows: Timeline, domain: Domain, now: int) -> Step:
        counted = rows.time <= now
        position = np.where(counted, self._positions(rows), NOT_COUNTED)
        fires = np.flatnonzero(counted & (rows.position == NOT_COUNTED) & (position == 0))
        # The newest row keeps the count even where no window will hold it.
        counts_on = _newest(rows, counted) & (position > 0)
        kept = ~counted | (rows.time > now - self.size) | counts_on
        return Step(self._firings(rows, fires, domain), kept, np.where(counted, END_OF_TIME, rows.timer), position)

    def _positions(self, rows: Timeline) -> RowIndices:
        """Positions that count on from the newest row of each key that was counted before."""
        before = rows.position != NOT_COUNTED
        counted_before = np.add.reduceat(before.astype(np.int64), rows.first)
        base = np.where(counted_before > 0, rows.position[rows.first + np.maximum(counted_before, 1) - 1], 0)
        rank = np.arange(len(rows.key)) - (rows.first + counted_before)[rows.key] + 1
        return np.where(before, rows.position, (base[rows.key] + rank) % self.slide)

    def _firings(self, rows: Timeline, fires: RowIndices, domain: Domain) -> Iterator[Ranges]:
        if len(fires) == 0:
            return
        line = rows.on_line(self.size)
        if domain is Domain.EVENT:
            fires = fires[np.argsort(rows.time[fires], kind="stable")]
            stop = np.searchsorted(line.end, line.end[fires], side="right")
        else:
            stop = fires + 1
        yield Ranges(np.searchsorted(line.end, line.start[fires], side="right"), stop)


def _newest(rows: Timeline, chosen: Flags) -> Flags:
    """The last of the chosen rows of each key; these are the first ones of the key."""
    count = np.add.reduceat(chosen.astype(np.int64), rows.first)
    newest = np.zeros(len(chosen), np.bool_)
    newest[(rows.first + count - 1)[count > 0]] = True
    return newest
