"""The base of kernels that store the rows of windows until the watermark has passed these, and emit them together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from sqlstream.udfs.kernel import LATE_ROWS, Context, Domain, Kernel, Pending, Wait, waits
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState


class RowsUntilClose(Kernel):
    """Base of kernels that store the rows of a window until it closes, then emit its results once.

    ``closes`` is the column of ``input`` with the watermark, in microseconds, at which the window of a row is complete.
    A row whose window has closed is late and dropped.
    """

    input: pa.Schema
    closes: str

    @property
    @abstractmethod
    def _kept(self) -> list[str]:
        """The columns of the input that are read later."""

    @abstractmethod
    def _emit(self, rows: pa.Table, context: Context) -> None:
        """Emits the results of the rows of closed windows, window by window."""

    def _needed(self, rows: pa.Table) -> pa.Table:
        """The rows of open windows without those that cannot change the result, which are not stored."""
        return rows

    def _row_count(self, rows: pa.Table) -> int:
        """The number of input rows of which ``combine`` has left these."""
        return int(rows.num_rows)

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        closes = rows.column(self.closes).to_numpy()
        late = closes <= context.watermark
        if late.any():
            context.count(LATE_ROWS, self._row_count(rows.filter(pa.array(late))))
            rows, closes = rows.filter(pa.array(~late)), closes[~late]
        state = self._state(context)
        if rows.num_rows:
            timed = rows.select(self._kept).append_column(EVENT_TIMER, pa.array(closes))
            state.append(self._needed(timed).cast(self._stored))
        self._close(state, context)

    def on_event_time(self, watermark: int, context: Context) -> None:
        state = self._state(context)
        rows = state.due(Domain.EVENT, watermark)
        if rows.num_rows:
            closed = rows.column(EVENT_TIMER).to_numpy() <= watermark
            self._emit(rows.filter(pa.array(closed)).combine_chunks(), context)
            state.replace(rows.filter(pa.array(~closed)))
        self._close(state, context)

    def on_processing_time(self, time: int, context: Context) -> None:
        raise AssertionError("no timer of processing time was set")

    def waits(self, context: Context) -> Iterator[Wait]:
        """Yields, for monitoring, how many stored rows are in windows that have not closed. Rows that were not
        needed do not count.
        """
        timer = self._state(context).load_all().column(EVENT_TIMER).to_numpy()
        yield from waits(Pending.ROWS_IN_WINDOWS, Domain.EVENT, timer)

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._stored)

    def _close(self, state: KeyedState, context: Context) -> None:
        state.flush()
        context.set_timer(Domain.EVENT, state.next_timer(Domain.EVENT))

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self._kept), (EVENT_TIMER, pa.int64())])
