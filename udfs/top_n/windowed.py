"""Top-N of windows: of each key and window the best rows, once, when the watermark has passed the window.

As Flink's WindowRankOperator and RowTimeWindowDeduplicateOperator do. A row of a window that has closed is late, and
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, LATE_ROWS, Context, Domain, Kernel
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.top_n.ranking import Ranking
from sqlstream.udfs.waiting import Pending, Wait, waits


@dataclass(frozen=True)
class WindowTopNKernel(Kernel):
    """``input`` has the columns of the ``ranking``, of whose keys one says which window it is, those ``passed`` that
    come out, and ``closes``: the watermark at which the window of a row has all its rows. ``number``: what the INT
    column with the number of a row is called, None for none.
    """

    input: pa.Schema
    ranking: Ranking
    passed: tuple[str, ...]
    closes: str
    number: str | None = None

    @cached_property
    def output(self) -> pa.Schema:
        number = [(self.number, pa.int32())] if self.number is not None else []
        return pa.schema([*(self.input.field(name) for name in self.passed), *number])

    def combine(self, rows: pa.Table) -> pa.Table:
        """Drops the rows that other rows of the same batch push out."""
        return rows.filter(pa.array(self.ranking.best(self.ranking.places(rows))))

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        closes = rows.column(self.closes).to_numpy()
        late = closes <= context.watermark
        if late.any():
            context.count(LATE_ROWS, int(late.sum()))
            rows, closes = rows.filter(pa.array(~late)), closes[~late]
        state = self._state(context)
        if rows.num_rows:
            best_rows = self.combine(rows.select(self._kept))
            state.append(best_rows.append_column(EVENT_TIMER, best_rows.column(self.closes)).cast(self._stored))
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
        """Rows of windows that are open, as far as they are among the best of their batch."""
        timer = self._state(context).load_all().column(EVENT_TIMER).to_numpy()
        yield from waits(Pending.ROWS_IN_WINDOWS, Domain.EVENT, timer)

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, rows: pa.Table, context: Context) -> None:
        """Window by window, and key by key, in order."""
        places = self.ranking.places(rows)
        order = places.in_order()
        numbers = places.numbers(self.ranking.function, order)
        chosen = order[((numbers >= self.ranking.first) & (numbers <= self.ranking.last))[order]]
        chosen = chosen[np.argsort(rows.column(EVENT_TIMER).to_numpy()[chosen], kind="stable")]
        if len(chosen):
            columns = [rows.column(name).take(pa.array(chosen)) for name in self.passed]
            number = [pa.array(numbers[chosen], pa.int32())] if self.number is not None else []
            context.emit(pa.Table.from_arrays([*columns, *number], schema=self.output))

    # --- state --------------------------------------------------------------------------------------------------

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._stored)

    def _close(self, state: KeyedState, context: Context) -> None:
        state.flush()
        context.set_timer(Domain.EVENT, state.next_timer(Domain.EVENT))

    @cached_property
    def _kept(self) -> list[str]:
        order = (o.column for o in self.ranking.order)
        return list(dict.fromkeys((KEY_HASH, *self.ranking.keys, *order, *self.passed, self.closes)))

    @cached_property
    def _stored(self) -> pa.Schema:
        return pa.schema([*(self.input.field(name) for name in self._kept), (EVENT_TIMER, pa.int64())])
