"""Windows over a stream, row by row, as the dialect describes them: the model that the kernels are held against.

It is slow and plain on purpose, written from the text of the dialect and Flink's documentation and not from the
kernels, and shares no code with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.model.triggers import EVENT, PROCESSING, AfterWatermark, Row, Trigger
from tests.model.windows import FOREVER, Bounds, Global, Session, Window

Result = tuple[Any, ...]
Evictor = Callable[[list[Row]], list[Row]]
"""What is left of the rows of a window, in order of arrival."""


def keep_rows(count: int) -> Evictor:
    return lambda rows: rows[-count:]


def keep_interval(interval: int) -> Evictor:
    def evict(rows: list[Row]) -> list[Row]:
        newest = max(row["ts"] for row in rows)
        return [row for row in rows if newest - row["ts"] < interval]

    return evict


def evict_delta(threshold: float) -> Evictor:
    return lambda rows: [row for row in rows if rows[-1]["v"] - row["v"] < threshold]


@dataclass
class Operator:
    """``output`` are (key, start, end, *aggregate(rows)) of the firings so far, ``late`` the rows no window took."""

    window: Window
    aggregate: Callable[[list[Row]], Result]
    trigger: Callable[[], Trigger] = AfterWatermark
    allowed: int = 0
    discarding: bool = False
    evictor: Evictor | None = None
    evict_after: bool = False
    watermark: int = -FOREVER
    clock: int = 0
    output: list[Result] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    instances: dict[tuple[Any, Bounds], Instance] = field(default_factory=dict)

    def row(self, row: Row) -> None:
        windows = self.window.windows(row["ts"])
        if isinstance(self.window, Session):
            windows = [self._merged(row["k"], windows[0])]
        alive = [bounds for bounds in windows if not self._is_late(bounds)]
        if not alive:
            self.late.append(row)
        for bounds in alive:
            instance = self._instance(row["k"], bounds)
            instance.rows.append(row)
            if instance.trigger.on_row(row, instance):
                instance.fire()

    def reach_watermark(self, watermark: int) -> None:
        if watermark > self.watermark:
            self.watermark = watermark
            self._run_timers(EVENT, watermark)

    def reach_clock(self, clock: int) -> None:
        self.clock = max(self.clock, clock)
        self._run_timers(PROCESSING, self.clock)

    def _is_late(self, bounds: Bounds) -> bool:
        return self.watermark >= bounds[1] - 1 + self.allowed

    def _instance(self, key: Any, bounds: Bounds) -> Instance:
        if (key, bounds) not in self.instances:
            actual = Instance(self, key, *bounds, self.trigger())
            self.instances[key, bounds] = actual
            actual.register(EVENT, bounds[1] - 1 + self.allowed, None)
        return self.instances[key, bounds]

    def _merged(self, key: Any, new: Bounds) -> Bounds:
        """The session that a row joins; the sessions that it connects become one."""
        touching = [b for k, b in self.instances if k == key and b[0] <= new[1] and new[0] <= b[1]]
        if not touching:
            return new
        bounds = (min([new[0], *(b[0] for b in touching)]), max([new[1], *(b[1] for b in touching)]))
        if touching == [bounds]:
            return bounds
        old = [self.instances.pop((key, b)) for b in sorted(touching)]
        merged = Instance(self, key, *bounds, self.trigger())
        merged.rows = sorted((row for instance in old for row in instance.rows), key=lambda row: row["n"])
        merged.register(EVENT, bounds[1] - 1 + self.allowed, None)
        merged.trigger.merge([instance.trigger for instance in old], merged)
        self.instances[key, bounds] = merged
        return bounds

    def _run_timers(self, domain: str, limit: int) -> None:
        while True:
            due = [
                (time, i, owner is None, instance, owner)
                for i, instance in enumerate(self.instances.values())
                for (d, time, owner) in instance.timers
                if d == domain and time <= limit
            ]
            if not due:
                return
            time, _, _, instance, owner = min(due, key=lambda timer: timer[:3])
            instance.timers.discard((domain, time, owner))
            if owner is None:
                del self.instances[instance.key, (instance.start, instance.end)]
            elif instance.hear(domain, time):
                instance.fire()


@dataclass
class Instance:
    """One window of one key."""

    operator: Operator
    key: Any
    start: int
    end: int
    trigger: Trigger
    rows: list[Row] = field(default_factory=list)
    timers: set[tuple[str, int, object]] = field(default_factory=set)

    @property
    def watermark(self) -> int:
        return self.operator.watermark

    @property
    def clock(self) -> int:
        return self.operator.clock

    def register(self, domain: str, time: int, owner: object) -> None:
        self.timers.add((domain, time, owner))

    def delete(self, domain: str, time: int, owner: object) -> None:
        self.timers.discard((domain, time, owner))

    def hear(self, domain: str, time: int) -> bool:
        """A timer of the window, once per time whoever of the trigger's parts has set it."""
        same = {timer for timer in self.timers if timer[:2] == (domain, time) and timer[2] is not None}
        self.timers -= same
        return self.trigger.on_timer(domain, time, self)

    @property
    def _bounds(self) -> Bounds:
        """A global window is shown as the time of its rows."""
        if not isinstance(self.operator.window, Global):
            return self.start, self.end
        times = [row["ts"] for row in self.rows]
        return min(times), max(times) + 1

    def fire(self) -> None:
        operator = self.operator
        if operator.evictor is not None and not operator.evict_after and self.rows:
            self.rows = operator.evictor(self.rows)
        if self.rows:
            operator.output.append((self.key, *self._bounds, *operator.aggregate(self.rows)))
        if operator.evictor is not None and operator.evict_after and self.rows:
            self.rows = operator.evictor(self.rows)
        if operator.discarding or self.trigger.purges:
            self.rows = []


@dataclass
class CountWindows:
    """``size`` rows every ``slide`` rows of each key; the first result after ``slide`` rows, or ``size`` if full."""

    size: int
    slide: int
    aggregate: Callable[[list[Row]], Result]
    full_only: bool = False
    output: list[Result] = field(default_factory=list)
    kept: dict[Any, deque[Row]] = field(default_factory=dict)
    seen: dict[Any, int] = field(default_factory=dict)

    def row(self, row: Row) -> None:
        key = row["k"]
        rows = self.kept.setdefault(key, deque(maxlen=self.size))
        rows.append(row)
        seen = self.seen[key] = self.seen.get(key, 0) + 1
        first = self.size if self.full_only else self.slide
        if seen >= first and (seen - first) % self.slide == 0:
            times = [r["ts"] for r in rows]
            self.output.append((key, min(times), max(times) + 1, *self.aggregate(list(rows))))
