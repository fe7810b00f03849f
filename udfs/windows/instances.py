"""Window instances, one per key and window: their state, in memory and as rows of a KeyedState, and their contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.kernel import KEY_HASH, Context, Domain
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.triggers.trigger import Fires, Run, Trigger, TriggerState, Windows
from sqlstream.udfs.windows.ranges import numbered, row_counts, with_row_counts

Values = np.ndarray[Any, np.dtype[Any]]

START, END = "__start", "__end"
FILLED, PANES, EMITTED, ROWS = "__filled", "__panes", "__emitted", "__rows"
TRIGGER, LAST = "__trigger.", "__last."

_ARROW = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "O": pa.binary()}


@dataclass(frozen=True)
class InstanceLayout:
    """The columns in which window instances are stored; an instance is the state of one window of one key. ``held``:
    the columns of the window's contents, such as accumulators; empty if its rows are stored separately. ``last``: the
    columns of the last emitted result; empty if results are not retracted.
    """

    keys: pa.Schema
    trigger: Trigger
    held: pa.Schema
    last: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stored rows."""
        own = [(name, pa.int64()) for name in (START, END, EVENT_TIMER, PROCESSING_TIMER, PANES, ROWS)]
        flags = [(name, pa.bool_()) for name in (FILLED, EMITTED)]
        of_trigger = [(TRIGGER + name, _ARROW[values.dtype.kind]) for name, values in self.trigger.fresh(0).columns()]
        last = [(LAST + column.name, column.type) for column in self.last]
        return pa.schema([*self.keys, *(pa.field(*column) for column in own + flags + of_trigger + last), *self.held])

    @property
    def empty(self) -> Instances:
        """``Instances`` without any instance."""
        return self.decode(self.schema.empty_table())

    def fresh(self, keys: pa.Table, start: Values, end: Values, held: pa.Table) -> Instances:
        """New instances for these keys and windows, whose bounds are in microseconds. ``held`` has their contents, such
        as accumulators, in one row per instance.
        """
        count = len(start)
        last = pa.table([pa.nulls(count, column.type) for column in self.last], schema=self.last)
        panes, rows = np.zeros(count, np.int64), np.zeros(count, np.int64)
        filled, emitted = np.zeros(count, bool), np.zeros(count, bool)
        return Instances(keys, start, end, self.trigger.fresh(count), filled, panes, rows, held, emitted, last)

    def decode(self, rows: pa.Table) -> Instances:
        """The instances whose stored rows are ``rows``."""
        state = self.trigger.fresh(rows.num_rows)
        _fill(state, rows, TRIGGER)
        last = rows.select([LAST + name for name in self.last.names]).rename_columns(self.last.names)
        return Instances(
            rows.select(self.keys.names),
            _numpy(rows, START),
            _numpy(rows, END),
            state,
            _numpy(rows, FILLED),
            _numpy(rows, PANES),
            _numpy(rows, ROWS),
            rows.select(self.held.names),
            _numpy(rows, EMITTED),
            last,
        )

    def encode(self, instances: Instances, timers: dict[Domain, Values]) -> pa.Table:
        """The instances as rows to store. ``timers``: the next timer of each instance on each clock, in
        microseconds.
        """
        columns: dict[str, Any] = {
            **_columns(instances.keys),
            START: instances.start,
            END: instances.end,
            EVENT_TIMER: timers[Domain.EVENT],
            PROCESSING_TIMER: timers[Domain.PROCESSING],
            PANES: instances.panes,
            ROWS: instances.rows,
            FILLED: instances.filled,
            EMITTED: instances.emitted,
            **{TRIGGER + name: values for name, values in instances.trigger.columns()},
            **{LAST + name: column for name, column in _columns(instances.last).items()},
            **_columns(instances.held),
        }
        schema = self.schema
        return pa.table([_array(columns[column.name], column.type) for column in schema], schema=schema)


@dataclass
class Instances:
    """The state of many window instances as columns. An instance is one window of one key. The columns are changed in
    place or replaced.

    ``filled``: the window is not empty. ``panes``: how often it has fired. ``rows``: how many rows were added since it
    was last emptied; a row in several windows is counted only in the last of them. ``held``: the columns of the
    window's contents, such as accumulators. ``emitted``: a result has been emitted and not retracted; ``last`` is that
    result.
    """

    keys: pa.Table
    start: Values
    end: Values
    trigger: TriggerState
    filled: Values
    panes: Values
    rows: Values
    held: pa.Table
    emitted: Values
    last: pa.Table

    @property
    def count(self) -> int:
        """The number of instances."""
        return len(self.start)

    @property
    def hashes(self) -> Values:
        """The key hash of each instance."""
        hashes: Values = self.keys.column(KEY_HASH).to_numpy()
        return hashes

    def at(self, index: Values) -> Instances:
        """A copy of the instances with these indices, or for which this mask is true."""
        index = np.flatnonzero(index) if index.dtype == bool else index
        return Instances(
            self.keys.take(index),
            self.start[index],
            self.end[index],
            self.trigger.at(index),
            self.filled[index],
            self.panes[index],
            self.rows[index],
            self.held.take(index),
            self.emitted[index],
            self.last.take(index),
        )

    def followed_by(self, other: Instances) -> Instances:
        """The instances of this object, followed by those of ``other``."""
        return Instances(
            joined(self.keys, other.keys),
            np.concatenate([self.start, other.start]),
            np.concatenate([self.end, other.end]),
            self.trigger.followed_by(other.trigger),
            np.concatenate([self.filled, other.filled]),
            np.concatenate([self.panes, other.panes]),
            np.concatenate([self.rows, other.rows]),
            joined(self.held, other.held),
            np.concatenate([self.emitted, other.emitted]),
            joined(self.last, other.last),
        )

    def keep_last(self, index: Values, rows: pa.Table, there: Values) -> None:
        """Stores ``rows`` as the last emitted results of the instances with these indices. Where ``there`` is false,
        the instance has no last result, because it was retracted.
        """
        self.last = with_rows(self.last, index, rows)
        self.emitted[index] = there

    def windows(self, watermark: int, processing_time: int, domain: Domain) -> Windows:
        """The ``Windows`` of the instances: their bounds, and the clocks of the call in microseconds. ``domain`` is the
        clock by which these windows close.
        """
        return Windows(self.start, self.end, watermark, processing_time, domain)


@dataclass
class Touched:
    """The window ``instances`` on which one call works. ``stored_row``: for each, the index of its row in the loaded
    table, -1 for new ones. ``is_replaced``: for each row of the loaded table, whether it is one of these instances or
    was merged into one.
    """

    instances: Instances
    stored_row: Values
    is_replaced: Values


def joined(first: pa.Table, second: pa.Table) -> pa.Table:
    """Two tables concatenated, with each column in one chunk; tables without columns are allowed."""
    if first.num_columns == 0:
        return rows_without_columns(first.num_rows + second.num_rows)
    return pa.concat_tables([first, second]).combine_chunks()


def rows_without_columns(count: int) -> pa.Table:
    """A table of ``count`` rows without columns."""
    return pa.table({"": pa.nulls(count)}).select([])


def with_rows(table: pa.Table, index: Values, rows: pa.Table) -> pa.Table:
    """The table with the rows at ``index`` replaced by ``rows``."""
    if len(index) == 0 or table.num_columns == 0:
        return table
    order = np.arange(table.num_rows)
    order[index] = table.num_rows + np.arange(len(index))
    return joined(table, rows).take(order)


def _fill(state: TriggerState, rows: pa.Table, prefix: str) -> None:
    for name in state.values:
        state[name] = _numpy(rows, prefix + name).astype(state[name].dtype, copy=False)
    for number, nested in enumerate(state.parts):
        _fill(nested, rows, f"{prefix}{number}.")


def _numpy(rows: pa.Table, name: str) -> Values:
    values: Values = rows.column(name).to_numpy()
    return values.copy()


def _columns(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.schema.names, table.columns, strict=True))


def _array(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    return pa.array(values, kind) if isinstance(values, np.ndarray) else values


def names_of(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The schema of the columns with these names."""
    return pa.schema([schema.field(name) for name in names])


# --- contents between firings: accumulators of aggregates, or rows --------------------------------------------
# ``Accumulated`` stores accumulators in the rows of the window instances. ``Buffered`` stores rows in a state of their
# own, which it appends to without reading, and reads for firings.


OLDEST, NEWEST = "__oldest", "__newest"


class Pane(NamedTuple):
    """The ``results`` of some firings of windows, as result rows, and what is known of each firing.

    ``of`` has, for each result row, the index of its firing; None if each firing has exactly one row. ``oldest`` and
    ``newest``: for each firing the least and the greatest time of its rows in microseconds; only for windows without
    bounds. ``empty``: true for firings that emit nothing. ``gone``: true for firings of windows whose rows were all
    retracted, which have no result.
    """

    results: pa.Table
    of: Values | None = None
    oldest: pa.Array | None = None
    newest: pa.Array | None = None
    empty: Values | None = None
    gone: Values | None = None

    def without(self, silent: Values | None) -> Pane:
        """The results without those of the firings for which ``silent`` is true."""
        if silent is None or not silent.any():
            return self
        return self._replace(empty=silent if self.empty is None else self.empty | silent)


class Held(Protocol):
    """Reads and changes the contents of windows, accumulators or rows, during one call of the kernel."""

    def on_rows(self, instances: Instances, run: Run, fires: Fires) -> Pane:
        """Adds the new rows of ``run`` to the contents of these instances. ``fires`` are the firings at some of these
        rows; returns their results, each over the rows up to that one. Updates ``instances.filled``.
        """
        ...

    def on_time(self, instances: Instances, index: Values, purges: Values) -> Pane:
        """Returns the results of the instances with these indices, which fire at a timer; none of them is empty.
        ``purges`` is true for those that are emptied afterwards.
        """
        ...

    def drop(self, instances: Instances, index: Values) -> None:
        """Drops the contents of the instances with these indices."""
        ...

    def merge(self, instances: Instances, groups: Values, count: int) -> pa.Table:
        """Merges the contents of instances whose windows merge. ``groups`` has, for each instance, the index of the
        merged window, of which there are ``count``; contents are merged in the order of the instances. Returns the
        merged contents: a table with the ``held`` columns and ``count`` rows.
        """
        ...

    def numbered(self, rows: pa.Table, key: Values, loaded: pa.Table, key_of_loaded: Values) -> pa.Table:
        """Returns ``rows`` as ``on_rows`` needs them where windows merge: with a column that numbers them in order of
        arrival, if contents are merged by it. ``loaded`` are all stored instances of the rows' keys, from which the
        numbers continue; ``key`` and ``key_of_loaded`` are the key index of each row and of each stored instance.
        """
        ...

    def flush(self) -> None:
        """Writes contents that are stored separately from the instances."""
        ...


class Contents(Protocol):
    """How the contents of windows are stored: as accumulators or as rows. Implementations are frozen and picklable."""

    @property
    def held(self) -> pa.Schema:
        """The schema of the columns in which a window's contents are stored with its instance, such as accumulators;
        empty if the rows are stored separately.
        """
        ...

    @property
    def results(self) -> pa.Schema:
        """The schema of the results of the window function."""
        ...

    def fresh(self, count: int) -> pa.Table:
        """The contents of ``count`` new, empty windows: a table of ``count`` rows with the columns ``held``."""
        ...

    def open(self, context: Context) -> Held:
        """Returns the object by which one call of the kernel reads and changes the contents of windows."""
        ...


def with_bounds(aggregates: Aggregates, time: str | None) -> Aggregates:
    """The aggregates with two additional results, the minimum and the maximum of the column ``time``; unchanged if
    ``time`` is None.
    """
    if time is None:
        return aggregates
    kind = aggregates.input.field(time).type
    calls = (AggregateCall(OLDEST, "min", (time,), kind), AggregateCall(NEWEST, "max", (time,), kind))
    return replace(aggregates, calls=aggregates.calls + calls)


def pane_of(results: pa.Table, names: list[str], owner: Values | None = None) -> Pane:
    """Makes a ``Pane`` of result rows. ``names``: the columns of the window function; ``results`` may also have the
    times of the oldest and the newest row (see ``with_bounds``). ``owner``: for each row the index of its firing; None
    if each firing has exactly one row.
    """
    if OLDEST not in results.schema.names:
        return Pane(results, owner)
    return Pane(results.select(names), owner, results.column(OLDEST), results.column(NEWEST))


@dataclass(frozen=True)
class Accumulated:
    """Stores the contents of windows as accumulators. ``time``: for windows without bounds (GLOBAL), the column whose
    least and greatest values become the bounds of the result; otherwise None.
    """

    aggregates: Aggregates
    time: str | None = None

    @cached_property
    def measured(self) -> Aggregates:
        """The aggregates to compute: those of the query; for windows without bounds also the least and the greatest
        time; for input with retractions also the number of rows.
        """
        aggregates = with_bounds(self.aggregates, self.time)
        return with_row_counts(aggregates) if aggregates.updating else aggregates

    def pane_of(self, results: pa.Table) -> Pane:
        """Makes a ``Pane`` of ``results``, which are those of the aggregates ``measured``, one row per firing."""
        pane = pane_of(results, self.results.names)
        if not self.aggregates.updating:
            return pane
        return pane._replace(results=results.select(self.results.names), gone=row_counts(results) <= 0)

    @property
    def held(self) -> pa.Schema:
        return self.measured.accumulators

    @property
    def results(self) -> pa.Schema:
        return self.aggregates.results

    def fresh(self, count: int) -> pa.Table:
        empty = self.measured.input.empty_table()
        return self.measured.lift(empty, np.zeros(0, np.int64), count)

    def open(self, context: Context) -> Held:
        return _Accumulators(self)


@dataclass
class _Accumulators:
    contents: Accumulated

    @property
    def _aggregates(self) -> Aggregates:
        return self.contents.measured

    def on_rows(self, instances: Instances, run: Run, fires: Fires) -> Pane:
        instances.filled = np.ones(instances.count, bool)
        if len(fires.position) == 0:
            instances.held = self._added(instances.held, self._lifted(run, _owners(run), run.count))
            return self.contents.pane_of(self._aggregates.finish(self.contents.fresh(0)))
        return self._with_firings(instances, run, fires)

    def _lifted(self, run: Run, groups: Values, count: int) -> pa.Table:
        """``groups`` by position."""
        by_row = np.full(run.rows.num_rows, -1, np.int64)
        by_row[run.row] = groups
        if len(run.row) != len(by_row) or (by_row < 0).any():  # rows belong to several windows or to none
            return self._aggregates.lift(run.rows.take(run.row), groups, count)
        return self._aggregates.lift(run.rows, by_row, count)

    def _added(self, held: pa.Table, lifted: pa.Table) -> pa.Table:
        count = held.num_rows
        combined = joined(held, lifted)
        return self._aggregates.merge(combined, np.concatenate([np.arange(count), np.arange(count)]), count)

    def _with_firings(self, instances: Instances, run: Run, fires: Fires) -> Pane:
        """Splits the rows of each instance into parts, at its firings and after the last one, and accumulates along the
        parts."""
        parts = _parts(run, fires)
        lifted = self._lifted(run, parts.of_position, len(parts.instance))
        chains = _chains(instances.count, parts)
        sums = self._along(joined(instances.held, lifted).take(chains.order), chains)
        results = self._aggregates.finish(sums.take(chains.position[instances.count + parts.fired]))
        rest = sums.take(chains.position[instances.count + parts.last])
        instances.held = with_rows(rest, chains.emptied, self.contents.fresh(len(chains.emptied)))
        instances.filled[chains.emptied] = False
        return self.contents.pane_of(results)

    def _along(self, accumulators: pa.Table, chains: _Chains) -> pa.Table:
        """Each accumulator merged with those before it in its chain: with the nearest 1, 2, 4, … of them in turn."""
        distance, longest = 1, int(chains.rank.max(initial=0))
        while distance <= longest:
            here = np.flatnonzero(chains.rank >= distance)
            pairs = np.stack([here - distance, here], axis=1).ravel()
            merged = self._aggregates.merge(accumulators.take(pairs), np.repeat(np.arange(len(here)), 2), len(here))
            accumulators = with_rows(accumulators, here, merged)
            distance *= 2
        return accumulators

    def on_time(self, instances: Instances, index: Values, purges: Values) -> Pane:
        results = self._aggregates.finish(instances.held.take(index))
        self.drop(instances, index[purges])
        return self.contents.pane_of(results)

    def drop(self, instances: Instances, index: Values) -> None:
        instances.held = with_rows(instances.held, index, self.contents.fresh(len(index)))
        instances.filled[index] = False

    def merge(self, instances: Instances, groups: Values, count: int) -> pa.Table:
        return self._aggregates.merge(instances.held, groups, count)

    def numbered(self, rows: pa.Table, key: Values, loaded: pa.Table, key_of_loaded: Values) -> pa.Table:
        held = loaded.select(self.contents.held.names)
        return numbered(rows, key, self._aggregates, held, key_of_loaded)

    def flush(self) -> None:
        pass


class _Parts(NamedTuple):
    """``instance``: that of each part. ``fired``: the parts that end in a firing, in order; ``purges`` of those.
    ``last``: the last part of each instance. ``of_position``: the part of each position."""

    instance: Values
    fired: Values
    purges: Values
    last: Values
    of_position: Values


def _parts(run: Run, fires: Fires) -> _Parts:
    count = len(run.row)
    begins = np.zeros(count + 1, bool)
    begins[run.starts] = True
    begins[fires.position + 1] = True
    of_position = np.cumsum(begins[:count]) - 1
    instance = _owners(run)[np.flatnonzero(begins[:count])]
    return _Parts(instance, of_position[fires.position], fires.purge, of_position[run.ends - 1], of_position)


class _Chains(NamedTuple):
    """The order of accumulation: the contents of each instance, then its parts; a purge starts a new chain.

    ``order``: instances and parts, numbered consecutively, in order. ``position``: the position of each of them.
    ``rank``: the position of each within its chain. ``emptied``: instances that are empty in the end.
    """

    order: Values
    position: Values
    rank: Values
    emptied: Values


def _chains(count: int, parts: _Parts) -> _Chains:
    owner = np.concatenate([np.arange(count), parts.instance])
    order = np.argsort(owner, kind="stable")
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    begins = np.zeros(len(order) + 1, bool)
    begins[position[:count]] = True
    purging = parts.fired[parts.purges]
    begins[position[count + purging] + 1] = True
    starts = np.flatnonzero(begins[: len(order)])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    emptied = np.flatnonzero(np.isin(parts.last, purging))
    return _Chains(order, position, rank, emptied)


def _owners(run: Run) -> Values:
    """The instance of each position of a run that has all positions."""
    return np.repeat(np.arange(run.count), run.lengths)
