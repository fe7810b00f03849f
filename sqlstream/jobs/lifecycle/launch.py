"""A plan made ready to run: its DataFrame, its sink, its checkpoint and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from sqlstream.connectors import Watch
from sqlstream.errors import SqlStreamError, UnsupportedError
from sqlstream.jobs.checkpoints.checkpoint import Checkpoint
from sqlstream.jobs.checkpoints.control import Clock, ControlRows
from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.jobs.checkpoints.watermarks import IdleSources, LiftedSources, SourceWatermarks
from sqlstream.jobs.lifecycle.coordinator import EndOfInput
from sqlstream.jobs.lifecycle.failure import is_slow_start, job_error
from sqlstream.jobs.lifecycle.query_settings import settings_of_query
from sqlstream.jobs.lifecycle.specification import Sink, no_check
from sqlstream.jobs.records.history import last_begun, last_committed
from sqlstream.jobs.reports.progress import micro_batches
from sqlstream.planner.operators.top_n import Limit
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.spark.internals import make_active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# --- LIMIT without an order: the query ends when it has its rows -----------------------------------------------
# The state of the operator holds the rows that it has counted, so earlier runs of the job are included.


_MARK = "has-all-rows"


@dataclass(frozen=True)
class RowLimit:
    """How many rows a job with LIMIT may write since its start: ``rows``; 0 if an earlier run has emitted all of them.

    ``kept`` returns how many rows the operator of LIMIT holds in its state after a micro-batch; None: after the last
    complete one. ``repeated``: the micro-batch that an earlier query of Spark has begun and not completed; None for
    none.
    """

    wanted: Limit
    storage: Storage
    kept: Callable[[int | None], int]
    rows: int = 0
    repeated: int | None = None

    def reached(self, rows_out: int) -> bool:
        """True where a job that has written ``rows_out`` rows since its start has reached the limit."""
        return rows_out >= self.rows

    def left_after(self, batch: int | None) -> int:
        """How many rows are still to be emitted after a micro-batch, as ``kept`` says."""
        return self.wanted.rows - max(0, min(self.kept(batch), self.wanted.last) - self.wanted.skipped)

    def started(self) -> RowLimit:
        """The limit where a query of Spark starts with the checkpoint."""
        begun = last_begun(self.storage)
        return replace(self, repeated=None if begun == last_committed(self.storage) else begun)

    def counted(self, last: int, rows_out: int) -> RowLimit:
        """The limit after the micro-batch ``last``, when the job has written ``rows_out`` rows. A sink that has the
        rows of a repeated micro-batch does not count them again, so what is left is what the state says.
        """
        if self.repeated is None or last < self.repeated:
            return self
        return replace(self, rows=rows_out + self.left_after(last), repeated=None)

    def keep(self) -> None:
        """Records in the checkpoint that the query has emitted all rows of its LIMIT."""
        self.storage.write(_MARK, "")


def row_limit_of(wanted: Limit | None, storage: Storage, kept: Callable[[int | None], int]) -> RowLimit | None:
    """The limit of the query with this checkpoint; None for a query without LIMIT (``wanted`` None). ``kept``: see
    ``RowLimit``."""
    if wanted is None:
        return None
    limit = RowLimit(wanted, storage, kept)
    if storage.read(_MARK) is not None:
        return limit
    return replace(limit, rows=limit.left_after(None))


_STARTS = 3
EPOCH_MS = 60_000
"""How long an epoch is in real time, where no setting says it."""


@dataclass(frozen=True)
class Launch:
    """A lowered plan with its sink, checkpoint and clocks, from which Spark's query is started, if necessary several
    times.

    * ``flushed``: the tables whose watermarks go to infinity at the end of bounded input, so that windows fire.
    * ``ended``: an earlier run has written the end of the input to the checkpoint, so all windows are closed.
    * ``drained``: the input has no end, but an earlier run was drained. This run only completes what that one may have
      left undone.
    * ``has_blobs``: rows between Spark and Python are blobs, each of many rows.
    * ``end_planned``: the micro-batch that reads the last of a bounded input ends it.
    * ``end_of_input``: whether windows and timers fire at the end of bounded input, or wait for the next run.
    * ``watermarks``: stores the watermarks of jobs with several sources. ``lifted``: advances those of sources that
      ask for it. ``idle``: detects idle sources.
    * ``paced``: each start reads the available rows and ends, because the job pauses between its epochs.
    * ``temporary``: the checkpoint is removed with its session.
    * ``require_sink``: called with the number of a complete micro-batch, raises an error if a sink has lost its rows.
    * ``secrets``: secrets of the settings, which error messages must mask.
    * ``watches``: what sources do again and again while the job runs.
    * ``real_time``: rows go through one by one, and each micro-batch is ``interval_ms`` long.
    * ``row_limit``: how many rows a query with LIMIT may still emit; None without LIMIT.
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
    end_planned: bool = False
    has_blobs: bool = False
    watermarks: SourceWatermarks | None = None
    lifted: LiftedSources | None = None
    idle: IdleSources | None = None
    paced: bool = False
    temporary: bool = False
    end_of_input: EndOfInput = EndOfInput.FINAL
    require_sink: Callable[[int], None] = no_check
    secrets: Secrets = NO_SECRETS
    watches: Sequence[Watch] = ()
    row_limit: RowLimit | None = None
    real_time: bool = False

    @property
    def needs_flush(self) -> bool:
        """True where windows or timers may wait for the end of a bounded input."""
        return self.bounded and (bool(self.flushed) or self.clock.ends)

    @property
    def pauses(self) -> bool:
        """True where windows and timers stay in the checkpoint at the end of a bounded input, for the next run."""
        return self.needs_flush and self.end_of_input is EndOfInput.PAUSE and not self.ended

    def start_after(self, query: StreamingQuery) -> StreamingQuery:
        """Start Spark's query again after ``query`` has ended, with the watermark that each source had reached."""
        with suppress(PySparkException, Py4JError):  # of a query that has failed, which the caller knows
            # A query is inactive a moment before Spark gives its name free, longer on a busy machine.
            query.awaitTermination()
        if self.watermarks is not None:
            self.watermarks.keep(micro_batches(query))
            self.watermarks.restore()
        return self.start()

    def start(self) -> StreamingQuery:
        """Start Spark's query, from the checkpoint if there is one."""
        make_active(self.rows.sparkSession)  # jobs start again on threads of their own
        mode = "update" if self.real_time else "append"
        writer = self.sink(self.rows).queryName(self.query_name).outputMode(mode)
        writer = writer.option("checkpointLocation", self.checkpoint.spark_location)
        if self.real_time:
            epoch = f"{self.interval_ms or EPOCH_MS} milliseconds"
            writer = writer.trigger(realTime=epoch)  # type: ignore[call-overload]  # which PySpark's overloads lack
        elif self.bounded or self.paced:
            writer = writer.trigger(availableNow=True)
        elif self.interval_ms:
            writer = writer.trigger(processingTime=f"{self.interval_ms} milliseconds")
        try:
            with settings_of_query(self.rows.sparkSession, has_blobs=self.has_blobs, temporary=self.temporary):
                return _started(writer)
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise UnsupportedError("SS394", f"Spark cannot run the query as a stream: {reason}") from error
        except (PySparkException, Py4JError) as error:  # Spark does not wrap all exceptions of Java
            raise self.error(error, self.query_name) from error

    def error(self, error: BaseException, name: str | None) -> SqlStreamError:
        """Returns the error that users see for an exception of the job. ``name``: the job's name; None for a query
        whose rows are read by the caller.
        """
        return job_error(error, name, self.checkpoint.path, temporary=self.temporary)

    def end_input(self) -> None:
        """Writes the control rows that end a bounded input, so that all windows and timers fire: one for each table in
        ``flushed``, and if operators follow processing time the one that ends its clock.
        """
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
    """The tables for whose watermark some window of the plan waits, each once. At the end of bounded input these
    watermarks must go to infinity.
    """
    return tuple(dict.fromkeys(mark.table for mark in plan.marks))


def input_has_ended(control: ControlRows, flushed: Iterable[str], clock: Clock) -> bool:
    """True if an earlier run of the job has reported the end of a bounded input, as the control rows say."""
    return any(map(control.has_ended, flushed)) or (clock.ends and control.clock_has_ended)
