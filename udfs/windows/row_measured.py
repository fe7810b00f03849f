"""Storm's windows in which one measure counts rows and the other is time, on either clock.

``EveryRows``: at every n-th row of a key, the rows in ``(time - size, time]`` of that row. ``LastRows``: at every
multiple of the slide, the last n rows of a key before it, even without new rows.

In event time rows count in order of their times, then of arrival. A row counts when the watermark has reached its time,
and a multiple of the slide fires when the watermark is 1 ms before it. A row is late if that has already happened:
``watermark >= time`` for EveryRows, ``watermark >= the first multiple after time - 1 ms`` for LastRows. In processing
time rows count in order of arrival, and none is late.

At the end of a bounded input LastRows fires up to the first multiple after the newest row of a key; EveryRows does not
fire for an incomplete count. ``window_start`` and ``window_end`` are the time of the oldest row and 1 ms after that of
the newest. The window function sees the rows in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import (
    MILLISECOND,
    Flags,
    Intervals,
    RowIndices,
    Times,
    Windows,
    aligned,
    on_line,
    times_of,
)
from sqlstream.udfs.kernel import END_OF_TIME, MOST_RESULTS, NO_WATERMARK, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.emission import Lateness, StoredColumns, bounds, require_few
from sqlstream.udfs.windows.ranges import AllRows, Ranges, results_of

TIME = "__time"
POSITION = "__position"

_LINE = ("__line_key", "__line_time", "__line_timer", "__line_position")
_NOW = "__now"
"""Columns of folded results: those of the timeline, and the clock."""

_FOLDS = 4
"""Results that exceed the rows they are computed from by this factor are emitted folded."""


@dataclass(frozen=True)
class RowMeasuredKernel(Kernel):
    """The kernel of windows whose slide and size are measured differently: at every n-th row over the last interval, or
    at regular times over the last n rows. ``time``: the column with the rows' times in microseconds; None means
    processing time.

    There is no allowed lateness. The side output has late rows with the bounds of a window that contains only the row.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    time: str | None
    measure: Measure
    function: Aggregates | AllRows
    domain: Domain = Domain.EVENT
    lateness: Lateness = field(default_factory=Lateness)

    def __post_init__(self) -> None:
        assert self.lateness.allowed == 0, "what has been counted stays counted"

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
        return self.domain is Domain.PROCESSING

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        time = times_of(rows, self.time, context)
        if self.domain is Domain.EVENT:
            late = self.measure.late(time, context.watermark)
            bounds_of_late = time[late], time[late] + MILLISECOND
            self.lateness.report(rows.filter(pa.array(late)), *bounds_of_late, context)
            rows, time = rows.filter(pa.array(~late)), time[~late]
        else:
            time = np.minimum(time, context.processing_time)
        state = self._state(context)
        state.append(self._stored(rows, time, self.measure.timers(time, self._now(context))))
        self._advance(state, state.due(self.domain, self._now(context)), context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._on_time(Domain.EVENT, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._on_time(Domain.PROCESSING, context)

    def _on_time(self, domain: Domain, context: Context) -> None:
        if domain is self.domain:
            state = self._state(context)
            self._advance(state, state.due(domain, self._now(context)), context)

    def _now(self, context: Context) -> int:
        return context.watermark if self.domain is Domain.EVENT else context.processing_time

    def waits(self, context: Context) -> Iterator[Wait]:
        """Yields, for monitoring, how many stored rows have times that the window's clock has not reached yet."""
        rows = self._state(context).load_all()
        waiting = rows.column(POSITION).to_numpy() == NOT_COUNTED
        return waits(Pending.ROWS_IN_WINDOWS, self.domain, rows.column(self._timer).to_numpy()[waiting])

    # --- firing -----------------------------------------------------------------------------------------------

    def _advance(self, state: KeyedState, rows: pa.Table, context: Context) -> None:
        """Fires what the clock brings for all keys of these rows."""
        if rows.num_rows:
            state.replace(self._step(rows, context))
        state.flush()
        context.set_timer(self.domain, state.next_timer(self.domain))

    def _step(self, rows: pa.Table, context: Context) -> pa.Table:
        """Emits the firings. Returns the rows that remain."""
        key = dense_ids(rows, self.keys).ids
        time, timer, position = (rows.column(name).to_numpy() for name in (TIME, self._timer, POSITION))
        if self.domain is Domain.EVENT:
            order = np.lexsort((time, key))
            time = time[order]
        else:
            order = np.argsort(key, kind="stable")
            time = never_back(key[order], time[order])
        rows, line = rows.take(pa.array(order)), Timeline(key[order], time, timer[order], position[order])
        step = self.measure.step(line, self.domain, self._now(context))
        self._emit(rows, line, step.firings, context)
        own = (pa.array(values) for values in (line.time, step.position, step.timer))
        stay = pa.Table.from_arrays([*rows.select(self.kept.stored.names).columns, *own], schema=self._schema)
        return stay.filter(pa.array(step.kept))

    def _emit(self, rows: pa.Table, line: Timeline, firings: Iterator[Ranges], context: Context) -> None:
        """Many more results than rows leave as the rows and the clock, from which ``unfold`` makes them."""
        held, count = list[Ranges](), 0
        for block in firings:
            held.append(block)
            count += self._results_of(block)
            if count > MOST_RESULTS and count > _FOLDS * rows.num_rows:
                count += sum(map(self._results_of, firings))
                context.emit_folded(self._folded(rows, line, self._now(context)), count)
                return
        for block in held:
            context.emit(self._fired(rows, line, block))

    def _results_of(self, block: Ranges) -> int:
        return len(block.start) if isinstance(self.function, Aggregates) else int((block.stop - block.start).sum())

    def _folded(self, rows: pa.Table, line: Timeline, now: int) -> pa.Table:
        own = (*line, np.full(len(line.key), now))
        columns = [*rows.select(self.kept.stored.names).columns, *map(pa.array, own)]
        return pa.Table.from_arrays(columns, names=[*self.kept.stored.names, *_LINE, _NOW])

    def unfold(self, folded: pa.Table) -> Iterator[pa.Table]:
        line = Timeline(*(folded.column(name).to_numpy() for name in _LINE))
        step = self.measure.step(line, self.domain, folded.column(_NOW)[0].as_py())
        for firings in step.firings:
            ends = np.cumsum(firings.stop - firings.start)
            piece = ends // MOST_RESULTS if isinstance(self.function, AllRows) else np.zeros(len(ends), np.int64)
            for chosen in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(piece)) + 1):
                yield self._fired(folded, line, firings.take(chosen))

    def _fired(self, rows: pa.Table, line: Timeline, firings: Ranges) -> pa.Table:
        results, owner = results_of(self.function, rows, line.key, firings)
        start, last = firings.start[owner], firings.stop[owner] - 1
        keys = rows.select(self.kept.leading).take(pa.array(start)).columns
        columns = [*keys, bounds(line.time[start]), bounds(line.time[last] + MILLISECOND), *results.columns]
        return pa.Table.from_arrays(columns, schema=self.output)

    # --- state ------------------------------------------------------------------------------------------------

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._schema)

    def _stored(self, rows: pa.Table, time: Times, timer: Times) -> pa.Table:
        kept = rows.select(self.kept.stored.names)
        waiting = pa.array(np.full(len(time), NOT_COUNTED, np.int64))
        columns = [*kept.columns, pa.array(time), waiting, pa.array(timer)]
        return pa.Table.from_arrays(columns, schema=self._schema)

    @property
    def _timer(self) -> str:
        return EVENT_TIMER if self.domain is Domain.EVENT else PROCESSING_TIMER

    @cached_property
    def _schema(self) -> pa.Schema:
        own = ((TIME, pa.int64()), (POSITION, pa.int64()), (self._timer, pa.int64()))
        return pa.schema([*self.kept.stored, *own])


def never_back(key: RowIndices, time: Times) -> Times:
    """The running maximum of the times of each key, so that processing time does not decrease when a clock is set
    back.
    """
    line = on_line(Windows(key, time, time)).start
    newest = np.where(line == np.maximum.accumulate(line), np.arange(len(line)), 0)
    return time[np.maximum.accumulate(newest)]


# --- timelines: the stored rows of some keys in order, and how a clock advances them --------------------------


NOT_COUNTED = -1


class Timeline(NamedTuple):
    """The rows of a call sorted by key, time and arrival. ``key`` has the index of each row's key, from 0.

    ``timer``: for each row the time in microseconds at which it must be processed next. ``position``: the number of
    counted rows of the key including this one, modulo the slide; NOT_COUNTED if the row is not counted yet, or if rows
    are not counted.
    """

    key: RowIndices
    time: Times
    timer: Times
    position: RowIndices

    @property
    def first(self) -> RowIndices:
        """The index of the first row of each key."""
        return np.flatnonzero(np.diff(self.key, prepend=-1))

    def on_line(self, back: int) -> Intervals:
        """For each row the interval from ``back`` microseconds before its time to its time. The times of all keys are
        mapped to one axis, key after key, so that the ends are sorted and can be searched.
        """
        return on_line(Windows(self.key, self.time - back, self.time))


class StepResult(NamedTuple):
    """The result of ``Measure.step``. ``firings``: the windows that fire, as ranges of row indices, in blocks that are
    each in order. ``kept``: true for the rows that remain in the state. ``timer`` and ``position``: the new values of
    each row.
    """

    firings: Iterator[Ranges]
    kept: Flags
    timer: Times
    position: RowIndices


class Measure(Protocol):
    """Decides when a window fires, and over which rows. Implementations are frozen and picklable; all times are in
    microseconds.
    """

    def timers(self, time: Times, now: int) -> Times:
        """For each new row the time in microseconds at which it must be processed. ``now``: the current time of the
        window's clock.
        """
        ...

    def late(self, time: Times, watermark: int) -> Flags:
        """One boolean per row: true if it is late."""
        ...

    def step(self, rows: Timeline, domain: Domain, now: int) -> StepResult:
        """Returns the firings up to the time ``now`` of the clock ``domain``, and the new state. ``rows`` are all rows
        of some keys, at least one.
        """
        ...


# --- a slide in rows, a size in time --------------------------------------------------------------------------


@dataclass(frozen=True)
class EveryRows:
    """Fires at every ``slide``-th row of a key, over its rows of the last ``size`` microseconds. In event time a row is
    counted when the watermark reaches it, and its window includes all rows of the same time.

    In processing time a row is counted when it arrives, and later rows of the same instant are not in its window.
    """

    slide: int
    size: int

    def timers(self, time: Times, now: int) -> Times:
        return time

    def late(self, time: Times, watermark: int) -> Flags:
        return time <= watermark

    def step(self, rows: Timeline, domain: Domain, now: int) -> StepResult:
        counted = rows.time <= now
        position = np.where(counted, self._positions(rows), NOT_COUNTED)
        fires = np.flatnonzero(counted & (rows.position == NOT_COUNTED) & (position == 0))
        # The newest row stores the count, even if no window will contain it.
        counts_on = _newest(rows, counted) & (position > 0)
        kept = ~counted | (rows.time > now - self.size) | counts_on
        return StepResult(
            self._firings(rows, fires, domain), kept, np.where(counted, END_OF_TIME, rows.timer), position
        )

    def _positions(self, rows: Timeline) -> RowIndices:
        """Positions that count on from the newest row of each key that was counted before."""
        before = rows.position != NOT_COUNTED
        counted_before = np.add.reduceat(before.astype(np.int64), rows.first)
        base = np.where(counted_before > 0, rows.position[rows.first + np.maximum(counted_before, 1) - 1], 0)
        rank = np.arange(len(rows.key)) - (rows.first + counted_before)[rows.key] + 1
        return np.where(before, rows.position, (base[rows.key] + rank) % self.slide)

    def _firings(self, rows: Timeline, fires: RowIndices, domain: Domain) -> Iterator[Ranges]:
        if len(fires) == 0:
            return
        line = rows.on_line(self.size)
        if domain is Domain.EVENT:
            fires = fires[np.argsort(rows.time[fires], kind="stable")]
            stop = np.searchsorted(line.end, line.end[fires], side="right")
        else:
            stop = fires + 1
        yield Ranges(np.searchsorted(line.end, line.start[fires], side="right"), stop)


def _newest(rows: Timeline, chosen: Flags) -> Flags:
    """The last of the chosen rows of each key; these are the first ones of the key."""
    count = np.add.reduceat(chosen.astype(np.int64), rows.first)
    newest = np.zeros(len(chosen), np.bool_)
    newest[(rows.first + count - 1)[count > 0]] = True
    return newest


# --- a size in rows, a slide in time --------------------------------------------------------------------------


MOST_FIRINGS = 1 << 18
"""The number of firings that are computed at once."""


@dataclass(frozen=True)
class LastRows:
    """Fires 1 ms before each multiple of ``slide`` (microseconds), shifted by ``offset``, over the last ``size`` rows
    of a key; also if no new rows have arrived since. At the end of time the last firing of a key is the first one after
    its newest row.
    """

    size: int
    slide: int
    offset: int = 0

    def timers(self, time: Times, now: int) -> Times:
        """For each row the time 1 ms before the next multiple of ``slide``, or the one after that if it has fired
        already.
        """
        following = self._next(time)
        if now < END_OF_TIME:
            following = np.maximum(following, self._next_after_firing(now))
        return following - MILLISECOND

    def late(self, time: Times, watermark: int) -> Flags:
        return self._next(time) - MILLISECOND <= watermark

    def step(self, rows: Timeline, domain: Domain, now: int) -> StepResult:
        waiting = rows.position == NOT_COUNTED
        begin = np.minimum.reduceat(rows.timer, rows.first) + MILLISECOND
        if now == END_OF_TIME:
            newest = np.maximum.reduceat(np.where(waiting, rows.timer, NO_WATERMARK), rows.first)
            return StepResult(
                self._firings(rows, begin, newest + MILLISECOND), ~waiting & waiting, rows.timer, rows.position
            )
        fired = self._next_after_firing(now) - self.slide
        waiting &= rows.timer > fired - MILLISECOND
        timer = np.where(waiting, rows.timer, fired + self.slide - MILLISECOND)
        firings = self._firings(rows, begin, np.full(len(begin), fired))
        return StepResult(firings, self._kept(rows, waiting), timer, np.where(waiting, NOT_COUNTED, 0))

    def _next(self, time: Times) -> Times:
        """The first multiple after each time."""
        return aligned(time, self.slide, self.offset) + self.slide

    def _next_after_firing(self, now: int) -> int:
        """The first multiple that the clock has not fired."""
        return now + MILLISECOND - (now + MILLISECOND - self.offset) % self.slide + self.slide

    def _kept(self, rows: Timeline, waiting: Flags) -> Flags:
        """Rows that have not been in a firing, and the newest of the others."""
        seen = np.add.reduceat((~waiting).astype(np.int64), rows.first)
        stop = (rows.first + seen)[rows.key]
        return waiting | (np.arange(len(rows.key)) >= stop - self.size)

    def _firings(self, rows: Timeline, begin: Times, end: Times) -> Iterator[Ranges]:
        """The firings of each key at each multiple from ``begin`` to ``end``, multiple by multiple."""
        fire = np.flatnonzero(end >= begin)
        if not len(fire):
            return
        longest = fire[np.argmax(end[fire] - begin[fire])]
        require_few(int(end[longest] - begin[longest]) // self.slide + 1, int(begin[longest]), int(end[longest]))
        multiples = max(1, MOST_FIRINGS // len(begin))
        low = int(begin.min())
        while low <= int(end.max()):
            high = low + multiples * self.slide
            here = np.arange(low, min(high, int(end.max()) + 1), self.slide)
            multiple, key = np.nonzero((begin <= here[:, np.newaxis]) & (here[:, np.newaxis] <= end))
            yield self._last_before(rows, key, here[multiple])
            later = np.maximum(begin, high)[end >= high]  # between the rows of different keys may be thousands of years
            low = int(later.min(initial=END_OF_TIME))

    def _last_before(self, rows: Timeline, key: RowIndices, multiple: Times) -> Ranges:
        asked = Windows(key, multiple, multiple)
        line = on_line(Windows(rows.key, rows.time, rows.time) + asked).start
        stop = np.searchsorted(line[: len(rows.key)], line[len(rows.key) :])
        return Ranges(np.maximum(rows.first[key], stop - self.size), stop)
