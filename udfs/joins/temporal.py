"""Temporal joins: each left row with the version of the right row of its key at the time of the left row, or in
processing time with the current one.

In event time a left row is stored until the watermark reaches its time, because older right rows may arrive until then.
The valid right row is the newest one that is not newer than the left row; a retraction (-U, -D) ends the validity of
the row of a key. Among right rows of the same time the last to arrive counts, or the first in the order of given
columns. As in Flink's TemporalRowTimeJoinOperator, a late left row is joined at once with the stored right rows.

The state holds the waiting left rows, and right rows by key. Of the right rows that the watermark has passed, each key
keeps the newest; the others are dropped in groups, a little later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.changes.stored_results import StoredResults
from sqlstream.udfs.expressions.tree import Expression, columns_read
from sqlstream.udfs.joins.pairs import Indices, Pairs, Side, Times, fulfilling, joinable, newest, numbered
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, ROW_KIND, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.keys import dense_ids, places
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import TimeToLive

TIME = "__row_time"
"""The column of either input with the time of the row, in microseconds."""

VALID = "__valid"
"""BOOLEAN column of stored right rows: false where the key has no row from this time on."""

SLACK = 60_000_000
"""Right rows that no left row can match any more are dropped in groups, up to this much event time later."""


class _Versions(NamedTuple):
    """Right rows, one per key and time, in order of the numbers of their keys (``ids``), then of their ``times``."""

    rows: pa.Table
    ids: Indices
    times: Times


@dataclass(frozen=True)
class TemporalJoinKernel(Kernel):
    """The kernel of a temporal join in event time.

    ``keys``: key columns of both inputs; NULL equals NULL in those that are ``null_safe``. ``outer``: a left row
    without a partner is emitted with NULLs. ``strict``: the right row must be older than the left row, not of the same
    time. ``first_by``: of several right rows of one time the partner is the first in the order of these columns, and of
    equal ones the first that arrived; with None it is the last that arrived. ``condition``: an additional condition on
    pairs. ``ttl``: a right row is dropped this many microseconds of processing time after its arrival; 0: never.
    ``identified_by``: the columns that identify a left row in a retraction (see ``SingleMatchResults``). Retractions
    wait for their time like the rows that they retract.
    """

    sides: tuple[Side, Side]
    outer: bool
    keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    strict: bool = False
    first_by: tuple[str, ...] | None = None
    condition: Expression | None = None
    ttl: int = 0
    identified_by: tuple[str, ...] = ()

    @property
    def ports(self) -> int:
        return 2

    @property
    def output(self) -> pa.Schema:
        return self._single_results.schema

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl > 0 or self.sides[0].ttl > 0

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        left, right = self._left(context), self._right(context)
        if 1 in rows:
            right.append(self._versions(rows[1], context))
        if 0 in rows:
            self._take(rows[0], left, right, context)
        self._close(left, right, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        left, right = self._left(context), self._right(context)
        rows = left.due(Domain.EVENT, watermark)
        ready = rows.column(TIME).to_numpy() <= watermark
        if ready.any():
            self._join(rows.filter(pa.array(ready)), right, context)
            left.replace(rows.filter(pa.array(~ready)))
            right.flush()
        self._drop_old(right, watermark)
        self._close(left, right, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        left, right = self._left(context), self._right(context)
        if self.ttl:
            self._living.forgotten(right, time)
        self._single_results.forget(time, context)
        self._close(left, right, context)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Counts the stored left rows, which are emitted when the watermark reaches their time."""
        yield from waits(Pending.ROWS, Domain.EVENT, self._left(context).load_all().column(TIME).to_numpy())

    # --- results --------------------------------------------------------------------------------------------------

    def _take(self, rows: pa.Table, left: KeyedState, right: KeyedState, context: Context) -> None:
        """Stores left rows until the watermark reaches their times."""
        columns = [rows.column(TIME if name == EVENT_TIMER else name) for name in self._left_schema.names]
        came = pa.table(columns, schema=self._left_schema)
        if not self.outer:
            came = came.filter(pa.array(joinable(came, self.keys, self.null_safe)))
        late = came.column(TIME).to_numpy() <= context.watermark
        if late.any():
            self._join(came.filter(pa.array(late)), right, context)
        left.append(came.filter(pa.array(~late)))

    def _join(self, left: pa.Table, right: KeyedState, context: Context) -> None:
        """Emits the results of some left rows, in order of time, then of arrival."""
        left = left.take(pa.array(np.argsort(left.column(TIME).to_numpy(), kind="stable")))
        kept = self._living.alive(right.load(left.column(KEY_HASH).to_numpy()), context)
        of_left, of_right = numbered(left, kept, self.keys)
        versions = self._in_order(kept, of_right)
        partner = newest(versions.ids, versions.times, of_left, left.column(TIME).to_numpy(), strict=self.strict)
        partner[~joinable(left, self.keys, self.null_safe)] = -1
        there = np.flatnonzero(partner >= 0)
        gone = ~np.array(versions.rows.column(VALID), np.bool_)[partner[there]]
        partner[there[gone]] = -1
        self._single_results.emit(left, versions.rows, partner, context)

    def _in_order(self, rows: pa.Table, ids: Indices) -> _Versions:
        """One right row for each key and time: the one that counts."""
        times = rows.column(TIME).to_numpy()
        order = np.lexsort((self._ranks(rows), times, ids))
        ids, times = ids[order], times[order]
        counts = _changes(ids) | _changes(times)
        return _Versions(rows.take(pa.array(order[counts])), ids[counts], times[counts])

    def _ranks(self, rows: pa.Table) -> Indices:
        """Numbers by which the least of the rows of one key and time counts."""
        as_they_came = np.arange(rows.num_rows)
        if self.first_by is None:
            return -as_they_came
        if not self.first_by:
            return as_they_came
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in self.first_by])
        ranks = np.empty(rows.num_rows, np.int64)
        ranks[np.asarray(order)] = as_they_came
        return ranks

    @cached_property
    def _single_results(self) -> SingleMatchResults:
        return SingleMatchResults(self.sides, self.keys, self.outer, self.condition, self.identified_by)

    # --- state ----------------------------------------------------------------------------------------------------

    def _versions(self, rows: pa.Table, context: Context) -> pa.Table:
        """Right rows in the schema of the state."""
        rows = rows.filter(pa.array(joinable(rows, self.keys, self.null_safe)))
        passed = np.maximum(rows.column(TIME).to_numpy(), context.watermark)
        own = [pa.array(~retracted(rows)), pa.array(_later(passed)), *self._living.timers(rows.num_rows, context)]
        kept = [rows.column(name) for name in self._right_schema.names[: -len(own)]]
        return pa.table([*kept, *own], schema=self._right_schema)

    def _drop_old(self, right: KeyedState, watermark: int) -> None:
        """Drops right rows that the watermark has passed, except for the newest of each key."""
        rows = right.due(Domain.EVENT, watermark)
        if not rows.num_rows:
            return
        ids, time = dense_ids(rows, self.keys).ids, rows.column(TIME).to_numpy()
        order = np.lexsort((self._ranks(rows), -time, ids))
        passed = order[time[order] <= watermark]
        stays = time > watermark
        stays[passed[_changes(ids[passed])]] = True
        timer = np.where(time > watermark, rows.column(EVENT_TIMER).to_numpy(), END_OF_TIME)
        column_index = rows.schema.get_field_index(EVENT_TIMER)
        right.replace(rows.set_column(column_index, EVENT_TIMER, pa.array(timer)).filter(pa.array(stays)))

    def _left(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "left", self._left_schema)

    def _right(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "right", self._right_schema)

    @cached_property
    def _left_schema(self) -> pa.Schema:
        return pa.schema([*self._single_results.kept(0, TIME), (EVENT_TIMER, pa.int64())])

    @cached_property
    def _right_schema(self) -> pa.Schema:
        own = [(VALID, pa.bool_()), (EVENT_TIMER, pa.int64()), *self._living.timer]
        return pa.schema([*self._single_results.kept(1, TIME, *(self.first_by or ())), *own])

    @property
    def _living(self) -> TimeToLive:
        return TimeToLive(self.ttl)

    def _close(self, left: KeyedState, right: KeyedState, context: Context) -> None:
        left.flush()
        right.flush()
        context.set_timer(Domain.EVENT, min(state.next_timer(Domain.EVENT) for state in (left, right)))
        if self.uses_processing_time:
            wakes = min(self._living.wakes(right, context), self._single_results.wakes(context))
            context.set_timer(Domain.PROCESSING, wakes)


def _later(time: Times) -> Times:
    """A timer after each time, the same one for many of them; none at the end of the input."""
    return np.where(time > END_OF_TIME - 2 * SLACK, END_OF_TIME, (time // SLACK + 1) * SLACK)


def _changes(values: np.ndarray) -> np.ndarray:
    """True for the first of each run of equal values."""
    begins_run = np.ones(len(values), np.bool_)
    begins_run[1:] = values[1:] != values[:-1]
    return begins_run


# --- results of joins with at most one partner per left row ---------------------------------------------------


_ALONE = "__alone"
"""BOOLEAN column of stored results: set where a row has no partner, and so no result."""

_RETRACTIONS = pa.array(["-U", "-D"])


@dataclass(frozen=True)
class SingleMatchResults:
    """Emits the results of joins in which each left row has at most one partner, in the order of the left rows.

    ``keys``: columns of both sides. ``outer``: a left row without a partner is emitted with NULLs. ``condition``: an
    additional condition on pairs. The output columns of the two sides have different names. Left rows with ROW_KIND may
    be retractions: each retracts a row that is equal in ``identified_by``, and the result of that row with the partner
    that it had. To know this partner, it is stored for the ``ttl`` of the left side.
    """

    sides: tuple[Side, Side]
    keys: tuple[str, ...]
    outer: bool
    condition: Expression | None
    identified_by: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        columns = [side.input.field(own).with_name(name) for side in self.sides for name, own in side.outputs]
        return pa.schema([*columns, *([(ROW_KIND, pa.string())] if self.updates else [])])

    @property
    def updates(self) -> bool:
        """True if results may be retracted later, so that they have ROW_KIND."""
        return self.sides[0].updates

    def kept(self, port: int, *more: str) -> list[pa.Field]:
        """The fields of the input ``port`` (0: left, 1: right) that must be stored until its rows are emitted; ``more``
        names additional columns to store.
        """
        side = self.sides[port]
        read = (*self.keys, *more, *columns_read(self.condition, port), *(own for _, own in side.outputs))
        kind = (ROW_KIND,) if port == 0 and self.updates else ()
        return [side.input.field(name) for name in dict.fromkeys((KEY_HASH, *read, *kind))]

    def emit(self, left: pa.Table, right: pa.Table, partner: Indices, context: Context) -> None:
        """Emits the results of the rows ``left``. ``partner`` has for each the index in ``right`` of the row with the
        same key, -1 for none.
        """
        matches = self._fulfilling(left, right, partner)
        if self.updates:
            context.emit(self._changes(left, right, matches, context))
            return
        if not self.outer:
            left, matches = left.filter(pa.array(matches >= 0)), matches[matches >= 0]
        indices = pa.array(matches, mask=matches < 0)
        columns = [left.column(own) for _, own in self.sides[0].outputs]
        columns += [right.column(own).take(indices) for _, own in self.sides[1].outputs]
        context.emit(pa.Table.from_arrays(columns, schema=self.schema))

    def forget(self, time: int, context: Context) -> None:
        """Drops the stored partners of left rows whose time to live has passed at the processing time ``time``
        (microseconds).
        """
        if self.sides[0].ttl:
            self._stored_results.forget(time, context)

    def wakes(self, context: Context) -> int:
        """The processing time, in microseconds, at which ``forget`` must be called next; END_OF_TIME for never."""
        return self._stored_results.wakes(context) if self.sides[0].ttl else END_OF_TIME

    def _changes(self, left: pa.Table, right: pa.Table, partner: Indices, context: Context) -> pa.Table:
        """The changes of the results. Rows without a partner are stored too, so that their retraction is recognized."""
        of_left = [left.column(name) for name in (KEY_HASH, *self._own)]
        indices = pa.array(partner, mask=partner < 0)
        of_right = [right.column(own).take(indices) for _, own in self.sides[1].outputs]
        alone = [] if self.outer else [pa.array(np.ones(len(partner), np.bool_), mask=partner >= 0)]
        columns = [*of_left, *of_right, *alone, left.column(ROW_KIND)]
        changes = self._stored_results.results(pa.table(columns, schema=self._stored_results.columns), context)
        if not self.outer:
            changes = changes.filter(pc.is_null(changes.column(_ALONE)))
        names = [*(own for _, own in self.sides[0].outputs), *(name for name, _ in self.sides[1].outputs), ROW_KIND]
        return pa.Table.from_arrays([changes.column(name) for name in names], schema=self.schema)

    @cached_property
    def _own(self) -> list[str]:
        """The columns of left rows that are emitted or identify the row."""
        return list(dict.fromkeys((*(own for _, own in self.sides[0].outputs), *self.identified_by)))

    @cached_property
    def _stored_results(self) -> StoredResults:
        left, right = self.sides
        fields = [left.input.field(name) for name in (KEY_HASH, *self._own)]
        fields += [right.input.field(own).with_name(name) for name, own in right.outputs]
        alone = [] if self.outer else [pa.field(_ALONE, pa.bool_())]
        columns = pa.schema([*fields, *alone, pa.field(ROW_KIND, pa.string())])
        return StoredResults(columns, self.identified_by, TimeToLive(left.ttl), None if self.outer else _ALONE)

    def _fulfilling(self, left: pa.Table, right: pa.Table, partner: Indices) -> Indices:
        if self.condition is None:
            return partner
        rows = np.flatnonzero(partner >= 0)
        matches = np.full(len(partner), -1, np.int64)
        for pairs in fulfilling(iter([Pairs(rows, partner[rows])]), self.condition, left, right):
            matches[pairs.left] = pairs.right
        return matches


def retracted(rows: pa.Table) -> np.ndarray:
    """One boolean per right row: true for retractions (-U, -D), after which their key has no valid row."""
    if ROW_KIND not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.array(pc.is_in(rows.column(ROW_KIND), value_set=_RETRACTIONS))


# --- processing time: each left row with the current right row of its key -------------------------------------
# The semantics are those of Flink's TemporalProcessTimeJoinOperator, except that the right rows of a micro-batch are
# applied before its left rows. The state is the current right row of each key.


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
        return self._single_results.schema

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
            self._single_results.emit(left, stored, self._partners(left, stored), context)
        self._close(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        state = KeyedState(context.store, "rows", self._stored)
        if self.ttl:
            self._living.forgotten(state, time)
        self._single_results.forget(time, context)
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
        columns = [there.column(field.name) for field in self._single_results.kept(1)]
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
            wakes = min(self._living.wakes(state, context), self._single_results.wakes(context))
            context.set_timer(Domain.PROCESSING, wakes)

    @cached_property
    def _single_results(self) -> SingleMatchResults:
        return SingleMatchResults(self.sides, self.keys, self.outer, self.condition, self.identified_by)

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*self._single_results.kept(1), *self._living.timer])

    @property
    def _living(self) -> TimeToLive:
        return TimeToLive(self.ttl)
