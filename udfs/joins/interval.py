"""Interval join: rows of two sides match if their keys are equal and their times are within the given bounds.

A row is stored until the clock shows that no further row of the other side can match it. A row that arrives later is
late; it still matches stored rows. A pair is emitted when the later of its rows arrives, a row without a partner when
it expires, as in Flink's TimeIntervalJoin.

The state holds the rows of each side by key. Expired rows are dropped in groups, a little later. Rows of the last
micro-batch that will probably expire with the next watermark are stored separately (``ShortLived``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.tree import Expression
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.pairs import Bounds, Indices, JoinResults, Pairs, Side, Times, fulfilling, joinable, matching
from sqlstream.udfs.kernel import (
    END_OF_TIME,
    KEY_HASH,
    NO_WATERMARK,
    Context,
    Domain,
    Kernel,
    Pending,
    StateKey,
    Store,
    Wait,
    waits,
)
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.chunked import ChunkedState
from sqlstream.udfs.state.keyed import KeyedState

TIME = "__row_time"
"""The column of either input with the time of the row, in microseconds."""

MATCHED = "__matched"

_NAMES = ("left", "right")
_BRIEF = ("left_brief", "right_brief")
_LEAST_SLACK = 1_000_000


@dataclass(frozen=True)
class IntervalJoinKernel(Kernel):
    """The kernel of an interval join. ``bounds`` limit the time of the left row minus the time of the right row, in
    microseconds.

    ``keys``: key columns of both inputs; NULL equals NULL in those that are ``null_safe``. ``domain``: the clock, event
    time or processing time, of the rows' times. The output columns of the two sides have different names.
    """

    left: Side
    right: Side
    kind: JoinKind
    keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    bounds: Bounds
    domain: Domain = Domain.EVENT
    condition: Expression | None = None

    @property
    def ports(self) -> int:
        return 2

    @cached_property
    def output(self) -> pa.Schema:
        return self._results.schema

    @property
    def uses_processing_time(self) -> bool:
        return self.domain is Domain.PROCESSING

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        now = self._now(context)
        states = self._states(context)
        brief = self._brief(context)
        self._age(states, brief, now)
        new = [self._arrived(port, rows.get(port), now) for port in (0, 1)]
        sides = [self._rows(self._kept(port, states[port], new[1 - port], now), new[port]) for port in (0, 1)]
        self._match(sides[0], sides[1], context)
        for port, side in enumerate(sides):
            self._settle(port, side, states[port], brief.get(port), now, context)
        self._finish(states, brief, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._expire(watermark, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._expire(time, context)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Counts the stored rows without a partner, which are emitted when the clock has passed their bounds."""
        for port, state in enumerate(self._states(context)):
            if self.kind.padded[port]:
                rows = state.load_all()
                yield from waits(Pending.ROWS, self.domain, self._ends(port, rows)[~_flags(rows)])

    # --- matches --------------------------------------------------------------------------------------------------

    def _arrived(self, port: int, rows: pa.Table | None, now: int) -> pa.Table:
        """Rows in the schema of the state, without a partner."""
        schema = self._schemas[port]
        if rows is None:
            return schema.empty_table()
        time = rows.column(TIME).to_numpy()
        time = np.minimum(time, now) if self.domain is Domain.PROCESSING else time
        given = {TIME: time, MATCHED: np.zeros(len(time), np.bool_), self._timer: np.zeros(len(time), np.int64)}
        columns = [pa.array(given[f.name]) if f.name in given else rows.column(f.name) for f in schema]
        return pa.table(columns, schema=schema)

    def _kept(self, port: int, state: KeyedState, others: pa.Table, now: int) -> pa.Table:
        """The rows of the state that may match those that have come on the other side."""
        if not others.num_rows:
            return self._schemas[port].empty_table()
        rows = state.load(others.column(KEY_HASH).to_numpy())
        gone = self._ends(port, rows) <= now
        return rows.filter(pa.array(~gone)) if gone.any() else rows

    def _rows(self, old: pa.Table, new: pa.Table) -> _Rows:
        rows = pa.concat_tables([old, new]).combine_chunks()
        return _Rows(rows, old.num_rows, joinable(rows, self.keys, self.null_safe))

    def _match(self, left: _Rows, right: _Rows, context: Context) -> None:
        """Emits the pairs with at least one new row, and notes which rows have a partner."""
        of_left, of_right = np.flatnonzero(left.joinable), np.flatnonzero(right.joinable)
        new_left, new_right = of_left >= left.old, of_right >= right.old
        for ours, theirs in ((of_left[new_left], of_right), (of_left[~new_left], of_right[new_right])):
            candidates = self._matching(left, ours, right, theirs)
            for pairs in fulfilling(candidates, self.condition, left.rows, right.rows):
                left.matched[pairs.left] = True
                right.matched[pairs.right] = True
                if self.kind.pairs:
                    columns = self._results.of_pairs(left.rows, right.rows, pairs)
                    context.emit(pa.Table.from_arrays([*columns], schema=self.output))

    def _matching(self, left: _Rows, ours: Indices, right: _Rows, theirs: Indices) -> Iterator[Pairs]:
        """The pairs among some rows of either side."""
        keys = [
            side.rows.select([*self.keys, TIME]).take(pa.array(rows)) for side, rows in ((left, ours), (right, theirs))
        ]
        times = left.time[ours], right.time[theirs]
        for pairs in matching(keys[0], keys[1], self.keys, times, self.bounds):
            yield Pairs(ours[pairs.left], theirs[pairs.right])

    # --- stored rows -------------------------------------------------------------------------------------------

    def _settle(
        self, port: int, side: _Rows, state: KeyedState, brief: ShortLived | None, now: int, context: Context
    ) -> None:
        """Stores rows that may still match, and emits rows whose result is final."""
        ends = self._ends(port, side.rows)
        stays = (ends > now) & side.joinable
        if port == 0 and not self.kind.pairs:
            stays &= ~side.matched
            if self.kind is JoinKind.SEMI:
                self._emit_alone(port, side.rows, side.matched, context)
        if self.kind.padded[port]:
            self._emit_alone(port, side.rows, ~stays & ~side.matched, context)
        rows = self._with_timers(port, side, ends)
        if self._follows(port) and (side.matched[: side.old] != side.before).any():
            state.replace(rows.slice(0, side.old).filter(pa.array(stays[: side.old])))
        rows, stays, ends = rows.slice(side.old), stays[side.old :], ends[side.old :]
        if brief is not None and len(stays):
            soon = stays & brief.chosen(side.time[side.old :], ends, now)
            brief.add(rows.select(self._sides[port].input.names).filter(pa.array(soon)), ends[soon])
            stays = stays & ~soon
        state.append(rows.filter(pa.array(stays)))

    def _age(self, states: Sequence[KeyedState], brief: Mapping[int, ShortLived], now: int) -> None:
        """Moves short-lived rows that have not expired to the regular state."""
        for port, short_lived in brief.items():
            for rows in short_lived.left_over(now):
                ends = self._ends(port, rows)
                chosen = ends > now
                timed = rows.append_column(self._timer, pa.array(self._later(ends)))
                states[port].append(timed.cast(self._schemas[port]).filter(pa.array(chosen)))

    def _later(self, ends: Times) -> Times:
        """The time at which rows that expire at these times are dropped: the same for many of them."""
        slack = max((self.bounds.upper - self.bounds.lower) // 4, _LEAST_SLACK)
        return (ends // slack + 1) * slack

    def _with_timers(self, port: int, side: _Rows, ends: Times) -> pa.Table:
        """The timer of a row that will be emitted alone is its end; all others are dropped later, in groups."""
        timer = self._later(ends)
        columns = {self._timer: timer}
        if self._follows(port):
            columns[MATCHED] = side.matched
            if self.kind.padded[port]:
                columns[self._timer] = np.where(side.matched, timer, ends)
        rows = side.rows
        for name, values in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
        return rows

    def _expire(self, now: int, context: Context) -> None:
        """Drops the rows that the clock has passed, and emits those without a partner."""
        states, brief = self._states(context), self._brief(context)
        self._age(states, brief, now)
        for port, state in enumerate(states):
            rows = state.due(self.domain, now)
            gone = self._ends(port, rows) <= now
            if self.kind.padded[port]:
                self._emit_alone(port, rows, gone & ~_flags(rows), context)
            state.replace(rows.filter(pa.array(~gone)))
        self._finish(states, brief, context)

    def _emit_alone(self, port: int, rows: pa.Table, chosen: np.ndarray, context: Context) -> None:
        """Emits rows of a side without a partner, padded with NULLs if results are pairs."""
        if chosen.any():
            columns = self._results.alone(port, rows.filter(pa.array(chosen)))
            context.emit(pa.Table.from_arrays([*columns], schema=self.output))

    @cached_property
    def _results(self) -> JoinResults:
        return JoinResults(self.kind, self._sides)

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    # --- state ----------------------------------------------------------------------------------------------------

    def _now(self, context: Context) -> int:
        return context.watermark if self.domain is Domain.EVENT else context.processing_time

    def _ends(self, port: int, rows: pa.Table) -> Times:
        """For each row the time from which the other side can send no more matching row. In processing time rows carry
        the time of the clock."""
        newest = -self.bounds.lower if port == 0 else self.bounds.upper
        return np.asarray(rows.column(TIME).to_numpy() + newest + (self.domain is Domain.PROCESSING), np.int64)

    def _follows(self, port: int) -> bool:
        """True for a side whose rows are marked when they have a partner."""
        return self.kind.padded[port] or (port == 0 and not self.kind.pairs)

    @property
    def _timer(self) -> str:
        return EVENT_TIMER if self.domain is Domain.EVENT else PROCESSING_TIMER

    @cached_property
    def _schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """The schemas of the stored rows."""
        extra = [pa.field(self._timer, pa.int64())]
        return tuple(
            pa.schema([*side.input, *extra, *([pa.field(MATCHED, pa.bool_())] if self._follows(port) else [])])
            for port, side in enumerate(self._sides)
        )

    def _states(self, context: Context) -> list[KeyedState]:
        names = [name for port, name in enumerate(_BRIEF) if not self._follows(port)]
        keys = [key for name in _NAMES for key in KeyedState.keys(name)]
        # Reads everything that each call needs in one exchange with the store, which caches it.
        context.store.get([*keys, *(key for name in names for key in ShortLived.keys(name))])
        return [KeyedState(context.store, name, schema) for name, schema in zip(_NAMES, self._schemas, strict=True)]

    def _brief(self, context: Context) -> dict[int, ShortLived]:
        """The short-lived rows by port, for sides whose rows expire without output."""
        if self.domain is Domain.PROCESSING:
            return {}
        return {
            port: ShortLived(context.store, _BRIEF[port], side.input)
            for port, side in enumerate(self._sides)
            if not self._follows(port)
        }

    def _finish(self, states: Sequence[KeyedState], brief: Mapping[int, ShortLived], context: Context) -> None:
        for port, state in enumerate(states):
            state.flush()
            if port in brief:
                brief[port].flush(alone=not state.rows())
        ends = [short_lived.next_end for short_lived in brief.values()]
        timers = [state.next_timer(self.domain) for state in states]
        timers += self._later(np.array([end for end in ends if end != END_OF_TIME], np.int64)).tolist()
        context.set_timer(self.domain, min(timers))


class _Rows:
    """The rows of a side in one call: first ``old`` ones of the state, then new ones.

    ``joinable``: which rows may have a partner; ``matched``: which have one; ``before``: which of the old rows had one.
    """

    def __init__(self, rows: pa.Table, old: int, joinable: np.ndarray) -> None:
        self.rows = rows
        self.old = old
        self.joinable = joinable
        self.time = self.rows.column(TIME).to_numpy()
        self.matched = _flags(self.rows)
        self.before = self.matched[: self.old].copy()


def _flags(rows: pa.Table) -> np.ndarray:
    if MATCHED not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.array(rows.column(MATCHED))


# --- rows that probably expire with the next watermark --------------------------------------------------------
# The watermark passes the rows of a micro-batch only in the next one, so until then all of its rows are state. Rows
# that the next watermark will most probably expire are stored as they arrived, under the time at which the last one
# of them expires. When the watermark has passed that time they are dropped unread; otherwise those that remain are
# stored like all others.


LEAST = 1024
"""Fewer rows cost less where all others are."""

SPARE = 32
"""The clock may fall short of the expectation by this fraction of the time span of a batch. A group of which a single
row remains is read as a whole."""


class ShortLived:
    """The stored rows of one input that will probably expire with the next watermark. They are stored in groups by
    expiry time, which are dropped unread when they expire. An instance serves one call of the kernel; ``name`` names
    this part of the state.
    """

    def __init__(self, store: Store, name: str, schema: pa.Schema) -> None:
        self._store = store
        _, self._newest = self.keys(name)
        self._pieces = ChunkedState(store, name, schema)

    @staticmethod
    def keys(name: str) -> list[StateKey]:
        """The state keys that each call reads: those of the index of the groups, and of the newest row's event time."""
        return [(name, 0), (f"{name}/newest", 0)]

    def left_over(self, now: int) -> Iterator[pa.Table]:
        """Removes all groups of rows from this part of the state, and returns the rows of those that have not expired
        at ``now``, in microseconds of event time.
        """
        for end in self._pieces.ids().tolist():
            if end > now:
                yield self._pieces.read([end])[end]
            self._pieces.replace(end, None)

    def chosen(self, times: Times, ends: Times, now: int) -> np.ndarray:
        """One boolean per new row: true if it should be stored here. ``times`` are the rows' times, ``ends`` the times
        at which they expire, ``now`` is the clock; all in microseconds.
        """
        if len(times) >= LEAST:
            soon = np.asarray(ends <= self._next(int(times.min()), int(times.max()), now))
            if np.count_nonzero(soon) >= LEAST:
                return soon
        return np.zeros(len(times), np.bool_)

    def add(self, rows: pa.Table, ends: Times) -> None:
        """Stores rows, which expire at the times ``ends`` (microseconds)."""
        if rows.num_rows:
            self._pieces.append(int(ends.max()), rows)

    @property
    def next_end(self) -> int:
        """The time in microseconds at which the first group of rows expires; END_OF_TIME if no rows are stored here."""
        return int(self._pieces.ids().min(initial=END_OF_TIME))

    def flush(self, *, alone: bool) -> None:
        """Writes the changes to the state store.

        ``alone``: the input has no rows in other parts of the state; if none are stored here either, all entries are
        removed.
        """
        self._pieces.flush()
        if alone and not len(self._pieces.ids()) and self._store.get([self._newest]) != [None]:
            self._store.put({self._newest: None})

    def _next(self, oldest: int, newest: int, now: int) -> int:
        """The expected next clock: as far before the newest row as it was, or in the middle of the rows if that is
        unknown."""
        (stored,) = self._store.get([self._newest])
        before = NO_WATERMARK if stored is None else int.from_bytes(stored, "little", signed=True)
        if newest > before:
            self._store.put({self._newest: newest.to_bytes(8, "little", signed=True)})
        if NO_WATERMARK in (before, now):
            return newest - (newest - oldest) // 2
        return max(newest - max(before - now, 0) - (newest - oldest) // SPARE, NO_WATERMARK)
