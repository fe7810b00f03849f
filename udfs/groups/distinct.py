"""COUNT, SUM and AVG of DISTINCT values: each value of a group is kept once, and looked up when it comes again.

What a micro-batch costs depends on its own values, not on how many a group has. As Flink does, where rows are
forgotten after a time each value has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.udfs.groups.changed import AggregateStrategy, Changed, Flags, Indices, StoredGroups
from sqlstream.udfs.groups.totals import Totals
from sqlstream.udfs.kernel import KEY_HASH, Context
from sqlstream.udfs.key_hash import hash_of_values
from sqlstream.udfs.keys import dense_ids, places
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.living import Living

_TIMES = "__times"
"""BIGINT column of kept values: how many rows of the group have it. Only where rows may go."""


@dataclass(frozen=True)
class DistinctValues(AggregateStrategy):
    """Calls over the distinct ``values`` of rows where ``filter`` holds: ``totals`` are those without DISTINCT."""

    name: str
    keys: pa.Schema
    values: pa.Schema
    filter: str | None
    totals: Totals
    updates: bool
    living: Living

    @property
    def columns(self) -> pa.Schema:
        return self.totals.columns

    @property
    def results(self) -> pa.Schema:
        return self.totals.results

    def updated(self, stored: StoredGroups, changed: Changed, context: Context) -> pa.Table:
        come, left = self._changes(changed, context)
        rows = pa.concat_tables([come.rows, left.rows])
        gone = np.repeat([False, True], [len(come.groups), len(left.groups)]) if len(left.groups) else None
        groups = np.concatenate([come.groups, left.groups])
        lifted = self.totals.lifted(rows, gone, groups, changed.count)
        return self.totals.merged(stored, lifted, changed.count)

    def finish(self, columns: pa.Table) -> pa.Table:
        return self.totals.finish(columns)

    def drop(self, context: Context) -> None:
        """Forgets values whose time is up."""
        state = self._state(context)
        self.living.due(state, context)
        state.flush()

    def wakes(self, context: Context) -> int:
        """When values are to be forgotten."""
        return self.living.wakes(self._state(context), context)

    # --- values -------------------------------------------------------------------------------------------------

    def _changes(self, changed: Changed, context: Context) -> tuple[StoredGroups, StoredGroups]:
        """The values that groups have now and had not before, and those that they have no longer."""
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

    def _net(self, changed: Changed) -> tuple[pa.Table, Indices, np.ndarray]:
        """Each value of each group once, and how many rows more have it now."""
        chosen = self._chosen(changed.rows)
        rows = changed.rows.select(self.values.names)
        groups, signs = changed.groups, changed.signs
        if not chosen.all():
            rows, groups, signs = rows.filter(pa.array(chosen)), groups[chosen], signs[chosen]
        numbered = rows.append_column("", pa.array(groups))
        ids = dense_ids(numbered, numbered.column_names)
        times = np.bincount(ids.ids, signs, ids.count).astype(np.int64)
        return rows.take(pa.array(ids.first)).cast(self.values), groups[ids.first], times

    def _chosen(self, rows: pa.Table) -> Flags:
        """True for rows that count: FILTER holds, and no argument is NULL."""
        conditions = [pc.is_valid(rows.column(name)) for name in self.values.names]
        if self.filter is not None:
            conditions.append(pc.fill_null(rows.column(self.filter), False))
        return np.asarray(np.logical_and.reduce([np.asarray(c.to_numpy(), np.bool_) for c in conditions]))

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


def _hashes(of_keys: np.ndarray, rows: pa.Table) -> np.ndarray:
    """int64: of the key of each value and the value itself, as far as values have hashes: others are in the place of
    their key, all of them."""
    columns = [pa.chunked_array([pa.array(of_keys)])]
    for column in rows.columns:
        kind = column.type
        if kinds.is_floating(kind):
            values = pc.add(column.cast(pa.float64()), 0.0)
            columns.append(pc.if_else(pc.is_nan(values), 0.0, values))
        elif _has_hash(kind):
            columns.append(column)
    return hash_of_values(columns, rows.num_rows)


def _has_hash(kind: pa.DataType) -> bool:
    plain = kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind) or kinds.is_timestamp(kind)
    return bool(plain or kinds.is_date32(kind) or kind in (pa.string(), pa.binary()))
