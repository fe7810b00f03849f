"""Sources without rows for so long hold no watermark back (``table.exec.source.idle-timeout``).

Of several sources the least watermark counts. One that is idle is lifted, by control rows, to the least of those that
are not; where all are idle, to the greatest of them, as in Flink. A source that has rows again counts again, and those
of its rows that are behind are late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.watermarks import reached_watermarks
from sqlstream.jobs.reports.observed import counts_of, observed
from sqlstream.jobs.reports.table_counts import ROWS, SOURCE_METRIC
from sqlstream.options import DURATION
from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.table_uses import scanned_tables

OF_TABLE = ("source.idle-timeout", "scan.watermark.idle-timeout")


@dataclass
class IdleSources:
    """``timeouts_ms`` by table, of all tables whose watermarks make that of the job; 0: never idle."""

    control: ControlRows
    timeouts_ms: Mapping[str, int]
    now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _rows_at_ms: dict[str, int] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)
    _lifted: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows_at_ms = dict.fromkeys(self.timeouts_ms, self.now_ms())

    def take_in(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """What new micro-batches say of the sources."""
        for report in reports:
            reached = reached_watermarks(report)
            # Control rows reach a watermark, too, but no other than the one that they were given.
            active = {table for table, ms in reached.items() if self._lifted.get(table) != ms} | _with_rows(report)
            self._rows_at_ms |= dict.fromkeys(active & self.timeouts_ms.keys(), self.now_ms())
            for table, ms in reached.items():
                self._reached[table] = max(ms, self._reached.get(table, ms))

    def look(self) -> None:
        """Lift the sources that are idle."""
        now = self.now_ms()
        idle = [table for table, ms in self.timeouts_ms.items() if ms and now - self._rows_at_ms[table] >= ms]
        target = self._target([table for table in self.timeouts_ms if table not in idle]) if idle else None
        for table in idle:
            if target is not None and self._reached.get(table, target - 1) < target:
                self.control.lift(table, target, f"idle-{time.time_ns()}")
                self._reached[table] = self._lifted[table] = target

    def _target(self, active: list[str]) -> int | None:
        """The watermark up to which idle sources go along; None where a source that counts has none yet."""
        if not active:
            return max(self._reached.values(), default=None)
        return min(self._reached[t] for t in active) if all(t in self._reached for t in active) else None


def idle_sources(plan: PhysicalPlan, control: ControlRows, timeout_ms: int) -> IdleSources | None:
    """Those of a plan with several sources, some of which may be idle; ``timeout_ms`` where the table says nothing."""
    tables = {table.name: table for table in scanned_tables(plan.logical)}
    marks = [mark.table for mark in plan.marks if mark.domain is TimeDomain.EVENT and mark.table in tables]
    timeouts = {name: _timeout_ms(tables[name], timeout_ms) for name in marks}
    return IdleSources(control, timeouts) if len(timeouts) > 1 and any(timeouts.values()) else None


def _timeout_ms(table: Table, otherwise: int) -> int:
    given = next(filter(None, map(table.option, OF_TABLE)), None)
    return otherwise if given is None else int(DURATION.parse(given))


def _with_rows(report: Mapping[str, Any]) -> set[str]:
    return {
        unquote(name.partition("/")[2])
        for name, metrics in observed(report, SOURCE_METRIC)
        if sum(counts_of(metrics, (ROWS,)))
    }
