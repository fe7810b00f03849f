"""OVER with any order: functions over frames of the current rows of a key, as a changelog.

As in RisingWave's general OVER window. All rows of a key are state, each with the results with which it was emitted.
For each key that a micro-batch changes, all results are computed again, and the differences are emitted: deleted rows
(-D), updated rows (-U, +U) and new rows (+I).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.joins.stored_side import Changes, found_among, net
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context
from sqlstream.udfs.keys import differ
from sqlstream.udfs.over.functions import OverFunction, columns_of
from sqlstream.udfs.over.line import Indices
from sqlstream.udfs.over.whole import WholeKeys, lined_up
from sqlstream.udfs.state.buckets import PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import ExpiringKernel
from sqlstream.udfs.top_n.order import Order

_KINDS = pa.array(["-D", "-U", "+U", "+I"], pa.string())


@dataclass(frozen=True)
class UpdatingOverKernel(ExpiringKernel):
    """The kernel of OVER with any ORDER BY, whose results are updated when other rows change them. ``input`` has the
    ``keys``, the columns of the ``order``, those that ``functions`` read, those ``passed``, which are emitted before
    the results, and ROW_KIND if rows may be retracted. Rows of equal order are peers, in order of arrival; without an
    order all rows of a key are peers.

    ``ttl``: a key is dropped, without output, this many microseconds of processing time after its rows last changed; 0:
    never.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    passed: tuple[str, ...]
    functions: tuple[OverFunction, ...]
    ttl: int = 0

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*map(self.input.field, self.passed), *self._results, pa.field(ROW_KIND, pa.string())])

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        changes = net(rows.replace_schema_metadata(None), self._kept, repeats=False)
        state = self._state(context)
        hashes = np.concatenate([images.column(KEY_HASH).to_numpy() for images in changes])
        if len(hashes):
            self._change(state, self._living.alive(state.load(hashes), context), changes, context)
        self._living.close(state, context)

    # --- what changes -------------------------------------------------------------------------------------------

    def _change(self, state: KeyedState, stored: pa.Table, changes: Changes, context: Context) -> None:
        gone, is_there = found_among(stored, changes.removed, self._kept)
        if not is_there.all():
            context.count(IGNORED, int(np.count_nonzero(~is_there)))
        if not gone.any() and not changes.added.num_rows:
            return
        stays = np.flatnonzero(~gone)
        left = stored.take(pa.array(stays)).select(self._kept)
        rows, line, order = lined_up(pa.concat_tables([left, changes.added]).combine_chunks(), self.keys, self.order)
        results = self._computed.results(rows, line)
        is_known = order < len(stays)
        before = stays[order[is_known]]
        self._emit(stored, np.flatnonzero(gone), rows, results, is_known, before, context)
        columns = [*rows.columns, *results.columns, *self._timers(stored, rows, is_known, before, changes, context)]
        state.replace(pa.Table.from_arrays(columns, schema=self._stored))

    def _emit(
        self,
        stored: pa.Table,
        gone: Indices,
        rows: pa.Table,
        results: pa.Table,
        is_known: np.ndarray,
        before: Indices,
        context: Context,
    ) -> None:
        """``before``: the stored row of each known one. Retractions come before what takes their place."""
        names = self._results_names
        stored_rows = np.flatnonzero(is_known)
        old, new = stored.select(names).take(pa.array(before)), results.take(pa.array(stored_rows))
        changed = np.flatnonzero(differ(old, new))
        added = np.flatnonzero(~is_known)
        emitted = pa.concat_tables([rows.select(self.passed), stored.select(self.passed)])
        shown = pa.concat_tables([results, stored.select(names)])
        updated, retracted = stored_rows[changed], before[changed] + rows.num_rows
        of_update = np.stack((retracted, updated), axis=1).ravel()
        indices = np.concatenate((gone + rows.num_rows, of_update, added))
        if not len(indices):
            return
        numbers = (np.zeros(len(gone), np.int64), np.tile([1, 2], len(changed)), np.full(len(added), 3))
        kinds = _KINDS.take(pa.array(np.concatenate(numbers)))
        columns = [*emitted.take(pa.array(indices)).columns, *shown.take(pa.array(indices)).columns]
        context.emit(pa.Table.from_arrays([*columns, kinds], schema=self.output))

    # --- results ------------------------------------------------------------------------------------------------

    @cached_property
    def _computed(self) -> WholeKeys:
        return WholeKeys(self.input, self.functions)

    # --- state --------------------------------------------------------------------------------------------------

    def _timers(
        self,
        stored: pa.Table,
        rows: pa.Table,
        is_known: np.ndarray,
        before: Indices,
        changes: Changes,
        context: Context,
    ) -> list[pa.Array]:
        """PROCESSING_TIMER of the rows, where they have one; those of keys that changed live anew."""
        if not self.ttl:
            return []
        timers = np.full(rows.num_rows, self._living.ends(context), np.int64)
        hashes = np.concatenate([images.column(KEY_HASH).to_numpy() for images in changes])
        others = ~np.isin(rows.column(KEY_HASH).to_numpy()[is_known], hashes)
        timers[np.flatnonzero(is_known)[others]] = stored.column(PROCESSING_TIMER).to_numpy()[before[others]]
        return [pa.array(timers)]

    @cached_property
    def _kept(self) -> list[str]:
        """The columns of the input that keys, order, functions and results read."""
        read = [*self.passed, *(name for function in self.functions for name in columns_of(function))]
        return list(dict.fromkeys((KEY_HASH, *self.keys, *(o.column for o in self.order), *read)))

    @cached_property
    def _results(self) -> list[pa.Field]:
        return [function.field for function in self.functions]

    @cached_property
    def _results_names(self) -> list[str]:
        return [field.name for field in self._results]

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*map(self.input.field, self._kept), *self._results, *self._living.timer])
