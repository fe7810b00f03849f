"""Ranges of sorted rows that may overlap, such as sliding windows, and window functions over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.aggregates.accumulator import ARRIVAL
from sqlstream.udfs.keys import Ids, dense_ids

Indices = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """Ranges ``[start, stop)`` of row indices; none is empty."""

    start: Indices
    stop: Indices

    def take(self, chosen: Indices) -> Ranges:
        """The ranges with these indices."""
        return Ranges(self.start[chosen], self.stop[chosen])


class Expanded(NamedTuple):
    """Ranges written out row by row: ``owner`` is the index of a range, ``row`` the index of one of its rows. Sorted by
    range, then by row.
    """

    owner: Indices
    row: Indices


def expanded(ranges: Ranges) -> Expanded:
    """All pairs of a range and one of its rows."""
    lengths = ranges.stop - ranges.start
    owner = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return Expanded(owner, np.arange(len(owner)) + (ranges.start - before)[owner])


def distinct(ranges: Ranges) -> tuple[Ranges, Indices]:
    """Returns a pair: the distinct ranges, and for each given range the index of the equal one among them."""
    length = int(ranges.stop.max(initial=0)) + 1
    codes, number = np.unique(ranges.start * length + ranges.stop, return_inverse=True)
    return Ranges(codes // length, codes % length), number


# --- window functions: what a firing emits for the rows of a window -------------------------------------------


@dataclass(frozen=True)
class AllRows:
    """The window function of a window table function without aggregation: the rows themselves, in order of arrival."""

    columns: tuple[str, ...]


# --- accumulators of overlapping ranges -----------------------------------------------------------------------


DOUBLING_COST = 2
"""The relative cost per row of merging by doubling, compared to merging directly."""


def merge_ranges(aggregates: Aggregates, parts: pa.Table, owner: Indices, ranges: Ranges) -> pa.Table:
    """Merges ranges of the accumulators ``parts``, in order. Returns one accumulator per range.

    ``owner``: the key index of each part, ascending; a range is within the parts of one key. Long ranges are composed
    of blocks of 1, 2, 4, … parts, each merged from two halves, so that a part is not merged once for each range; exact
    sums and counts are computed from running totals instead.
    """
    lengths = ranges.stop - ranges.start
    longest = int(lengths.max(initial=0))
    if longest <= 1:
        return parts.take(pa.array(ranges.start))
    accumulators = aggregates.of_ranges(parts, ranges.start, ranges.stop)
    if accumulators is not None:
        return accumulators
    levels = longest.bit_length()
    doubling = levels * (2 * parts.num_rows + len(lengths) // 2)
    if int(lengths.sum()) <= DOUBLING_COST * doubling:
        pairs = expanded(ranges)
        return aggregates.merge(parts.take(pa.array(pairs.row)), pairs.owner, len(lengths))
    return _merge_doubling(aggregates, parts, owner, ranges)


def _merge_doubling(aggregates: Aggregates, parts: pa.Table, owner: Indices, ranges: Ranges) -> pa.Table:
    """Takes from each range, as its length has bits, a stretch of each power of two."""
    lengths = ranges.stop - ranges.start
    begin, part_index = ranges.start.copy(), np.arange(parts.num_rows, dtype=np.int64)
    pieces, owners, width = [], [], 1
    while True:
        chosen = np.flatnonzero(lengths & width)
        pieces.append(parts.take(pa.array(part_index[begin[chosen]])))
        owners.append(chosen)
        begin[chosen] += width
        if 2 * width > int(lengths.max()):
            return aggregates.merge(pa.concat_tables(pieces), np.concatenate(owners), len(lengths))
        parts, part_index = _doubled(aggregates, parts, part_index, owner, width)
        width *= 2


def _doubled(
    aggregates: Aggregates, parts: pa.Table, part_index: Indices, owner: Indices, width: int
) -> tuple[pa.Table, Indices]:
    """Stretches of twice the width, and where that of each first part is; those that leave an owner's parts are not."""
    first = np.arange(max(len(part_index) - 2 * width + 1, 0), dtype=np.int64)
    first = first[owner[first] == owner[first + 2 * width - 1]]
    halves = np.stack((part_index[first], part_index[first + width]), axis=1).ravel()
    merged = aggregates.merge(parts.take(pa.array(halves)), np.repeat(np.arange(len(first)), 2), len(first))
    doubled_index = np.full(len(part_index), -1, np.int64)
    doubled_index[first] = np.arange(len(first))
    return merged, doubled_index


# --- dense numbers for pairs of numbers, and rows in order of such numbers ------------------------------------


_SPARSE = 4
"""Codes up to this many times the rows are numbered through a table of all codes, others through a hash table."""


def number(codes: Indices, bound: int) -> Ids:
    """Numbers the integers ``codes``, which are in ``[0, bound)``: returns ``Ids`` that are equal for equal codes, from
    0 in the order in which codes first appear.
    """
    if bound > _SPARSE * len(codes) + 1024:
        return dense_ids(pa.table({"code": codes}), ("code",))
    first = np.full(bound, len(codes), np.int64)
    # Of several assignments to one index numpy keeps the last.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    rows = np.sort(first[first < len(codes)])
    numbers = np.empty(bound, np.int64)
    numbers[codes[rows]] = np.arange(len(rows))
    return Ids(numbers[codes], rows)


def renumbered(ids: Ids, order: Indices) -> Ids:
    """Returns ``Ids`` with new numbers: the new id of a key is the position of its old id in ``order``, which has each
    old id once.
    """
    numbers = np.empty(ids.count, np.int64)
    numbers[order] = np.arange(ids.count)
    return Ids(numbers[ids.ids], ids.first[order])


def stable_order(ids: Indices, bound: int) -> Indices:
    """The order in which ``ids`` are sorted, as indices (a stable argsort). Fast for small ids: all are in ``[0,
    bound)``.
    """
    order = np.argsort((ids & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(16, int(bound).bit_length(), 16):
        order = order[np.argsort(((ids >> shift) & 0xFFFF).astype(np.uint16)[order], kind="stable")]
    return order


def rows_below(ordered: Indices, codes: Indices, bound: int) -> Indices:
    """For each code the number of entries of the sorted array ``ordered`` that are less than it. All are in ``[0,
    bound)``, codes at most ``bound``.
    """
    if bound > _SPARSE * (len(ordered) + len(codes)) + 1024:
        return np.searchsorted(ordered, codes, side="left")
    below = np.zeros(bound + 1, np.int64)
    np.cumsum(np.bincount(ordered, minlength=bound), out=below[1:])
    return below[codes]


def runs(ordered: Indices) -> Ranges:
    """The ranges of equal adjacent values in a sorted array."""
    if len(ordered) == 0:
        return Ranges(np.zeros(0, np.int64), np.zeros(0, np.int64))
    starts = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    return Ranges(starts, np.append(starts[1:], len(ordered)))


# --- results of a window function for ranges of rows ----------------------------------------------------------


class RangeResults(NamedTuple):
    """The results of a window function for ranges of rows. ``owner`` has, for each result row, the index of its range,
    in order.
    """

    rows: pa.Table
    owner: Indices


def results_of(function: Aggregates | AllRows, rows: pa.Table, key: Indices, ranges: Ranges) -> RangeResults:
    """The results of the window function for ranges of rows. ``key``: the key index of each row, ascending; a range
    lies within the rows of one key.
    """
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


# --- arrival numbers for windows that merge, whose rows must find their order again ---------------------------
# A number is greater than those of all rows of its key that windows hold. So nothing is stored besides the windows, and
# keys are independent of each other.


Values = np.ndarray[Any, np.dtype[Any]]


def numbered(rows: pa.Table, key: Values, aggregates: Aggregates, held: pa.Table, key_of_held: Values) -> pa.Table:
    """Adds the column ARRIVAL, which numbers the rows by arrival, if the aggregates need it.

    ``held``: the accumulators of all windows of these keys, from which the numbers continue; ``key`` and
    ``key_of_held``: the key index of each row and of each accumulator.
    """
    if not aggregates.by_number:
        return rows
    newest = np.full(int(max(key.max(initial=-1), key_of_held.max(initial=-1))) + 1, -1, np.int64)
    np.maximum.at(newest, key_of_held, aggregates.newest(held))
    return rows.append_column(ARRIVAL, pa.array(newest[key] + 1 + np.arange(len(key))))


# --- row counts of windows whose rows may be retracted --------------------------------------------------------


_THERE, _CAME = "__rows", "__changes"


def with_row_counts(aggregates: Aggregates) -> Aggregates:
    """The aggregates with additional calls that count rows; ``row_counts`` and ``change_counts`` read their results."""
    there = AggregateCall(_THERE, "count", (), pa.int64())
    came = [replace(there, name=_CAME, every_change=True)] if aggregates.updating else []
    return replace(aggregates, calls=(*aggregates.calls, there, *came))


def row_counts(results: pa.Table) -> np.ndarray:
    """For each row of results the number of inserted rows minus that of retracted rows. As in Flink, a window where
    this is 0 has no result.
    """
    return np.asarray(results.column(_THERE).to_numpy())


def change_counts(results: pa.Table) -> np.ndarray:
    """For each row of results the number of input rows of all kinds, insertions and retractions."""
    return np.asarray(results.column(_CAME if _CAME in results.column_names else _THERE).to_numpy())
