"""COUNT, SUM and AVG of DISTINCT values: each value of a group is stored once.

The cost of a micro-batch depends on its own values, not on the size of the group. As in Flink, with a time to live each
value expires on its own, and calls over the same values with different FILTERs share one set of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.udfs.groups.strategies import AggregateStrategy, ChangedRows, Flags, Indices, StoredGroups, Totals
from sqlstream.udfs.kernel import KEY_HASH, Context
from sqlstream.udfs.keys import dense_ids, hash_of_values, places
from sqlstream.udfs.state.buckets import Buckets
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import TimeToLive

_TIMES = "__times"
"""BIGINT column of stored values: the number of rows of the group with the value. Only where rows may be retracted."""


@dataclass(frozen=True)
class DistinctValues(AggregateStrategy):
    """Computes aggregate calls with DISTINCT over the columns ``values``, for rows in which the BOOLEAN column
    ``filter`` is true (None: all rows). It stores the distinct values of each group. ``totals`` computes the same calls
    without DISTINCT. ``updates``: rows may be retracted.
    """

    name: str
    keys: pa.Schema
    values: pa.Schema
    filter: str | None
    totals: Totals
    updates: bool
    living: TimeToLive

    @property
    def filters(self) -> tuple[str, ...]:
        """The column of the condition, if there is one."""
        return () if self.filter is None else (self.filter,)

    @property
    def columns(self) -> pa.Schema:
        return self.totals.columns

    @property
    def results(self) -> pa.Schema:
        return self.totals.results

    def updated(self, stored: StoredGroups, changed: ChangedRows, context: Context) -> pa.Table:
        come, left = self._changes(changed, context)
        rows = pa.concat_tables([come.rows, left.rows])
        gone = np.repeat([False, True], [len(come.groups), len(left.groups)]) if len(left.groups) else None
        groups = np.concatenate([come.groups, left.groups])
        lifted = self.totals.lifted(rows, gone, groups, changed.count)
        return self.totals.merged(stored, lifted, changed.count)

    def finish(self, columns: pa.Table) -> pa.Table:
        return self.totals.finish(columns)

    def drop(self, context: Context) -> None:
        """Drops the stored values whose time to live has passed."""
        state = self._state(context)
        self.living.due(state, context)
        state.flush()

    def wakes(self, context: Context) -> int:
        """The processing time, in microseconds, at which ``drop`` must be called next; END_OF_TIME for never."""
        return self.living.wakes(self._state(context), context)

    # --- values -------------------------------------------------------------------------------------------------

    def _changes(self, changed: ChangedRows, context: Context) -> tuple[StoredGroups, StoredGroups]:
        """The values that the changes add to groups, and those that they remove."""
        rows, groups, times = self._net(changed)
        hashed = _hashes(changed.keys.column(KEY_HASH).to_numpy()[groups], rows)
        state = self._state(context)
        stored = state.load(hashed)
        table = self._stored(changed.keys, rows, groups, hashed, times, context)
        stored_row = places(table, stored, [*self.keys.names, *self.values.names])
        had = np.zeros(len(times), np.int64)
        was = stored_row >= 0
        had[was] = stored.column(_TIMES).to_numpy()[stored_row[was]] if self.updates else 1
        now = np.maximum(had + times, 0)
        self._keep(state, stored, table, stored_row, now)
        come, left = (
            StoredGroups(rows.filter(pa.array(flags)), groups[flags])
            for flags in ((had == 0) & (now > 0), (had > 0) & (now == 0))
        )
        return come, left

    def _net(self, changed: ChangedRows) -> tuple[pa.Table, Indices, np.ndarray]:
        """Each value of each group once, and how many rows more have it now."""
        chosen = chosen_rows(changed.rows, self.values.names, self.filter)
        rows = changed.rows.select(self.values.names)
        groups, signs = changed.groups, changed.signs
        if not chosen.all():
            rows, groups, signs = rows.filter(pa.array(chosen)), groups[chosen], signs[chosen]
        numbered = rows.append_column("", pa.array(groups))
        ids = dense_ids(numbered, numbered.column_names)
        times = np.bincount(ids.ids, signs, ids.count).astype(np.int64)
        return rows.take(pa.array(ids.first)).cast(self.values), groups[ids.first], times

    # --- state --------------------------------------------------------------------------------------------------

    def _keep(self, state: KeyedState, stored: pa.Table, table: pa.Table, stored_row: Indices, now: np.ndarray) -> None:
        kept = now > 0
        if not self.updates and not self.living.ttl:
            state.append(table.filter(pa.array(kept & (stored_row < 0))))
        else:
            others = np.ones(stored.num_rows, np.bool_)
            others[stored_row[stored_row >= 0]] = False
            if self.updates:
                number = table.schema.get_field_index(_TIMES)
                table = table.set_column(number, table.schema.field(number), pa.array(now))
            state.replace(pa.concat_tables([stored.filter(pa.array(others)), table.filter(pa.array(kept))]))
        state.flush()

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, self.name, self._schema)

    def _stored(
        self, keys: pa.Table, rows: pa.Table, groups: Indices, hashed: np.ndarray, times: np.ndarray, context: Context
    ) -> pa.Table:
        of_group = keys.select(self.keys.names).take(pa.array(groups)).columns
        own = [pa.array(times)] if self.updates else []
        columns = [pa.array(hashed), *of_group, *rows.columns, *own, *self.living.timers(rows.num_rows, context)]
        return pa.Table.from_arrays(columns, schema=self._schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        own = [(_TIMES, pa.int64())] if self.updates else []
        return pa.schema([(KEY_HASH, pa.int64()), *self.keys, *self.values, *own, *self.living.timer])


# --- several FILTERs over the same values ---------------------------------------------------------------------


_SEEN = "__seen"
"""Column of stored values, TINYINT for up to seven calls, BIGINT for more: bit ``i`` is 1 if the group has a row with
the value for the call ``i``."""

MOST_SHARING = 62
"""Of so many calls a BIGINT has a bit each."""


@dataclass(frozen=True)
class FilteredCalls:
    """Some aggregate calls of ``SharedDistinctValues``, with one FILTER.

    ``filter``: the BOOLEAN column of it; None for all rows. ``totals`` computes the calls without DISTINCT. ``former``:
    the name under which earlier builds stored the values of these calls alone.
    """

    filter: str | None
    totals: Totals
    former: str


@dataclass(frozen=True)
class SharedDistinctValues(AggregateStrategy):
    """Computes calls with DISTINCT over the same columns ``values`` and with different FILTERs, of rows that are never
    retracted and of state without a time to live. Each value of a group is stored once, with the calls that have it.
    """

    name: str
    keys: pa.Schema
    values: pa.Schema
    calls: tuple[FilteredCalls, ...]

    @property
    def filters(self) -> tuple[str, ...]:
        """The columns of the conditions."""
        return tuple(calls.filter for calls in self.calls if calls.filter is not None)

    @cached_property
    def columns(self) -> pa.Schema:
        return pa.schema([field for calls in self.calls for field in calls.totals.columns])

    @cached_property
    def results(self) -> pa.Schema:
        return pa.schema([field for calls in self.calls for field in calls.totals.results])

    def updated(self, stored: StoredGroups, changed: ChangedRows, context: Context) -> pa.Table:
        values, groups, added = self._added(changed, context)
        columns: list[pa.ChunkedArray] = []
        for bit, calls in enumerate(self.calls):
            own = added >> bit & 1 > 0
            lifted = calls.totals.lifted(values.filter(pa.array(own)), None, groups[own], changed.count)
            columns += calls.totals.merged(stored, lifted, changed.count).columns
        return pa.Table.from_arrays(columns, schema=self.columns)

    def finish(self, columns: pa.Table) -> pa.Table:
        finished = [calls.totals.finish(columns.select(calls.totals.columns.names)) for calls in self.calls]
        return pa.Table.from_arrays([c for table in finished for c in table.columns], schema=self.results)

    # --- values -------------------------------------------------------------------------------------------------

    def _added(self, changed: ChangedRows, context: Context) -> tuple[pa.Table, Indices, np.ndarray]:
        """Values that the changes add to calls: the values, the group of each, and the bits of the calls."""
        values, groups, seen = self._net(changed)
        hashed = _hashes(changed.keys.column(KEY_HASH).to_numpy()[groups], values)
        state = self._state(context)
        stored = state.load(hashed)
        of_group = changed.keys.select(self.keys.names).take(pa.array(groups)).columns
        columns = [pa.array(hashed), *of_group, *values.columns]
        table = pa.Table.from_arrays([*columns, self._bits(seen)], schema=self._schema)
        stored_row = places(table, stored, [*self.keys.names, *self.values.names])
        was = stored_row >= 0
        had = np.zeros(len(seen), np.int64)
        had[was] = stored.column(_SEEN).to_numpy()[stored_row[was]]
        added = seen & ~had
        if (added[was] == 0).all():
            state.append(table.filter(pa.array(~was)))
        else:
            others = np.ones(stored.num_rows, np.bool_)
            others[stored_row[was]] = False
            table = table.set_column(table.num_columns - 1, self._schema.field(_SEEN), self._bits(seen | had))
            state.replace(pa.concat_tables([stored.filter(pa.array(others)), table]))
        state.flush()
        return values, groups, added

    def _net(self, changed: ChangedRows) -> tuple[pa.Table, Indices, np.ndarray]:
        """Each value of each group once, and the bits of the calls that have it now."""
        rows, groups = changed.rows.select(list(dict.fromkeys((*self.values.names, *self.filters)))), changed.groups
        chosen = chosen_rows(rows, self.values.names, None)
        if not chosen.all():
            rows, groups = rows.filter(pa.array(chosen)), groups[chosen]
        numbered = rows.select(self.values.names).append_column("", pa.array(groups))
        ids = dense_ids(numbered, numbered.column_names)
        seen = np.zeros(ids.count, np.int64)
        for bit, calls in enumerate(self.calls):
            own = np.zeros(ids.count, np.bool_)
            own[ids.ids if calls.filter is None else ids.ids[_true(rows.column(calls.filter))]] = True
            seen |= own.astype(np.int64) << bit
        has = seen > 0
        first = ids.first[has]
        return rows.select(self.values.names).take(pa.array(first)).cast(self.values), groups[first], seen[has]

    # --- state --------------------------------------------------------------------------------------------------

    def _state(self, context: Context) -> KeyedState:
        state = KeyedState(context.store, self.name, self._schema)
        if not state.rows():
            former = list(self._formerly(context))
            if former:
                state.append(self._together(former))
                state.flush()
        return state

    def _formerly(self, context: Context) -> Iterator[pa.Table]:
        """The values as earlier builds stored them, for each call alone; they are removed there."""
        indexes = context.store.get([Buckets.keys(calls.former)[0] for calls in self.calls])
        for bit, (calls, index) in enumerate(zip(self.calls, indexes, strict=True)):
            if index is not None:
                former = KeyedState(context.store, calls.former, pa.schema([*self._schema][:-1]))
                rows = former.load_all()
                former.replace(rows.slice(0, 0))
                former.flush()
                yield rows.append_column(self._schema.field(_SEEN), self._bits(np.full(rows.num_rows, 1 << bit)))

    def _together(self, former: list[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(former)
        ids = dense_ids(rows, [*self.keys.names, *self.values.names])
        seen = np.zeros(ids.count, np.int64)
        np.bitwise_or.at(seen, ids.ids, rows.column(_SEEN).to_numpy())
        first = rows.take(pa.array(ids.first))
        return first.set_column(first.num_columns - 1, self._schema.field(_SEEN), self._bits(seen))

    def _bits(self, seen: np.ndarray) -> pa.Array:
        return pa.array(seen, self._schema.field(_SEEN).type)

    @cached_property
    def _schema(self) -> pa.Schema:
        bits = pa.int8() if len(self.calls) < 8 else pa.int64()
        return pa.schema([(KEY_HASH, pa.int64()), *self.keys, *self.values, (_SEEN, bits)])


# --- rows that count, and hashes of their values --------------------------------------------------------------


def chosen_rows(rows: pa.Table, values: list[str], condition: str | None) -> Flags:
    """True for rows that count: the FILTER ``condition`` holds, and no value is NULL."""
    chosen: Flags = np.logical_and.reduce([np.asarray(pc.is_valid(rows.column(name)), np.bool_) for name in values])
    return chosen if condition is None else np.logical_and(chosen, _true(rows.column(condition)))


def _true(condition: pa.ChunkedArray) -> Flags:
    return np.asarray(pc.fill_null(condition, False), np.bool_)


def _hashes(of_keys: np.ndarray, rows: pa.Table) -> np.ndarray:
    """int64: hashes of keys and values together, for types that have hashes; otherwise only of keys."""
    columns = [pa.chunked_array([pa.array(of_keys)])]
    for column in rows.columns:
        kind = column.type
        if kinds.is_floating(kind):
            values = pc.add(column.cast(pa.float64()), 0.0)
            columns.append(pc.if_else(pc.is_nan(values), 0.0, values))
        elif has_hash(kind):
            columns.append(column)
    return hash_of_values(columns, rows.num_rows)


def has_hash(kind: pa.DataType) -> bool:
    """True for the types of columns of which ``hash_of_values`` makes hashes, floating-point numbers left out."""
    plain = kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind) or kinds.is_timestamp(kind)
    return bool(plain or kinds.is_date32(kind) or kind in (pa.string(), pa.binary()))
