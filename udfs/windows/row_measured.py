"""Storm's windows of which one measure counts rows and the other is time, in any of the two clocks.

``EveryRows``: at every n-th row of a key, the rows in ``(time - size, time]`` of that row. ``LastRows``: at every
multiple of the slide, the last n rows of a key before it, also without new rows as long as there is one.

In event time rows count in order of their times, and by arrival among equal ones. A row counts when the watermark has
reached its time, and a multiple of the slide fires when the watermark is 1 ms before it. A row is late when that has
happened already: ``watermark >= time`` for EveryRows, ``watermark >= the first multiple after time - 1 ms`` for
LastRows. In processing time rows count as they arrive, and none is late.

At the end of a bounded input LastRows fires up to the first multiple after a key's newest row; EveryRows does not fire
for rows that wait for others. ``window_start`` and ``window_end`` are the time of the oldest row and 1 ms after that of
the newest. The window function sees the rows in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import Flags, Times, times_of
from sqlstream.udfs.assigners.merging import MILLISECOND
from sqlstream.udfs.kernel import KEY_HASH, Context, Domain, Kernel
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.ranges import Ranges, aggregate_ranges
from sqlstream.udfs.windows.timeline import NOT_COUNTED, Measure, Timeline

TIME = "__time"
POSITION = "__position"
WINDOW_BOUND = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class RowMeasuredKernel(Kernel):
    """``time`` names the column of the rows' times; None stands for now, in processing time.

    ``late_columns`` go out with the bounds of the row's own instant where late rows are wanted.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    time: str | None
    measure: Measure
    function: Aggregates
    domain: Domain = Domain.EVENT
    late_columns: tuple[str, ...] | None = None

    @property
    def output(self) -> pa.Schema:
        return pa.schema([*self._keys, *_BOUNDS, *self.function.results])

    @property
    def late_output(self) -> pa.Schema | None:
        if self.late_columns is None:
            return None
        return pa.schema([*(self.input.field(name) for name in self.late_columns), *_BOUNDS])

    @property
    def uses_processing_time(self) -> bool:
        return self.domain is Domain.PROCESSING

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        time = times_of(rows, self.time, context)
        if self.domain is Domain.EVENT:
            late = self.measure.late(time, context.watermark)
            self._tell_late(rows, time, late, context)
            rows, time = rows.filter(pa.array(~late)), time[~late]
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
        order = np.lexsort((time, key))
        rows, line = rows.take(order), Timeline(key[order], time[order], timer[order], position[order])
        step = self.measure.step(line, self.domain, self._now(context))
        for firings in step.firings:
            context.emit(self._fired(rows, line.time, firings))
        stay = rows.select(self._kept.names)
        stay = stay.append_column(POSITION, pa.array(step.position)).append_column(self._timer, pa.array(step.timer))
        return stay.filter(pa.array(step.kept)).cast(self._schema)

    def _fired(self, rows: pa.Table, time: Times, firings: Ranges) -> pa.Table:
        keys = rows.select(list(self.keys)).take(firings.start).columns
        bounds = _bounds(time[firings.start], time[firings.stop - 1])
        results = aggregate_ranges(self.function, rows, firings).columns
        return pa.Table.from_arrays([*keys, *bounds, *results], schema=self.output)

    def _tell_late(self, rows: pa.Table, time: Times, late: Flags, context: Context) -> None:
        if not late.any():
            return
        context.count("late_rows", int(late.sum()))
        if self.late_columns is not None:
            found = rows.select(list(self.late_columns)).filter(pa.array(late))
            columns = [*found.columns, *_bounds(time[late], time[late])]
            context.emit_late(pa.Table.from_arrays(columns, schema=self.late_output))

    # --- state ------------------------------------------------------------------------------------------------

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._schema)

    def _stored(self, rows: pa.Table, time: Times, timer: Times) -> pa.Table:
        kept = rows.select([name for name in self._kept.names if name != TIME])
        waiting = pa.array(np.full(len(time), NOT_COUNTED, np.int64))
        columns = [*kept.columns, pa.array(time), waiting, pa.array(timer)]
        return pa.Table.from_arrays(columns, schema=self._schema)

    @cached_property
    def _keys(self) -> tuple[pa.Field, ...]:
        return tuple(self.input.field(name) for name in self.keys)

    @cached_property
    def _kept(self) -> pa.Schema:
        """Columns of the input that are stored, and the row's time."""
        names = dict.fromkeys((KEY_HASH, *self.keys, *self.function.input.names))
        return pa.schema([*(self.input.field(name) for name in names), (TIME, pa.int64())])

    @property
    def _timer(self) -> str:
        return EVENT_TIMER if self.domain is Domain.EVENT else PROCESSING_TIMER

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([*self._kept, (POSITION, pa.int64()), (self._timer, pa.int64())])


_BOUNDS = (pa.field("window_start", WINDOW_BOUND), pa.field("window_end", WINDOW_BOUND))


def _bounds(oldest: Times, newest: Times) -> tuple[pa.Array, pa.Array]:
    return pa.array(oldest).cast(WINDOW_BOUND), pa.array(newest + MILLISECOND).cast(WINDOW_BOUND)
