"""Kernels over changelogs: normalization of upsert changelogs, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.changes import SetKind
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context, Kernel
from sqlstream.udfs.keys import Ids, dense_ids, differ, places, retracted_rows
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import ExpiringKernel, TimeToLive

Indices = np.ndarray
Flags = np.ndarray

_GONE = pa.array(["-U", "-D"])
"""Kinds after which a key has no row. A -U without its +U is one only until the +U arrives."""


@dataclass(frozen=True)
class NormalizeKernel(ExpiringKernel):
    """The kernel that normalizes a changelog by primary key, as Flink's ChangelogNormalize: upserts become complete
    changes with the previous row. ``input`` has ROW_KIND, the ``keys`` and the columns ``passed`` that are emitted.

    ``ttl``: the state of a key is dropped, without output, this many microseconds of processing time after its last
    change; 0: never. With a ``ttl`` an unchanged row counts as a change, so that downstream operators store their state
    as long.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    passed: tuple[str, ...]
    ttl: int = 0

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self.passed), (ROW_KIND, pa.string())])

    def combine(self, rows: pa.Table) -> pa.Table:
        """Pre-aggregation before the shuffle: the last row of each key in the micro-batch, in order of arrival."""
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


# --- INTERSECT and EXCEPT of two changelogs ----------------------------------------------------------------------
# The state is the number of times that each input has each row. The changes of a micro-batch to these numbers determine
# how many times the row is emitted or retracted, as in Flink, which counts the rows of each input in an aggregate and
# repeats them with a table function.


_SIDES = ("__left", "__right")
"""BIGINT columns of a stored row: how many times each input has it."""


@dataclass(frozen=True)
class SetOperationKernel(Kernel):
    """The kernel of INTERSECT and EXCEPT. ``rows`` is the schema of both inputs: the fields, KEY_HASH and, for
    changelogs, ROW_KIND.

    ``updates``: results may be retracted. ``living``: the time to live of a row's counts after its last change.
    """

    kind: SetKind
    rows: pa.Schema
    living: TimeToLive
    updates: bool

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*self.rows, *([(ROW_KIND, pa.string())] if self.updates else [])])

    @property
    def ports(self) -> int:
        return 2

    @property
    def uses_processing_time(self) -> bool:
        return self.living.ttl > 0

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        changed, more = self._net(rows)
        state = KeyedState(context.store, "rows", self._stored)
        stored = state.load(changed.column(KEY_HASH).to_numpy())
        stored_row = places(changed, stored, self.rows.names)
        was = stored_row >= 0
        before = np.zeros_like(more)
        for side, name in enumerate(_SIDES):
            before[side, was] = stored.column(name).to_numpy()[stored_row[was]]
        after = before + more
        context.count(IGNORED, int(np.maximum(-after, 0).sum()))
        after = np.maximum(after, 0)
        self._emit(changed, self.kind.times(*after) - self.kind.times(*before), context)
        others = np.ones(stored.num_rows, np.bool_)
        others[stored_row[was]] = False
        timers = self.living.timers(changed.num_rows, context)
        now = pa.Table.from_arrays([*changed.columns, *map(pa.array, after), *timers], schema=self._stored)
        there = now.filter(pa.array(after.any(axis=0)))
        state.replace(pa.concat_tables([stored.filter(pa.array(others)), there]))
        self.living.close(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        state = KeyedState(context.store, "rows", self._stored)
        self.living.due(state, context)
        self.living.close(state, context)

    def _net(self, rows: Mapping[int, pa.Table]) -> tuple[pa.Table, np.ndarray]:
        """Each row that some side changes once, and how many more of it each side has."""
        names = [KEY_HASH, *self.rows.names]
        whole = pa.concat_tables([rows[port].select(names) for port in sorted(rows)])
        ids = dense_ids(whole, self.rows.names)
        more = np.zeros((2, ids.count), np.int64)
        start = 0
        for port in sorted(rows):
            gone, row_ids = retracted_rows(rows[port]), ids.ids[start : start + rows[port].num_rows]
            more[port] = np.bincount(row_ids, None if gone is None else np.where(gone, -1, 1), ids.count)
            start += len(row_ids)
        return whole.take(pa.array(ids.first)).replace_schema_metadata(None), more

    def _emit(self, rows: pa.Table, more: np.ndarray, context: Context) -> None:
        """Retractions, then additions: each row as often as it must."""
        for kind, times in (("-D", -more), ("+I", more)):
            chosen = np.repeat(np.arange(len(times)), np.maximum(times, 0))
            if len(chosen):
                chosen_rows = rows.select(self.rows.names).take(pa.array(chosen))
                kinds = [pa.repeat(kind, len(chosen))] if self.updates else []
                context.emit(pa.Table.from_arrays([*chosen_rows.columns, *kinds], schema=self.output))

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema(
            [(KEY_HASH, pa.int64()), *self.rows, *((name, pa.int64()) for name in _SIDES), *self.living.timer]
        )
