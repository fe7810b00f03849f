"""Windows of fixed size that are aligned to the clock: TUMBLE, HOP and CUMULATE. Exact before 1970 too.

``offset`` moves all bounds, and may be negative. With a ``zone`` bounds are taken on the clock of that time zone.
``time`` names the column of the rows' times; None stands for now, in processing time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.assigners.assigner import Assigned, Assigner, Times, per_row, times_of
from sqlstream.udfs.assigners.zones import end_of, start_of, to_wall
from sqlstream.udfs.kernel import Context, Domain


@dataclass(frozen=True)
class Tumble:
    time: str | None
    size: int
    offset: int = 0
    zone: str | None = None
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        start = aligned(to_wall(times_of(rows, self.time, context), self.zone), self.size, self.offset)
        return per_row(start_of(start, self.zone), end_of(start + self.size, self.zone), rows.num_rows)


@dataclass(frozen=True)
class Hop:
    """``size`` need not be a multiple of ``slide``; where it is smaller, some rows have no window."""

    time: str | None
    slide: int
    size: int
    offset: int = 0
    zone: str | None = None
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        time = to_wall(times_of(rows, self.time, context), self.zone)
        back = np.arange(-(-self.size // self.slide) - 1, -1, -1, dtype=np.int64) * self.slide
        start = aligned(time, self.slide, self.offset)[:, np.newaxis] - back
        return _holding(time, start, start + self.size, self.zone)


@dataclass(frozen=True)
class Cumulate:
    """Windows that start together every ``size`` and end one ``step`` after another.

    Ends in an hour that the clock skips are one instant: the windows that end there are one window.
    """

    time: str | None
    step: int
    size: int
    offset: int = 0
    zone: str | None = None
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        time = to_wall(times_of(rows, self.time, context), self.zone)
        start = aligned(time, self.size, self.offset)[:, np.newaxis]
        lengths = np.arange(self.step, self.size + 1, self.step, dtype=np.int64)
        return _holding(time, np.broadcast_to(start, (len(time), len(lengths))), start + lengths, self.zone)


def windows_of_a_row(assigner: Assigner) -> int:
    """The most windows that the assigner gives a row; 1 for what users write."""
    match assigner:
        case Hop():
            return -(-assigner.size // assigner.slide)
        case Cumulate():
            return assigner.size // assigner.step
    return 1


def aligned(time: Times, period: int, offset: int) -> Times:
    """The newest multiple of ``period``, moved by the offset, that is not after each time."""
    return time - (time - offset) % period


def _holding(time: Times, start: Times, end: Times, zone: str | None) -> Assigned:
    """The candidate windows that end after their row, each as one row of ``Assigned``."""
    row, candidate = np.nonzero(end > time[:, np.newaxis])
    chosen = start[row, candidate], end[row, candidate]
    assigned = Assigned(row.astype(np.int64, copy=False), start_of(chosen[0], zone), end_of(chosen[1], zone))
    return assigned if zone is None else _once(assigned)


def _once(assigned: Assigned) -> Assigned:
    """Drops each window that equals the one before it."""
    differs = np.ones(len(assigned.row), bool)
    differs[1:] = np.logical_or.reduce([side[1:] != side[:-1] for side in assigned])
    return assigned if differs.all() else Assigned(*(side[differs] for side in assigned))
