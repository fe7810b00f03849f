"""Tells when an aircraft has not left New York for some days: what no window says, because nothing happens then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from sqlstream.udfs.process import ProcessContext, ProcessFunction, Row, Timer, ValueState

DAY_MS = 86_400_000


class Departure(NamedTuple):
    """What is read of the table."""

    carrier: str
    dest: str


class Idle(NamedTuple):
    """The last departure, and how many there were since the aircraft was idle before."""

    carrier: str
    dest: str
    last_departure: datetime
    departures: int


class IdleAircraft(ProcessFunction):
    last = ValueState(Departure)
    left = ValueState(int)
    departures = ValueState(int, default=0)

    def eval(self, ctx: ProcessContext, input: Row[Departure], days: int = 3) -> None:  # noqa: A002
        if self.left.value is not None:
            ctx.delete_timer("idle", self.left.value + days * DAY_MS)
        self.last.value, self.left.value = Departure(input.carrier, input.dest), ctx.time
        self.departures.value += 1
        ctx.register_timer("idle", ctx.time + days * DAY_MS)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Idle]:
        last, left = self.last.value, self.left.value
        assert left is not None, "the timer goes with the last departure"
        yield Idle(*last, datetime.fromtimestamp(left / 1000, UTC), self.departures.value)
        for state in (self.last, self.left, self.departures):
            state.clear()
