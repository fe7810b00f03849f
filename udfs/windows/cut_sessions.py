"""Sessions that may end before their gap: MAX_DURATION, START_WHEN, END_WHEN.

Where a session is cut depends on the order of its rows in time, so rows are stored and cut again as rows arrive; the
result does not depend on the order of arrival. A session fires once, when the clock is 1 ms before its end. Lateness
follows the rule of sessions without conditions: a row is late if the window from its time to the gap after it has
expired and touches the window of no stored row. A row that arrives after the watermark has passed it but is not late is
cut together with the stored rows, as if sessions had not closed.

Within the allowed lateness a closed session keeps its rows. A late row cuts them again; closed sessions with other rows
than before fire again at once.

Rows that belong to no session are counted as late when their own windows have expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import (
    MILLISECOND,
    Flags,
    RowIndices,
    Session,
    Times,
    Windows,
    late_windows,
    on_line,
    range_minima,
    taken_windows,
)
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, LATE_ROWS, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.emission import Lateness, StoredColumns, bounds
from sqlstream.udfs.windows.ranges import AllRows

TIME, REACH, OPENS, CLOSES, FIRED = "__time", "__reach", "__opens", "__closes", "__fired"
NOT_FIRED = 0
NO_PIECE = -1


class Cut(NamedTuple):
    """The stored rows of some keys, and the sessions (``pieces``) into which they are divided. For each row, ``key`` is
    the index of its key, ``piece`` the index of its session or NO_PIECE, and ``reach`` its time plus the session gap,
    in microseconds.

    ``fired``: for each row the number of the session in which it was last emitted, unique within its key; NOT_FIRED for
    none. A session has not changed since it was emitted if all its rows have the same number and no other row has it.
    """

    key: RowIndices
    piece: RowIndices
    reach: Times
    fired: RowIndices
    pieces: Pieces


@dataclass(frozen=True)
class CutSessionKernel(Kernel):
    """The kernel of session windows with START_WHEN, END_WHEN or a maximum duration, which may divide a session by its
    rows.

    ``start_when`` and ``end_when`` name BOOLEAN columns, in which NULL is false; ``max_duration`` is in microseconds.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    assigner: Session
    function: Aggregates | AllRows
    max_duration: int | None = None
    start_when: str | None = None
    end_when: str | None = None
    lateness: Lateness = field(default_factory=Lateness)

    @cached_property
    def kept(self) -> StoredColumns:
        """Says which columns of the input are stored, and which are emitted."""
        return StoredColumns(self.input, self.keys, self.function)

    @property
    def output(self) -> pa.Schema:
        return self.kept.output

    @property
    def late_output(self) -> pa.Schema | None:
        return self.lateness.output(self.input)

    @property
    def uses_processing_time(self) -> bool:
        return self._domain is Domain.PROCESSING

    @property
    def _domain(self) -> Domain:
        return self.assigner.domain

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        state = self._state(context)
        arrived = self._stored(rows, context)
        if self._domain is Domain.EVENT:
            for turn in self._turns(arrived, context.watermark):
                of_turn = arrived.take(pa.array(turn))
                state.append(self._without_late(rows.take(pa.array(turn)), of_turn, state, context))
                self._fire(state, context)
        else:
            state.append(arrived)
        self._advance(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._on_time(Domain.EVENT, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._on_time(Domain.PROCESSING, context)

    def _on_time(self, domain: Domain, context: Context) -> None:
        if domain is self._domain:
            self._advance(self._state(context), context)

    def _now(self, context: Context) -> int:
        return context.watermark if self._domain is Domain.EVENT else context.processing_time

    @property
    def _allowed(self) -> int:
        return self.lateness.allowed if self._domain is Domain.EVENT else 0

    # --- rows -------------------------------------------------------------------------------------------------

    def _stored(self, rows: pa.Table, context: Context) -> pa.Table:
        _, time, reach = self.assigner.assign(rows, context)
        closes = self._flags(rows, self.end_when, False)
        columns = [
            *rows.select(self.kept.stored.names).columns,
            *(pa.array(values) for values in (time, reach, self._flags(rows, self.start_when, True), closes)),
            pa.array(np.full(len(time), NOT_FIRED, np.int64)),
            pa.array(self._first_look(time, reach, closes, self._now(context))),
        ]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _flags(self, rows: pa.Table, name: str | None, otherwise: bool) -> Flags:
        if name is None:
            return np.full(rows.num_rows, otherwise)
        return np.asarray(rows.column(name).fill_null(False).to_numpy(), np.bool_)

    def _turns(self, arrived: pa.Table, watermark: int) -> list[RowIndices]:
        """The rows in rounds. A row that the watermark has passed may close a session at once, so later rows of its key
        are in a later round."""
        passed = arrived.column(TIME).to_numpy() <= watermark
        if not passed.any():
            return [np.arange(len(passed))]
        key = dense_ids(arrived, self.keys).ids
        order = np.argsort(key, kind="stable")
        before = np.cumsum(passed[order]) - passed[order]
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        turn = np.empty(len(order), np.int64)
        turn[order] = before - np.repeat(before[starts], np.diff(starts, append=len(order)))
        return [np.flatnonzero(turn == number) for number in range(int(turn.max()) + 1)]

    def _first_look(self, time: Times, reach: Times, closes: Flags, now: int) -> Times:
        """The earliest time at which a session may close because of this row; at once for rows that the clock has
        passed."""
        end = reach if self.max_duration is None else np.minimum(reach, time + self.max_duration)
        return np.where(closes | (time <= now), time, end - MILLISECOND)

    def _without_late(self, rows: pa.Table, arrived: pa.Table, state: KeyedState, context: Context) -> pa.Table:
        windows = (arrived.column(TIME).to_numpy(), arrived.column(REACH).to_numpy())
        doubtful = late_windows(windows[1], context.watermark, self._allowed)
        if not doubtful.any():
            return arrived
        stored = state.load(np.unique(arrived.column(KEY_HASH).to_numpy()[doubtful]))
        names = [*self.keys, TIME, REACH]
        combined = pa.concat_tables([stored.select(names), arrived.select(names)])
        ids = dense_ids(combined, self.keys).ids
        all_windows = Windows(ids, combined.column(TIME).to_numpy(), combined.column(REACH).to_numpy())
        kept = Windows(*(column[: stored.num_rows] for column in all_windows))
        new = Windows(*(column[stored.num_rows :] for column in all_windows))
        is_in_time = taken_windows(kept, new, context.watermark, self._allowed)
        late = np.flatnonzero(~is_in_time)
        self.lateness.report(rows.take(pa.array(late)), new.start[late], new.end[late], context)
        return arrived.filter(pa.array(is_in_time))

    # --- sessions ---------------------------------------------------------------------------------------------

    def _advance(self, state: KeyedState, context: Context) -> None:
        self._fire(state, context)
        state.flush()
        context.set_timer(self._domain, state.next_timer(self._domain))

    def _fire(self, state: KeyedState, context: Context) -> None:
        """Fires the closed sessions of all keys that are due, and drops expired rows."""
        if state.due(self._domain, self._now(context)).num_rows:
            state.replace(self._step(state.loaded().combine_chunks(), context))

    def _step(self, rows: pa.Table, context: Context) -> pa.Table:
        sessions = self._cut(rows)
        now = self._now(context)
        closed = late_windows(sessions.pieces.end, now, 0)
        fires = np.flatnonzero(closed & _changed(sessions))
        if len(fires):
            fires = fires[np.argsort(sessions.pieces.end[fires], kind="stable")]
            context.emit(self._fired(rows, sessions, fires))
        over = late_windows(_by_row(sessions, sessions.pieces.end, sessions.reach), now, self._allowed)
        outside = int((over & (sessions.piece == NO_PIECE)).sum())
        if outside:
            context.count(LATE_ROWS, outside)
        columns = {FIRED: self._numbers(sessions, closed), self._timer: self._timers(sessions, closed)}
        for name, values in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), self._schema.field(name), pa.array(values))
        return rows.filter(pa.array(~over))

    def _cut(self, rows: pa.Table) -> Cut:
        key = dense_ids(rows, self.keys).ids
        time, reach, fired = (rows.column(name).to_numpy() for name in (TIME, REACH, FIRED))
        opens, closes = (rows.column(name).to_numpy() for name in (OPENS, CLOSES))
        order = np.lexsort((time, key))
        pieces = cut(Ordered(*(column[order] for column in (key, time, reach, opens, closes))), self.max_duration)
        within = np.zeros(len(order) + 1, np.int64)
        within[pieces.first] = np.arange(len(pieces.first)) + 1
        inside = np.zeros(len(order) + 1, np.int64)
        np.add.at(inside, pieces.first, 1)
        np.add.at(inside, pieces.stop, -1)
        piece = np.empty(len(order), np.int64)
        piece[order] = np.where(np.cumsum(inside) > 0, np.maximum.accumulate(within) - 1, NO_PIECE)[:-1]
        return Cut(key, piece, reach, fired, pieces)

    def _numbers(self, sessions: Cut, closed: Flags) -> RowIndices:
        """The rows of a closed session get a number that no other one of its key has, the others none."""
        numbers = np.where(closed, np.arange(len(closed)) + 1, NOT_FIRED)
        return _by_row(sessions, numbers, np.full(len(sessions.piece), NOT_FIRED))

    def _timers(self, sessions: Cut, closed: Flags) -> Times:
        """The end of an open session, the time at which a closed one and a row of none are over."""
        over = sessions.pieces.end - MILLISECOND + np.where(closed, self._allowed, 0)
        return _by_row(sessions, over, sessions.reach - MILLISECOND + self._allowed)

    def _fired(self, rows: pa.Table, sessions: Cut, fires: RowIndices) -> pa.Table:
        number = np.full(len(sessions.pieces.first) + 1, NO_PIECE)
        number[fires] = np.arange(len(fires))
        owner = number[sessions.piece]
        members = np.flatnonzero(owner != NO_PIECE)
        members = members[np.argsort(owner[members], kind="stable")]
        owner = owner[members]
        results = self._results_of(rows.take(pa.array(members)), owner, len(fires))
        fired = owner if isinstance(self.function, AllRows) else np.arange(len(fires))
        first = members[np.searchsorted(owner, fired)]
        keys = rows.select(self.kept.leading).take(pa.array(first)).columns
        session = fires[fired]
        columns = [
            *keys,
            bounds(sessions.pieces.start[session]),
            bounds(sessions.pieces.end[session]),
            *results.columns,
        ]
        return pa.Table.from_arrays(columns, schema=self.output)

    def _results_of(self, rows: pa.Table, owner: RowIndices, count: int) -> pa.Table:
        if isinstance(self.function, AllRows):
            return rows.select(list(self.function.columns))
        return self.function.finish(self.function.lift(rows, owner, count))

    def waits(self, context: Context) -> Iterator[Wait]:
        """Yields, for monitoring, how many stored rows are in sessions that have not closed."""
        rows = self._state(context).load_all().combine_chunks()
        if rows.num_rows == 0:
            return iter(())
        sessions = self._cut(rows)
        closes = sessions.pieces.end - MILLISECOND
        closes[closes <= self._now(context)] = END_OF_TIME  # closed, and stored for late rows
        return waits(
            Pending.ROWS_IN_WINDOWS, self._domain, _by_row(sessions, closes, np.full(rows.num_rows, END_OF_TIME))
        )

    # --- state ------------------------------------------------------------------------------------------------

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._schema)

    @property
    def _timer(self) -> str:
        return EVENT_TIMER if self._domain is Domain.EVENT else PROCESSING_TIMER

    @cached_property
    def _schema(self) -> pa.Schema:
        own = ((TIME, pa.int64()), (REACH, pa.int64()), (OPENS, pa.bool_()), (CLOSES, pa.bool_()))
        return pa.schema([*self.kept.stored, *own, (FIRED, pa.int64()), (self._timer, pa.int64())])


def _by_row(sessions: Cut, of_piece: RowIndices, otherwise: RowIndices) -> RowIndices:
    """The value of each row's session; ``otherwise`` where it has none."""
    if len(of_piece) == 0:
        return otherwise
    return np.where(sessions.piece == NO_PIECE, otherwise, of_piece[sessions.piece])


def _changed(sessions: Cut) -> Flags:
    """Sessions that have not fired with just these rows."""
    count = len(sessions.pieces.first)
    inside = np.flatnonzero(sessions.piece != NO_PIECE)
    piece, fired = sessions.piece[inside], sessions.fired[inside]
    size = np.bincount(piece, minlength=count)
    least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, NOT_FIRED)
    np.minimum.at(least, piece, fired)
    np.maximum.at(most, piece, fired)
    numbers = sessions.key * (int(sessions.fired.max(initial=0)) + 1) + sessions.fired
    _, number, members = np.unique(numbers, return_inverse=True, return_counts=True)
    fired_size = np.zeros(count, np.int64)
    fired_size[piece] = members[number][inside]
    changed: Flags = (least == NOT_FIRED) | (least != most) | (fired_size != size)
    return changed


# --- how the rows of a key, in order, are cut into sessions ---------------------------------------------------
# Rows are in order of time, rows of the same time in order of arrival. While no session is open, a row for which
# START_WHEN holds opens one, or any row if there is no such condition; other rows belong to no session. While a
# session is open, START_WHEN has no effect: a row belongs to the session if it is within the gap of one of its rows
# and less than MAX_DURATION after its first. A row that is not closes the session and may open the next one. A row of
# a session for which END_WHEN holds is its last.
#
# A session is ``[start, end)`` from its first row to the earliest of: the gap after its rows, MAX_DURATION after its
# start, and 1 ms after the row of END_WHEN.


class Ordered(NamedTuple):
    """The rows of some keys, sorted by key, time and arrival. ``reach``: the time plus the session gap, in
    microseconds. ``opens``, ``closes``: the values of START_WHEN and END_WHEN.
    """

    key: RowIndices
    time: Times
    reach: Times
    opens: Flags
    closes: Flags


class Pieces(NamedTuple):
    """Sessions in order: each has the rows with indices ``[first, stop)`` of ``Ordered``, and its bounds in
    microseconds.
    """

    first: RowIndices
    stop: RowIndices
    start: Times
    end: Times


def cut(rows: Ordered, max_duration: int | None) -> Pieces:
    """Divides sorted rows into sessions. ``max_duration`` is in microseconds, None for no limit."""
    stop = _stops(rows, max_duration)
    first = _reachable(rows, stop)
    stop = stop[first]
    end = -range_minima(-rows.reach, first, stop)
    if max_duration is not None:
        end = np.minimum(end, rows.time[first] + max_duration)
    end = np.where(rows.closes[stop - 1], np.minimum(end, rows.time[stop - 1] + MILLISECOND), end)
    return Pieces(first, stop, rows.time[first], end)


def _stops(rows: Ordered, max_duration: int | None) -> RowIndices:
    """For each row the first row that would not belong to a session beginning with it."""
    stop = np.minimum(_unreached(rows), _following(rows.closes) + 1)
    if max_duration is None:
        return stop
    line = on_line(Windows(rows.key, rows.time, rows.time + max_duration))
    return np.minimum(stop, np.searchsorted(line.start, line.end))


def _unreached(rows: Ordered) -> RowIndices:
    """For each row the first later row of another key, or that no row from this one on reaches."""
    line = on_line(Windows(rows.key, rows.time, rows.reach))
    first = np.arange(len(rows.key))
    stop = np.searchsorted(line.start, line.end, side="right")
    # Reachability is transitive, so doubling resolves chains of n rows in log n rounds.
    while ((farther := -range_minima(-stop, first, stop)) > stop).any():
        stop = farther
    return stop


def _following(flags: Flags) -> RowIndices:
    """For each position, and the one after the last row, the first flagged row from there on."""
    count = len(flags)
    next_flagged = np.where(flags, np.arange(count), count)
    return np.minimum.accumulate(next_flagged[::-1])[::-1]


def _reachable(rows: Ordered, stop: RowIndices) -> RowIndices:
    """The first rows of sessions: from the first opening row of each key, repeatedly the row after the stop.

    Steps are doubled, so that n consecutive sessions take log n rounds.
    """
    count = len(rows.key)
    opening = np.append(_following(rows.opens), count)
    begins = np.zeros(count + 1, np.bool_)
    begins[opening[np.flatnonzero(np.diff(rows.key, prepend=-1))]] = True
    step = np.append(opening[stop], count)
    while (step < count).any():
        begins[step[begins]] = True
        step = step[step]
    return np.flatnonzero(begins[:count])
