"""Turns an upsert changelog, of which only the last change of a key counts, into a full changelog with the previous
rows.

The state is the last row of each key. Of several changes of a key in a micro-batch only the last one has an effect. The
output is the difference from the row before the micro-batch: +I for a new key, -U and +U for a changed row, -D with the
whole deleted row. An unchanged row is no change. The semantics are those of Flink's ChangelogNormalize
(ProcTimeDeduplicateKeepLastRowFunction).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Context
from sqlstream.udfs.keys import Ids, dense_ids, differ, places
from sqlstream.udfs.state.time_to_live import ExpiringKernel

Indices = np.ndarray
Flags = np.ndarray

_GONE = pa.array(["-U", "-D"])
"""Kinds after which a key has no row. A -U without its +U is one only until the +U arrives."""


@dataclass(frozen=True)
class NormalizeKernel(ExpiringKernel):
    """Normalizes a changelog by key. ``input`` has ROW_KIND, the ``keys`` and the columns ``passed`` that are emitted.

    ``ttl``: the state of a key is dropped, without output, this many microseconds of processing time after its last
    change; 0: never. With a ``ttl`` an unchanged row counts as a change, so that operators above keep their state as
    long.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    passed: tuple[str, ...]
    ttl: int = 0

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self.passed), (ROW_KIND, pa.string())])

    def combine(self, rows: pa.Table) -> pa.Table:
        """The last row of each key, in order of arrival."""
        last = _last(dense_ids(rows, self.keys))
        return rows if len(last) == rows.num_rows else rows.take(pa.array(last))

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        rows = self.combine(rows)
        gone = pc.is_in(rows.column(ROW_KIND), value_set=_GONE).to_numpy(zero_copy_only=False)
        state = self._state(context)
        stored = state.load(rows.column(KEY_HASH).to_numpy())
        stored_row = places(rows, stored, self.keys)
        self._emit(rows.select(self.passed), stored.select(self.passed), stored_row, gone, context)
        others = np.ones(stored.num_rows, np.bool_)
        others[stored_row[stored_row >= 0]] = False
        new = self._kept(rows.filter(pa.array(~gone)), context)
        state.replace(pa.concat_tables([stored.filter(pa.array(others)), new]))
        self._living.close(state, context)

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, rows: pa.Table, stored: pa.Table, stored_row: Indices, gone: Flags, context: Context) -> None:
        """``stored_row``: the stored row with each row's key, -1 for none."""
        was = stored_row >= 0
        before, after = np.flatnonzero(was & gone), np.flatnonzero(~was & ~gone)
        updated = np.flatnonzero(was & ~gone)
        if not self.ttl:
            updated = updated[differ(stored.take(pa.array(stored_row[updated])), rows.take(pa.array(updated)))]
        parts = [
            _changes(rows, after, "+I"),
            _changes(stored, stored_row[updated], "-U"),
            _changes(rows, updated, "+U"),
            _changes(stored, stored_row[before], "-D"),
        ]
        order = np.argsort(np.concatenate([after, updated, updated, before]), kind="stable")
        if len(order):
            context.emit(pa.concat_tables(parts).take(pa.array(order)).cast(self.output))

    # --- state --------------------------------------------------------------------------------------------------

    def _kept(self, rows: pa.Table, context: Context) -> pa.Table:
        columns = [*rows.select(self._names).columns, *self._living.timers(rows.num_rows, context)]
        return pa.Table.from_arrays(columns, schema=self._stored)

    @cached_property
    def _names(self) -> list[str]:
        return list(dict.fromkeys((KEY_HASH, *self.keys, *self.passed)))

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self._names), *self._living.timer])


def _last(ids: Ids) -> Indices:
    """The last row of each key, in order."""
    last = np.zeros(ids.count, np.int64)
    np.maximum.at(last, ids.ids, np.arange(len(ids.ids)))
    return np.sort(last)


def _changes(rows: pa.Table, chosen: Indices, kind: str) -> pa.Table:
    return rows.take(pa.array(chosen, pa.int64())).append_column(ROW_KIND, pa.repeat(kind, len(chosen)))
