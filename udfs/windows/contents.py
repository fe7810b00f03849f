"""The contents of windows between firings: accumulators of their aggregates, or their rows.

``Accumulated`` stores accumulators in the rows of the window instances. ``Buffered`` stores rows in a state of their
own, which it appends to without reading, and reads for firings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.kernel import Context
from sqlstream.udfs.triggers.trigger import Fires, Run
from sqlstream.udfs.windows.instances import Instances, joined, with_rows
from sqlstream.udfs.windows.ranges import numbered, row_counts, with_row_counts

Values = np.ndarray[Any, np.dtype[Any]]

OLDEST, NEWEST = "__oldest", "__newest"


class Pane(NamedTuple):
    """The results of firings. ``of``: the firing of each row, None if each firing has exactly one. ``oldest`` and
    ``newest``: the times of the rows of each firing, for windows without bounds. ``empty``: firings without output.
    ``gone``: firings of windows whose rows were all retracted, which have no result."""

    results: pa.Table
    of: Values | None = None
    oldest: pa.Array | None = None
    newest: pa.Array | None = None
    empty: Values | None = None
    gone: Values | None = None

    def without(self, silent: Values | None) -> Pane:
        """The pane without the output of the firings flagged in ``silent``."""
        if silent is None or not silent.any():
            return self
        return self._replace(empty=silent if self.empty is None else self.empty | silent)


class Held(Protocol):
    """The contents of windows during one call of the kernel."""

    def on_rows(self, instances: Instances, run: Run, fires: Fires) -> Pane:
        """Processes new rows of all of these instances, which fired at some of them. Sets ``filled``."""
        ...

    def on_time(self, instances: Instances, index: Values, purges: Values) -> Pane:
        """The results of instances that fire, none of which is empty."""
        ...

    def drop(self, instances: Instances, index: Values) -> None:
        """Drops the contents of these instances."""
        ...

    def merge(self, instances: Instances, groups: Values, count: int) -> pa.Table:
        """The ``held`` columns of ``count`` instances merged from these, in order."""
        ...

    def numbered(self, rows: pa.Table, key: Values, loaded: pa.Table, key_of_loaded: Values) -> pa.Table:
        """The rows in the form that ``on_rows`` needs where windows merge. ``loaded``: all stored instances of their
        keys; ``key`` and ``key_of_loaded``: the numbers of the keys."""
        ...

    def flush(self) -> None:
        """Writes the contents that are stored separately."""
        ...


class Contents(Protocol):
    """The kind of contents. Implementations are frozen and picklable."""

    @property
    def held(self) -> pa.Schema:
        """The columns that are stored in the rows of instances."""
        ...

    @property
    def results(self) -> pa.Schema:
        """The schema of the results of the window function."""
        ...

    def fresh(self, count: int) -> pa.Table:
        """The ``held`` columns of new instances."""
        ...

    def open(self, context: Context) -> Held:
        """The contents during one call of the kernel."""
        ...


def with_bounds(aggregates: Aggregates, time: str | None) -> Aggregates:
    """The aggregates, with the times of the oldest and the newest row as additional results."""
    if time is None:
        return aggregates
    kind = aggregates.input.field(time).type
    calls = (AggregateCall(OLDEST, "min", (time,), kind), AggregateCall(NEWEST, "max", (time,), kind))
    return replace(aggregates, calls=aggregates.calls + calls)


def pane_of(results: pa.Table, names: list[str], owner: Values | None = None) -> Pane:
    """A pane of results. ``names``: the columns of the window function; ``owner``: as ``Pane.of``."""
    if OLDEST not in results.schema.names:
        return Pane(results, owner)
    return Pane(results.select(names), owner, results.column(OLDEST), results.column(NEWEST))


@dataclass(frozen=True)
class Accumulated:
    """Contents that are accumulators. ``time``: the column whose extremes bound windows that have no bounds of their
    own."""

    aggregates: Aggregates
    time: str | None = None

    @cached_property
    def measured(self) -> Aggregates:
        """The aggregates that are computed: those of the query, the bounds and the number of rows."""
        aggregates = with_bounds(self.aggregates, self.time)
        return with_row_counts(aggregates) if aggregates.updating else aggregates

    def pane_of(self, results: pa.Table) -> Pane:
        """Firings of ``measured``."""
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
