"""Applies a window function to ranges of sorted rows, which may overlap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.windows.functions import AllRows
from sqlstream.udfs.windows.merging import merge_ranges
from sqlstream.udfs.windows.ranges import Indices, Ranges, distinct, expanded


class RangeResults(NamedTuple):
    """Rows of results; ``owner`` is the number of the range of each, in order."""

    rows: pa.Table
    owner: Indices


def results_of(function: Aggregates | AllRows, rows: pa.Table, key: Indices, ranges: Ranges) -> RangeResults:
    """``key``: that of each row, ascending; a range lies within the rows of one key."""
    if isinstance(function, AllRows):
        pairs = expanded(ranges)
        return RangeResults(rows.select(list(function.columns)).take(pa.array(pairs.row)), pairs.owner)
    return RangeResults(_aggregated(function, rows, key, ranges), np.arange(len(ranges.start)))


def _aggregated(aggregates: Aggregates, rows: pa.Table, key: Indices, ranges: Ranges) -> pa.Table:
    """The bounds of all ranges cut the rows into slices, which are aggregated once and then merged for each range."""
    different_ranges, number = distinct(ranges)
    if len(number) == 0:
        return aggregates.results.empty_table()
    bounds = np.unique(np.concatenate(different_ranges))
    slice_of = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    slices = aggregates.lift(rows.slice(int(bounds[0]), len(slice_of)), slice_of, len(bounds) - 1)
    parts = Ranges(np.searchsorted(bounds, different_ranges.start), np.searchsorted(bounds, different_ranges.stop))
    merged = merge_ranges(aggregates, slices, key[bounds[:-1]], parts)
    return aggregates.finish(merged).take(pa.array(number))
