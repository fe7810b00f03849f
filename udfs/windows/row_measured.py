"""Storm's windows of which one measure counts rows and the other is time, in any of the two clocks.

``EveryRows``: at every n-th row of a key, the rows in ``(time - size, time]`` of that row. ``LastRows``: at every
multiple of the slide, the last n rows of a key before it, also without new rows as long as there is one.

In event time rows count in order of their times, and by arrival among equal ones. A row counts when the watermark has
reached its time, and a multiple of the slide fires when the watermark is 1 ms before it. A row is late when that has
happened already: ``watermark >= time`` for EveryRows, ``watermark >= the first multiple after time - 1 ms`` for
LastRows. In processing time rows count in order of arrival, and none is late.

At the end of a bounded input LastRows fires up to the first multiple after a key's newest row; EveryRows does not fire
for rows that wait for others. ``window_start`` and ``window_end`` are the time of the oldest row and 1 ms after that of
the newest. The window function sees the rows in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import RowIndices, Times, times_of
from sqlstream.udfs.assigners.merging import MILLISECOND, Windows, on_line
from sqlstream.udfs.kernel import MOST_RESULTS, Context, Domain, Kernel
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.waiting import Pending, Wait, waits
from sqlstream.udfs.windows.emission import bounds
from sqlstream.udfs.windows.functions import AllRows
from sqlstream.udfs.windows.kept_rows import KeptRows
from sqlstream.udfs.windows.late import Lateness
from sqlstream.udfs.windows.range_results import results_of
from sqlstream.udfs.windows.ranges import Ranges
from sqlstream.udfs.windows.timeline import NOT_COUNTED, Measure, Timeline

TIME = "__time"
POSITION = "__position"

_LINE = ("__line_key", "__line_time", "__line_timer", "__line_position")
_NOW = "__now"
"""Columns of folded results: those of the timeline, and the clock."""

_FOLDS = 4
"""Results fold where they are so many times the rows that they are made of."""


@dataclass(frozen=True)
class RowMeasuredKernel(Kernel):
    """``time`` names the column of the rows' times; None stands for now, in processing time. No lateness is allowed;
    late rows that are wanted go out with the bounds of a window of nothing but them."""

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
    def kept(self) -> KeptRows:
        return KeptRows(self.input, self.keys, self.function)

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
        """Rows that no clock has reached yet."""
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
        """Emits what fires; the rows that stay."""
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
    """The latest time of each row and those before it of its key: a clock that is set back stands still instead."""
    line = on_line(Windows(key, time, time)).start
    newest = np.where(line == np.maximum.accumulate(line), np.arange(len(line)), 0)
    return time[np.maximum.accumulate(newest)]
