"""Which intervals of a line meet: the earliest arrival among those that meet each of some others.

Two closed intervals meet exactly when one of them holds the start of the other. Both cases are minima over ranges of
sorted starts, answered for all intervals at once with a table of minima over ranges of 1, 2, 4, … entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sqlstream.udfs.assigners.assigner import RowIndices, Times

NEVER = np.iinfo(np.int64).max


class Intervals(NamedTuple):
    """Closed intervals ``[start, end]`` of a line."""

    start: Times
    end: Times

    def take(self, chosen: RowIndices) -> Intervals:
        return Intervals(self.start[chosen], self.end[chosen])


def earliest_meeting(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    """The least ``arrival`` among the other intervals that meet each asked interval; NEVER if none does."""
    return np.minimum(_starting_within(asked, others, arrival), _holding_start(asked, others, arrival))


def _starting_within(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    order = np.argsort(others.start, kind="stable")
    start = others.start[order]
    left, right = np.searchsorted(start, asked.start), np.searchsorted(start, asked.end, side="right")
    return range_minima(arrival[order], left, right)


def range_minima(values: RowIndices, left: RowIndices, right: RowIndices) -> RowIndices:
    """The minimum of ``values[left:right]`` for each pair; a range is two overlapping ones of a power of two."""
    minima = np.full(len(left), NEVER)
    level = _levels(right - left)
    for exponent in range(int(level.max(initial=-1)) + 1):
        width, here = 1 << exponent, np.flatnonzero(level == exponent)
        minima[here] = np.minimum(values[left[here]], values[right[here] - width])
        values = np.minimum(values[:-width], values[width:])
    return minima


def _holding_start(asked: Intervals, others: Intervals, arrival: RowIndices) -> RowIndices:
    """Each other writes its arrival to the range of starts that it holds, as two overlapping powers of two."""
    order = np.argsort(asked.start, kind="stable")
    start = asked.start[order]
    left, right = np.searchsorted(start, others.start), np.searchsorted(start, others.end, side="right")
    level = _levels(right - left)
    wider = np.full(0, NEVER)
    for exponent in range(int(level.max(initial=-1)), -1, -1):
        width, here = 1 << exponent, np.flatnonzero(level == exponent)
        minima = np.full(len(start) - width + 1, NEVER)
        if len(wider):
            minima[: len(wider)] = wider
            minima[width:] = np.minimum(minima[width:], wider)
        np.minimum.at(minima, left[here], arrival[here])
        np.minimum.at(minima, right[here] - width, arrival[here])
        wider = minima
    arrivals = np.full(len(start), NEVER)
    arrivals[order] = wider if len(wider) else NEVER
    return arrivals


def _levels(widths: RowIndices) -> RowIndices:
    """The exponent of the greatest power of two in each width; -1 for widths of zero."""
    return np.frexp(np.maximum(widths, 0).astype(np.float64))[1].astype(np.int64) - 1
