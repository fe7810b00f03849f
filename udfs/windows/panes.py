"""The panes of aligned windows: stretches of time that no bound of a window cuts, so that windows share their contents.

All times here are those of the clock on the wall (``assigners.zones``), int64 microseconds; watermarks are instants. A
window is known by its end: the ends of TUMBLE, HOP and CUMULATE lie one ``step`` apart. A pane is known by its start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.assigners import Cumulate, Hop, Tumble
from sqlstream.udfs.assigners.assigner import Flags, Times
from sqlstream.udfs.assigners.zones import end_of

CLOSES_BEFORE_END = 1_000
"""A window closes when the clock reaches its end minus one millisecond."""

_FAR = 2**62


@dataclass(frozen=True)
class Panes:
    """Windows of ``size`` that end every ``step``; ``cumulative`` ones begin every ``size`` and grow by a step."""

    step: int
    size: int
    offset: int
    zone: str | None
    cumulative: bool = False

    @staticmethod
    def of(assigner: Tumble | Hop | Cumulate) -> Panes:
        match assigner:
            case Tumble():
                return Panes(assigner.size, assigner.size, assigner.offset, assigner.zone)
            case Hop():
                assert assigner.slide <= assigner.size, "the binder refuses a slide that exceeds the size"
                return Panes(assigner.slide, assigner.size, assigner.offset, assigner.zone)
            case Cumulate():
                return Panes(assigner.step, assigner.size, assigner.offset, assigner.zone, cumulative=True)

    @property
    def shared(self) -> bool:
        """False where each pane is a window."""
        return self.step != self.size

    # --- panes ------------------------------------------------------------------------------------------------

    def start(self, time: Times) -> Times:
        """The pane of each time. Windows whose size is no multiple of the slide cut each slide in two."""
        start = floor(time, self.step, self.offset)
        rest = 0 if self.cumulative else self.size % self.step
        return start + np.where(time - start >= rest, rest, 0) if rest else start

    def first_end(self, pane: Times) -> Times:
        """The end of the first window that holds the pane."""
        return floor(pane, self.step, self.offset + self.size) + self.step

    def last_end(self, pane: Times) -> Times:
        """The end of the last window that holds the pane."""
        if self.cumulative:
            return floor(pane, self.size, self.offset) + self.size
        return floor(pane + self.size, self.step, self.offset + self.size)

    def first_open(self, pane: Times, clock: int) -> Times:
        """The end of the first window of each pane that has not closed; beyond its ``last_end`` where all have."""
        first, last = self.first_end(pane), self.last_end(pane)
        if self.zone is not None:
            return self._search_open(first, last, clock)
        reached = min(max(clock, -_FAR), _FAR) + CLOSES_BEFORE_END
        opened = self.first_end(np.array([reached], np.int64))
        return np.minimum(np.maximum(opened, first), last + self.step)

    def _search_open(self, first: Times, last: Times, clock: int) -> Times:
        """Bisection over the windows of each pane: clocks that change make their ends unpredictable, never disorder."""
        low, high = np.zeros(len(first), np.int64), (last - first) // self.step + 1
        while (low < high).any():
            middle = (low + high) // 2
            is_closed = self.closing_time(np.minimum(first + middle * self.step, last)) <= clock
            low, high = np.where(is_closed & (low < high), middle + 1, low), np.where(is_closed, high, middle)
        return first + low * self.step

    # --- windows ----------------------------------------------------------------------------------------------

    def window_start(self, end: Times) -> Times:
        return floor(end - 1, self.size, self.offset) if self.cumulative else end - self.size

    def repeats(self, end: Times) -> Flags:
        """True where a window is the one before it: a CUMULATE's next end lies in an hour that the clock skips, too."""
        if not self.cumulative:
            return np.zeros(len(end), bool)
        before = end - self.step
        ends_together: Flags = end_of(before, self.zone) == end_of(end, self.zone)
        return ends_together & (before > self.window_start(end))

    def closing_time(self, end: Times) -> Times:
        """The instant at which the watermark, or the clock, closes the window."""
        return end_of(end, self.zone) - CLOSES_BEFORE_END


def floor(time: Times, period: int, offset: int) -> Times:
    """The newest multiple of ``period``, moved by the offset, that is not after each time."""
    # Division by a constant is vectorised in numpy, the remainder is not.
    return (time - offset) // period * period + offset
