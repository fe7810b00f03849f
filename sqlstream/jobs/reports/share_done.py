"""How much of its work a bounded job has done, as far as somebody knows how much there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.connectors import Source, connector
from sqlstream.jobs.reports.progress import Progress
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan
from sqlstream.spark.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Share:
    """``done`` of ``total``, and of what: rows, or the tasks of what Spark does now."""

    done: int
    total: int
    what: str

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total)


def share_done(plan: Node, progress: Progress, enough: int | None, tasks: Callable[[], Share | None]) -> Share | None:
    """Of the rows that a query with LIMIT gives, ``enough``; of those that its tables have, where they tell it and a
    micro-batch has counted some; else of the tasks."""
    if enough:
        return Share(progress.rows_out, enough, "rows")
    total = rows_of_tables(node for node in plan.walk() if isinstance(node, Scan))
    if total and progress.rows_in:
        return Share(progress.rows_in, total, "rows")
    return tasks()


def rows_of_tables(scans: Iterable[Scan]) -> int | None:
    """How many rows there are to read; None where a table does not tell."""
    tables = [(connector(scan.table.connector), scan.table) for scan in scans]
    counts = [kind.row_count(table) if isinstance(kind, Source) else None for kind, table in tables]
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def tasks_done(spark: SparkSession, group: str) -> Share | None:
    """The tasks of the stages that Spark works on now for a group of jobs; None where there are none, and through
    Spark Connect, which does not tell."""
    if is_connect(spark):
        return None
    tracker = spark.sparkContext.statusTracker()
    jobs = set(tracker.getJobIdsForGroup(group)) & set(tracker.getActiveJobsIds())
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    of_group = {stage for job in jobs if (info := tracker.getJobInfo(job)) is not None for stage in info.stageIds}
    active = [stage for stage in stages if stage is not None and stage.stageId in of_group]
    total = sum(stage.numTasks for stage in active)
    return Share(sum(stage.numCompletedTasks for stage in active), total, "tasks") if total else None
