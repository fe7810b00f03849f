"""Frames: which rows a function sees for each row, and how long rows must be stored for that.

The semantics are those of SQL:2016. ROWS counts rows of the key by time, then by arrival; RANGE selects rows by their
times, including all rows of the current time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the planner knows frames, and does without numpy
    from sqlstream.udfs.over.line import Bounds, Indices, SortedRows


@dataclass(frozen=True)
class Frame:
    """A window frame of OVER: ``start`` and ``end`` are offsets from the current row, both inclusive: negative for
    PRECEDING, positive for FOLLOWING, 0 for CURRENT ROW.

    They count rows if ``rows``; otherwise they are microseconds or, without a time attribute, in units of the ORDER BY
    value. ``start`` None is UNBOUNDED PRECEDING, ``end`` None is UNBOUNDED FOLLOWING, which needs all rows of the key.
    """

    rows: bool
    start: int | None
    end: int | None = 0

    def __post_init__(self) -> None:
        assert self.start is None or self.end is None or self.start <= self.end, "the frame ends before it begins"

    @property
    def unbounded(self) -> bool:
        """True for frames that begin with UNBOUNDED PRECEDING."""
        return self.start is None

    @property
    def rows_before(self) -> int:
        """How many rows before the current row must be stored individually, 0 for frames of RANGE. Accumulators may
        replace earlier rows.
        """
        return self._before if self.rows else 0

    @property
    def time_before(self) -> int:
        """For how long before the current row rows must be stored individually, in microseconds; 0 for frames of
        ROWS.
        """
        return 0 if self.rows else self._before

    @property
    def _before(self) -> int:
        return max(0, -(self._last if self.start is None else self.start))

    @property
    def _last(self) -> int:
        assert self.end is not None, "only a frame that ends can be waited for"
        return self.end

    @property
    def rows_after(self) -> int:
        """How many rows after the current row the frame may contain."""
        return max(0, self._last) if self.rows else 0

    @property
    def time_after(self) -> int:
        """How long after the current row the frame may reach, in microseconds; 0 for frames of ROWS."""
        return max(0, self._last) if not self.rows else 0

    def bounds(self, ordered: SortedRows) -> Bounds:
        """For each row its frame, as a range of row indices of ``ordered`` within the rows of its key."""
        return ordered.bounds(self._start(ordered), self._stop(ordered))

    def _start(self, ordered: SortedRows) -> Indices:
        if self.start is None:
            return ordered.first
        if self.rows:
            return ordered.moved(self.start)
        return ordered.first_peer if self.start == 0 else ordered.at(self.start, "left")

    def _stop(self, ordered: SortedRows) -> Indices:
        if self.end is None:
            return ordered.end
        if self.rows:
            return ordered.moved(self.end + 1)
        return ordered.after_peers if self.end == 0 else ordered.at(self.end, "right")
