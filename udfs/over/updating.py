"""OVER with any order: functions over frames of the current rows of a key, as a changelog.

As in RisingWave's general OVER window. All rows of a key are state, each with the results with which it was emitted.
For each key that a micro-batch changes, all results are computed again, and the differences are emitted: deleted rows
(-D), updated rows (-U, +U) and new rows (+I).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.joins.stored_side import Changes, found_among, net
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context
from sqlstream.udfs.keys import dense_ids, differ
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Numbered, OverFunction, Shifted, columns_of
from sqlstream.udfs.over.line import Indices, Line
from sqlstream.udfs.state.buckets import PROCESSING_TIMER
from sqlstream.udfs.state.keyed import ExpiringKernel, KeyedState
from sqlstream.udfs.top_n.order import Order, in_order, sort_keys
from sqlstream.udfs.windows.ranges import Ranges, merge_ranges

_KINDS = pa.array(["-D", "-U", "+U", "+I"], pa.string())


@dataclass(frozen=True)
class UpdatingOverKernel(ExpiringKernel):
    """The kernel of OVER with any order. ``input`` has the ``keys``, the columns of the ``order``, those that
    ``functions`` read, those ``passed``, which are emitted before the results, and ROW_KIND if rows may be retracted.
    Rows of equal order are peers, in order of arrival; without an order all rows of a key are peers.

    ``ttl``: a key is dropped, without output, this many microseconds of processing time after its rows last changed; 0:
    never.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    passed: tuple[str, ...]
    functions: tuple[OverFunction, ...]
    ttl: int = 0

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*map(self.input.field, self.passed), *self._results, pa.field(ROW_KIND, pa.string())])

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        changes = net(rows.replace_schema_metadata(None), self._kept, repeats=False)
        state = self._state(context)
        hashes = np.concatenate([images.column(KEY_HASH).to_numpy() for images in changes])
        if len(hashes):
            self._change(state, self._living.alive(state.load(hashes), context), changes, context)
        self._living.close(state, context)

    # --- what changes -------------------------------------------------------------------------------------------

    def _change(self, state: KeyedState, stored: pa.Table, changes: Changes, context: Context) -> None:
        gone, is_there = found_among(stored, changes.removed, self._kept)
        if not is_there.all():
            context.count(IGNORED, int(np.count_nonzero(~is_there)))
        if not gone.any() and not changes.added.num_rows:
            return
        stays = np.flatnonzero(~gone)
        left = stored.take(pa.array(stays)).select(self._kept)
        rows, line, order = self._lined_up(pa.concat_tables([left, changes.added]).combine_chunks())
        results = self._computed(rows, line)
        is_known = order < len(stays)
        before = stays[order[is_known]]
        self._emit(stored, np.flatnonzero(gone), rows, results, is_known, before, context)
        columns = [*rows.columns, *results.columns, *self._timers(stored, rows, is_known, before, changes, context)]
        state.replace(pa.Table.from_arrays(columns, schema=self._stored))

    def _lined_up(self, rows: pa.Table) -> tuple[pa.Table, Line, Indices]:
        """The rows by key and in order, and where each of them stood."""
        ids, keys = dense_ids(rows, self.keys).ids, sort_keys(rows, self.order)
        order = in_order(ids, keys)
        rows = rows.take(pa.array(order)).combine_chunks()
        return rows, RankedLine.of(rows, ids[order], [key[order] for key in keys], self.order), order

    def _emit(
        self,
        stored: pa.Table,
        gone: Indices,
        rows: pa.Table,
        results: pa.Table,
        is_known: np.ndarray,
        before: Indices,
        context: Context,
    ) -> None:
        """``before``: the stored row of each known one. Retractions come before what takes their place."""
        names = self._results_names
        stored_rows = np.flatnonzero(is_known)
        old, new = stored.select(names).take(pa.array(before)), results.take(pa.array(stored_rows))
        changed = np.flatnonzero(differ(old, new))
        added = np.flatnonzero(~is_known)
        emitted = pa.concat_tables([rows.select(self.passed), stored.select(self.passed)])
        shown = pa.concat_tables([results, stored.select(names)])
        updated, retracted = stored_rows[changed], before[changed] + rows.num_rows
        of_update = np.stack((retracted, updated), axis=1).ravel()
        indices = np.concatenate((gone + rows.num_rows, of_update, added))
        if not len(indices):
            return
        numbers = (np.zeros(len(gone), np.int64), np.tile([1, 2], len(changed)), np.full(len(added), 3))
        kinds = _KINDS.take(pa.array(np.concatenate(numbers)))
        columns = [*emitted.take(pa.array(indices)).columns, *shown.take(pa.array(indices)).columns]
        context.emit(pa.Table.from_arrays([*columns, kinds], schema=self.output))

    # --- results ------------------------------------------------------------------------------------------------

    def _computed(self, rows: pa.Table, line: Line) -> pa.Table:
        """A column per function, for all rows of the line."""
        if not rows.num_rows:
            return pa.schema(self._results).empty_table()
        aggregated: dict[str, pa.Array] = {}
        for frame, aggregates in self._aggregates.items():
            of_frame = _of_frame(rows, line, frame, aggregates)
            aggregated.update((name, of_frame.column(name).combine_chunks()) for name in of_frame.column_names)
        columns = [
            aggregated[f.call.name] if isinstance(f, Aggregated) else _of_rows(f, rows, line) for f in self.functions
        ]
        return pa.Table.from_arrays(columns, schema=pa.schema(self._results))

    @cached_property
    def _aggregates(self) -> dict[Frame, Aggregates]:
        frames = dict.fromkeys(f.frame for f in self.functions if isinstance(f, Aggregated))
        calls = {
            frame: tuple(f.call for f in self.functions if isinstance(f, Aggregated) and f.frame == frame)
            for frame in frames
        }
        return {frame: Aggregates(of_frame, self.input) for frame, of_frame in calls.items()}

    # --- state --------------------------------------------------------------------------------------------------

    def _timers(
        self,
        stored: pa.Table,
        rows: pa.Table,
        is_known: np.ndarray,
        before: Indices,
        changes: Changes,
        context: Context,
    ) -> list[pa.Array]:
        """PROCESSING_TIMER of the rows, where they have one; those of keys that changed live anew."""
        if not self.ttl:
            return []
        timers = np.full(rows.num_rows, self._living.ends(context), np.int64)
        hashes = np.concatenate([images.column(KEY_HASH).to_numpy() for images in changes])
        others = ~np.isin(rows.column(KEY_HASH).to_numpy()[is_known], hashes)
        timers[np.flatnonzero(is_known)[others]] = stored.column(PROCESSING_TIMER).to_numpy()[before[others]]
        return [pa.array(timers)]

    @cached_property
    def _kept(self) -> list[str]:
        """The columns of the input that keys, order, functions and results read."""
        read = [*self.passed, *(name for function in self.functions for name in columns_of(function))]
        return list(dict.fromkeys((KEY_HASH, *self.keys, *(o.column for o in self.order), *read)))

    @cached_property
    def _results(self) -> list[pa.Field]:
        return [function.field for function in self.functions]

    @cached_property
    def _results_names(self) -> list[str]:
        return [field.name for field in self._results]

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*map(self.input.field, self._kept), *self._results, *self._living.timer])


def _of_frame(rows: pa.Table, line: Line, frame: Frame, aggregates: Aggregates) -> pa.Table:
    """The aggregates of the frame of each row."""
    count = len(line)
    partial = aggregates.lift(rows, np.arange(count), count)
    start, stop = frame.bounds(line)
    filled = np.flatnonzero(stop > start)
    merged = merge_ranges(aggregates, partial, line.key, Ranges(start[filled], stop[filled]))
    if len(filled) < count:
        merged = aggregates.merge(merged, filled, count)
    return aggregates.finish(merged)


def _of_rows(function: Numbered | Shifted | Nth, rows: pa.Table, line: Line) -> pa.Array:
    """The results of a function that is no aggregate."""
    match function:
        case Numbered():
            nothing = np.zeros(len(line), np.int64)
            return function.values(line, nothing, nothing)
        case Shifted():
            return function.values(line, rows)
        case Nth():
            return function.values(function.frame.bounds(line), rows)


# --- rows ordered by anything but time: the rank of a row takes the place of its time -------------------------


_DAY_MICROS = 86_400_000_000


class RankedLine(Line):
    """A line of rows in any order. ``time`` is the rank of each row, equal for peers. ``values``: the values of the
    only ORDER BY column, for distances: numbers, or times in microseconds; None if there is not exactly one column."""

    def __init__(self, key: Indices, rank: Indices, values: pa.Array | None, descending: bool) -> None:
        super().__init__(key, rank)
        self._values = values
        self._descending = descending

    @classmethod
    def of(cls, rows: pa.Table, ids: Indices, keys: Sequence[Indices], order: Sequence[Order]) -> RankedLine:
        """The line of rows that are sorted by id, then by ``keys``, the ``order`` as numbers."""
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = np.logical_or.reduce([values[1:] != values[:-1] for values in (ids, *keys)])
        values = rows.column(order[0].column).combine_chunks() if len(order) == 1 else None
        return cls(ids, np.cumsum(begins), values, len(order) == 1 and order[0].descending)

    def at(self, offset: int, side: str) -> Indices:
        """For each row the position, among the rows of its key, of the value ``offset`` after its own, in the direction
        of the order. NULLs have distance 0 from each other, and none from values."""
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
