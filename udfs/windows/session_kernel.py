"""Sessions that fire once, when the clock closes them. The state has one row per session; a batch costs one pass over
its rows and over the sessions of their keys.

As in Flink, retracted rows extend a session just as inserted rows do; a session whose rows were all retracted has no
result.

With an allowed lateness, late rows fire sessions again one after another; that is left to the general operator. Here a
late row that touches a live session joins it, and all others are late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners import LATE, Session, Windows, late_windows, merge_sessions
from sqlstream.udfs.assigners.assigner import RowIndices
from sqlstream.udfs.assigners.merging import MILLISECOND
from sqlstream.udfs.kernel import KEY_HASH, NO_WATERMARK, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.windows.emission import Lateness, StoredColumns, bounds
from sqlstream.udfs.windows.instances import END, START
from sqlstream.udfs.windows.ranges import change_counts, numbered, row_counts, with_row_counts


class Live(NamedTuple):
    """Sessions and what they hold."""

    windows: Windows
    held: pa.Table


@dataclass(frozen=True)
class SessionKernel(Kernel):
    """The kernel of such sessions. ``input``: the schema of the rows without KEY_HASH."""

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
        live = Live(_windows(loaded, numbers.ids[: loaded.num_rows]), held)
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
        """Rows of open sessions, until these close."""
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


def _windows(rows: pa.Table, key: RowIndices) -> Windows:
    return Windows(key, rows.column(START).to_numpy(), rows.column(END).to_numpy())
