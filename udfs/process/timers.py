"""The timers of the key that a process function is called for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlstream.errors import repeating
from sqlstream.udfs.columnar import FunctionError
from sqlstream.udfs.kernel import END_OF_TIME, Context, Domain
from sqlstream.udfs.process.function import Timer as UserTimer
from sqlstream.udfs.process.function import TimerAccess
from sqlstream.udfs.process.process_call import ProcessCall
from sqlstream.udfs.state.timers import Timer, TimerService
from sqlstream.udfs.user_rows import clock_ms, microseconds

ENDLESS = repeating("SS443")
NOT_DECLARED = repeating("SS444")

MOST_AT_THE_END = 100_000
"""How many timers timers may register in one call once time has ended: more are taken for a chain without end."""


class KeyTimers(TimerAccess):
    """``owner``: KEY_HASH and the values of the key.

    What a call of user code registers and deletes counts from ``commit`` on, at its end.
    """

    def __init__(self, kernel: ProcessCall, timers: TimerService, context: Context) -> None:
        self._kernel = kernel
        self._timers = timers
        self._context = context
        self._in_timer = False
        self._at_the_end = 0
        self._at_the_end_before = 0
        self._told: list[tuple[Callable[[Domain, Timer], None], Domain, Timer]] = []
        self.owner: tuple[Any, ...] = ()

    @contextmanager
    def firing(self) -> Iterator[None]:
        self._in_timer = True
        try:
            yield
        finally:
            self._in_timer = False

    def commit(self) -> None:
        for tell, domain, timer in self._told:
            tell(domain, timer)
        self._told.clear()
        self._at_the_end_before = self._at_the_end

    def roll_back(self) -> None:
        """Forgets what was registered and deleted since ``commit``."""
        self._told.clear()
        self._at_the_end = self._at_the_end_before

    def time(self, event_time: int | None) -> int:
        if event_time is None:
            message = f'process function "{self._kernel.name}" asks for an event time that there is not'
            hint = "Add on_time => DESCRIPTOR(ts) to the call; timers of processing time have no event time."
            raise FunctionError(f"{NOT_DECLARED}: {message}\nHINT: {hint}")
        return event_time

    def clock(self) -> int:
        self._check_clock("processing_time is read")
        return clock_ms(self._context.processing_time)

    def register(self, timer: UserTimer) -> None:
        self._check(timer.domain)
        self._told.append((self._timers.register, timer.domain, self._owned(timer)))

    def delete(self, timer: UserTimer) -> None:
        self._check(timer.domain)
        self._told.append((self._timers.delete, timer.domain, self._owned(timer)))

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
