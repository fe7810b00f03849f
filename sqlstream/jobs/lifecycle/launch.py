"""A plan made ready to run: its DataFrame, its sink, its checkpoint and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from sqlstream.errors import SqlStreamError, UnsupportedError
from sqlstream.jobs.checkpoints.checkpoint import Checkpoint
from sqlstream.jobs.checkpoints.control import Clock, ControlRows
from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.jobs.checkpoints.watermarks import IdleSources, SourceWatermarks
from sqlstream.jobs.lifecycle.coordinator import EndOfInput
from sqlstream.jobs.lifecycle.failure import is_slow_start, job_error
from sqlstream.jobs.lifecycle.specification import Sink, anything_goes
from sqlstream.planner.operators.top_n import Limit
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.secrets import NO_SECRETS, Secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# --- LIMIT without an order: the query ends when it has its rows -----------------------------------------------
# What earlier runs have given of them stands in the state of the operator, which keeps the rows that it has counted.


_MARK = "has-all-rows"


@dataclass(frozen=True)
class Enough:
    """``rows``: how many a job still gives at most; 0 where an earlier run gave them all."""

    rows: int
    storage: Storage

    def reached(self, rows_out: int) -> bool:
        """True where a job that has written so many rows since its start needs no more."""
        return rows_out >= self.rows

    def keep(self) -> None:
        """Remember that the job has all its rows."""
        self.storage.write(_MARK, "")


def enough_of(wanted: Limit | None, storage: Storage, kept: Callable[[], int]) -> Enough | None:
    """What is enough for the job with this checkpoint; None where nothing is. ``kept``: how many rows the operator has
    counted so far."""
    if wanted is None:
        return None
    if storage.read(_MARK) is not None:
        return Enough(0, storage)
    return Enough(wanted.rows - max(0, min(kept(), wanted.last) - wanted.skipped), storage)


_STARTS = 3


@dataclass(frozen=True)
class Launch:
    """``flushed`` are the tables whose end must be told when a bounded input has been read.

    ``ended``: an earlier run has told it, so that all windows are closed; ``drained``: one whose input has no end, and
    which is started only to do what that run may have left undone. ``end_of_input``: whether this run tells it.
    ``watermarks``: of jobs with several sources. ``idle``: those of them that may hold no watermark back.
    ``paced``: each start takes what is there and ends, because the job keeps pauses between its epochs.
    ``temporary``: the checkpoint vanishes with its session. ``require_sink`` raises an error where what a micro-batch
    has written no longer counts. ``secrets``: of the settings, which no failure may show. ``enough``: of a query that
    ends when it has its rows.
    """

    query_name: str
    rows: DataFrame
    sink: Sink
    checkpoint: Checkpoint
    control: ControlRows
    bounded: bool
    flushed: tuple[str, ...]
    clock: Clock
    interval_ms: int
    ended: bool = False
    drained: bool = False
    watermarks: SourceWatermarks | None = None
    idle: IdleSources | None = None
    paced: bool = False
    temporary: bool = False
    end_of_input: EndOfInput = EndOfInput.FINAL
    require_sink: Callable[[int], None] = anything_goes
    secrets: Secrets = NO_SECRETS
    enough: Enough | None = None

    @property
    def needs_flush(self) -> bool:
        """True where something may wait for the end of a bounded input."""
        return self.bounded and (bool(self.flushed) or self.clock.ends)

    @property
    def pauses(self) -> bool:
        """True where what waits for the end of a bounded input stays in the checkpoint."""
        return self.needs_flush and self.end_of_input is EndOfInput.PAUSE and not self.ended

    def start_after(self, query: StreamingQuery) -> StreamingQuery:
        """Start Spark's query where ``query`` has ended, with the watermark of each source where it was."""
        if self.watermarks is not None:
            self.watermarks.keep(query.recentProgress)
            self.watermarks.restore()
        return self.start()

    def start(self) -> StreamingQuery:
        """Start Spark's query; from the checkpoint, where there is one."""
        writer = self.sink(self.rows).queryName(self.query_name).outputMode("append")
        writer = writer.option("checkpointLocation", self.checkpoint.spark_location)
        if self.bounded or self.paced:
            writer = writer.trigger(availableNow=True)
        elif self.interval_ms:
            writer = writer.trigger(processingTime=f"{self.interval_ms} milliseconds")
        try:
            return _started(writer)
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise UnsupportedError("SS394", f"Spark cannot run the query as a stream: {reason}") from error
        except (PySparkException, Py4JError) as error:  # Spark has no words of its own for what Java alone has met
            raise self.error(error, self.query_name) from error

    def error(self, error: BaseException, name: str | None) -> SqlStreamError:
        """The error of the job; ``name`` as in ``job_error``."""
        return job_error(error, name, self.checkpoint.path, temporary=self.temporary)

    def end_input(self) -> None:
        for table in self.flushed:
            self.control.end(table)
        if self.clock.ends:
            self.control.end_clock()


def _started(writer: DataStreamWriter) -> StreamingQuery:
    """Spark's query. Through Connect the server starts Python for ``foreachBatch`` first, and gives up when it is slow:
    on a machine with much to do, whose files have been read by then."""
    for _ in range(_STARTS - 1):
        try:
            return writer.start()
        except PySparkException as error:
            if not is_slow_start(error):
                raise
    return writer.start()


def flushed_tables(plan: PhysicalPlan) -> tuple[str, ...]:
    """The tables whose watermark some window of the plan waits for, each once."""
    return tuple(dict.fromkeys(mark.table for mark in plan.marks))


def input_has_ended(control: ControlRows, flushed: Iterable[str], clock: Clock) -> bool:
    """True where an earlier run has told the end of a bounded input."""
    return any(map(control.has_ended, flushed)) or (clock.ends and control.clock_has_ended)
