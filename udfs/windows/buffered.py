"""Windows that store their rows: for evictors, and for window table functions without aggregation.

The rows are in a KeyedState of their own, in order of arrival, each with the bounds of the window that it was assigned
to. The rows of a session are found by the key and the starts of their windows, so merging sessions moves no rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.evictors import Evictor, KeepInterval, KeepRows, Panes
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Context
from sqlstream.udfs.keys import dense_ids, is_retraction, unmatched
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.triggers.counting import spread
from sqlstream.udfs.triggers.trigger import Fires, Run
from sqlstream.udfs.windows.emission import ranks_of
from sqlstream.udfs.windows.instances import (
    END,
    START,
    Held,
    Instances,
    Pane,
    joined,
    pane_of,
    rows_without_columns,
    with_bounds,
)
from sqlstream.udfs.windows.ranges import AllRows

Values = np.ndarray[Any, np.dtype[Any]]

ROWS_AT_ONCE = 1 << 21

_FIRING = "__firing"


@dataclass(frozen=True)
class Buffered:
    """Stores the rows of each window, for window functions that cannot be computed from accumulators, and for evictors.
    ``rows`` is the schema of the kernel's input, ``keys`` the names of the key columns. ``time``: for windows without
    bounds (GLOBAL), the column whose least and greatest values become the bounds of the result. ``merging``: windows
    may merge, as sessions do.
    """

    function: Aggregates | AllRows
    rows: pa.Schema
    keys: tuple[str, ...]
    evictor: Evictor | None = None
    time: str | None = None
    merging: bool = False

    @property
    def held(self) -> pa.Schema:
        """An empty schema: no columns are stored with a window, because its rows are stored separately."""
        return pa.schema([])

    @property
    def results(self) -> pa.Schema:
        """The schema of the results of the window function."""
        if isinstance(self.function, Aggregates):
            return self.function.results
        return pa.schema([self.rows.field(name) for name in self.function.columns])

    @cached_property
    def measured(self) -> Aggregates | AllRows:
        """The window function to compute. For windows without bounds (GLOBAL) its aggregates have two additional calls:
        the least and the greatest time of the rows, which become the bounds of the result.
        """
        return with_bounds(self.function, self.time) if isinstance(self.function, Aggregates) else self.function

    @property
    def stored(self) -> pa.Schema:
        """The schema of the stored rows."""
        return pa.schema([*self.rows, pa.field(START, pa.int64()), pa.field(END, pa.int64())])

    def fresh(self, count: int) -> pa.Table:
        """A table of ``count`` rows without columns: new windows store nothing besides their rows."""
        return rows_without_columns(count)

    def open(self, context: Context) -> Held:
        """Returns the object by which one call of the kernel reads and changes the stored rows of windows."""
        return _Rows(self, KeyedState(context.store, "rows", self.stored), context)


class _Sequence(NamedTuple):
    """Rows of the instances that fire, instance by instance, in order of arrival, those in the state first.

    ``starts``: the first row of each instance. ``old``: how many of them were in the state. ``source``: the number of
    each row, among those of the state and then among those of the batch.
    """

    rows: pa.Table
    starts: Values
    old: Values
    source: Values

    @property
    def sizes(self) -> Values:
        return np.diff(self.starts, append=self.rows.num_rows)

    def times(self, name: str) -> Values:
        """A TIMESTAMP or BIGINT column of microseconds."""
        values: Values = pc.cast(self.rows.column(name), pa.int64()).to_numpy()
        return values


class _Firing(NamedTuple):
    """``instance``: the number of the firing instance. ``stop``: the number of its rows that have arrived by then."""

    instance: Values
    stop: Values
    purges: Values


@dataclass
class _Rows:
    """The contents during one call. ``_loaded``: the rows that were read last; ``_owner``: the instance of each, or
    -1."""

    contents: Buffered
    state: KeyedState
    context: Context
    _loaded: pa.Table = None
    _owner: Values = field(default_factory=lambda: np.zeros(0, np.int64))

    def on_rows(self, instances: Instances, run: Run, fires: Fires) -> Pane:
        owner = np.repeat(np.arange(run.count), run.lengths)
        arrived = self._stored(run, instances, owner)
        firing = np.zeros(run.count, bool)
        firing[owner[fires.position]] = True
        if not firing.any():
            instances.filled = np.ones(run.count, bool)
            self._append(arrived, run.row)
            return self._nothing()
        return self._with_firings(instances, run, fires, arrived, owner, firing)

    def _with_firings(
        self, instances: Instances, run: Run, fires: Fires, arrived: pa.Table, owner: Values, firing: Values
    ) -> Pane:
        chosen = np.flatnonzero(firing)
        number = np.cumsum(firing) - 1
        now = np.flatnonzero(firing[owner])
        old, old_owner = self._load(instances.at(chosen))
        sequence = _sequence(old, old_owner, arrived.take(now), number[owner[now]], len(chosen))
        fired = owner[fires.position]
        stop = sequence.starts[number[fired]] + sequence.old[number[fired]] + fires.position + 1 - run.starts[fired]
        stays, pane = self._fire(sequence, instances.at(chosen), _Firing(number[fired], stop, fires.purge))
        kept = np.ones(len(arrived), bool)
        kept[now] = stays[np.argsort(sequence.source)][len(old) :]
        self._keep(len(old), stays, sequence)
        self._append(arrived.filter(pa.array(kept)), run.row[kept])
        instances.filled = np.ones(run.count, bool)
        instances.filled[chosen] = _any_by(stays, sequence.starts)
        return pane

    def on_time(self, instances: Instances, index: Values, purges: Values) -> Pane:
        if len(index) == 0:
            return self._nothing()
        some = instances.at(index)
        old, owner = self._load(some)
        sequence = _sequence(old, owner, old.slice(0, 0), np.zeros(0, np.int64), len(index))
        stop = sequence.starts + sequence.old
        stays, pane = self._fire(sequence, some, _Firing(np.arange(len(index)), stop, purges))
        self._keep(len(old), stays, sequence)
        instances.filled[index] = _any_by(stays, sequence.starts)
        return pane

    def drop(self, instances: Instances, index: Values) -> None:
        index = index[instances.filled[index]]
        instances.filled[index] = False
        if len(index):
            self._load(instances.at(index))
            self._retain(self._owner == -1)

    def merge(self, instances: Instances, groups: Values, count: int) -> pa.Table:
        return rows_without_columns(count)

    def numbered(self, rows: pa.Table, key: Values, loaded: pa.Table, key_of_loaded: Values) -> pa.Table:
        return rows

    def flush(self) -> None:
        self.state.flush()

    # --- firing -----------------------------------------------------------------------------------------------

    def _fire(self, sequence: _Sequence, instances: Instances, firing: _Firing) -> tuple[Values, Pane]:
        """Which rows remain at the end, and the results: the first firing of every instance, then the second, …"""
        kept = _last_rows(sequence, firing, self.contents.evictor)
        if kept is not None:
            return self._fire_last_rows(sequence, firing, kept)
        stays = np.ones(sequence.rows.num_rows, bool)
        rank = ranks_of(firing.instance)
        panes: list[tuple[Values, Values]] = []
        for turn in range(int(rank.max(initial=-1)) + 1):
            firing_indices = np.flatnonzero(rank == turn)
            instance = firing.instance[firing_indices]
            starts = sequence.starts[instance]
            position, pane = spread(starts, firing.stop[firing_indices] - starts)
            alive = stays[position]
            position, pane = position[alive], pane[alive]
            position, pane = self._evicted(sequence, instances, instance, position, pane, stays, before=True)
            panes.append((firing_indices[pane], position))
            position, pane = self._evicted(sequence, instances, instance, position, pane, stays, before=False)
            stays[position[firing.purges[firing_indices][pane]]] = False
        return stays, self._results(sequence, panes, len(firing.instance))

    def _fire_last_rows(self, sequence: _Sequence, firing: _Firing, kept: Values) -> tuple[Values, Pane]:
        """Computes all firings at once if each of them keeps the last rows, which are adjacent."""
        after = getattr(self.contents.evictor, "evicts_after", False)
        first, rest = _stretches(sequence.starts[firing.instance], firing, kept, after)
        sizes = firing.stop - first
        parts = []
        for chosen in _portions(sizes):
            position, owner = spread(first[chosen], sizes[chosen])
            parts.append(self._results(sequence, [(owner, position)], len(sizes[chosen])))
        last = np.flatnonzero(np.diff(firing.instance, append=-1))
        starts = sequence.starts[firing.instance[last]]
        stays = np.ones(sequence.rows.num_rows, bool)
        stays[spread(starts, rest[last] - starts)[0]] = False
        return stays, _in_one(parts)

    def _evicted(
        self, sequence: _Sequence, instances: Instances, instance: Values, position: Values, pane: Values,
        stays: Values, *, before: bool,
    ) -> tuple[Values, Values]:  # fmt: skip
        if self.contents.evictor is None or len(position) == 0:
            return position, pane
        starts = np.flatnonzero(np.diff(pane, prepend=-1))
        instance_of_pane = instance[pane[starts]]
        panes = Panes(
            sequence.rows.take(position),
            starts,
            instances.start[instance_of_pane],
            instances.end[instance_of_pane],
            self.context,
        )
        kept = self.contents.evictor.before(panes) if before else self.contents.evictor.after(panes)
        if kept is None:
            return position, pane
        stays[position[~kept]] = False
        return position[kept], pane[kept]

    def _results(self, sequence: _Sequence, panes: list[tuple[Values, Values]], count: int) -> Pane:
        owner = np.concatenate([pane[0] for pane in panes])
        position = np.concatenate([pane[1] for pane in panes])
        order = np.argsort(owner, kind="stable")
        owner, rows = owner[order], sequence.rows.take(position[order])
        if ROW_KIND in rows.column_names:
            there = self._there(rows, owner)
            owner, rows = owner[there], rows.filter(pa.array(there))
        empty = np.bincount(owner, minlength=count) == 0
        function = self.contents.measured
        if isinstance(function, Aggregates):
            results = function.finish(function.lift(rows, owner, count))
            return pane_of(results, self.contents.results.names)._replace(empty=empty)
        return self._rows_as_they_are(rows, owner, count, empty)

    def _there(self, rows: pa.Table, owner: Values) -> Values:
        """True for the rows of a firing that were inserted and not retracted. Of equal rows the last is retracted."""
        values = rows.select(self.contents.results.names).append_column(_FIRING, pa.array(owner))
        goes = is_retraction(rows.column(ROW_KIND).combine_chunks())
        there: Values = unmatched(dense_ids(values, values.column_names).ids, np.where(goes, -1, 1)) & ~goes
        return there

    def _rows_as_they_are(self, rows: pa.Table, owner: Values, count: int, empty: Values) -> Pane:
        pane = Pane(rows.select(self.contents.results.names), owner, empty=empty)
        if self.contents.time is None:
            return pane
        times = pa.table({"of": owner, "time": rows.column(self.contents.time)}).group_by("of", use_threads=False)
        bounds = times.aggregate([("time", "min"), ("time", "max")])
        bounds_row = np.zeros(count, np.int64)
        bounds_row[bounds.column("of").to_numpy()] = np.arange(bounds.num_rows)
        oldest, newest = (bounds.column(f"time_{kind}").take(bounds_row) for kind in ("min", "max"))
        return pane._replace(oldest=oldest, newest=newest)

    def _nothing(self) -> Pane:
        empty = self.contents.rows.empty_table()
        return self._results(
            _Sequence(empty, *(np.zeros(0, np.int64),) * 3), [(np.zeros(0, np.int64), np.zeros(0, np.int64))], 0
        )

    # --- state ------------------------------------------------------------------------------------------------

    def _stored(self, run: Run, instances: Instances, owner: Values) -> pa.Table:
        """The rows of a run by position, as they are stored."""
        rows = run.rows.select(self.contents.rows.names).take(run.row)
        start = instances.start[owner] if run.own_start is None else run.own_start
        rows = rows.append_column(START, pa.array(start))
        return rows.append_column(END, pa.array(instances.end[owner]))

    def _append(self, rows: pa.Table, arrival: Values) -> None:
        """Stores new rows in order of arrival."""
        if rows.num_rows:
            rows = rows.take(np.argsort(arrival, kind="stable")).combine_chunks()
            self.state.append(rows.cast(self.state.schema))

    def _load(self, instances: Instances) -> tuple[pa.Table, Values]:
        """The stored rows of these instances, and the number of the instance of each."""
        self.state.load(np.unique(instances.hashes))
        self._loaded = self.state.loaded().combine_chunks()
        self._owner = self._owners(instances, self._loaded)
        here = np.flatnonzero(self._owner >= 0)
        return self._loaded.take(here), self._owner[here]

    def _owners(self, instances: Instances, rows: pa.Table) -> Values:
        keys = pa.concat_tables([_named(instances.keys, self.contents.keys), _named(rows, self.contents.keys)])
        ids = dense_ids(keys.combine_chunks(), [KEY_HASH, *self.contents.keys]).ids
        key, of_row = ids[: instances.count], ids[instances.count :]
        start, end = (rows.column(name).to_numpy() for name in (START, END))
        order = np.lexsort((instances.end, instances.start, key))
        line = WindowsByKey(key[order], instances.start[order], instances.end[order])
        if self.contents.merging:
            return numbers_of(order, line.holding(of_row, start))
        return numbers_of(order, line.equal(of_row, start, end))

    def _keep(self, count: int, stays: Values, sequence: _Sequence) -> None:
        """Deletes the evicted ones of the ``count`` stored rows."""
        old = stays[np.argsort(sequence.source)][:count]
        if old.all():
            return
        kept = np.ones(self._loaded.num_rows, bool)
        kept[np.flatnonzero(self._owner >= 0)[~old]] = False
        self._retain(kept)

    def _retain(self, kept: Values) -> None:
        if not kept.all():
            self.state.replace(self._loaded.filter(pa.array(kept)))


def _sequence(old: pa.Table, old_owner: Values, new: pa.Table, new_owner: Values, count: int) -> _Sequence:
    owner = np.concatenate([old_owner, new_owner])
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=count)
    of_old = np.bincount(old_owner, minlength=count)
    return _Sequence(joined(old, new).take(order), np.cumsum(sizes) - sizes, of_old, order)


def _last_rows(sequence: _Sequence, firing: _Firing, evictor: Evictor | None) -> Values | None:
    """The first row that remains after each firing's eviction, if all later ones remain too; None otherwise."""
    starts = sequence.starts[firing.instance]
    match evictor:
        case None:
            return starts
        case KeepRows(rows=rows):
            kept: Values = np.maximum(firing.stop - rows, starts)
            return kept
        case KeepInterval(interval=interval, time=time):
            return _last_interval(sequence, firing, sequence.times(time), interval)
    return None


def _last_interval(sequence: _Sequence, firing: _Firing, times: Values, interval: int) -> Values | None:
    """If rows arrived in order of time, the rows of the last interval are the last rows."""
    backwards = np.flatnonzero(times[1:] < times[:-1]) + 1
    if not np.isin(backwards, sequence.starts).all():
        return None
    # Each instance gets a range of its own on one line of times.
    origin, length = int(times.min(initial=0)), int(times.max(initial=0)) - int(times.min(initial=0)) + 1
    if length * (len(sequence.starts) + 1) >= np.iinfo(np.int64).max:
        return None
    line = times - origin + np.repeat(np.arange(len(sequence.starts)), sequence.sizes) * length
    oldest = np.maximum(times[firing.stop - 1] - interval - origin, -1)
    positions: Values = np.searchsorted(line, oldest + firing.instance * length, side="right")
    kept: Values = np.maximum(positions, sequence.starts[firing.instance])
    return kept


def _stretches(starts: Values, firing: _Firing, kept: Values, evicts_after: bool) -> tuple[Values, Values]:
    """The first row of each firing, and the first row that remains after it.

    ``starts``: the first row of the instance of each firing, ``kept``: the first that its eviction keeps.
    """
    purged = np.maximum.accumulate(np.where(firing.purges, firing.stop, 0))
    floor = np.maximum(starts, _shifted(purged))
    first = np.maximum(floor, _shifted(kept) if evicts_after else kept)
    return first, np.where(firing.purges, firing.stop, np.maximum(first, kept))


def _shifted(values: Values) -> Values:
    return np.concatenate([[0], values[:-1]])


def _portions(sizes: Values) -> list[slice]:
    """Cuts firings so that the rows of each portion fit into memory."""
    portion = np.cumsum(sizes) // ROWS_AT_ONCE
    starts = np.flatnonzero(np.diff(portion, prepend=-1))
    return [slice(int(s), int(e)) for s, e in zip(starts, np.append(starts[1:], len(sizes)), strict=True)]


def _in_one(panes: list[Pane]) -> Pane:
    if len(panes) == 1:
        return panes[0]
    counts = np.cumsum([0] + [len(pane.empty) for pane in panes if pane.empty is not None])
    owners = [pane.of + before for pane, before in zip(panes, counts[:-1], strict=True) if pane.of is not None]
    return Pane(
        pa.concat_tables([pane.results for pane in panes]).combine_chunks(),
        np.concatenate(owners) if owners else None,
        _chained([pane.oldest for pane in panes]),
        _chained([pane.newest for pane in panes]),
        np.concatenate([pane.empty for pane in panes if pane.empty is not None]),
    )


def _chained(parts: list[pa.ChunkedArray | None]) -> pa.ChunkedArray | None:
    if any(column is None for column in parts):
        return None
    chunks = [chunk for column in parts if column is not None for chunk in column.chunks]
    return pa.chunked_array(chunks)


def _any_by(flags: Values, starts: Values) -> Values:
    """True for each stretch of flags with a true one; stretches may be empty."""
    ends = np.append(starts[1:], len(flags))
    sums = np.concatenate([[0], np.cumsum(flags)])
    has_true: Values = sums[ends] > sums[starts]
    return has_true


def _named(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    return table.select([KEY_HASH, *keys])


# --- lookup of windows by key and bounds ----------------------------------------------------------------------


class WindowsByKey(NamedTuple):
    """The windows of several keys as columns, sorted by key, start and end, to look windows up by key and time. ``key``
    has the index of each window's key.
    """

    key: Values
    start: Values
    end: Values

    def holding(self, key: Values, start: Values) -> Values:
        """For each key and time the index of the last window of the key that starts at or before ``start`` and ends
        after it; -1 for none.
        """
        candidate = _search(np.stack([self.key, self.start]), np.stack([key, start])) - 1
        return np.where((candidate >= 0) & (self.key[candidate] == key) & (self.end[candidate] > start), candidate, -1)

    def equal(self, key: Values, start: Values, end: Values) -> Values:
        """For each key and bounds the index of the window with exactly these bounds; -1 for none."""
        windows = np.stack([self.key, self.start, self.end])
        candidate = _search(windows, np.stack([key, start, end])) - 1
        same = (
            (candidate >= 0)
            & (self.key[candidate] == key)
            & (self.start[candidate] == start)
            & (self.end[candidate] == end)
        )
        return np.where(same, candidate, -1)


def _search(ordered: Values, asked: Values) -> Values:
    """The number of sorted columns of ``ordered`` that are less than or equal to each asked one."""
    combined = np.concatenate([ordered, asked], axis=1)
    order = np.lexsort(combined[::-1])
    passed = np.cumsum(order < ordered.shape[1])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = passed
    return ranks[ordered.shape[1] :]


def numbers_of(order: Values, positions: Values) -> Values:
    """Returns ``order[position]`` for each position, to convert positions among sorted items to indices of the unsorted
    ones; ``order`` has the index of each sorted item. -1, which stands for none, remains -1.
    """
    return np.where(positions >= 0, order[positions], -1) if len(order) else np.full(len(positions), -1)
