"""Triggers as Flink writes them: an object per window that hears of rows and timers, and answers whether to fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

EVENT, PROCESSING = "event", "processing"


class Surroundings(Protocol):
    """What a trigger sees of its window."""

    end: int

    @property
    def watermark(self) -> int: ...

    @property
    def clock(self) -> int: ...

    def register(self, domain: str, time: int, owner: object) -> None: ...

    def delete(self, domain: str, time: int, owner: object) -> None: ...


Row = dict[str, Any]


class Trigger:
    def on_row(self, row: Row, window: Surroundings) -> bool:
        return False

    def on_timer(self, domain: str, time: int, window: Surroundings) -> bool:
        return False

    def restart(self, row: Row | None, window: Surroundings) -> None:
        """Begins again because a trigger above has fired, at ``row`` or at a timer."""

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        """Takes over from the triggers of merged windows, self among them; all their timers are gone."""

    purges = False


class EveryRows(Trigger):
    def __init__(self, count: int) -> None:
        self.count, self.seen = count, 0

    def on_row(self, row: Row, window: Surroundings) -> bool:
        self.seen += 1
        if self.seen < self.count:
            return False
        self.seen = 0
        return True

    def restart(self, row: Row | None, window: Surroundings) -> None:
        self.seen = 0

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        self.seen = sum(other.seen for other in others)


class EveryInterval(Trigger):
    """Flink's continuous triggers: at multiples of the interval up to the window's end on that clock, and at its end.

    Multiples of event time follow the first row, also behind the watermark; late rows fire at once there. On processing
    time rows that come at or after the last moment on that clock wait for the next multiple. When sessions merge, the
    next multiple is the earliest of theirs.
    """

    def __init__(self, interval: int, domain: str) -> None:
        self.interval, self.domain = interval, domain
        self.multiple: int | None = None
        self.next: int | None = None

    def on_row(self, row: Row, window: Surroundings) -> bool:
        closed = window.end - 1 <= window.watermark
        if closed and self.domain == EVENT:
            return True
        if not closed:
            window.register(EVENT, window.end - 1, self)
        if self.multiple is None:
            self._schedule(row["ts"] if self.domain == EVENT else window.clock, window)
        return False

    def _schedule(self, now: int, window: Surroundings) -> None:
        self._register(now - now % self.interval + self.interval, now, window)

    def _register(self, multiple: int, now: int, window: Surroundings) -> None:
        self.multiple = self.next = multiple
        last = window.end - 1
        if now < last or self.domain == EVENT:
            self.next = min(multiple, last)
        window.register(self.domain, self.next, self)

    def on_timer(self, domain: str, time: int, window: Surroundings) -> bool:
        ends = domain == EVENT and time == window.end - 1
        if domain != self.domain or time != self.next:
            return ends
        self.multiple = self.next = None
        if time < window.end - 1:
            self._schedule(time, window)
        return True

    def restart(self, row: Row | None, window: Surroundings) -> None:
        if self.next is not None and not (self.domain == EVENT and self.next == window.end - 1):
            window.delete(self.domain, self.next, self)
        self.multiple = self.next = None

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        if window.end - 1 > window.watermark:
            window.register(EVENT, window.end - 1, self)
        multiples = [other.multiple for other in others if other.multiple is not None]
        if multiples:
            self._register(min(multiples), window.clock, window)


class When(Trigger):
    def __init__(self, condition: Callable[[Row], bool]) -> None:
        self.condition = condition

    def on_row(self, row: Row, window: Surroundings) -> bool:
        return self.condition(row)


class Delta(Trigger):
    def __init__(self, threshold: float, absolute: bool = False) -> None:
        self.threshold, self.absolute = threshold, absolute
        self.reference: float | None = None

    def on_row(self, row: Row, window: Surroundings) -> bool:
        if self.reference is None:
            self.reference = row["v"]
            return False
        delta = row["v"] - self.reference
        if (abs(delta) if self.absolute else delta) <= self.threshold:
            return False
        self.reference = row["v"]
        return True

    def restart(self, row: Row | None, window: Surroundings) -> None:
        self.reference = row["v"] if row is not None else self.reference

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        """Of the sessions, which come by their starts, the first one with a reference keeps it."""
        self.reference = next((other.reference for other in others if other.reference is not None), None)


class AfterSilence(Trigger):
    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.next: int | None = None

    def on_row(self, row: Row, window: Surroundings) -> bool:
        if self.next is not None:
            window.delete(PROCESSING, self.next, self)
        self.next = window.clock + self.interval
        window.register(PROCESSING, self.next, self)
        return False

    def on_timer(self, domain: str, time: int, window: Surroundings) -> bool:
        fires = domain == PROCESSING and time == self.next
        self.next = None if fires else self.next
        return fires

    def restart(self, row: Row | None, window: Surroundings) -> None:
        if self.next is not None:
            window.delete(PROCESSING, self.next, self)
        self.next = None

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        self.next = max((other.next for other in others if other.next is not None), default=None)
        if self.next is not None:
            window.register(PROCESSING, self.next, self)


class PaneInterval(Trigger):
    """EARLY or LATE EVERY interval: processing time from the first row of the pane."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.next: int | None = None

    def on_row(self, row: Row, window: Surroundings) -> bool:
        if self.next is None:
            self.next = window.clock + self.interval
            window.register(PROCESSING, self.next, self)
        return False

    def on_timer(self, domain: str, time: int, window: Surroundings) -> bool:
        fires = domain == PROCESSING and time == self.next
        self.next = None if fires else self.next
        return fires

    def restart(self, row: Row | None, window: Surroundings) -> None:
        if self.next is not None:
            window.delete(PROCESSING, self.next, self)
        self.next = None

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        self.next = min((other.next for other in others if other.next is not None), default=None)
        if self.next is not None:
            window.register(PROCESSING, self.next, self)


class AtOnce(Trigger):
    def on_row(self, row: Row, window: Surroundings) -> bool:
        return True


class AfterWatermark(Trigger):
    def __init__(self, early: Trigger | None = None, late: Trigger | None = None) -> None:
        self.early, self.late = early or Trigger(), late or AtOnce()

    def on_row(self, row: Row, window: Surroundings) -> bool:
        if window.end - 1 <= window.watermark:
            return self.late.on_row(row, window)
        window.register(EVENT, window.end - 1, self)
        return self.early.on_row(row, window)

    def on_timer(self, domain: str, time: int, window: Surroundings) -> bool:
        if domain == EVENT and time == window.end - 1:
            self.early.restart(None, window)
            self.late.restart(None, window)
            return True
        pulse = self.late if window.end - 1 <= window.watermark else self.early
        return pulse.on_timer(domain, time, window)

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        self.early.merge([other.early for other in others], window)
        self.late.merge([other.late for other in others], window)
        if window.end - 1 > window.watermark:
            window.register(EVENT, window.end - 1, self)


class AfterProcessingTime(Trigger):
    def on_row(self, row: Row, window: Surroundings) -> bool:
        window.register(PROCESSING, window.end - 1, self)
        return False

    def on_timer(self, domain: str, time: int, window: Surroundings) -> bool:
        return domain == PROCESSING and time == window.end - 1

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        window.register(PROCESSING, window.end - 1, self)


class Pair(Trigger):
    """Fires by what its operands say; whenever it does, they begin again."""

    def __init__(self, left: Trigger, right: Trigger) -> None:
        self.left, self.right = left, right

    def on_row(self, row: Row, window: Surroundings) -> bool:
        fires = self.decide(self.left.on_row(row, window), self.right.on_row(row, window))
        if fires:
            self.restart(row, window)
        return fires

    def on_timer(self, domain: str, time: int, window: Surroundings) -> bool:
        fires = self.decide(self.left.on_timer(domain, time, window), self.right.on_timer(domain, time, window))
        if fires:
            self.restart(None, window)
        return fires

    def restart(self, row: Row | None, window: Surroundings) -> None:
        self.left.restart(row, window)
        self.right.restart(row, window)

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        self.left.merge([other.left for other in others], window)
        self.right.merge([other.right for other in others], window)

    def decide(self, left: bool, right: bool) -> bool:
        raise NotImplementedError


class Or(Pair):
    def decide(self, left: bool, right: bool) -> bool:
        return left or right


class And(Pair):
    def __init__(self, left: Trigger, right: Trigger) -> None:
        super().__init__(left, right)
        self.left_fired = self.right_fired = False

    def decide(self, left: bool, right: bool) -> bool:
        self.left_fired, self.right_fired = self.left_fired or left, self.right_fired or right
        return self.left_fired and self.right_fired

    def restart(self, row: Row | None, window: Surroundings) -> None:
        super().restart(row, window)
        self.left_fired = self.right_fired = False

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        super().merge(others, window)
        self.left_fired = any(other.left_fired for other in others)
        self.right_fired = any(other.right_fired for other in others)


class Then(Pair):
    """The right one begins where the left one has fired."""

    def __init__(self, left: Trigger, right: Trigger) -> None:
        super().__init__(left, right)
        self.passed = False

    def decide(self, left: bool, right: bool) -> bool:
        if self.passed:
            return right
        self.passed = left
        return left

    def merge(self, others: Sequence[Self], window: Surroundings) -> None:
        super().merge(others, window)
        self.passed = any(other.passed for other in others)
