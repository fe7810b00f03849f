"""Which windows hold a row, one row at a time. All times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

Bounds = tuple[int, int]

FOREVER = 2**62


@dataclass(frozen=True)
class Tumble:
    size: int
    offset: int = 0

    def windows(self, time: int) -> list[Bounds]:
        return Hop(self.size, self.size, self.offset).windows(time)


@dataclass(frozen=True)
class Hop:
    slide: int
    size: int
    offset: int = 0

    def windows(self, time: int) -> list[Bounds]:
        last = time - (time - self.offset) % self.slide
        starts = []
        while last > time - self.size:
            starts.append(last)
            last -= self.slide
        return [(start, start + self.size) for start in reversed(starts)]


@dataclass(frozen=True)
class Cumulate:
    step: int
    size: int
    offset: int = 0

    def windows(self, time: int) -> list[Bounds]:
        start = time - (time - self.offset) % self.size
        ends = range(start + self.step, start + self.size + 1, self.step)
        return [(start, end) for end in ends if end > time]


@dataclass(frozen=True)
class Session:
    gap: int

    def windows(self, time: int) -> list[Bounds]:
        return [(time, time + self.gap)]


@dataclass(frozen=True)
class Global:
    def windows(self, time: int) -> list[Bounds]:
        return [(-FOREVER, FOREVER)]


Window = Tumble | Hop | Cumulate | Session | Global
