"""The clock of processing time: control rows, at an interval, for as long as a job runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

from sqlstream.errors import SqlStreamError
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.physical import PhysicalPlan

GIVE_UP_SECONDS = 30.0
"""So long a disk may be full, or a directory not to be written, before a job fails that waits for its clock."""


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

    def start(
        self,
        control: ControlRows,
        stopped: Event,
        rows_wait: Callable[[], bool] = lambda: True,
        on_failure: Callable[[SqlStreamError], None] = lambda _: None,
    ) -> Thread:
        """Tick until ``stopped``. ``rows_wait``: rows may wait for the answers to lookups. ``on_failure`` is called
        where no tick could be written for ``GIVE_UP_SECONDS``, so that nothing waits for the clock for ever."""
        arguments = (control, stopped, rows_wait, on_failure)
        thread = Thread(target=self._run, args=arguments, name="sqlstream-clock", daemon=True)
        thread.start()
        return thread

    def _run(
        self,
        control: ControlRows,
        stopped: Event,
        rows_wait: Callable[[], bool],
        on_failure: Callable[[SqlStreamError], None],
    ) -> None:
        last = time.monotonic()
        while not stopped.wait(self.interval_ms / 1000):
            if self.calls_only and not rows_wait():
                last = time.monotonic()
                continue
            try:
                self.tick(control)
                last = time.monotonic()
            except SqlStreamError as error:  # no room on the disk; there may be some for the next tick
                if time.monotonic() - last > GIVE_UP_SECONDS:
                    on_failure(error)
                    last = time.monotonic()

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
