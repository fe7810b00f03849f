"""The watermark of each source, kept beside Spark's checkpoint, which holds the least of several only.

Without it a source that stays silent after a restart would hold all windows back until its next row. What is kept is
read from the reports of complete micro-batches, so after a crash it may be behind and is never ahead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any

from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.damage import damaged
from sqlstream.jobs.reports.observed import observed, values_of
from sqlstream.planner.lowering.time import WATERMARK_METRIC
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.udfs.texts import json_of

FILE = "watermarks.json"


@dataclass(frozen=True)
class SourceWatermarks:
    """The watermarks of a job with several sources, in the storage of its control rows."""

    control: ControlRows

    def keep(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Write down how far the sources are after these micro-batches; those known before change nothing."""
        stored = self._known()
        reached = dict(stored)
        for report in reports:
            for table, watermark_ms in reached_watermarks(report).items():
                reached[table] = max(watermark_ms, reached.get(table, watermark_ms))
        if reached != stored:
            self.control.storage.write(FILE, json.dumps(reached))

    def restore(self) -> None:
        """Lift each source to where it was; before the query starts again."""
        for table, watermark_ms in self._known().items():
            self.control.lift(table, watermark_ms, f"restart-{time_ns()}")

    def _known(self) -> dict[str, int]:
        text = self.control.storage.read(FILE)
        try:
            return {} if text is None else dict(json_of(text))
        except (ValueError, TypeError) as error:
            raise damaged(self.control.storage.location(FILE), f"It holds no watermarks: {error}.") from error


def restored_watermarks(plan: PhysicalPlan, control: ControlRows) -> SourceWatermarks | None:
    """Where a plan with several sources keeps their watermarks, which are as before now; None for other plans."""
    if not plan.observes_watermarks:
        return None
    kept = SourceWatermarks(control)
    kept.restore()
    return kept


def reached_watermarks(report: Mapping[str, Any]) -> dict[str, int]:
    """The watermarks of the sources with rows in a micro-batch, by table; the least where one is read twice."""
    watermarks: dict[str, int] = {}
    for number_and_table, metrics in observed(report, WATERMARK_METRIC):
        (watermark_ms,) = values_of(metrics, ("watermark_ms",))
        if watermark_ms is not None:
            table = number_and_table.partition("/")[2]
            watermarks[table] = min(int(watermark_ms), watermarks.get(table, int(watermark_ms)))
    return watermarks
