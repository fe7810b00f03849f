"""The stored rows of some keys in order, and what the progress of a clock does with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from sqlstream.udfs.assigners.assigner import Flags, RowIndices, Times
from sqlstream.udfs.assigners.meeting import Intervals
from sqlstream.udfs.assigners.merging import Windows, on_line
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.windows.ranges import Ranges

NOT_COUNTED = -1


class Timeline(NamedTuple):
    """Rows by key, then by time, then by arrival. ``key`` counts from 0.

    ``timer``: when a row must be looked at. ``position``: how many rows of the key, modulo the slide, had been counted
    with it; NOT_COUNTED where it waits, or where no row counts.
    """

    key: RowIndices
    time: Times
    timer: Times
    position: RowIndices

    @property
    def first(self) -> RowIndices:
        """The first row of each key."""
        return np.flatnonzero(np.diff(self.key, prepend=-1))

    def on_line(self, back: int) -> Intervals:
        """For each row the interval that begins ``back`` before it, on a line on which the ends are sorted."""
        return on_line(Windows(self.key, self.time - back, self.time))


class Step(NamedTuple):
    """Blocks of firings, each in order, and what becomes of the rows: which stay, and their new state."""

    firings: Iterator[Ranges]
    kept: Flags
    timer: Times
    position: RowIndices


class Measure(Protocol):
    """When a row-measured window fires, and over which rows. Frozen and picklable; all in microseconds."""

    def timers(self, time: Times, now: int) -> Times:
        """When new rows must be looked at. ``now``: the clock of the window's domain."""
        ...

    def late(self, time: Times, watermark: int) -> Flags: ...

    def step(self, rows: Timeline, domain: Domain, now: int) -> Step:
        """The clock has reached ``now``. ``rows``: one or more, all those of their keys."""
        ...
