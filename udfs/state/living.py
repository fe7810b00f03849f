"""How long state without an end is remembered after it was last written."""

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
class Living:
    """``ttl``: microseconds of processing time; 0 for ever, and then rows have no timer."""

    ttl: int = 0

    @property
    def timer(self) -> list[pa.Field]:
        """The column that state has for it."""
        return [pa.field(PROCESSING_TIMER, pa.int64())] if self.ttl else []

    def timers(self, count: int, context: Context) -> list[pa.Array]:
        """PROCESSING_TIMER of rows that are written now, where they have one."""
        if not self.ttl:
            return []
        return [pa.array(np.full(count, self.ends(context), np.int64))]

    def ends(self, context: Context) -> int:
        """When the time of what is written now is up, where it ever is."""
        return min(context.processing_time, END_OF_TIME - self.ttl) + self.ttl

    def alive(self, rows: pa.Table, context: Context) -> pa.Table:
        """Loaded rows whose time is not up: a key that comes back before its timer is looked at begins anew."""
        if not self.ttl or context.processing_time == END_OF_TIME:
            return rows
        return rows.filter(pc.greater(rows.column(PROCESSING_TIMER), context.processing_time))

    def due(self, state: KeyedState, context: Context) -> pa.Table:
        """Takes the rows whose time is up out of the state; at the end of the input none."""
        if not self.ttl or context.processing_time == END_OF_TIME:
            return state.schema.empty_table()
        return self.forgotten(state, context.processing_time)

    def forgotten(self, state: KeyedState, time: int) -> pa.Table:
        """Takes the rows whose time is up out of the state; at the end of the input all that ever end."""
        rows = state.due(Domain.PROCESSING, time)
        if not rows.num_rows:
            return rows
        over = pc.less_equal(rows.column(PROCESSING_TIMER), time)
        state.replace(rows.filter(pc.invert(over)))
        return rows.filter(over)

    def close(self, state: KeyedState, context: Context) -> None:
        """Flushes the only state of a kernel, and asks for a call when it is to be looked at."""
        state.flush()
        if self.ttl:
            context.set_timer(Domain.PROCESSING, self.wakes(state, context))

    def wakes(self, state: KeyedState, context: Context) -> int:
        """When to look again, as of the last ``flush``. At the end of the input no time passes any more."""
        if not self.ttl or context.processing_time == END_OF_TIME:
            return END_OF_TIME
        return state.next_timer(Domain.PROCESSING)


# --- kernels that store rows by key and drop a key some time after its last change ----------------------------


class ForgettingKernel(Kernel):
    """``ttl``: a key is forgotten so many microseconds of processing time after its rows last changed, and nothing
    comes out of that; 0: never. Its rows are the only state, and their time to live its only timer.
    """

    ttl: int

    @property
    @abstractmethod
    def _stored(self) -> pa.Schema:
        """The rows that are state, with the timer of ``_living``."""

    @property
    def _living(self) -> Living:
        return Living(self.ttl)

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
