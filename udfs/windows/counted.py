"""Windows over the last rows of a key: tumbling and sliding count windows.

A window fires with the row that completes it, over the last ``size`` rows of the key: after every ``slide`` rows from
the first ``slide`` rows on, as in Flink's DataStream; with ``full_only`` first after ``size`` rows and then after every
``slide``, as in Flink's SQL. If the slide exceeds the size, some rows are in no window. Rows count in order of arrival:
none is late, and incomplete windows do not fire at the end of the input.

The state holds, for each key, one row for every slice of gcd(size, slide) rows that a future window may contain, and
for its last slice, which has the number of rows so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners.assigner import Times, times_of
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, Context, Domain, Kernel
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.emission import TIMESTAMP, WINDOW_END, WINDOW_START, bounds
from sqlstream.udfs.windows.ranges import AllRows, Indices, Ranges, expanded, merge_ranges, runs, stable_order

SLICE, ROWS = "__slice", "__rows"
"""BIGINT columns of the state: the number of a slice of a key, counted from its first row, and the rows it has."""

_MILLISECOND = 1_000


@dataclass(frozen=True)
class CountWindows(Kernel):
    """The kernel of count windows: windows of the last ``size`` rows of a key, every ``slide`` rows. ``input``: the
    schema of the rows without KEY_HASH, the hash of the key that every kernel's input has. ``time``: the column with
    the rows' times in microseconds; None means processing time. ``full_only``: a window fires only with ``size`` rows.

    The bounds in a result are the time of the window's oldest row, and that of its newest plus one millisecond. Results
    begin with the key columns, except those that a ``function`` without aggregation (AllRows) emits itself.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    time: str | None
    size: int
    slide: int
    function: Aggregates | AllRows
    full_only: bool = False

    @cached_property
    def output(self) -> pa.Schema:
        keys = (field for field in self._key_schema if field.name not in self._slices.results.names)
        return pa.schema([*keys, (WINDOW_START, TIMESTAMP), (WINDOW_END, TIMESTAMP), *self._slices.results])

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("count windows set no timers")

    def on_processing_time(self, time: int, context: Context) -> None:
        raise AssertionError("count windows set no timers")

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        rows = rows.append_column(TIME, pa.array(times_of(rows, self.time, context)))
        state = KeyedState(context.store, "slices", self._state_schema)
        stored = state.load(rows.column(KEY_HASH).to_numpy())
        arrived = _Arrived.of(rows, stored, self.keys, self._width)
        entries = self._entries(rows, stored, arrived)
        fired = self._fired(arrived)
        if len(fired.key):
            context.emit(self._results(entries, fired, arrived))
        state.replace(self._retained(entries, arrived))
        state.flush()
        for domain in Domain:
            context.set_timer(domain, END_OF_TIME)

    # --- slices -----------------------------------------------------------------------------------------------

    def _entries(self, rows: pa.Table, stored: pa.Table, arrived: _Arrived) -> _Entries:
        """All slices, stored ones and new ones, sorted by key; the last stored one of a key may have grown."""
        lifted = self._slices.lift(rows, arrived.run_of_row, len(arrived.run_key))
        key = np.concatenate((arrived.stored_key, arrived.run_key))
        number = np.concatenate((stored.column(SLICE).to_numpy(), arrived.run_slice))
        count = np.concatenate((stored.column(ROWS).to_numpy(), arrived.run_rows))
        order = stable_order(key, len(arrived.count))
        key, number = key[order], number[order]
        changes = _changes(key, number)
        begins, groups = np.flatnonzero(changes), np.empty(len(order), np.int64)
        groups[order] = np.cumsum(changes) - 1
        parts = pa.concat_tables([stored.select(self._slices.kept.names), lifted])
        kept = self._slices.merge(parts, groups, len(begins))
        return _Entries(kept, key[begins], number[begins], np.add.reduceat(count[order], begins))

    # --- firing -----------------------------------------------------------------------------------------------

    def _firings(self, rows: Indices) -> Indices:
        """How many times a key has fired after this many rows."""
        if not self.full_only:
            return rows // self.slide
        return np.maximum((rows - self.size) // self.slide + 1, 0)

    def _end(self, firing: Indices) -> Indices:
        """After how many rows the firing of this number, counted from 0, comes."""
        return firing * self.slide + (self.size if self.full_only else self.slide)

    def _fired(self, arrived: _Arrived) -> _Fired:
        """The firings of this batch, in order of the rows that complete their windows."""
        before = self._firings(arrived.before)
        counts = self._firings(arrived.before + arrived.count) - before
        key = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
        end = self._end(before[key] + nth)
        row = arrived.order[arrived.start[key] + end - 1 - arrived.before[key]]
        firing = np.full(len(arrived.order), -1, np.int64)
        firing[row] = np.arange(len(row))
        chosen = firing[firing >= 0]
        return _Fired(key[chosen], end[chosen])

    def _results(self, entries: _Entries, fired: _Fired, arrived: _Arrived) -> pa.Table:
        first = np.searchsorted(entries.key, np.arange(len(arrived.count)), side="left")
        base = (first - entries.number[np.minimum(first, len(entries.key) - 1)])[fired.key]
        begin = np.maximum(fired.end - self.size, 0)
        ranges = Ranges(base + begin // self._width, base + fired.end // self._width)
        results = self._slices.window_results(entries.kept, entries.key, ranges)
        return self._table(results, arrived.keys.take(pa.array(arrived.first[fired.key])))

    def _table(self, results: WindowResults, keys: pa.Table) -> pa.Table:
        each = len(results.window) == len(results.oldest)
        columns = [keys.column(name) for name in self.keys if name not in self._slices.results.names]
        columns += [bounds(results.oldest), bounds(results.newest + _MILLISECOND)]
        if not each:
            columns = [column.take(pa.array(results.window)) for column in columns]
        return pa.Table.from_arrays([*columns, *results.rows.columns], schema=self.output)

    # --- state ------------------------------------------------------------------------------------------------

    def _retained(self, entries: _Entries, arrived: _Arrived) -> pa.Table:
        """The slices of windows to come, and the last of each key. A key that begins anew leaves nothing."""
        total = arrived.before + arrived.count
        needed = np.maximum(self._end(self._firings(total)) - self.size, 0) // self._width
        last = (total - 1) // self._width
        needed = np.minimum(needed, last)
        if self.slide >= self.size and (not self.full_only or self.slide == self.size):
            needed = np.where(total % self.slide == 0, last + 1, needed)
        chosen = np.flatnonzero(entries.number >= needed[entries.key])
        keys = arrived.keys.take(pa.array(arrived.first[entries.key[chosen]]))
        numbers = (pa.array(entries.number[chosen]), pa.array(entries.rows[chosen]))
        columns = [*keys.columns, *numbers, *entries.kept.take(pa.array(chosen)).columns]
        return pa.Table.from_arrays(columns, schema=self._state_schema)

    # --- schemas ----------------------------------------------------------------------------------------------

    @cached_property
    def _slices(self) -> Slices:
        return slices_of(self.function, self.input, gcd(self.size, self.slide))

    @property
    def _width(self) -> int:
        return self._slices.width

    @cached_property
    def _key_schema(self) -> pa.Schema:
        return pa.schema([(name, self.input.field(name).type) for name in self.keys])

    @cached_property
    def _state_schema(self) -> pa.Schema:
        numbers = [(name, pa.int64()) for name in (SLICE, ROWS)]
        return pa.schema([(KEY_HASH, pa.int64()), *self._key_schema, *numbers, *self._slices.kept])


class _Entries(NamedTuple):
    """Slices sorted by key, then by number; ``rows``: how many each has."""

    kept: pa.Table
    key: Indices
    number: Indices
    rows: Indices


class _Fired(NamedTuple):
    """Windows by key; ``end``: how many rows of the key there were when each fired."""

    key: Indices
    end: Indices


@dataclass(frozen=True)
class _Arrived:
    """The rows of a batch among the keys of batch and state, which are numbered together.

    ``keys``: KEY_HASH and keys of stored slices, then of rows; ``first``: where each key is first among them. Per key:
    rows ``before`` and the ``count`` of new ones, which ``start`` in ``order``. A run is the rows of one slice.
    """

    keys: pa.Table
    first: Indices
    stored_key: Indices
    before: Indices
    count: Indices
    start: Indices
    order: Indices
    run_of_row: Indices
    run_key: Indices
    run_slice: Indices
    run_rows: Indices

    @staticmethod
    def of(rows: pa.Table, stored: pa.Table, keys: tuple[str, ...], width: int) -> _Arrived:
        combined = pa.concat_tables([table.select([KEY_HASH, *keys]) for table in (stored, rows)])
        ids = dense_ids(combined, keys)
        stored_key, key = ids.ids[: stored.num_rows], ids.ids[stored.num_rows :]
        before = np.zeros(ids.count, np.int64)
        # Slices of a key are in order: of several assignments to one index numpy keeps the last.
        before[stored_key] = stored.column(SLICE).to_numpy() * width + stored.column(ROWS).to_numpy()
        count = np.bincount(key, minlength=ids.count)
        start = np.cumsum(count) - count
        order = stable_order(key, ids.count)
        by_key = key[order]
        number = (np.arange(len(order)) + (before - start)[by_key]) // width
        changes = _changes(by_key, number)
        run, begins = np.cumsum(changes) - 1, np.flatnonzero(changes)
        run_of_row = np.empty(len(order), np.int64)
        run_of_row[order] = run
        run_rows = np.bincount(run, minlength=len(begins))
        return _Arrived(combined, ids.first, stored_key, before, count, start, order,
                        run_of_row, by_key[begins], number[begins], run_rows)  # fmt: skip


def _changes(*columns: Indices) -> np.ndarray:
    """True where a row differs from the one before it."""
    begins_run = np.ones(len(columns[0]), bool)
    begins_run[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return begins_run


# --- slices: accumulators that windows share, or the rows themselves ------------------------------------------


TIME = "__time"
"""BIGINT column that the kernel adds to the rows: their times."""


class WindowResults(NamedTuple):
    """The results of windows. ``rows`` are the result rows; ``window`` is, for each of them, the index of its window.
    ``oldest`` and ``newest`` are, for each window, the times of its oldest and newest row in microseconds.
    """

    rows: pa.Table
    window: Indices
    oldest: Times
    newest: Times


class Slices(Protocol):
    """How the rows of a count window are stored: consecutive rows of a key form slices, which are shared by overlapping
    windows. ``width``: the number of rows of one slice.
    """

    @property
    def width(self) -> int:
        """The number of rows of a slice."""
        ...

    @property
    def kept(self) -> pa.Schema:
        """The schema of the columns in which a slice is stored."""
        ...

    @property
    def results(self) -> pa.Schema:
        """The schema of the results."""
        ...

    def lift(self, rows: pa.Table, groups: Indices, count: int) -> pa.Table:
        """Makes the stored form of ``count`` slices from rows in order of arrival. ``groups`` has, for each row, the
        index of its slice.
        """
        ...

    def merge(self, slices: pa.Table, groups: Indices, count: int) -> pa.Table:
        """Merges consecutive slices into ``count`` larger ones. ``groups`` has, for each slice, the index of the larger
        one.
        """
        ...

    def window_results(self, slices: pa.Table, owner: Indices, ranges: Ranges) -> WindowResults:
        """The results of windows, each of which is one of the ``ranges`` of slices. ``slices`` are sorted by key;
        ``owner`` has the index of each slice's key.
        """
        ...


@dataclass(frozen=True)
class AggregateSlices:
    """Stores slices as accumulators, with the least and the greatest time of their rows."""

    aggregates: Aggregates
    width: int

    @property
    def kept(self) -> pa.Schema:
        return self._timed.accumulators

    @property
    def results(self) -> pa.Schema:
        return self.aggregates.results

    def lift(self, rows: pa.Table, groups: Indices, count: int) -> pa.Table:
        return self._timed.lift(rows, groups, count)

    def merge(self, slices: pa.Table, groups: Indices, count: int) -> pa.Table:
        return self._timed.merge(slices, groups, count)

    def window_results(self, slices: pa.Table, owner: Indices, ranges: Ranges) -> WindowResults:
        finished = self._timed.finish(merge_ranges(self._timed, slices, owner, ranges))
        oldest, newest = (finished.column(name).to_numpy() for name in _BOUNDS)
        return WindowResults(finished.select(self.results.names), np.arange(len(oldest)), oldest, newest)

    @cached_property
    def _timed(self) -> Aggregates:
        bounds = (
            AggregateCall(name, function, (TIME,), pa.int64())
            for name, function in zip(_BOUNDS, ("min", "max"), strict=True)
        )
        columns = pa.schema([*self.aggregates.input, pa.field(TIME, pa.int64())])
        return Aggregates((*self.aggregates.calls, *bounds), columns)


_BOUNDS = ("__oldest", "__newest")


@dataclass(frozen=True)
class RowSlices:
    """Stores slices as the rows themselves, with their times. ``input`` is the schema of the rows."""

    function: AllRows
    input: pa.Schema
    width: int = 1

    @cached_property
    def kept(self) -> pa.Schema:
        """The columns of a stored slice, under hidden names, because the state has the key columns under their own
        names.
        """
        columns = [(f"__column_{i}", field.type) for i, field in enumerate(self.results)]
        return pa.schema([*columns, (TIME, pa.int64())])

    @cached_property
    def results(self) -> pa.Schema:
        return pa.schema([(name, self.input.field(name).type) for name in self.function.columns])

    def lift(self, rows: pa.Table, groups: Indices, count: int) -> pa.Table:
        named = rows.select([*self.function.columns, TIME])
        return self.merge(pa.Table.from_arrays(named.columns, schema=self.kept), groups, count)

    def merge(self, slices: pa.Table, groups: Indices, count: int) -> pa.Table:
        assert count == slices.num_rows, "each row is a slice"
        row = np.empty(count, np.int64)
        row[groups] = np.arange(count)
        return slices.take(pa.array(row))

    def window_results(self, slices: pa.Table, owner: Indices, ranges: Ranges) -> WindowResults:
        pairs = expanded(ranges)
        rows, starts = slices.take(pa.array(pairs.row)), runs(pairs.owner).start
        times = rows.column(TIME).to_numpy()
        oldest, newest = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
        result_rows = pa.Table.from_arrays(rows.columns[:-1], schema=self.results)
        return WindowResults(result_rows, pairs.owner, oldest, newest)


def slices_of(function: Aggregates | AllRows, input_: pa.Schema, width: int) -> Slices:
    """Chooses how slices are stored for a window function: as accumulators or rows. ``width`` is the greatest number of
    consecutive rows that every window contains completely or not at all.
    """
    return RowSlices(function, input_) if isinstance(function, AllRows) else AggregateSlices(function, width)
