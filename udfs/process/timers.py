"""The timers of the key for which a process function is called, and rows that wait for the watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import repeating
from sqlstream.udfs.columnar import FunctionError
from sqlstream.udfs.kernel import END_OF_TIME, Context, Domain, Store
from sqlstream.udfs.process.function import Timer as UserTimer
from sqlstream.udfs.process.function import TimerAccess
from sqlstream.udfs.process.process_call import ProcessCall
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.timers import Timer, TimerService
from sqlstream.udfs.user_rows import clock_ms, microseconds

ENDLESS = repeating("SS443")
NOT_DECLARED = repeating("SS444")

MOST_AT_THE_END = 100_000
"""The limit of timers that timers may register in one call at the end of time: more are considered an endless chain."""


class KeyTimers(TimerAccess):
    """The timers of one key. ``owner``: KEY_HASH and the values of the key.

    Registrations and deletions by a call of user code take effect with ``commit`` at its end.
    """

    def __init__(self, kernel: ProcessCall, timers: TimerService, context: Context) -> None:
        self._kernel = kernel
        self._timers = timers
        self._context = context
        self._in_timer = False
        self._at_the_end = 0
        self._at_the_end_before = 0
        self._uncommitted: list[tuple[Callable[[Domain, Timer], None], Domain, Timer]] = []
        self.owner: tuple[Any, ...] = ()

    @contextmanager
    def firing(self) -> Iterator[None]:
        """A context manager for calls of ``on_timer``. In it timers that are registered once the input has ended are
        counted, so that timers that register further ones without end raise FunctionError.
        """
        self._in_timer = True
        try:
            yield
        finally:
            self._in_timer = False

    def commit(self) -> None:
        """Apply the registrations and deletions of the current call."""
        for change, domain, timer in self._uncommitted:
            change(domain, timer)
        self._uncommitted.clear()
        self._at_the_end_before = self._at_the_end

    def roll_back(self) -> None:
        """Discard the registrations and deletions since the last ``commit``."""
        self._uncommitted.clear()
        self._at_the_end = self._at_the_end_before

    def time(self, event_time: int | None) -> int:
        """Returns ``event_time``, that of the current row or timer in milliseconds; raises FunctionError if it is None,
        because the row or timer has none.
        """
        if event_time is None:
            message = f'process function "{self._kernel.name}" asks for an event time that there is not'
            hint = "Add on_time => DESCRIPTOR(ts) to the call; timers of processing time have no event time."
            raise FunctionError(f"{NOT_DECLARED}: {message}\nHINT: {hint}")
        return event_time

    def clock(self) -> int:
        """The current processing time in milliseconds."""
        self._check_clock("processing_time is read")
        return clock_ms(self._context.processing_time)

    def register(self, timer: UserTimer) -> None:
        """Register a timer; it exists after the next ``commit``."""
        self._check(timer.domain)
        self._uncommitted.append((self._timers.register, timer.domain, self._owned(timer)))

    def delete(self, timer: UserTimer) -> None:
        """Delete a timer; it exists until the next ``commit``."""
        self._check(timer.domain)
        self._uncommitted.append((self._timers.delete, timer.domain, self._owned(timer)))

    def _owned(self, timer: UserTimer) -> Timer:
        """The clock of processing time is a millisecond after what has passed."""
        time = microseconds(timer.time if timer.domain is Domain.EVENT else timer.time - 1)
        return Timer(time, self.owner[1:], self.owner[:1], timer.name)

    def _check(self, domain: Domain) -> None:
        name = self._kernel.name
        if not self._kernel.has_timers:
            message = f'process function "{name}" sets a timer and has no on_timer'
            raise FunctionError(f"{NOT_DECLARED}: {message}\nHINT: Write a method on_timer(self, ctx, timer).")
        if domain is Domain.PROCESSING:
            self._check_clock("a timer of processing time is set")
        elif self._kernel.time is None:
            message = f'process function "{name}" sets a timer of event time, but the call has no on_time'
            raise FunctionError(f"{NOT_DECLARED}: {message}\nHINT: Add on_time => DESCRIPTOR(ts) to the call.")
        clock = self._context.watermark if domain is Domain.EVENT else self._context.processing_time
        self._at_the_end += self._in_timer and clock == END_OF_TIME
        if self._at_the_end > MOST_AT_THE_END:
            hint = "Register none where ctx.ended is True."
            message = f'the timers of process function "{name}" register timers without end'
            raise FunctionError(f"{ENDLESS}: {message}, now that the input has ended\nHINT: {hint}")

    def _check_clock(self, what: str) -> None:
        if not self._kernel.reads_clock:
            message = f'{what} in process function "{self._kernel.name}", which does not declare it'
            raise FunctionError(f"{NOT_DECLARED}: {message}\nHINT: Write processing_time = True in the class.")


# --- rows that wait for the watermark, to be processed in order of time ---------------------------------------


class RowsInTimeOrder:
    """The rows of a key group that wait for the watermark, sorted by the BIGINT column ``time`` (microseconds); rows of
    the same time are in order of arrival.
    """

    def __init__(self, store: Store, schema: pa.Schema, time: str | None) -> None:
        assert time is not None, "rows are in order of event time"
        self._time = time
        self._schema = schema
        self._state = KeyedState(store, "waiting", schema.append(pa.field(EVENT_TIMER, pa.int64())), by=EVENT_TIMER)

    def add(self, rows: pa.Table, watermark: int) -> int:
        """Stores rows until the watermark reaches them. Late rows, whose time is not after ``watermark``, are dropped;
        returns how many these are.
        """
        stays = self.times(rows) > watermark
        kept = rows.filter(pa.array(stays))
        self._state.append(kept.append_column(EVENT_TIMER, pa.array(self.times(kept), pa.int64())).combine_chunks())
        return int((~stays).sum())

    def take(self, watermark: int) -> pa.Table:
        """Removes and returns the rows with times up to ``watermark``, sorted by time, then by arrival."""
        self._state.due(Domain.EVENT, watermark)
        rows = self._state.loaded()
        due = rows.column(EVENT_TIMER).to_numpy() <= watermark
        self._state.replace(rows.filter(pa.array(~due)))
        due_rows = rows.filter(pa.array(due))
        order = np.argsort(due_rows.column(EVENT_TIMER).to_numpy(), kind="stable")
        return due_rows.take(pa.array(order)).drop_columns([EVENT_TIMER]).combine_chunks()

    def times(self, rows: pa.Table) -> np.ndarray:
        """The times of ``rows`` in microseconds."""
        return np.asarray(rows.column(self._time).to_numpy())

    def all_times(self) -> np.ndarray:
        """The times of all waiting rows in microseconds."""
        return np.asarray(self._state.load_all().column(EVENT_TIMER).to_numpy())

    def next_time(self) -> int:
        """The time of the first waiting row in microseconds; END_OF_TIME if no row waits."""
        return self._state.next_timer(Domain.EVENT)

    def flush(self) -> None:
        """Writes all changes."""
        self._state.flush()
