"""Accumulators of overlapping ranges: windows that slide over panes or over slices of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.windows.ranges import Indices, Ranges, expanded

DOUBLING_COST = 2
"""How much dearer a row is that is merged by doubling than one that is merged at once, for what surrounds it."""


def merge_ranges(aggregates: Aggregates, parts: pa.Table, owner: Indices, ranges: Ranges) -> pa.Table:
    """One accumulator for each range of ``parts``, merged in order.

    ``owner``: whose each part is, ascending; a range lies within the parts of one owner. Long ranges are put together
    from stretches of 1, 2, 4, … parts, each merged from two halves, so that a part is not merged once for each range;
    exact sums and counts from running totals, where all that is asked for are such.
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
