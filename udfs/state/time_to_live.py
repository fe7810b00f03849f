"""The time to live of rows by key, which drops state that nothing else would ever drop."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import END_OF_TIME, Context, Domain, Kernel
from sqlstream.udfs.state.buckets import PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState


@dataclass(frozen=True)
class TimeToLive:
    """The time to live of the rows of a ``KeyedState``. ``ttl``: microseconds of processing time; 0: for ever, and then
    rows have no timer.
    """

    ttl: int = 0

    @property
    def timer(self) -> list[pa.Field]:
        """The field of the timer column, PROCESSING_TIMER, as a list; empty without a time to live."""
        return [pa.field(PROCESSING_TIMER, pa.int64())] if self.ttl else []

    def timers(self, count: int, context: Context) -> list[pa.Array]:
        """The column PROCESSING_TIMER for ``count`` rows that are written now, in a list; an empty list without a time
        to live.
        """
        if not self.ttl:
            return []
        return [pa.array(np.full(count, self.ends(context), np.int64))]

    def ends(self, context: Context) -> int:
        """The processing time, in microseconds, at which rows that are written now expire; END_OF_TIME for never."""
        return min(context.processing_time, END_OF_TIME - self.ttl) + self.ttl

    def alive(self, rows: pa.Table, context: Context) -> pa.Table:
        """The loaded rows without expired ones. A key that returns after its time to live must not see its earlier
        rows.
        """
        if not self.ttl or context.processing_time == END_OF_TIME:
            return rows
        return rows.filter(pc.greater(rows.column(PROCESSING_TIMER), context.processing_time))

    def due(self, state: KeyedState, context: Context) -> pa.Table:
        """Removes the rows that have expired from the state and returns them; none at the end of the input."""
        if not self.ttl or context.processing_time == END_OF_TIME:
            return state.schema.empty_table()
        return self.forgotten(state, context.processing_time)

    def forgotten(self, state: KeyedState, time: int) -> pa.Table:
        """Removes the rows that expire up to ``time`` (microseconds) from the state and returns them; at the end of the
        input all rows, if they have a time to live.
        """
        rows = state.due(Domain.PROCESSING, time)
        if not rows.num_rows:
            return rows
        over = pc.less_equal(rows.column(PROCESSING_TIMER), time)
        state.replace(rows.filter(pc.invert(over)))
        return rows.filter(over)

    def close(self, state: KeyedState, context: Context) -> None:
        """Flushes the state, which must be the kernel's only one, and sets the timer for the next expiry."""
        state.flush()
        if self.ttl:
            context.set_timer(Domain.PROCESSING, self.wakes(state, context))

    def wakes(self, state: KeyedState, context: Context) -> int:
        """The processing time of the next expiry, in microseconds, as of the last ``flush``; END_OF_TIME for never, and
        at the end of the input.
        """
        if not self.ttl or context.processing_time == END_OF_TIME:
            return END_OF_TIME
        return state.next_timer(Domain.PROCESSING)


# --- kernels that store rows by key and drop a key some time after its last change ----------------------------


class ExpiringKernel(Kernel):
    """The base of kernels that store rows by key and drop the rows of a key some time after their last change.

    ``ttl``: that time in microseconds of processing time; 0: never. Nothing is emitted when rows expire. The rows are
    the only state, and their time to live is the only timer.
    """

    ttl: int

    @property
    @abstractmethod
    def _stored(self) -> pa.Schema:
        """The rows that are state, with the timer of ``_living``."""

    @property
    def _living(self) -> TimeToLive:
        return TimeToLive(self.ttl)

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl > 0

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        state = self._state(context)
        self._living.forgotten(state, time)
        self._living.close(state, context)

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._stored)
