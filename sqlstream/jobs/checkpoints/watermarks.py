"""The watermark of each source, stored beside Spark's checkpoint, which holds only the least of several.

Without it a source without rows after a restart would hold back all windows until its next row. Watermarks are read
from the reports of complete micro-batches, so after a crash they may be too low and are never too high.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import time_ns
from typing import Any
from urllib.parse import unquote

from sqlstream.connectors.table_options import idle_timeout_ms
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.storage import damaged
from sqlstream.jobs.reports.counts import ROWS, SOURCE_METRIC, counts_of, ends_of, observed, values_of
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.time import WATERMARK_METRIC
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.plans import scanned_tables
from sqlstream.udfs.texts import json_of

WATERMARKS_FILE = "watermarks.json"


@dataclass(frozen=True)
class SourceWatermarks:
    """Stores the watermarks of a job's sources next to its control rows, if there are several sources, and restores
    them after a restart.
    """

    control: ControlRows

    def keep(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Stores the highest watermark that each source has reached. ``reports``: Spark's progress reports of new
        micro-batches.
        """
        stored = self._known()
        reached = dict(stored)
        for report in reports:
            for table, watermark_ms in reached_watermarks(report).items():
                reached[table] = max(watermark_ms, reached.get(table, watermark_ms))
        if reached != stored:
            self.control.storage.write(WATERMARKS_FILE, json.dumps(reached))

    def restore(self) -> None:
        """Advance each source to its stored watermark; called before the query starts again."""
        for table, watermark_ms in self._known().items():
            self.control.lift(table, watermark_ms, f"restart-{time_ns()}")

    def _known(self) -> dict[str, int]:
        text = self.control.storage.read(WATERMARKS_FILE)
        try:
            return {} if text is None else dict(json_of(text))
        except (ValueError, TypeError) as error:
            raise damaged(
                self.control.storage.location(WATERMARKS_FILE), f"It holds no watermarks: {error}."
            ) from error


def restored_watermarks(plan: PhysicalPlan, control: ControlRows) -> SourceWatermarks | None:
    """For a plan with several sources, restores their watermarks from the checkpoint, and returns the object that
    stores them from now on. None for other plans.
    """
    if not plan.observes_watermarks:
        return None
    kept = SourceWatermarks(control)
    kept.restore()
    return kept


def reached_watermarks(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns a dictionary from table to the watermark that Spark's report of a micro-batch contains for it, in
    milliseconds since 1970. If a table is read twice, it is the lower of its two watermarks.
    """
    watermarks: dict[str, int] = {}
    for number_and_table, metrics in observed(report, WATERMARK_METRIC):
        (watermark_ms,) = values_of(metrics, ("watermark_ms",))
        if watermark_ms is not None:
            table = number_and_table.partition("/")[2]
            watermarks[table] = min(int(watermark_ms), watermarks.get(table, int(watermark_ms)))
    return watermarks


# --- Sources that know how far their watermark may go, and have no row to say so -------------------------------------


@dataclass(frozen=True)
class LiftedSources:
    """Writes the control rows that positions of sources ask for: partitions of a topic have become idle in a
    micro-batch without messages. ``delays_ms``: the delay of each table's watermark.
    """

    control: ControlRows
    delays_ms: Mapping[str, int]

    def take_in(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Advances the watermarks of tables as the positions say at which the micro-batches of ``reports`` end."""
        ends = (end for report in reports for end in ends_of(report))
        lifts = {end["lifts"]: end["lift"] for end in ends if end.get("lifts") in self.delays_ms}
        for table, micros in lifts.items():
            self.control.lift(table, micros // 1000 - self.delays_ms[table], f"partitions-{time_ns()}")


def lifted_sources(plan: PhysicalPlan, control: ControlRows) -> LiftedSources:
    """Returns the object that advances the watermarks of a plan's tables as their sources ask for."""
    marks = (mark for mark in plan.marks if mark.domain is TimeDomain.EVENT)
    return LiftedSources(control, {mark.table: mark.delay_ms for mark in marks})


# --- Idle sources ('table.exec.source.idle-timeout') -----------------------------------------------------------
# The watermark of a job is the least of its sources. Control rows lift an idle source to the least watermark of the
# active ones, or to the greatest one where all are idle, as in Flink. A source with new rows is active again, and its
# rows below the watermark are late.


@dataclass
class IdleSources:
    """Detects which sources of a job are idle: those without new rows for the timeout of their table.

    ``timeouts_ms``: the timeout of each table with a watermark; 0: the table is never idle. ``now_ms``: a monotonic
    clock.
    """

    control: ControlRows
    timeouts_ms: Mapping[str, int]
    now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _rows_at_ms: dict[str, int] = field(default_factory=dict)
    _reached: dict[str, int] = field(default_factory=dict)
    _lifted: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows_at_ms = dict.fromkeys(self.timeouts_ms, self.now_ms())

    def take_in(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Notes which sources had rows in new micro-batches, and which watermarks they reached. ``reports``: Spark's
        progress reports of these micro-batches.
        """
        for report in reports:
            reached = reached_watermarks(report)
            # Control rows reach a watermark, too, but no other than the one that they were given.
            active = {table for table, ms in reached.items() if self._lifted.get(table) != ms} | _with_rows(report)
            self._rows_at_ms |= dict.fromkeys(active & self.timeouts_ms.keys(), self.now_ms())
            for table, ms in reached.items():
                self._reached[table] = max(ms, self._reached.get(table, ms))

    def look(self) -> None:
        """Advances the watermarks of the sources that are idle now, so that they do not hold up the others."""
        now = self.now_ms()
        idle = [table for table, ms in self.timeouts_ms.items() if ms and now - self._rows_at_ms[table] >= ms]
        target = self._target([table for table in self.timeouts_ms if table not in idle]) if idle else None
        for table in idle:
            if target is not None and self._reached.get(table, target - 1) < target:
                self.control.lift(table, target, f"idle-{time.time_ns()}")
                self._reached[table] = self._lifted[table] = target

    def _target(self, active: list[str]) -> int | None:
        """The watermark to which idle sources are lifted; None where an active source has none yet."""
        if not active:
            return max(self._reached.values(), default=None)
        return min(self._reached[t] for t in active) if all(t in self._reached for t in active) else None


def has_idle_parts(plan: PhysicalPlan, timeout_ms: int) -> bool:
    """True where a source of the plan, or a part of it, may become idle. ``timeout_ms`` is the default timeout."""
    return any(idle_timeout_ms(table, timeout_ms) for table in scanned_tables(plan.logical))


def idle_sources(plan: PhysicalPlan, control: ControlRows, timeout_ms: int) -> IdleSources | None:
    """Returns the object that detects idle sources of a plan; None if the plan has only one source, or none may become
    idle. ``timeout_ms`` is the default timeout.
    """
    tables = {table.name: table for table in scanned_tables(plan.logical)}
    marks = [mark.table for mark in plan.marks if mark.domain is TimeDomain.EVENT and mark.table in tables]
    timeouts = {name: idle_timeout_ms(tables[name], timeout_ms) for name in marks}
    return IdleSources(control, timeouts) if len(timeouts) > 1 and any(timeouts.values()) else None


def _with_rows(report: Mapping[str, Any]) -> set[str]:
    return {
        unquote(name.partition("/")[2])
        for name, metrics in observed(report, SOURCE_METRIC)
        if sum(counts_of(metrics, (ROWS,)))
    }
