"""OVER over all rows of a key at once: the rows in their order, and the results of functions over their frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Numbered, OverFunction, Placed, Shifted
from sqlstream.udfs.over.line import Indices, SortedRows
from sqlstream.udfs.top_n.order import Order, in_order, sort_keys
from sqlstream.udfs.windows.ranges import Ranges, merge_ranges


def lined_up(rows: pa.Table, keys: Sequence[str], order: Sequence[Order]) -> tuple[pa.Table, SortedRows, Indices]:
    """Sorts rows by key, in the order of the keys' first appearance, then by ``order``. Returns three values: the
    sorted table, its rows as ``RankedRows``, and the index that each of them had in ``rows``.
    """
    ids, ranked = dense_ids(rows, keys).ids, sort_keys(rows, order)
    sorted_rows = in_order(ids, ranked)
    rows = rows.take(pa.array(sorted_rows)).combine_chunks()
    return rows, RankedRows.of(rows, ids[sorted_rows], [key[sorted_rows] for key in ranked], order), sorted_rows


@dataclass(frozen=True)
class WholeKeys:
    """Computes OVER ``functions`` over rows with the columns of ``input``. The rows given must include all rows of each
    key.
    """

    input: pa.Schema
    functions: tuple[OverFunction, ...]

    def results(self, rows: pa.Table, ordered: SortedRows) -> pa.Table:
        """One column of results per function, for all rows. ``ordered`` has the same rows as ``rows``."""
        if not rows.num_rows:
            return self._schema.empty_table()
        aggregated: dict[str, pa.Array] = {}
        for frame, aggregates in self._aggregates.items():
            of_frame = _of_frame(rows, ordered, frame, aggregates)
            aggregated.update((name, of_frame.column(name).combine_chunks()) for name in of_frame.column_names)
        columns = [
            aggregated[f.call.name] if isinstance(f, Aggregated) else _of_rows(f, rows, ordered) for f in self.functions
        ]
        return pa.Table.from_arrays(columns, schema=self._schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([function.field for function in self.functions])

    @cached_property
    def _aggregates(self) -> dict[Frame, Aggregates]:
        frames = dict.fromkeys(f.frame for f in self.functions if isinstance(f, Aggregated))
        calls = {
            frame: tuple(f.call for f in self.functions if isinstance(f, Aggregated) and f.frame == frame)
            for frame in frames
        }
        return {frame: Aggregates(of_frame, self.input) for frame, of_frame in calls.items()}


def _of_frame(rows: pa.Table, ordered: SortedRows, frame: Frame, aggregates: Aggregates) -> pa.Table:
    """The aggregates of the frame of each row."""
    count = len(ordered)
    partial = aggregates.lift(rows, np.arange(count), count)
    start, stop = frame.bounds(ordered)
    filled = np.flatnonzero(stop > start)
    merged = merge_ranges(aggregates, partial, ordered.key, Ranges(start[filled], stop[filled]))
    if len(filled) < count:
        merged = aggregates.merge(merged, filled, count)
    return aggregates.finish(merged)


def _of_rows(function: Numbered | Placed | Shifted | Nth, rows: pa.Table, ordered: SortedRows) -> pa.Array:
    """The results of a function that is no aggregate."""
    match function:
        case Numbered():
            nothing = np.zeros(len(ordered), np.int64)
            return function.values(ordered, nothing, nothing)
        case Placed():
            return function.values(ordered)
        case Shifted():
            return function.values(ordered, rows)
        case Nth():
            return function.values(function.frame.bounds(ordered), rows)


# --- rows ordered by anything but time: the rank of a row takes the place of its time -------------------------


_DAY_MICROS = 86_400_000_000


class RankedRows(SortedRows):
    """Rows sorted by key and by any ORDER BY columns. ``time`` has the rank of each row instead of a time, equal for
    peers.

    ``values``: the values of the only ORDER BY column, for RANGE distances: numbers, or times in microseconds; None if
    there is not exactly one column.
    """

    def __init__(self, key: Indices, rank: Indices, values: pa.Array | None, descending: bool) -> None:
        super().__init__(key, rank)
        self._values = values
        self._descending = descending

    @classmethod
    def of(cls, rows: pa.Table, ids: Indices, keys: Sequence[Indices], order: Sequence[Order]) -> RankedRows:
        """The ``RankedRows`` of rows that are already sorted by the key index ``ids``, then by ``keys``, which are the
        ``order`` columns as integers.
        """
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = np.logical_or.reduce([values[1:] != values[:-1] for values in (ids, *keys)])
        values = rows.column(order[0].column).combine_chunks() if len(order) == 1 else None
        return cls(ids, np.cumsum(begins), values, len(order) == 1 and order[0].descending)

    def at(self, offset: int, side: str) -> Indices:
        """For each row the index, among the rows of its key, at which a row with a value ``offset`` further in the
        direction of the order would be inserted; ``side`` as in NumPy's ``searchsorted``.

        NULLs are at distance 0 from each other, and never within a distance of values.
        """
        if len(self.key) == 0:
            return np.zeros(0, np.int64)
        values, is_null = self._numbers
        asked = _moved(values, offset)
        _, ranks = np.unique(np.concatenate((values, asked)), return_inverse=True)
        codes, wanted = np.split(ranks.astype(np.int64) + 1, 2)
        width = 2 * len(self.key) + 2
        outside = np.where(self._nulls_lead, 0, width - 1)
        codes, wanted = np.where(is_null, outside, codes), np.where(is_null, outside, wanted)
        positions = np.searchsorted(
            self.key * width + codes, self.key * width + wanted, side="left" if side == "left" else "right"
        )
        return np.clip(positions, self.first, self.end)

    @cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The values as numbers that ascend along the line, and where they are NULL."""
        assert self._values is not None, "distances are those of one column"
        values = self._values
        if pa.types.is_date32(values.type):
            numbers = np.asarray(values.cast(pa.int32()).cast(pa.int64()).fill_null(0)) * _DAY_MICROS
        elif pa.types.is_floating(values.type):
            floats = np.asarray(values.cast(pa.float64()).fill_null(0.0))
            floats = np.where(np.isnan(floats), np.inf, floats)  # the greatest of numbers, in either direction
            return -floats if self._descending else floats, np.asarray(values.is_null())
        else:
            numbers = np.asarray(values.cast(pa.int64()).fill_null(0))
        return ~numbers if self._descending else numbers, np.asarray(values.is_null())

    @cached_property
    def _nulls_lead(self) -> np.ndarray:
        """True for rows of keys whose NULLs come first."""
        is_null = self._numbers[1]
        leads: np.ndarray = is_null[self.first]
        return leads


def _moved(values: np.ndarray, offset: int) -> np.ndarray:
    """Values at a distance; whole numbers stop at the ends of int64."""
    if values.dtype == np.float64:
        moved: np.ndarray = values + offset
        return moved
    ends = np.iinfo(np.int64)
    if offset >= 0:
        return np.asarray(np.minimum(values, ends.max - offset) + offset)
    return np.asarray(np.maximum(values, ends.min - offset) + offset)
