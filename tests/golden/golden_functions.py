"""Python functions that the golden files call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlstream.udfs.assigners.user import AssignerContext, Window
from sqlstream.udfs.evictors import EvictorContext
from sqlstream.udfs.triggers.user import TriggerContext, TriggerResult


def fee(price: int) -> float:
    return price * 0.25


def words(text: str) -> Iterator[str]:
    yield from text.split()


class Product:
    """The product of the values that are not NULL."""

    def create(self) -> int:
        return 1

    def accumulate(self, state: int, value: int | None) -> int:
        return state if value is None else state * value

    def merge(self, state: int, other: int) -> int:
        return state * other

    def finish(self, state: int) -> int:
        return state


class Ahead:
    """From each row as many seconds on as its value, times ``factor``; windows that touch become one."""

    merging = True

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def assign(self, row, time: int, context: AssignerContext) -> list[Window]:
        return [Window(time, time + self.factor * row.v * 1000)]


class AtLeast:
    """Fires when values since the last firing add up to ``total``, and at the end of the window."""

    def __init__(self, total: int) -> None:
        self.total = total

    def on_element(self, row, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.end - 1)
        reached = ctx.state.get("sum", 0) + row.v
        ctx.state["sum"] = reached if reached < self.total else 0
        return TriggerResult.CONTINUE if reached < self.total else TriggerResult.FIRE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE


class NotBelow:
    """Rows with values below ``least`` leave."""

    def __init__(self, least: int) -> None:
        self.least = least

    def evict(self, rows: list, window: Window, ctx: EvictorContext) -> list:
        return [row for row in rows if row.v >= self.least]


class Spot(NamedTuple):
    latitude: float
    longitude: float


async def spot(city: str) -> Spot | None:
    """The place of a city whose name has at least two letters."""
    return Spot(float(ord(city[0])), float(ord(city[1]))) if len(city) > 1 else None
