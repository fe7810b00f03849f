# ruff: noqa: A002
"""The process functions of docs/process_functions.md, and others that tests call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from sqlstream.udfs.process import (
    Descriptor,
    Domain,
    ListState,
    MapState,
    ProcessContext,
    ProcessFunction,
    Row,
    Timer,
    ValueState,
)


class Silent(NamedTuple):
    last_seen: int
    seen: int


class Silence(ProcessFunction):
    """Tells keys from which nothing has come for a while."""

    last = ValueState(int)
    count = ValueState(int, default=0)

    def eval(self, ctx: ProcessContext, input: Row, seconds: int = 60) -> None:
        if self.last.value is not None:
            ctx.delete_timer("silence", self.last.value + seconds * 1000)
        self.last.value = max(ctx.time, self.last.value or 0)
        self.count.value += 1
        ctx.register_timer("silence", self.last.value + seconds * 1000)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Silent]:
        yield Silent(self.last.value, self.count.value)
        self.last.clear()
        self.count.clear()


class First(NamedTuple):
    id: str


class Distinct(ProcessFunction):
    """Gives each id of a key once within an hour."""

    seen = MapState(str, bool, ttl="1 hour")

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[First]:
        if input.id not in self.seen:
            self.seen[input.id] = True
            yield First(input.id)


class Step(NamedTuple):
    state: str
    events: list[str]


class Order(ProcessFunction):
    """ordered, paid, shipped; anything else is wrong, and so is an order that is not paid in time."""

    NEXT: ClassVar = {"new": "ordered", "ordered": "paid", "paid": "shipped"}
    state = ValueState(str, default="new")
    events = ListState(str)

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Step]:
        self.events.add(input.event)
        if input.event != self.NEXT.get(self.state.value):
            yield Step("wrong", list(self.events))
            return
        self.state.value = input.event
        if input.event == "ordered":
            ctx.register_timer("payment", ctx.time + 3_600_000)
        if input.event == "shipped":
            yield Step("done", list(self.events))

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Step]:
        if self.state.value == "ordered":
            yield Step("unpaid", list(self.events))


class Priced(NamedTuple):
    amount: float
    rate: float | None


class Rated(NamedTuple):
    currency: str
    amount: float


class Convert(ProcessFunction):
    """Two tables: the newest rate of a currency, and amounts in it."""

    rate = ValueState(float)

    def eval(self, ctx: ProcessContext, orders: Row[Rated] | None, rates: Row | None) -> Iterator[Priced]:
        if rates is not None:
            assert ctx.input == "rates"
            self.rate.value = rates.rate
        if orders is not None:
            yield Priced(orders.amount, self.rate.value)


class Above(ProcessFunction):
    """Row semantics: no state."""

    pass_through = True

    def eval(self, ctx: ProcessContext, input: Row, column: Descriptor, limit: float) -> Iterator[bool]:
        if getattr(input, column[0]) >= limit:
            yield True


class Tick(NamedTuple):
    timer: str
    time: int


class Clock(ProcessFunction):
    """Registers what its rows say."""

    processing_time = True

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Tick]:
        domain = Domain.PROCESSING if input.processing else Domain.EVENT
        act = ctx.delete_timer if input.delete else ctx.register_timer
        act(input.name, input.at, domain)
        yield Tick("row", ctx.processing_time)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> list[Tick]:
        return [Tick(f"{timer.domain.value} {timer.name}", timer.time)]
