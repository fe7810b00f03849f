"""GROUP BY without a window: one result row per group, updated as rows are inserted and retracted.

The state has one row per group: its keys, its number of rows where rows may be retracted, and the columns of its
aggregates. A micro-batch loads the groups that it changes, merges its own aggregates into them, and emits each change
once: +I for a new group, -U and +U for a changed result, -D when the last row of a group is retracted. The semantics
are those of Flink's GroupAggFunction, which processes row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.groups.distinct import (
    MOST_SHARING,
    DistinctValues,
    FilteredCalls,
    SharedDistinctValues,
    has_hash,
)
from sqlstream.udfs.groups.strategies import (
    AggregateStrategy,
    ChangedRows,
    Flags,
    Indices,
    StoredGroups,
    StoredRows,
    Totals,
)
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context, Domain, Kernel
from sqlstream.udfs.keys import Ids, dense_ids, differ, hash_of_values, in_order, places, retracted_rows
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import TimeToLive

_KINDS = pa.array(["+I", "-U", "+U", "-D"])

_ROWS = "__rows"
"""BIGINT column of a group: its number of rows. Only where rows may be retracted."""

_LEAST_SAMPLED, _SAMPLE, _MOSTLY_DISTINCT = 10_000, 63, 0.75
"""Of so many rows and more one in 64 is looked at, by its hash; where this share is distinct, duplicates stay: to find
them takes eight times as long as the sample."""

_HAS_TOTALS = "__has_totals"
"""BOOLEAN column of pre-aggregated rows: the row has the accumulators of its group. Only where other aggregates have
DISTINCT, for which each value has a row. NULL for rows that were not pre-aggregated."""


@dataclass(frozen=True)
class GroupAggregateKernel(Kernel):
    """The kernel of GROUP BY. ``keys`` are columns of ``input``, compared as in SQL's GROUP BY; without keys there is
    one group.

    Each of the ``strategies`` computes some of the aggregate calls, and all of them together the columns ``results``.
    ``living``: the time to live of a group's state. ``emits_kinds``: results have ROW_KIND. Otherwise no result ever
    changes, and only new groups are emitted.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    strategies: tuple[AggregateStrategy, ...]
    results: tuple[str, ...]
    living: TimeToLive
    emits_kinds: bool

    @cached_property
    def output(self) -> pa.Schema:
        keys = (self.input.field(name) for name in self.keys)
        fields = {field.name: field for strategy in self.strategies for field in strategy.results}
        kinds = [(ROW_KIND, pa.string())] if self.emits_kinds else []
        return pa.schema([*keys, *(fields[name] for name in self.results), *kinds])

    @property
    def uses_processing_time(self) -> bool:
        return self.living.ttl > 0

    @property
    def updates(self) -> bool:
        """True where rows of the input may be retracted."""
        return ROW_KIND in self.input.names

    def combine(self, rows: pa.Table) -> pa.Table:
        """Pre-aggregates the rows of a key group before the shuffle, if the state consists of accumulators only. If
        aggregates have DISTINCT and rows are never retracted, it keeps one row of each combination of their values, and
        adds the accumulators of the other aggregates to one row of each group. In other cases it returns the rows
        unchanged.
        """
        if not self._combines and self._distinct_only:
            ids = self._distinct_ids(rows)
            return rows if ids is None or ids.count == rows.num_rows else rows.take(pa.array(ids.first))
        if self._adds_totals:
            return self._values_with_totals(rows)
        if not self._combines:
            return rows
        ids = dense_ids(rows, self.keys)
        keys = rows.select([KEY_HASH, *self.keys]).take(pa.array(ids.first))
        gone = retracted_rows(rows)
        counts = [pa.array(_counted(gone, ids.ids, ids.count))] if self.updates else []
        columns = [c for strategy in self._totals for c in strategy.lifted(rows, gone, ids.ids, ids.count).columns]
        return pa.Table.from_arrays([*keys.columns, *counts, *columns], schema=self._combined)

    def _distinct_ids(self, rows: pa.Table) -> Ids | None:
        """Numbers for the combinations of keys and distinct values; None where most rows have their own, as a sample
        says: the kernel looks for those that were stored anyway.
        """
        own = (name for name in self._distinct_columns if name not in self.keys)
        columns = [rows.column(name) for name in (KEY_HASH, *own)]
        if rows.num_rows >= _LEAST_SAMPLED and all(has_hash(column.type) for column in columns):
            hashes = hash_of_values(columns, rows.num_rows)
            sampled = hashes[hashes & _SAMPLE == 0]
            if len(np.unique(sampled)) > _MOSTLY_DISTINCT * len(sampled):
                return None
        return dense_ids(rows, self._distinct_columns)

    def _values_with_totals(self, rows: pa.Table) -> pa.Table:
        """One row for each combination of keys and distinct values; the first of each group has its accumulators. Where
        most rows have their own values they stay as they are, since accumulators would be wider.
        """
        ids = self._distinct_ids(rows)
        if ids is None:
            return rows
        values = rows.select([KEY_HASH, *self._distinct_columns]).take(pa.array(ids.first))
        groups = dense_ids(values, self.keys)
        group_of_value = np.full(values.num_rows, -1)
        group_of_value[groups.first] = np.arange(groups.count)
        is_first = group_of_value >= 0
        numbers = pa.array(group_of_value, mask=~is_first)
        lifted = [strategy.lifted(rows, None, groups.ids[ids.ids], groups.count) for strategy in self._totals]
        columns = [column for totals in lifted for column in totals.take(numbers).columns]
        return pa.Table.from_arrays([*values.columns, pa.array(is_first), *columns], schema=self._shipped)

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        ids = dense_ids(rows, self.keys)
        keys = rows.select([KEY_HASH, *self.keys]).take(pa.array(ids.first)).combine_chunks()
        state = self._state(context)
        loaded = state.load(keys.column(KEY_HASH).to_numpy())
        stored_row = places(keys, loaded, self.keys or (KEY_HASH,))
        stored = StoredGroups(loaded.take(pa.array(stored_row[stored_row >= 0])), np.flatnonzero(stored_row >= 0))
        changed = ChangedRows(rows, None if self._combines else retracted_rows(rows), ids.ids, ids.count, keys)
        counts = self._counts(stored, changed)
        now = self._stored_of(keys, counts, self._updated(stored, changed, context), context)
        stays = np.ones(ids.count, np.bool_) if counts is None else counts > 0
        self._emit(stored, now, stays, context)
        if counts is not None and not stays.all():
            context.count(IGNORED, int(np.maximum(-counts, 0).sum()))
            now, keys = now.filter(pa.array(stays)), keys.filter(pa.array(~stays))
            self._forget(keys, context)
        others = np.ones(loaded.num_rows, np.bool_)
        others[stored_row[stored_row >= 0]] = False
        state.replace(pa.concat_tables([loaded.filter(pa.array(others)), now]) if others.any() else now)
        self._close(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        state = self._state(context)
        over = self.living.due(state, context)
        if over.num_rows:
            self._forget(over.select([KEY_HASH, *self.keys]), context)
        for strategy in self._expiring:
            strategy.drop(context)
        self._close(state, context)

    # --- what changes -------------------------------------------------------------------------------------------

    def _updated(self, stored: StoredGroups, changed: ChangedRows, context: Context) -> list[pa.Table]:
        """The columns of all parts for all groups."""
        if self._combines:
            return [totals.merged(stored, changed.rows, changed.count, changed.groups) for totals in self._totals]
        has_totals = _HAS_TOTALS in changed.rows.column_names
        return [
            self._with_accumulators(strategy, stored, changed)
            if has_totals and isinstance(strategy, Totals)
            else strategy.updated(stored, changed, context)
            for strategy in self.strategies
        ]

    def _with_accumulators(self, totals: Totals, stored: StoredGroups, changed: ChangedRows) -> pa.Table:
        """The columns for rows of which some hold accumulators, and others may have been left as they are."""
        rows, groups = changed.rows, changed.groups
        has_totals = rows.column(_HAS_TOTALS)
        lifted, plain = np.asarray(pc.fill_null(has_totals, False)), np.asarray(has_totals.is_null())
        accumulators, of_rows = rows.select(totals.columns.names).filter(pa.array(lifted)), groups[lifted]
        if plain.any():
            own = totals.lifted(rows.filter(pa.array(plain)), None, groups[plain], changed.count)
            accumulators = pa.concat_tables([accumulators, own])
            of_rows = np.concatenate([of_rows, np.arange(changed.count)])
        return totals.merged(stored, accumulators, changed.count, of_rows)

    def _counts(self, stored: StoredGroups, changed: ChangedRows) -> np.ndarray | None:
        """The number of rows of each group after the changes; None where rows are never retracted."""
        if not self.updates:
            return None
        if self._combines:
            counts = np.zeros(changed.count, np.int64)
            np.add.at(counts, changed.groups, changed.rows.column(_ROWS).to_numpy())
        else:
            counts = _counted(changed.gone, changed.groups, changed.count)
        counts[stored.groups] += stored.rows.column(_ROWS).to_numpy()
        return counts

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, stored: StoredGroups, now: pa.Table, stays: Flags, context: Context) -> None:
        """Emits groups by first appearance. With a time to live, unchanged results are emitted again so that operators
        above keep their state as long."""
        is_new = stays.copy()
        is_new[stored.groups] = False
        new = np.flatnonzero(is_new)
        if not self.emits_kinds:
            context.emit(self._results(now.take(pa.array(new))))
            return
        before, after = self._results(stored.rows), self._results(now)
        lives = stays[stored.groups]
        differs = np.ones(len(lives), np.bool_) if self.living.ttl else self._differ(before, after, stored.groups)
        updated, over = np.flatnonzero(lives & differs), np.flatnonzero(~lives)
        groups = [new, stored.groups[updated], stored.groups[updated], stored.groups[over]]
        # The rows before the change precede those after it.
        rows = [groups[0] + len(lives), updated, groups[2] + len(lives), over]
        kinds = np.repeat(np.arange(len(_KINDS)), [len(of_kind) for of_kind in groups])
        order = in_order([np.concatenate(groups)])
        if len(order):
            images = pa.concat_tables([before, after]).take(pa.array(np.concatenate(rows)[order]))
            context.emit(images.append_column(ROW_KIND, _KINDS.take(pa.array(kinds[order]))))

    def _results(self, rows: pa.Table) -> pa.Table:
        """Keys and results of rows of the state."""
        columns_by_name: dict[str, pa.ChunkedArray] = {}
        for strategy in self.strategies:
            finished = strategy.finish(rows.select(strategy.columns.names))
            columns_by_name |= dict(zip(finished.column_names, finished.columns, strict=True))
        columns = [*(rows.column(name) for name in self.keys), *(columns_by_name[name] for name in self.results)]
        return pa.Table.from_arrays(columns, schema=self._emitted)

    def _differ(self, before: pa.Table, after: pa.Table, groups: Indices) -> Flags:
        """True where a group has other results after than before, which is one row for each of ``groups``."""
        if not self.results:
            return np.zeros(len(groups), np.bool_)
        results_after = after.select(self.results).take(pa.array(groups))
        return np.asarray(differ(before.select(self.results), results_after), np.bool_)

    # --- state --------------------------------------------------------------------------------------------------

    def _forget(self, groups: pa.Table, context: Context) -> None:
        for strategy in self.strategies:
            strategy.forget(groups, context)

    def _close(self, state: KeyedState, context: Context) -> None:
        state.flush()
        if self.living.ttl:
            wakes = [self.living.wakes(state, context), *(strategy.wakes(context) for strategy in self._expiring)]
            context.set_timer(Domain.PROCESSING, min(wakes))

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "groups", self._stored)

    def _stored_of(
        self, keys: pa.Table, counts: np.ndarray | None, parts: Sequence[pa.Table], context: Context
    ) -> pa.Table:
        own = [] if counts is None else [pa.array(counts)]
        columns = [column for table in parts for column in table.columns]
        timers = self.living.timers(keys.num_rows, context)
        return pa.Table.from_arrays([*keys.columns, *own, *columns, *timers], schema=self._stored)

    # --- what it is made of -------------------------------------------------------------------------------------

    @property
    def _combines(self) -> bool:
        return all(isinstance(strategy, Totals) for strategy in self.strategies)

    @property
    def _totals(self) -> list[Totals]:
        return [strategy for strategy in self.strategies if isinstance(strategy, Totals)]

    @property
    def _distinct(self) -> list[DistinctValues | SharedDistinctValues]:
        return [s for s in self.strategies if isinstance(s, DistinctValues | SharedDistinctValues)]

    @property
    def _expiring(self) -> list[DistinctValues]:
        """The strategies whose state may have a time to live of its own."""
        return [strategy for strategy in self.strategies if isinstance(strategy, DistinctValues)]

    @property
    def _distinct_only(self) -> bool:
        """True where a row changes nothing if an earlier row has its values."""
        return not self.updates and len(self._distinct) == len(self.strategies)

    @property
    def _adds_totals(self) -> bool:
        """True where rows differ for aggregates with DISTINCT by their values, and for the others accumulators do."""
        return not self.updates and 0 < len(self._distinct) < len(self.strategies) == len(
            [*self._distinct, *self._totals]
        )

    @cached_property
    def _distinct_columns(self) -> tuple[str, ...]:
        """The columns by which rows differ for aggregates with DISTINCT."""
        read = (name for s in self._distinct for name in (*s.values.names, *s.filters))
        return tuple(dict.fromkeys((*self.keys, *read)))

    @cached_property
    def _emitted(self) -> pa.Schema:
        return pa.schema([field for field in self.output if field.name != ROW_KIND])

    @cached_property
    def _combined(self) -> pa.Schema:
        counts = [(_ROWS, pa.int64())] if self.updates else []
        keys = (self.input.field(name) for name in (KEY_HASH, *self.keys))
        return pa.schema([*keys, *counts, *(field for strategy in self.strategies for field in strategy.columns)])

    @cached_property
    def _shipped(self) -> pa.Schema:
        """Pre-aggregated rows with distinct values."""
        values = (self.input.field(name) for name in (KEY_HASH, *self._distinct_columns))
        return pa.schema([*values, (_HAS_TOTALS, pa.bool_()), *(f for totals in self._totals for f in totals.columns)])

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*self._combined, *self.living.timer])


def _counted(gone: Flags | None, groups: Indices, count: int) -> np.ndarray:
    """How many rows more each group has."""
    signs = None if gone is None else np.where(gone, -1, 1)
    return np.bincount(groups, signs, count).astype(np.int64)


# --- choice of a strategy for each aggregate call -------------------------------------------------------------


Calls = list[AggregateCall]


def strategies_of(
    calls: Sequence[AggregateCall], keys: Sequence[str], rows: pa.Schema, *, updates: bool, living: TimeToLive
) -> tuple[AggregateStrategy, ...]:
    """Chooses the strategies that together compute all aggregate calls over ``rows`` grouped by ``keys``. ``updates``:
    rows may be retracted. ``living``: the time to live of a group's state. Raises UnsupportedError SS395 for calls that
    are not executed.
    """
    distinct: dict[tuple[tuple[str, ...], str | None], Calls] = {}
    total: Calls = []
    extreme: Calls = []
    kept: Calls = []
    for call in calls:
        plain = Aggregates((replace(call, distinct=False),), rows, retracting=True)
        if call.distinct and plain.retracts:
            values = tuple(dict.fromkeys(call.arguments))
            distinct.setdefault((values, call.filter), []).append(replace(call, distinct=False, filter=None))
        elif plain.retracts or not updates:
            total.append(call)
        else:
            (extreme if plain.may_survive else kept).append(call)
    by_key = pa.schema([rows.field(name) for name in keys])
    strategies: list[AggregateStrategy] = [Totals(Aggregates(tuple(total), rows, retracting=updates))] if total else []
    numbered = [(*choice, own, f"distinct_{number}") for number, (choice, own) in enumerate(distinct.items())]
    for values, of_values in groupby(numbered, key=lambda item: item[0]):
        read = pa.schema([rows.field(name) for name in values])
        parts = [
            FilteredCalls(condition, Totals(Aggregates(tuple(own), read, retracting=updates), f"__{name}"), name)
            for _, condition, own, name in of_values
        ]
        if 1 < len(parts) <= MOST_SHARING and not updates and not living.ttl:
            strategies.append(SharedDistinctValues(f"{parts[0].former}_shared", by_key, read, tuple(parts)))
        else:
            own_sets = (DistinctValues(p.former, by_key, read, p.filter, p.totals, updates, living) for p in parts)
            strategies += own_sets
    for name, own in (("extremes", extreme), ("rows", kept)):
        if own:
            strategies.append(StoredRows(name, by_key, Aggregates(tuple(own), pa.schema([*_read(own, rows)]))))
    return tuple(strategies)


def _read(calls: Calls, rows: pa.Schema) -> Iterator[pa.Field]:
    """The columns that calls read."""
    names = {n for c in calls for n in (*c.arguments, *([c.filter] if c.filter else []), *(o.column for o in c.order))}
    return (field for field in rows if field.name in names)
