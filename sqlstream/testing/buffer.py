"""What a test has said and its job has not seen yet: kept together for as long as one micro-batch shows no difference.

A micro-batch costs a fifth of a second, so rows and watermarks are collected and go out at once. That is safe because
of when watermarks are compared: rows are judged by the watermark that the batch before left, and windows close, after
all rows of the batch, by the watermark that the batch itself reaches. So a watermark followed by a row may share a
batch exactly if the row would have been judged the same way after it:

* A row later than the watermark W is late for nothing, because its windows end after W.
* Nor does it extend a session that W has closed, if it is later than W + 1 ms: a session closes at W >= end - 1 ms
  and takes up rows until its end.
* Nor does it belong among rows that came out at W because no earlier row, or no partner, comes any more.

Any other row waits until the watermark before it has gone out, with all rows of its call: the rows of a call are judged
by what came before the call, as a job judges those of a micro-batch. The watermark is the least of those of all tables
that have one. Operators that update results row by row, or act at each step of the clock, see the difference between
one batch and two: for them ``joint`` is False and only the rows of one step go together, which they take in order of
arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Arrival = tuple[tuple[Any, ...], int, str]
"""The values of a row, the clock when it came, in ms, and its kind."""


@dataclass(frozen=True)
class Flush:
    """One micro-batch: rows by table in arrival order, watermarks that steps lifted by table, the clock; all in ms."""

    rows: dict[str, list[Arrival]]
    watermarks: dict[str, int]
    clock_ms: int | None = None


@dataclass
class Buffer:
    """``tables`` are those that have a watermark; ``flushed`` are the watermarks that the job has reached, by table."""

    joint: bool = True
    tables: frozenset[str] = frozenset()
    flushed: dict[str, int] = field(default_factory=dict)
    _rows: dict[str, list[Arrival]] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)
    _lifted: dict[str, int] = field(default_factory=dict)
    _tick_ms: int | None = None

    @property
    def empty(self) -> bool:
        return not self._rows and not self._lifted and self._tick_ms is None

    def takes(self, table: str, event_ms: int | None) -> bool:
        """May a row of that event time (None: unknown) join what is kept?"""
        pending = self._least(self.flushed | self._reached)
        if table not in self.tables or pending is None or pending == self._least(self.flushed):
            return self.joint or self._holds_only(table)
        return self.joint and event_ms is not None and event_ms > pending + 1

    def _least(self, watermarks: Mapping[str, int]) -> int | None:
        """The watermark of the job; None before all tables have one."""
        watermarks_known = [watermarks[table] for table in self.tables if table in watermarks]
        return min(watermarks_known) if watermarks_known and len(watermarks_known) == len(self.tables) else None

    def _holds_only(self, table: str) -> bool:
        return self._rows.keys() <= {table} and not self._reached and self._tick_ms is None

    def may_be_late(self, table: str, event_ms: int | None) -> bool:
        """Has the job passed the event time of a row? Then it is late, unless one of its windows is still open."""
        now = self._least(self.flushed) if table in self.tables else None
        return now is not None and event_ms is not None and event_ms <= now

    def add_row(self, table: str, values: tuple[Any, ...], clock_ms: int, kind: str = "+I") -> None:
        self._rows.setdefault(table, []).append((values, clock_ms, kind))

    def lift(self, table: str, watermark_ms: int) -> None:
        """A step lifts the watermark. Watermarks never fall: a lower one changes nothing."""
        if self._rises(table, watermark_ms):
            self._reached[table] = self._lifted[table] = watermark_ms

    def tick(self, clock_ms: int) -> None:
        """A step moves the clock of processing time."""
        self._tick_ms = clock_ms

    def reach(self, table: str, watermark_ms: int) -> None:
        """Rows that are kept lift the watermark by themselves."""
        if self._rises(table, watermark_ms):
            self._reached[table] = watermark_ms

    def _rises(self, table: str, watermark_ms: int) -> bool:
        now = self._reached.get(table, self.flushed.get(table))
        return now is None or watermark_ms > now

    def take(self) -> Flush:
        """All that is kept; the buffer is empty afterwards."""
        flush = Flush(self._rows, self._lifted, self._tick_ms)
        self.flushed |= self._reached
        self._rows, self._reached, self._lifted, self._tick_ms = {}, {}, {}, None
        return flush
