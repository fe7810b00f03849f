"""Deduplication: the first or the last row of each key, by time or by arrival.

The semantics are those of Flink's Deduplicate (ProcTimeDeduplicateKeepFirstRowFunction etc.): the first row by arrival
is final; all others are updated when an earlier, or later, row arrives, however late. Among rows of the same time,
arrival decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Context, Domain
from sqlstream.udfs.keys import dense_ids, differ, in_order, places
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import ExpiringKernel
from sqlstream.udfs.top_n.order import Flags, Numbers


@dataclass(frozen=True)
class DeduplicateKernel(ExpiringKernel):
    """The kernel of deduplication: one row per key. ``input`` has ``keys``, the columns ``passed`` that are emitted,
    and ``time``, a BIGINT column in microseconds by which rows are ordered; None: by arrival.

    ``last``: keep the last row of a key, otherwise the first. ``before``: emit the previous row of a changed result as
    -U. ``ttl``: a key is dropped, without output, this many microseconds of processing time after its row arrived; 0:
    never. ``closes``: only for first rows by arrival, a column with the watermark (microseconds) from which on the key
    is not stored; rows of the key that arrive after that are all emitted.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    passed: tuple[str, ...]
    time: str | None
    last: bool
    before: bool = True
    ttl: int = 0
    closes: str | None = None

    @cached_property
    def output(self) -> pa.Schema:
        kind = [] if self.is_final else [(ROW_KIND, pa.string())]
        return pa.schema([*(self.input.field(name) for name in self.passed), *kind])

    @property
    def is_final(self) -> bool:
        """True if the first row to arrive is the result for ever, so that nothing is retracted."""
        return self.time is None and not self.last

    def combine(self, rows: pa.Table) -> pa.Table:
        """Pre-aggregates rows before the shuffle: keeps of each key only the first or last row, in order of arrival."""
        ids = dense_ids(rows, self.keys)
        if ids.count == rows.num_rows:
            return rows
        chosen = np.arange(rows.num_rows)
        if self.time is not None:
            time = _times(rows, self.time)
            best = np.full(ids.count, np.iinfo(np.int64).min if self.last else np.iinfo(np.int64).max)
            (np.maximum if self.last else np.minimum).at(best, ids.ids, time)
            chosen = np.flatnonzero(time == best[ids.ids])
        if not self.last:
            chosen = chosen[::-1]
        row = np.empty(ids.count, np.int64)
        row[ids.ids[chosen]] = chosen  # of several assignments the last one wins
        return rows.take(pa.array(np.sort(row)))

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        rows = self.combine(rows)
        state = self._state(context)
        stored = self._living.alive(state.load(rows.column(KEY_HASH).to_numpy()), context)
        stored_row = places(rows, stored.rename_columns(self._read.names), self.keys)
        takes = self._takes(rows, stored, stored_row)
        is_open = self._is_open(rows, context)
        self._emit(rows, stored, stored_row, np.flatnonzero(takes | ~is_open), context)
        kept = takes & is_open
        new = self._kept(rows if kept.all() else rows.filter(pa.array(kept)), context)
        if self.is_final and not self.ttl:
            state.append(new)
        elif new.num_rows:
            stays = np.ones(stored.num_rows, np.bool_)
            stays[stored_row[takes & (stored_row >= 0)]] = False
            state.replace(pa.concat_tables([stored.filter(pa.array(stays)), new]))
        self._close(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        state = self._state(context)
        rows = state.due(Domain.EVENT, watermark)
        if rows.num_rows:
            state.replace(rows.filter(pc.greater(rows.column(EVENT_TIMER), watermark)))
        self._close(state, context)

    def _is_open(self, rows: pa.Table, context: Context) -> Flags:
        """True for rows whose key is still of interest."""
        if self.closes is None:
            return np.ones(rows.num_rows, np.bool_)
        return np.asarray(rows.column(self.closes).to_numpy() > context.watermark, np.bool_)

    # --- results ------------------------------------------------------------------------------------------------

    def _takes(self, rows: pa.Table, stored: pa.Table, stored_row: Numbers) -> Flags:
        """True for rows that are now that of their key."""
        is_new = stored_row < 0
        if self.time is None or not stored.num_rows:
            return np.ones(len(stored_row), np.bool_) if self.last else is_new
        time, before = _times(rows, self.time), _times(stored, self.time)[stored_row]
        return np.asarray(is_new | ((before <= time) if self.last else (time < before)), np.bool_)

    def _emit(self, rows: pa.Table, stored: pa.Table, stored_row: Numbers, takes: Numbers, context: Context) -> None:
        passed_rows = rows.select(self.passed)
        if self.is_final:
            if len(takes):
                context.emit(passed_rows.take(pa.array(takes)).cast(self.output))
            return
        was = stored.select(self.passed)
        updates = stored_row[takes] >= 0
        if not self.ttl and updates.any():
            # With a time to live an equal row is a change, so that operators above keep it as long.
            again = takes[updates]
            same = ~differ(was.take(pa.array(stored_row[again])), passed_rows.take(pa.array(again)))
            takes = np.setdiff1d(takes, again[same], assume_unique=True)
            updates = stored_row[takes] >= 0
        if not len(takes):
            return
        after = passed_rows.take(pa.array(takes)).append_column(ROW_KIND, pc.if_else(pa.array(updates), "+U", "+I"))
        if self.before and updates.any():
            old = was.take(pa.array(stored_row[takes[updates]]))
            old = old.append_column(ROW_KIND, pa.repeat("-U", old.num_rows))
            order = in_order([np.concatenate([takes[updates], takes])])
            after = pa.concat_tables([old, after]).take(pa.array(order))
        context.emit(after.cast(self.output))

    # --- state --------------------------------------------------------------------------------------------------

    def _kept(self, rows: pa.Table, context: Context) -> pa.Table:
        closes = [rows.column(self.closes)] if self.closes is not None else []
        columns = [*rows.select(self._names).columns, *self._living.timers(rows.num_rows, context), *closes]
        return pa.Table.from_arrays(columns, schema=self._stored)

    @cached_property
    def _names(self) -> list[str]:
        """The columns to keep. Of the first row in order of arrival only its existence matters."""
        read = () if self.is_final else (*((self.time,) if self.time is not None else ()), *self.passed)
        return list(dict.fromkeys((KEY_HASH, *self.keys, *read)))

    @cached_property
    def _stored(self) -> pa.Schema:
        """The columns of the state. Of the first row in order of arrival, the keys alone are stored, under names that
        do not depend on which other columns the query has: those may change."""
        if not self.is_final:
            return self._read
        names = {name: f"__key_{number}" for number, name in enumerate(self.keys)}
        return pa.schema([field.with_name(names.get(field.name, field.name)) for field in self._read])

    @cached_property
    def _read(self) -> pa.Schema:
        """The same columns under the names that they have in the input, which earlier builds stored."""
        closes = [(EVENT_TIMER, pa.int64())] if self.closes is not None else []
        return pa.schema([*(self.input.field(name) for name in self._names), *self._living.timer, *closes])

    def _close(self, state: KeyedState, context: Context) -> None:
        self._living.close(state, context)
        if self.closes is not None:
            context.set_timer(Domain.EVENT, state.next_timer(Domain.EVENT))

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._stored, formerly=self._read)


def _times(rows: pa.Table, column: str) -> Numbers:
    """NULL is before all times."""
    times = rows.column(column)
    return np.asarray(times.fill_null(np.iinfo(np.int64).min) if times.null_count else times, np.int64)
