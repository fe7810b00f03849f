# ruff: noqa: A002
"""Process functions that the golden files call: the worked examples of docs/process_functions.md, and others."""

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
    seen = ValueState(int, default=0)

    def eval(self, ctx: ProcessContext, input: Row, seconds: int = 60) -> None:
        before = self.last.value
        if before is not None:
            ctx.delete_timer("silence", before + seconds * 1000)
        self.last.value = max(ctx.time, before or 0)
        self.seen.value += 1
        ctx.register_timer("silence", self.last.value + seconds * 1000)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Silent]:
        yield Silent(self.last.value, self.seen.value)
        self.last.clear()
        self.seen.clear()


class FirstOf(ProcessFunction):
    """Gives each id of a key once within ten seconds."""

    seen = MapState(str, bool, ttl="10 seconds")

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[str]:
        if input.id not in self.seen:
            self.seen[input.id] = True
            yield input.id


class Step(NamedTuple):
    state: str
    events: list[str]


class Order(ProcessFunction):
    """ordered, paid, shipped; anything else is wrong, and so is an order that is not paid within a minute."""

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
            ctx.register_timer("payment", ctx.time + 60_000)
        if input.event == "shipped":
            yield Step("done", list(self.events))

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Step]:
        if self.state.value == "ordered":
            yield Step("unpaid", list(self.events))


class Above(ProcessFunction):
    """Row semantics: no state, all columns of the row."""

    pass_through = True

    def eval(self, ctx: ProcessContext, input: Row, column: Descriptor, limit: float) -> Iterator[bool]:
        if getattr(input, column[0]) >= limit:
            yield True


class Priced(NamedTuple):
    amount: float
    rate: float | None


class Amount(NamedTuple):
    amount: float


class Convert(ProcessFunction):
    """Two tables: the newest rate of a currency, and amounts in it."""

    rate = ValueState(float)

    def eval(self, ctx: ProcessContext, orders: Row[Amount] | None, rates: Row | None) -> Iterator[Priced]:
        if rates is not None:
            self.rate.value = rates.rate
        if orders is not None:
            yield Priced(orders.amount, self.rate.value)


class Later(ProcessFunction):
    """A timer of processing time, a while after each row."""

    processing_time = True

    def eval(self, ctx: ProcessContext, input: Row, seconds: int) -> None:
        ctx.register_timer(str(input.v), ctx.processing_time + seconds * 1000, Domain.PROCESSING)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> list[str]:
        return [f"{timer.name} is over"]


class Broken(ProcessFunction):
    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[str]:
        raise ValueError(f"no {input.id}")
