"""The clock of processing time: control rows, at an interval, for as long as a job runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from sqlstream.errors import SqlStreamError
from sqlstream.jobs.control import ControlRows
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.physical import PhysicalPlan


@dataclass(frozen=True)
class Clock:
    """What follows the clock in a plan: the watermark of ``tables``, and with ``ticks`` the timers of its operators.

    ``ends``: bounded input ends processing time by a tick. ``calls``: ticks make micro-batches, also after the end of
    bounded input, in which rows are asked for again that wait for the answers to lookups; ``calls_only``: they do
    nothing else, so that none is needed where no row waits. ``lookups``: the numbers of the operators that wait so.
    """

    tables: tuple[str, ...] = ()
    ticks: bool = False
    ends: bool = False
    calls: bool = False
    calls_only: bool = False
    interval_ms: int = 1000
    lookups: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables) or self.ticks

    @property
    def tells_time(self) -> bool:
        """True where windows or timers wait for the clock."""
        return bool(self) and not self.calls_only

    def start(self, control: ControlRows, stopped: Event, rows_wait: Callable[[], bool] = lambda: True) -> Thread:
        """Tick until ``stopped``. ``rows_wait``: rows may wait for the answers to lookups."""
        thread = Thread(target=self._run, args=(control, stopped, rows_wait), name="sqlstream-clock", daemon=True)
        thread.start()
        return thread

    def _run(self, control: ControlRows, stopped: Event, rows_wait: Callable[[], bool]) -> None:
        while not stopped.wait(self.interval_ms / 1000):
            if not self.calls_only or rows_wait():
                with suppress(SqlStreamError):  # no room on the disk; there may be some for the next tick
                    self.tick(control)

    def tick(self, control: ControlRows) -> None:
        """Move all that follows the clock to the present."""
        now = time.time_ns()
        self.show(control, now // 1_000_000, f"tick-{now}")

    def show(self, control: ControlRows, now_ms: int, name: str) -> None:
        """Move all that follows the clock; ``name`` is unique within the job."""
        for table in self.tables:
            control.lift(table, now_ms - 1, name)  # rows of this very millisecond may still come
        if self.ticks:
            control.tick(now_ms, name)


def clock_of(plan: PhysicalPlan, interval_ms: int = 1000) -> Clock:
    """The clock of a plan, which has nothing to move where no operator uses processing time."""
    clocked = (mark.table for mark in plan.marks if mark.domain is TimeDomain.PROCESSING)
    tables = tuple(dict.fromkeys(clocked))
    ticks, calls = plan.clocks.ticks, plan.clocks.rows_wait
    lookups = tuple(operator.number for operator in plan.operators if operator.lookup is not None)
    calls_only = calls and not ticks and not tables
    return Clock(tables, ticks or calls, plan.clocks.ends_by_tick, calls, calls_only, interval_ms, lookups)
