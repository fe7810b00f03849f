"""A job that runs one micro-batch after the other, when told to: what ``StreamTest`` drives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import Environment
from sqlstream.connectors import test as test_connector
from sqlstream.jobs.checkpoint import open_checkpoint
from sqlstream.jobs.clock import Clock
from sqlstream.jobs.control import ControlRows
from sqlstream.jobs.failure import job_error
from sqlstream.jobs.launch import Launch
from sqlstream.jobs.runtime import JobRuntime
from sqlstream.jobs.watermarks import SourceWatermarks, restored_watermarks
from sqlstream.planner.catalog import Table
from sqlstream.planner.lowering import lower
from sqlstream.planner.nodes import Insert, Node, Output
from sqlstream.runner import SessionSources
from sqlstream.testing.buffer import Flush
from sqlstream.testing.plan_traits import PlanTraits
from sqlstream.types import DataType, parse_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

    from sqlstream.session import Session

RESULT = Table("query result", (), "test")
"""Stands for the sink of a query on its own."""


@dataclass(frozen=True)
class SteppedRuntime(JobRuntime):
    """``moved_by_rows``: the tables whose rows move their watermark."""

    moved_by_rows: frozenset[str] = frozenset()

    def event_time_from_rows(self, table: str) -> bool:
        return table in self.moved_by_rows


class SteppedJob:
    """A plan in a directory of its own, and how many micro-batches were handed to it so far."""

    def __init__(self, session: Session, plan: Node, directory: Path, moved_by_rows: frozenset[str]) -> None:
        self._session = session
        self._plan = plan
        self._tables = PlanTraits(plan).tables
        self._directory = directory
        self._moved_by_rows = moved_by_rows
        self._query: StreamingQuery | None = None
        self._control: ControlRows | None = None
        self._watermarks: SourceWatermarks | None = None
        self._flushes = 0
        self._reported = -1
        self.output_types: tuple[DataType, ...] = ()

    @property
    def sink(self) -> Table:
        return self._plan.table if isinstance(self._plan, Insert) else RESULT

    @property
    def output_names(self) -> tuple[str, ...]:
        if isinstance(self._plan, Insert):
            return tuple(c.name for c in self._plan.table.physical_columns)
        assert isinstance(self._plan, Output)
        return self._plan.names

    @property
    def running(self) -> bool:
        return self._query is not None

    def start(self) -> None:
        """Start from the newest checkpoint, or for the first time."""
        spark = self._session.spark
        environment = Environment(spark, self._directory)
        test_connector.open_tables(self._directory, (*self._tables.values(), self.sink))
        settings = self._session.workspace.settings
        key_groups = settings["pipeline.max-parallelism"] or 1  # one puts out rows in one order, and takes least time
        path = str(self._directory / "checkpoint")
        checkpoint = open_checkpoint(path, self._plan, spark, settings["sqlstream.gear"], key_groups)
        self._control = ControlRows(checkpoint.storage)
        sources = SessionSources(environment, self._session.workspace.catalog)
        runtime = SteppedRuntime(
            spark, sources, self._control, checkpoint.layout.gear, key_groups, moved_by_rows=self._moved_by_rows
        )
        self._watermarks = restored_watermarks(self._plan, self._control)
        rows = lower(self._plan, runtime)
        self.output_types = tuple(parse_type(field.dataType.simpleString()) for field in rows.schema)
        launch = Launch(
            query_name=self._directory.name,
            rows=rows,
            sink=lambda rows: test_connector.CONNECTOR.stream(environment, self.sink, rows),
            checkpoint=checkpoint,
            control=self._control,
            bounded=False,
            flushed=(),
            clock=Clock(),
            interval_ms=0,
        )
        self._query = launch.start()

    def stop(self) -> None:
        if self._query is not None:
            if self._watermarks is not None:
                self._watermarks.keep(self._query.recentProgress)
            self._query.stop()
            self._query = None

    def process(self, flush: Flush) -> None:
        """Hand the rows and watermarks over and wait until all that follows from them has come out."""
        assert self._query is not None, "start the job first"
        assert self._control is not None
        self._flushes += 1
        # Rows first: should Spark see them in a batch before the watermarks, they are judged by the same watermark.
        for name, rows in flush.rows.items():
            test_connector.feed(self._directory, self._tables[name.casefold()], self._flushes, rows)
        for name, watermark_ms in flush.watermarks.items():
            self._control.lift(name, watermark_ms, f"{self._flushes:09d}")
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self.stop()
            raise job_error(error, self._directory.name, str(self._directory / "checkpoint")) from error

    def written(self, after: int) -> Iterator[tuple[int, pa.Table]]:
        """The micro-batches with output that are newer than ``after``."""
        return test_connector.written(self._directory, self.sink, after)

    def new_reports(self) -> list[Any]:
        """Spark's reports of the micro-batches since the last call, as far as Spark remembers them."""
        reports = [] if self._query is None else self._query.recentProgress
        found = [report for report in reports if report["batchId"] > self._reported]
        self._reported = max((report["batchId"] for report in found), default=self._reported)
        return found
