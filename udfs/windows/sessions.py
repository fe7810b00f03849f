"""Windows that merge: in the general operator, where the rows of a batch join sessions and sessions merge, and the
kernel of sessions that fire once.

One pass joins all rows at once. Where the order of arrival matters, because rows fire sessions that merge, or because
some rows find a session closed and others do not, the rows of such keys are processed one after another, for all keys
at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners import LATE, Assigned, Session, Sessions, Windows, late_windows, merge_sessions
from sqlstream.udfs.assigners import Windows as Keyed
from sqlstream.udfs.assigners.assigner import MILLISECOND
from sqlstream.udfs.kernel import KEY_HASH, NO_WATERMARK, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.triggers.trigger import LAST_MOMENT, Run
from sqlstream.udfs.windows.emission import Lateness, StoredColumns, bounds, ranks_of
from sqlstream.udfs.windows.instances import END, START, Instances, Touched, joined
from sqlstream.udfs.windows.ranges import change_counts, numbered, row_counts, stable_order, with_row_counts

if TYPE_CHECKING:
    from sqlstream.udfs.windows.operator import WindowCall

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Merged(Touched):
    """The window instances that result from merging sessions. ``key`` is, for each instance, the index of its key."""

    key: Values


class Arrived(NamedTuple):
    """New rows in order of arrival: for each its index in the batch, the index of its key, and its own window."""

    row: Values
    key: Values
    start: Values
    end: Values

    def at(self, index: Values) -> Arrived:
        """The rows with these indices."""
        return Arrived(*(column[index] for column in self))

    @property
    def windows(self) -> Keyed:
        """The rows' own windows, before merging."""
        return Keyed(self.key, self.start, self.end)


def merge_rows(call: WindowCall, rows: pa.Table, assigned: Assigned, loaded: pa.Table) -> Merged:
    """Adds the rows of a batch to the stored sessions of their keys, merges the sessions that they connect, and
    collects the results that they fire. ``assigned``: the own window of each row. ``loaded``: the table of stored
    instances. Returns the sessions of these keys as they are then.
    """
    names = list(call.kernel.keys)
    keys = dense_ids(joined(loaded.select(names), rows.select(names)), names).ids
    of_row = keys[loaded.num_rows :]
    rows = call.held.numbered(rows, of_row, loaded, keys[: loaded.num_rows])
    is_merged = np.isin(keys[: loaded.num_rows], of_row)
    stored = np.flatnonzero(is_merged)
    merged = Merged(call.kernel.layout.decode(loaded.take(stored)), stored, is_merged, keys[stored])
    arrived = Arrived(assigned.row, of_row[assigned.row], assigned.start, assigned.end)
    ordered = _ordered_keys(call, merged, arrived)
    one_by_one = ordered[arrived.key]
    _pass(call, rows, merged, arrived.at(~one_by_one))
    turns = arrived.at(one_by_one)
    rank = ranks_of(turns.key)
    for turn in range(int(rank.max(initial=-1)) + 1):
        _pass(call, rows, merged, turns.at(rank == turn))
    return merged


def _sessions(call: WindowCall, merged: Merged, arrived: Arrived) -> Sessions:
    has_lateness = call.kernel.assigner.domain is Domain.EVENT
    watermark = call.context.watermark if has_lateness else NO_WATERMARK
    stored = Keyed(merged.key, merged.instances.start, merged.instances.end)
    return merge_sessions(stored, arrived.windows, watermark, call.kernel.lateness.allowed)


# --- order ----------------------------------------------------------------------------------------------------


def _ordered_keys(call: WindowCall, merged: Merged, arrived: Arrived) -> Values:
    """True for keys whose rows must be processed one after another."""
    ordered = np.zeros(int(max(merged.key.max(initial=-1), arrived.key.max(initial=-1))) + 1, bool)
    trigger = call.kernel.trigger
    if not (trigger.looks_at_rows or trigger.looks_at_windows or _closed(call, arrived.end).any()):
        return ordered
    growth = GrownSessions.of(_sessions(call, merged, arrived), merged, arrived)
    _, high, joins = growth.bounds
    bridged = growth.sources > 1
    bridged[growth.session[~joins]] = True
    # The merged sessions are not known yet, but no row's own window ends after its session.
    closed = _closed(call, np.where(bridged[growth.session], arrived.end[growth.order], high))
    some, every = np.zeros(growth.count, bool), np.ones(growth.count, bool)
    np.logical_or.at(some, growth.session, closed)
    np.logical_and.at(every, growth.session, closed)
    matters = (bridged & (some | trigger.looks_at_rows)) | (some & ~every) | trigger.looks_at_windows
    ordered[growth.key[matters]] = True
    return ordered


def _closed(call: WindowCall, end: Values) -> Values:
    """True for ends that the watermark has reached."""
    if call.kernel.assigner.domain is not Domain.EVENT:
        return np.zeros(len(end), bool)
    closed: Values = call.context.watermark >= end - LAST_MOMENT
    return closed


@dataclass(frozen=True)
class GrownSessions:
    """The sessions to which a batch adds rows, in the order in which their first new rows arrived.

    ``order``: the indices of the new rows, sorted by session and arrival; ``session``: for each of them the index of
    its session. For each session: ``first`` is the index of its first new row, ``sources`` the number of stored
    sessions that merge into it, ``source`` the index of one of these or -1. ``number``: for each session of these keys,
    its index in this object, -1 if it got no rows.
    """

    merged: Merged
    arrived: Arrived
    windows: Keyed
    number: Values
    first: Values
    sources: Values
    source: Values
    order: Values
    session: Values

    @staticmethod
    def of(sessions: Sessions, merged: Merged, arrived: Arrived) -> GrownSessions:
        """Returns those of the ``sessions`` to which new rows have been added."""
        in_time = np.flatnonzero(sessions.row != LATE)
        session = sessions.row[in_time]
        first = np.full(len(sessions.windows.start), len(arrived.row))
        first[session[::-1]] = in_time[::-1]
        touched = np.flatnonzero(first < len(arrived.row))
        touched = touched[np.argsort(first[touched])]
        number = np.full(len(first), -1)
        number[touched] = np.arange(len(touched))
        order = stable_order(number[session], len(touched))
        source = np.full(len(first), -1)
        source[sessions.stored] = np.arange(len(sessions.stored))
        windows = Keyed(*(column[touched] for column in sessions.windows))
        sources = np.bincount(sessions.stored, minlength=len(first))
        return GrownSessions(
            merged, arrived, windows, number, first[touched], sources[touched], source[touched], in_time[order],
            number[session][order],
        )  # fmt: skip

    @property
    def count(self) -> int:
        """The number of sessions that get rows."""
        return len(self.first)

    @property
    def key(self) -> Values:
        """For each session the index of its key."""
        key: Values = self.windows.key
        return key

    @cached_property
    def lengths(self) -> Values:
        """The number of new rows of each session."""
        lengths: Values = np.bincount(self.session, minlength=self.count)
        return lengths

    @property
    def starts(self) -> Values:
        """For each session the position of its first row in ``order``."""
        starts: Values = np.cumsum(self.lengths) - self.lengths
        return starts

    @cached_property
    def bounds(self) -> tuple[Values, Values, Values]:
        """Returns three arrays with one value per row of ``order``: the start and the end of its session, in
        microseconds, once the row was added; and whether the row's own window touches the session as it was before.
        """
        start, end = self.arrived.start[self.order], self.arrived.end[self.order]
        at_first = self._at_first(start, end)
        low = _running(np.minimum, start, at_first[0], self.lengths)
        high = _running(np.maximum, end, at_first[1], self.lengths)
        before_low, before_high = np.roll(low, 1), np.roll(high, 1)
        before_low[self.starts], before_high[self.starts] = at_first
        return low, high, (start <= before_high) & (before_low <= end)

    def _at_first(self, start: Values, end: Values) -> tuple[Values, Values]:
        """The bounds before the first row: of the session that was there, of its row, or of all that become one."""
        first_start, first_end = start[self.starts], end[self.starts]
        one, several = self.sources == 1, self.sources > 1
        first_start[one] = self.merged.instances.start[self.source[one]]
        first_end[one] = self.merged.instances.end[self.source[one]]
        first_start[several], first_end[several] = self.windows.start[several], self.windows.end[several]
        return first_start, first_end


def _running(extreme: np.ufunc, values: Values, first: Values, lengths: Values) -> Values:
    """The extreme of each stretch of values up to each place, and of the stretch's ``first``."""
    ordered, rank = np.unique(np.concatenate([values, first]), return_inverse=True)
    of_value, of_first = rank[: len(values)], rank[len(values) :]
    # Ranks shift each range to a level of its own, so that one accumulation serves all of them.
    level = np.repeat(np.arange(len(lengths)) * len(ordered), lengths)
    level = level if extreme is np.maximum else -level
    at_least = extreme(of_value, np.repeat(of_first, lengths)) + level
    extremes: Values = ordered[extreme.accumulate(at_least) - level]
    return extremes


# --- passes ---------------------------------------------------------------------------------------------------


def _pass(call: WindowCall, rows: pa.Table, merged: Merged, arrived: Arrived) -> None:
    """Joins rows whose order does not matter, and fires what they fire."""
    if len(arrived.row) == 0:
        return
    sessions = _sessions(call, merged, arrived)
    late = arrived.at(sessions.row == LATE)
    call.kernel.lateness.report(rows.take(late.row), late.start, late.end, call.context)
    growth = GrownSessions.of(sessions, merged, arrived)
    groups = growth.number[sessions.stored]
    # Sessions merge in order of their starts, which does not depend on the order in which they are stored.
    source = np.flatnonzero(groups >= 0)
    source = source[np.argsort(merged.instances.start[source], kind="stable")]
    groups = groups[source]
    keys = rows.select([KEY_HASH, *call.kernel.keys]).take(arrived.row[growth.first])
    joint = _joined(call, growth, merged.instances.at(source), groups, keys)
    starts = growth.starts
    windows, own_start = call.windows(joint), arrived.start[growth.order]
    run = Run(rows, arrived.row[growth.order], starts, starts + growth.lengths, windows, own_start)
    call.fire_rows(joint, run, run.row, lambda: growth.bounds[:2])
    stored_row = np.full(growth.count, -1)
    stored_row[groups[::-1]] = merged.stored_row[source[::-1]]
    _replace(merged, source, joint, growth.key, stored_row)


def _joined(call: WindowCall, growth: GrownSessions, sources: Instances, groups: Values, keys: pa.Table) -> Instances:
    """One instance per session, merged from the stored ones.

    If several of them had emitted a result, these results are retracted; if one had, the session takes it over.
    """
    held = call.held.merge(sources, groups, growth.count)
    joint = call.kernel.layout.fresh(keys, growth.windows.start, growth.windows.end, held)
    joint.trigger = call.kernel.trigger.merge(sources.trigger, groups, call.windows(sources), call.windows(joint))
    np.logical_or.at(joint.filled, groups, sources.filled)
    np.maximum.at(joint.panes, groups, sources.panes)
    np.add.at(joint.rows, groups, sources.rows)
    alone = np.bincount(groups[sources.emitted], minlength=growth.count)[groups] == 1
    retracted = np.flatnonzero(sources.emitted & ~alone)
    if len(retracted):
        when = growth.arrived.row[growth.first[groups[retracted]]]
        call.emitted.append(call.kernel.emission.retract(sources, retracted, when))
    kept = np.flatnonzero(sources.emitted & alone)
    joint.keep_last(groups[kept], sources.last.take(kept), np.ones(len(kept), bool))
    return joint


def _replace(merged: Merged, source: Values, joint: Instances, key: Values, stored_row: Values) -> None:
    kept = np.ones(merged.instances.count, bool)
    kept[source] = False
    merged.instances = merged.instances.at(kept).followed_by(joint)
    merged.key = np.concatenate([merged.key[kept], key])
    merged.stored_row = np.concatenate([merged.stored_row[kept], stored_row])


# --- sessions that fire once, when the clock closes them ------------------------------------------------------
# The state has one row per session; a batch costs one pass over its rows and over the sessions of their keys. As in
# Flink, retracted rows extend a session just as inserted rows do; a session whose rows were all retracted has no
# result.
#
# With an allowed lateness, late rows fire sessions again one after another; that is left to the general operator. Here
# a late row that touches a live session joins it, and all others are late.


class Live(NamedTuple):
    """The open sessions on which one call works: their ``windows``, and in ``held`` the accumulators of their rows."""

    windows: Windows
    held: pa.Table


@dataclass(frozen=True)
class SessionKernel(Kernel):
    """The kernel of session windows that close after a gap without rows, and by nothing else. ``input``: the schema of
    the rows without KEY_HASH, the hash of the key that every kernel's input has.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    assigner: Session
    function: Aggregates
    lateness: Lateness = field(default_factory=Lateness)

    def __post_init__(self) -> None:
        assert self.lateness.allowed == 0, "late rows fire nothing here"

    @property
    def output(self) -> pa.Schema:
        return StoredColumns(self.input, self.keys, self.function).output

    @property
    def late_output(self) -> pa.Schema | None:
        return self.lateness.output(self.input)

    @property
    def uses_processing_time(self) -> bool:
        return self._domain is Domain.PROCESSING

    @property
    def _domain(self) -> Domain:
        return self.assigner.domain

    # --- rows -------------------------------------------------------------------------------------------------

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        rows = rows.combine_chunks()
        _, start, end = self.assigner.assign(rows, context)
        state = self._state(context)
        ids = dense_ids(rows, self.keys)
        own_keys = rows.select(self._keys.names).take(pa.array(ids.first))
        loaded = state.load(own_keys.column(KEY_HASH).to_numpy())
        keys = pa.concat_tables([loaded.select(self._keys.names), own_keys]).combine_chunks()
        numbers = dense_ids(keys, self.keys)
        held = loaded.select(self._function.accumulators.names)
        live = Live(
            Windows(numbers.ids[: loaded.num_rows], loaded.column(START).to_numpy(), loaded.column(END).to_numpy()),
            held,
        )
        windows = Windows(numbers.ids[loaded.num_rows :][ids.ids], start, end)
        rows = numbered(rows, windows.key, self._function, held, live.windows.key)
        live = self._join(live, rows, windows, context)
        keys = keys.take(pa.array(numbers.first)).take(pa.array(live.windows.key))
        state.replace(self._rows(keys, live))
        self._finish(state, context)
        if self.uses_processing_time and state.next_timer(self._domain) <= context.processing_time:
            self.on_processing_time(context.processing_time, context)

    def _join(self, live: Live, rows: pa.Table, windows: Windows, context: Context) -> Live:
        """All sessions after the rows have joined them."""
        watermark = context.watermark if self._domain is Domain.EVENT else NO_WATERMARK
        merged = merge_sessions(live.windows, windows, watermark)
        count, groups = len(merged.windows.key), merged.row
        late = np.flatnonzero(groups == LATE)
        if len(late):
            self.lateness.report(rows.take(pa.array(late)), windows.start[late], windows.end[late], context)
            in_time = np.flatnonzero(groups != LATE)
            rows, groups = rows.take(pa.array(in_time)), groups[in_time]
        held = self._function.lift(rows, groups, count)
        if len(merged.stored):
            combined = pa.concat_tables([live.held, held])
            held = self._function.merge(combined, np.concatenate((merged.stored, np.arange(count))), count)
        return Live(merged.windows, held)

    # --- time -------------------------------------------------------------------------------------------------

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._on_time(Domain.EVENT, watermark, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._on_time(Domain.PROCESSING, time, context)

    def _on_time(self, domain: Domain, now: int, context: Context) -> None:
        if domain is not self._domain:
            return
        state = self._state(context)
        rows = state.due(domain, now).combine_chunks()
        end = rows.column(END).to_numpy()
        closed = late_windows(end, now, 0)
        fires = np.flatnonzero(closed)
        if len(fires):
            context.emit(self._results(rows.take(pa.array(fires[np.argsort(end[fires], kind="stable")]))))
            state.replace(rows.filter(pa.array(~closed)))
        self._finish(state, context)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Yields, for monitoring, how many stored rows are in sessions that have not closed."""
        rows = self._state(context).load_all()
        count = change_counts(self._function.finish(rows.select(self._function.accumulators.names)))
        return waits(Pending.ROWS_IN_WINDOWS, self._domain, rows.column(self._timer).to_numpy(), count)

    # --- output and state -------------------------------------------------------------------------------------

    def _results(self, rows: pa.Table) -> pa.Table:
        accumulators = rows.select(self._function.accumulators.names)
        finished = self._function.finish(accumulators)
        values = finished.select(self.function.results.names).columns
        start, end = (bounds(rows.column(name).to_numpy()) for name in (START, END))
        columns = [*rows.select(list(self.keys)).columns, start, end, *values]
        results = pa.Table.from_arrays(columns, schema=self.output)
        return results.filter(pa.array(row_counts(finished) > 0)) if self.function.updating else results

    def _rows(self, keys: pa.Table, live: Live) -> pa.Table:
        _, start, end = live.windows
        columns = [*keys.columns, *(pa.array(times) for times in (start, end, end - MILLISECOND)), *live.held.columns]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _finish(self, state: KeyedState, context: Context) -> None:
        state.flush()
        context.set_timer(self._domain, state.next_timer(self._domain))

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "sessions", self._schema)

    @cached_property
    def _function(self) -> Aggregates:
        """The aggregates, with numbers of rows, from which it is known how many rows wait."""
        return with_row_counts(self.function).for_merging_windows()

    @cached_property
    def _keys(self) -> pa.Schema:
        return pa.schema([self.input.field(name) for name in (KEY_HASH, *self.keys)])

    @property
    def _timer(self) -> str:
        return EVENT_TIMER if self._domain is Domain.EVENT else PROCESSING_TIMER

    @cached_property
    def _schema(self) -> pa.Schema:
        own = ((START, pa.int64()), (END, pa.int64()), (self._timer, pa.int64()))
        return pa.schema([*self._keys, *own, *self._function.accumulators])
