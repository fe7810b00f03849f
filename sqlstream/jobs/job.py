"""A running plan: its states, its end, its errors."""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pyarrow as pa

from sqlstream.errors import ExecutionError, SqlStreamError, UnsupportedError
from sqlstream.jobs.checkpoint import Checkpoint, open_checkpoint
from sqlstream.jobs.clock import clock_of
from sqlstream.jobs.control import ControlRows
from sqlstream.jobs.failure import is_cancellation, job_error
from sqlstream.jobs.launch import Launch, Sink, flushed_tables, input_has_ended
from sqlstream.jobs.layout import AUTO
from sqlstream.jobs.progress import Progress, advanced, observed
from sqlstream.jobs.restart import NO_RESTART, Failures, RestartStrategy, after_failure
from sqlstream.jobs.results import Results
from sqlstream.jobs.runtime import JobRuntime, Sources
from sqlstream.jobs.stored_results import StoredResults
from sqlstream.jobs.watermarks import restored_watermarks
from sqlstream.planner import properties
from sqlstream.planner.lowering import lower
from sqlstream.planner.lowering.gears import Gear
from sqlstream.planner.nodes import Node, Output
from sqlstream.results import columns_of
from sqlstream.spark import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sqlstream.sinks import SideSinks

ROWS_AFTER_END = "SS422"
SIDE_OUTPUT_THROUGH_CONNECT = "SS348"

_SIDE_OUTPUT_THROUGH_CONNECT = (
    "LATE DATA TO and ON ERROR TO are not executed for a query on its own through Spark Connect"
)

_REPORT_SECONDS = 1
_FIRST_PAUSE_S = 0.05
_EMITTED_TOO_LATE = "EMITTING_ROWS_OLDER_THAN_WATERMARK"

_numbers = itertools.count(1)


class JobState(Enum):
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class Job:
    """A plan at work. A thread of its own watches Spark's query and, for bounded input, starts it again to flush, and
    as often as rows wait for the answers to lookups.

    All that survives a crash at any point: rows are read to their end before the end is written to the checkpoint,
    and a job that restarts does whatever is still undone.
    """

    def __init__(
        self, name: str, plan: Node, launch: Launch, results: Results | None, restart: RestartStrategy = NO_RESTART
    ) -> None:
        self.name = name
        self.plan = plan
        self._launch = launch
        self._results = results
        self._restart = restart
        self._failures = Failures()
        self._last_failure: SqlStreamError | None = None
        self._progress = Progress()
        self._state = JobState.RUNNING
        self._error: SqlStreamError | None = None
        self._stopping = Event()
        self._lock = Lock()
        self.started = datetime.now(UTC)
        self._query = launch.start()
        self._thread = Thread(target=self._run, name=f"sqlstream-{name}", daemon=True)
        self._thread.start()

    @property
    def id(self) -> str:
        """Spark's id of the query, which stays the same over restarts from one checkpoint."""
        return str(self._query.id)

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def exception(self) -> SqlStreamError | None:
        """Why the job FAILED."""
        return self._error

    @property
    def last_failure(self) -> SqlStreamError | None:
        """What the job failed with last; it may have been started again since."""
        return self._last_failure

    @property
    def checkpoint_path(self) -> str:
        return self._launch.checkpoint.path

    @property
    def is_bounded(self) -> bool:
        """True where the job ends by itself."""
        return self._launch.bounded

    def progress(self) -> Progress:
        """Totals up to the last micro-batch, at most a second old."""
        return self._progress

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False where ``timeout`` seconds passed before. Raises the error of a FAILED job."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """Stop after the last complete micro-batch, without flushing; its checkpoint can be gone on from."""
        self._stopping.set()
        if self._results is not None:
            self._results.close()
        with self._lock:
            self._query.stop()
        self._thread.join()

    def results(self) -> Iterator[pa.Table]:
        """The rows of a query without sink, a table per micro-batch, while the job runs and then to its end.

        Columns are those of ``results.columns_of``; names may repeat. Raises the error of a FAILED job at the end.
        """
        assert self._results is not None, "a job with a sink has no results"
        yield from self._results
        if self._error is not None:
            raise self._error

    # --- the job's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        clock = self._started_clock()
        try:
            while not self._run_until_failure():
                pass
            self._state = JobState.STOPPED if self._stopping.is_set() else JobState.FINISHED
        except Exception as error:
            self._fail(error)
        finally:
            self._stopping.set()
            if self._results is not None:
                self._results.close()
            if clock is not None:
                clock.join()

    def _run_until_failure(self) -> bool:
        """True at the end; False where the job failed and has been started again. Raises what it ends with."""
        try:
            if self._state is JobState.RESTARTING:
                self._start_again()
            self._run_to_end()
        except Exception as error:
            if not self._waited_to_restart(error):
                raise
            return False
        return True

    def _waited_to_restart(self, error: Exception) -> bool:
        """Whether the restart strategy lets the job go on; after the time that it says, or before, if it is stopped."""
        if self._stopping.is_set() or is_cancellation(error):
            return False
        failure, now_ms = job_error(error, self.name, self.checkpoint_path), time.time_ns() // 1_000_000
        self._last_failure = failure
        self._failures, delay_ms = after_failure(self._restart, self._failures, failure, now_ms, random.random())
        if delay_ms is None:
            return False
        self._state = JobState.RESTARTING
        return not self._stopping.wait(delay_ms / 1000)

    def _start_again(self) -> None:
        """From the checkpoint, as a new process would: the sources' watermarks are not in Spark's."""
        if self._launch.watermarks is not None:
            self._launch.watermarks.restore()
        with self._lock:
            if self._stopping.is_set():
                return
            self._query = self._launch.start()
            self._progress = replace(self._progress, restarts=self._progress.restarts + 1)
            self._state = JobState.RUNNING

    def _started_clock(self) -> Thread | None:
        launch = self._launch
        if launch.bounded or not launch.clock:
            return None
        return launch.clock.start(launch.control, self._stopping, lambda: self._progress.pending != 0)

    def _run_to_end(self) -> None:
        try:
            self._watch()
        except Exception as error:
            if self._launch.ended and _EMITTED_TOO_LATE in str(error):  # how kernels tell Spark of rows that are late
                raise _rows_after_the_end() from error
            raise
        if self._launch.ended and self._progress.rows_in:
            raise _rows_after_the_end()
        if self._launch.needs_flush and not self._stopping.is_set():
            self._launch.end_input()
            self._go_on()
        if self._launch.bounded and self._launch.clock.calls:
            self._drain()

    def _go_on(self) -> None:
        """Start Spark's query again, unless the job has been stopped."""
        with self._lock:
            if self._stopping.is_set():
                return
            self._query = self._launch.start()
        self._watch()

    def _drain(self) -> None:
        """Until no row waits for the answer to a lookup, which only a micro-batch can tell."""
        pause_s, longest_s = _FIRST_PAUSE_S, self._launch.clock.interval_ms / 1000
        while self._progress.pending != 0 and not self._stopping.wait(min(pause_s, longest_s)):
            self._launch.clock.tick(self._launch.control)
            self._go_on()
            pause_s *= 2

    def _watch(self) -> None:
        """Until Spark's query ends; raises what it failed with."""
        try:
            while not self._query.awaitTermination(_REPORT_SECONDS):
                self._report(self._query)
        finally:
            self._report(self._query)

    def _report(self, query: StreamingQuery) -> None:
        control = urlparse(self._launch.checkpoint.storage.location("control")).path
        last = query.lastProgress
        if last is not None and last["batchId"] > self._progress.last_batch:
            reports = query.recentProgress
            self._progress = advanced(self._progress, reports, control)
            if self._launch.watermarks is not None:
                self._launch.watermarks.keep(reports)
            if self._results is not None:
                self._results.on_progress(self._progress.last_batch)

    def _fail(self, error: Exception) -> None:
        if self._stopping.is_set() or is_cancellation(error):
            self._state = JobState.STOPPED
            return
        self._error = job_error(error, self.name, self.checkpoint_path)
        self._state = JobState.FAILED


def start_job(
    spark: SparkSession,
    plan: Node,
    sources: Sources,
    *,
    sink: Sink | None = None,
    name: str | None = None,
    checkpoint_dir: str | None = None,
    interval_ms: int = 0,
    clock_interval_ms: int = 1000,
    gear: str = AUTO,
    key_groups: int | None = None,
    side: SideSinks | None = None,
    restart: RestartStrategy = NO_RESTART,
) -> Job:
    """Run a plan whose root is an Output (without ``sink``: rows come through ``Job.results``) or an Insert.

    ``sink`` gets the rows and returns their writer, not yet started. ``checkpoint_dir`` None: a temporary directory.
    ``interval_ms`` is the time between micro-batches of unbounded jobs, 0 for as fast as possible;
    ``clock_interval_ms`` that between ticks of processing time, where something waits for them. ``gear`` and
    ``key_groups`` as ``open_checkpoint`` takes them. ``side`` gets what a query without ``sink`` has for other tables.
    ``restart`` says what happens when the job fails.
    """
    number = next(_numbers)
    path = checkpoint_dir or tempfile.mkdtemp(prefix="sqlstream-checkpoint-")
    checkpoint = open_checkpoint(path, plan, spark, gear, key_groups)
    layout = checkpoint.layout
    clock, bounded = clock_of(plan, Gear(layout.gear), clock_interval_ms), properties.bounded(plan)
    control = ControlRows(checkpoint.storage, transient=bool(clock) and not bounded)
    watermarks = restored_watermarks(plan, control)
    rows = lower(plan, JobRuntime(spark, sources, control, layout.gear, layout.key_groups))
    flushed = flushed_tables(plan)
    results = None
    if sink is None:
        results = _results_of(plan, spark, checkpoint, side)
        sink = results.sink
    launch = Launch(
        query_name=f"{name or 'query'}-{number}",
        rows=observed(rows),
        sink=sink,
        checkpoint=checkpoint,
        control=control,
        bounded=bounded,
        flushed=flushed,
        clock=clock,
        interval_ms=interval_ms,
        ended=bounded and input_has_ended(control, flushed, clock),
        watermarks=watermarks,
    )
    return Job(name or launch.query_name, plan, launch, results, restart)


def _rows_after_the_end() -> ExecutionError:
    return ExecutionError(
        ROWS_AFTER_END,
        "rows came after the end of the input",
        detail="An earlier run of the job has read its input to the end and closed all windows; these rows are late.",
        hint="Start in a new directory ('execution.checkpointing.dir'), or let the source go on without an end.",
    )


def _results_of(plan: Node, spark: SparkSession, checkpoint: Checkpoint, side: SideSinks | None) -> Results:
    assert isinstance(plan, Output), "only a query has results for its caller"
    names = tuple(name for name, _ in columns_of(plan))
    if is_connect(spark):
        if side:
            hint = "Write INSERT INTO a table."
            raise UnsupportedError(SIDE_OUTPUT_THROUGH_CONNECT, _SIDE_OUTPUT_THROUGH_CONNECT, hint=hint)
        return StoredResults(names, spark, checkpoint.storage.location("results"))
    return Results(names, side)
