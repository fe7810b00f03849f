"""Aggregates that rows cannot be subtracted from, over rows that go: the rows of each group are kept.

Rows that come and go are appended to what is kept. The rows of a group are read only where its result cannot be told
without them: for MIN and MAX when the extreme itself goes. Then, and when most of what is kept cancels out, the group's
rows become those that are there. Of equal rows the first one goes, as Flink's LISTAGG and FIRST_VALUE have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.groups.changed import AggregateStrategy, Changed, Flags, Indices, StoredGroups
from sqlstream.udfs.groups.totals import Totals
from sqlstream.udfs.joins.changes import within
from sqlstream.udfs.kernel import KEY_HASH, Context
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.keyed import KeyedState

_SIGN = "__sign"
"""BIGINT column of kept rows: 1 for rows that have come, -1 for those that have gone."""

_KEPT, _THERE = "__kept", "__there"
"""BIGINT columns of a group: how many rows are kept for it, and how many of them are there by now."""

_SPARE = 64
"""So many rows that cancel out are kept, or as many as are there, before they are dropped."""


@dataclass(frozen=True)
class StoredRows(AggregateStrategy):
    """``aggregates`` over rows of which its input is what they read. ``name`` is that of the rows in the state."""

    name: str
    keys: pa.Schema
    aggregates: Aggregates

    @cached_property
    def columns(self) -> pa.Schema:
        return pa.schema(
            [*self._totals.columns, (f"{self.name}{_KEPT}", pa.int64()), (f"{self.name}{_THERE}", pa.int64())]
        )

    @property
    def results(self) -> pa.Schema:
        return self.aggregates.results

    def finish(self, columns: pa.Table) -> pa.Table:
        return self._totals.finish(columns.select(self._totals.columns.names))

    def updated(self, stored: StoredGroups, changed: Changed, context: Context) -> pa.Table:
        kept, there = self._counts(stored, changed)
        results, survives = self._without_reading(stored, changed)
        read = ~survives | (kept > 2 * there + _SPARE)
        state = self._state(context)
        if read.any():
            groups = np.flatnonzero(read)
            rows, groups_of_rows = self._read(state, changed, read)
            lifted = self._totals.lifted(rows, None, groups_of_rows, changed.count)
            results = _replaced(results, lifted, groups)
            kept[groups] = there[groups] = np.bincount(groups_of_rows, minlength=changed.count)[groups]
        state.append(self._stored(changed, ~read[changed.groups]))
        state.flush()
        counts = [pa.array(kept), pa.array(there)]
        return pa.Table.from_arrays([*results.columns, *counts], schema=self.columns)

    def forget(self, groups: pa.Table, context: Context) -> None:
        state = self._state(context)
        stored = state.load(groups.column(KEY_HASH).to_numpy())
        others = self._numbers(groups, stored) >= groups.num_rows
        state.replace(stored.filter(pa.array(others)))
        state.flush()

    # --- results ------------------------------------------------------------------------------------------------

    def _without_reading(self, stored: StoredGroups, changed: Changed) -> tuple[pa.Table, Flags]:
        """The columns of all groups as far as they can be told so, and where that is right."""
        come = changed.rows if changed.gone is None else changed.rows.filter(pa.array(~changed.gone))
        groups_of_rows = changed.groups if changed.gone is None else changed.groups[~changed.gone]
        results = self._totals.merged(
            stored, self._totals.lifted(come, None, groups_of_rows, changed.count), changed.count
        )
        if changed.gone is None:
            return results, np.ones(changed.count, np.bool_)
        gone = self._totals.lifted(
            changed.rows.filter(pa.array(changed.gone)), None, changed.groups[changed.gone], changed.count
        )
        survives = self.aggregates.survives(*(self._totals.own(columns) for columns in (results, gone)))
        survives |= np.bincount(changed.groups[changed.gone], minlength=changed.count) == 0
        return results, survives

    def _counts(self, stored: StoredGroups, changed: Changed) -> tuple[np.ndarray, np.ndarray]:
        kept, there = (
            np.bincount(changed.groups, signs, changed.count).astype(np.int64) for signs in (None, changed.signs)
        )
        for counts, name in ((kept, _KEPT), (there, _THERE)):
            counts[stored.groups] += stored.rows.column(f"{self.name}{name}").to_numpy()
        return kept, there

    # --- rows ---------------------------------------------------------------------------------------------------

    def _read(self, state: KeyedState, changed: Changed, read: Flags) -> tuple[pa.Table, Indices]:
        """The rows that are there of some groups, in order of arrival, and the group of each; they are what is kept
        from now on."""
        stored = state.load(changed.keys.column(KEY_HASH).to_numpy()[read])
        of_known = self._numbers(changed.keys, stored)
        own = of_known < changed.count
        own[own] = read[of_known[own]]
        chosen = read[changed.groups]
        rows = pa.concat_tables([stored.filter(pa.array(own)), self._stored(changed, chosen)])
        groups = np.concatenate([of_known[own], changed.groups[chosen]])
        there = self._there(rows)
        rows, groups = rows.filter(pa.array(there)), groups[there]
        state.replace(pa.concat_tables([stored.filter(pa.array(~own)), rows]))
        return rows, groups

    def _there(self, rows: pa.Table) -> Flags:
        """True for rows that have come and not gone."""
        come: Flags = rows.column(_SIGN).to_numpy() > 0
        if come.all():
            return come
        ids = dense_ids(rows, [*self.keys.names, *self.aggregates.input.names]).ids
        gone = np.bincount(ids[~come], minlength=int(ids.max()) + 1)
        come[come] = ~within(ids[come], gone)
        return come

    def _numbers(self, groups: pa.Table, rows: pa.Table) -> Indices:
        """The group of each row, and numbers above for rows of others."""
        names = self.keys.names
        combined = pa.concat_tables([groups.select([KEY_HASH, *names]), rows.select([KEY_HASH, *names])])
        numbers: Indices = dense_ids(combined, names or [KEY_HASH]).ids[groups.num_rows :]
        return numbers

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, self.name, self._schema)

    def _stored(self, changed: Changed, chosen: Flags) -> pa.Table:
        rows = changed.rows.select(self._schema.names[:-1]).filter(pa.array(chosen))
        return rows.append_column(_SIGN, pa.array(changed.signs[chosen])).cast(self._schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([(KEY_HASH, pa.int64()), *self.keys, *self.aggregates.input, (_SIGN, pa.int64())])

    @cached_property
    def _totals(self) -> Totals:
        return Totals(self.aggregates, f"{self.name}_total")


def _replaced(columns: pa.Table, others: pa.Table, rows: Indices) -> pa.Table:
    """The columns, with the given ``rows`` replaced by those of ``others``."""
    chosen = np.arange(columns.num_rows)
    chosen[rows] += columns.num_rows
    return pa.concat_tables([columns, others]).take(pa.array(chosen))
