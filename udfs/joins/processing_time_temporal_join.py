"""Temporal join in processing time: joins each left row with the current right row of its key.

The semantics are those of Flink's TemporalProcessTimeJoinOperator, except that the right rows of a micro-batch are
applied before its left rows. The state is the current right row of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.tree import Expression
from sqlstream.udfs.joins.pairs import Indices, Side, joinable, numbered
from sqlstream.udfs.joins.temporal import SingleMatchResults, retracted
from sqlstream.udfs.kernel import KEY_HASH, Context, Domain, Kernel
from sqlstream.udfs.keys import dense_ids, places
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import TimeToLive


@dataclass(frozen=True)
class ProcessingTimeTemporalJoinKernel(Kernel):
    """The kernel of a temporal join in processing time.

    ``keys``: key columns of both inputs; NULL equals NULL in those that are ``null_safe``. ``outer``: a left row
    without a partner is emitted with NULLs. ``condition``: an additional condition on pairs. ``ttl``: a right row is
    dropped this many microseconds of processing time after its arrival; 0: never. ``identified_by``: the columns that
    identify a left row in a retraction (see ``SingleMatchResults``).
    """

    sides: tuple[Side, Side]
    outer: bool
    keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    condition: Expression | None = None
    ttl: int = 0
    identified_by: tuple[str, ...] = ()

    @property
    def ports(self) -> int:
        return 2

    @property
    def output(self) -> pa.Schema:
        return self._beside.schema

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl > 0 or self.sides[0].ttl > 0

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        state = KeyedState(context.store, "rows", self._stored)
        hashes = np.concatenate([of_port.column(KEY_HASH).to_numpy() for of_port in rows.values()])
        stored = self._living.alive(state.load(hashes), context)
        if 1 in rows:
            stored = self._changed(stored, rows[1], context)
            state.replace(stored)
        if 0 in rows:
            left = rows[0]
            self._beside.emit(left, stored, self._partners(left, stored), context)
        self._close(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        state = KeyedState(context.store, "rows", self._stored)
        if self.ttl:
            self._living.forgotten(state, time)
        self._beside.forget(time, context)
        self._close(state, context)

    def _changed(self, stored: pa.Table, rows: pa.Table, context: Context) -> pa.Table:
        """The stored right rows after the last change of each key."""
        rows = rows.filter(pa.array(joinable(rows, self.keys, self.null_safe)))
        ids = dense_ids(rows, self.keys)
        last = np.zeros(ids.count, np.int64)
        np.maximum.at(last, ids.ids, np.arange(rows.num_rows))
        rows = rows.take(pa.array(last))
        stays = np.ones(stored.num_rows, np.bool_)
        stored_row = places(rows, stored, self.keys)
        stays[stored_row[stored_row >= 0]] = False
        there = rows.filter(pa.array(~retracted(rows)))
        columns = [there.column(field.name) for field in self._beside.kept(1)]
        new = pa.table([*columns, *self._living.timers(there.num_rows, context)], schema=self._stored)
        return pa.concat_tables([stored.filter(pa.array(stays)), new])

    def _partners(self, left: pa.Table, stored: pa.Table) -> Indices:
        of_left, of_known = numbered(left, stored, self.keys)
        row_of_key = np.full(left.num_rows + stored.num_rows, -1, np.int64)
        row_of_key[of_known] = np.arange(stored.num_rows)
        partner = row_of_key[of_left]
        partner[~joinable(left, self.keys, self.null_safe)] = -1
        return partner

    def _close(self, state: KeyedState, context: Context) -> None:
        state.flush()
        if self.uses_processing_time:
            wakes = min(self._living.wakes(state, context), self._beside.wakes(context))
            context.set_timer(Domain.PROCESSING, wakes)

    @cached_property
    def _beside(self) -> SingleMatchResults:
        return SingleMatchResults(self.sides, self.keys, self.outer, self.condition, self.identified_by)

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*self._beside.kept(1), *self._living.timer])

    @property
    def _living(self) -> TimeToLive:
        return TimeToLive(self.ttl)
