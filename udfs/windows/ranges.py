"""Ranges of sorted rows that may overlap, such as windows that slide."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """Rows ``[start, stop)`` of a table; none is empty."""

    start: Indices
    stop: Indices

    def take(self, chosen: Indices) -> Ranges:
        return Ranges(self.start[chosen], self.stop[chosen])


class Expanded(NamedTuple):
    """Pairs of a range, by its number, and one of its rows; by range, then by row."""

    owner: Indices
    row: Indices


def expanded(ranges: Ranges) -> Expanded:
    lengths = ranges.stop - ranges.start
    owner = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return Expanded(owner, np.arange(len(owner)) + (ranges.start - before)[owner])


def distinct(ranges: Ranges) -> tuple[Ranges, Indices]:
    """Each range once, and for each given range the number of its equal there."""
    length = int(ranges.stop.max(initial=0)) + 1
    codes, number = np.unique(ranges.start * length + ranges.stop, return_inverse=True)
    return Ranges(codes // length, codes % length), number
