"""Kernels whose rows wait in state until a clock has passed them, and are then looked at key by key, in order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import END_OF_TIME, Context, Domain, Kernel
from sqlstream.udfs.over.line import Flags, Indices, Times
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.waiting import Pending, Wait, waits

TIME = "__time"
"""BIGINT column of the state: the time of a row, in microseconds."""

AT_THE_END = END_OF_TIME - 1
"""The timer of rows that only the end of the input decides."""


class WaitingRows(Kernel):
    """``domain`` is the clock. The state has the columns ``_kept`` of ``input``, TIME, ``_done`` and a timer."""

    input: pa.Schema
    domain: Domain

    @property
    @abstractmethod
    def _kept(self) -> list[str]:
        """The columns of the input that are read later."""

    @property
    @abstractmethod
    def _done(self) -> str:
        """The BOOLEAN column of the state that is TRUE for rows that have been dealt with."""

    @abstractmethod
    def _step(self, rows: pa.Table, now: int, state: KeyedState, context: Context) -> None:
        """Deals with the rows of the keys that are due, and puts what stays of them back into the state."""

    @property
    def uses_processing_time(self) -> bool:
        return self.domain is Domain.PROCESSING

    def on_event_time(self, watermark: int, context: Context) -> None:
        self._advance(self._state(context), context)

    def on_processing_time(self, time: int, context: Context) -> None:
        self._advance(self._state(context), context)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Rows that have not been dealt with, because the clock or the rows behind them are still to come."""
        rows = self._state(context).load_all()
        timer = rows.column(self._timer).to_numpy()[~rows.column(self._done).to_numpy(zero_copy_only=False)]
        in_time = timer[timer != AT_THE_END]
        yield from waits(Pending.ROWS, self.domain, in_time)
        if len(in_time) < len(timer):
            yield Wait(Pending.ROWS, None, len(timer) - len(in_time))

    def _advance(self, state: KeyedState, context: Context) -> None:
        now = context.watermark if self.domain is Domain.EVENT else context.processing_time
        rows = state.due(self.domain, now)
        if rows.num_rows:
            self._step(rows, now, state, context)
        state.flush()
        context.set_timer(self.domain, state.next_timer(self.domain))

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._stored)

    def _table(self, rows: pa.Table, time: Times, done: Flags, timer: Times) -> pa.Table:
        """The rows as the state has them."""
        own = (pa.array(time), pa.array(done), pa.array(timer))
        return pa.Table.from_arrays([*rows.select(self._kept).columns, *own], schema=self._stored)

    @cached_property
    def _stored(self) -> pa.Schema:
        own = ((TIME, pa.int64()), (self._done, pa.bool_()), (self._timer, pa.int64()))
        return pa.schema([*(self.input.field(name) for name in self._kept), *own])

    @property
    def _timer(self) -> str:
        return EVENT_TIMER if self.domain is Domain.EVENT else PROCESSING_TIMER


def picked(rows: pa.Table, places: Indices) -> pa.Table:
    """The rows of sorted places, each once."""
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


def chosen(rows: pa.Table, flags: Flags) -> pa.Table:
    """The rows with the flag: Arrow filters many columns more slowly than it takes them."""
    return picked(rows, np.flatnonzero(flags))
