"""A running plan: its states, its end, its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pyarrow as pa

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs.coordinator import Checkpointing, EpochDeadline, Pace
from sqlstream.jobs.epochs import under_way, wait_for_all_there_is, wait_for_first_trigger, wait_for_rest
from sqlstream.jobs.failure import is_cancellation, is_spark_gone, job_error
from sqlstream.jobs.history import CheckpointLine, checkpoints, last_committed
from sqlstream.jobs.launch import Launch
from sqlstream.jobs.progress import Progress, advanced
from sqlstream.jobs.recorder import Recorder
from sqlstream.jobs.records import JobRecord, require_running
from sqlstream.jobs.restart import NO_RESTART, RestartStrategy
from sqlstream.jobs.restarting import Restarts
from sqlstream.jobs.results import Results
from sqlstream.jobs.savepoint_taking import SavepointTaking
from sqlstream.jobs.table_counts import scans_of
from sqlstream.planner.nodes import Node

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_AFTER_END = "SS422"

_REPORT_SECONDS = 1
_FIRST_PAUSE_S = 0.05
_EMITTED_TOO_LATE = "EMITTING_ROWS_OLDER_THAN_WATERMARK"


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
        self,
        name: str,
        plan: Node,
        launch: Launch,
        results: Results | None,
        recorder: Recorder,
        checkpointing: Checkpointing,
        restart: RestartStrategy = NO_RESTART,
        savepoints: str | None = None,
    ) -> None:
        self.name = name
        self.plan = plan
        self._launch = launch
        self._results = results
        self._progress = Progress()
        self._state = JobState.RUNNING
        self._error: SqlStreamError | None = None
        self._not_gone_on: Exception | None = None
        path, storage = launch.checkpoint.path, launch.checkpoint.storage
        self._savepoints = SavepointTaking(name, storage, path, savepoints, has_sink=results is None)
        self._savepoint_at_end: str | bool = False
        self._last_savepoint: str | None = None
        self._stopping = Event()
        self._restarts = Restarts(restart, name, path, self._stopping)
        self._lock = Lock()
        self.started = datetime.now(UTC)
        self._recorder = recorder
        self._deadline = EpochDeadline(checkpointing)
        self._pace = Pace(checkpointing) if launch.paced else None
        self._query = launch.start()
        self.ids = str(self._query.id), str(self._query.runId)
        self._start_record()
        self._thread = Thread(target=self._run, name=f"sqlstream-{name}", daemon=True)
        self._thread.start()

    @property
    def id(self) -> str:
        """Spark's id of the query, which stays the same over restarts from one checkpoint."""
        return self.ids[0]

    def _start_record(self) -> None:
        try:
            self._recorder.start(self)
        except BaseException:
            self._query.stop()
            raise

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
        return self._restarts.last_failure

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

    @property
    def record(self) -> JobRecord:
        """What the job runs and how it is doing now, as other processes read it from the checkpoint."""
        return self._recorder.record(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False where ``timeout`` seconds passed before. Raises the error of a FAILED job."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def savepoint(self, path: str | None = None) -> str:
        """Copy the last epoch to ``path``, from which jobs can start anew; returns where it is. The job goes on.

        BindError SS231 where the job does not run, ExecutionError SS426 where no savepoint could be taken.
        """
        require_running(self.name, self._state.value)
        with self.between_epochs():
            return self._savepoints.take(path or True)

    def stop(self, *, savepoint: str | bool = False, drain: bool = False) -> str | None:
        """Stop after the last complete micro-batch; the path of the savepoint, where one was asked for.

        Without ``drain`` nothing is flushed, and the checkpoint can be gone on from. ``drain`` takes the input as
        ended: what there is now is read, all windows and timers fire, and the job ends as FINISHED; its savepoint is
        taken behind all that, as Flink's is. Errors as those of ``savepoint``, after which a job that was not to be
        drained goes on.
        """
        path = None
        if drain:
            return self._drained(savepoint)
        if savepoint:
            require_running(self.name, self._state.value)
            with self.between_epochs():
                path = self._savepoints.take(savepoint)
                self._stopping.set()
        self._stopping.set()
        if self._results is not None:
            self._results.close()
        if self._pace is not None:
            self._pace.skip()
        with self._lock:
            self._stop_query()
        self._thread.join()
        return path

    def _stop_query(self) -> None:
        try:
            self._query.stop()
        except Exception as error:
            if not is_spark_gone(error):  # there is nothing left to stop then
                raise

    def _drained(self, savepoint: str | bool) -> str | None:
        require_running(self.name, self._state.value)
        if savepoint:
            self._savepoints.require_possible()
        self._savepoint_at_end = savepoint
        with self.between_epochs():
            self._launch = replace(self._launch, bounded=True)
        if self._pace is not None:
            self._pace.skip()
        self.wait()
        return self._last_savepoint

    def checkpoint(self) -> int | None:
        """Complete an epoch with all that is there now; its number, None where nothing has come yet.

        BindError SS231 where the job does not run.
        """
        require_running(self.name, self._state.value)
        query = self._query
        if self._pace is not None:
            self._pace.run_at_once()
        elif self._launch.bounded or not self._launch.interval_ms:
            wait_for_all_there_is(query, self._progress.last_batch, self._stopping.is_set)
        else:
            with self.between_epochs():  # Spark's trigger fires when a query starts
                pass
            wait_for_first_trigger(self._query)
        return last_committed(self._launch.checkpoint.storage)

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """Its epochs, newest first."""
        if self._state is JobState.RUNNING:
            self._report(self._query)
            self._recorder.write_history()
        return checkpoints(self._launch.checkpoint.storage)

    @contextmanager
    def between_epochs(self) -> Iterator[None]:
        """Spark's query at rest after a micro-batch; it goes on afterwards, unless it had come to its end before.

        For other threads than the job's own, which meanwhile waits.
        """
        wait_for_rest(self._query)
        with self._lock:
            query = self._query
            active = query.isActive
            query.stop()
            try:
                yield
            finally:
                if active and not self._stopping.is_set():
                    self._go_on_after(query)

    def _go_on_after(self, query: StreamingQuery) -> None:
        if self._launch.watermarks is not None:
            self._report(query)
            self._launch.watermarks.restore()
        try:
            self._query = self._launch.start()
        except Exception as error:
            self._not_gone_on = error  # the job's thread would take the stopped query for one that has ended
            raise

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
            self._restarts.run(self._run_to_end, self._start_again, self._on_waiting_to_restart)
            if self._savepoint_at_end and not self._stopping.is_set():
                self._last_savepoint = self._savepoints.take(self._savepoint_at_end, drained=True)
            self._state = JobState.STOPPED if self._stopping.is_set() else JobState.FINISHED
        except Exception as error:
            self._fail(error)
        finally:
            self._stopping.set()
            if self._results is not None:
                self._results.close()
            if self._pace is not None:
                self._pace.end()
            if clock is not None:
                clock.join()
            self._recorder.finish(self)

    def _on_waiting_to_restart(self) -> None:
        self._state = JobState.RESTARTING

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
            self._go_on_in_pace()
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

    def _go_on_in_pace(self) -> None:
        while self._pace is not None and not self._stopping.is_set() and not self._launch.bounded:
            self._pace.rest()
            if self._launch.watermarks is not None:
                self._launch.watermarks.restore()
            self._go_on()

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
        while True:
            query = self._query
            try:
                while not query.awaitTermination(_REPORT_SECONDS):
                    self._report(query)
                    if self._deadline.is_set:
                        self._keep_deadline(query)
            finally:
                self._report(query)
            with self._lock:  # whoever held it may have stopped the query in order to go on with another
                if self._not_gone_on is not None:
                    error, self._not_gone_on = self._not_gone_on, None
                    raise error
                if self._query is query:
                    return

    def _keep_deadline(self, query: StreamingQuery) -> None:
        """Give up an epoch that takes too long, and begin it again where that is tolerated."""
        if not self._deadline.is_over(under_way(query), self._progress.last_batch):
            return
        with self._lock:
            if self._query is query and not self._stopping.is_set():
                query.stop()
                self._deadline.give_up()
                self._query = self._launch.start()

    def _report(self, query: StreamingQuery) -> None:
        control = urlparse(self._launch.checkpoint.storage.location("control")).path
        last = query.lastProgress
        if last is not None and last["batchId"] > self._progress.last_batch:
            reports = query.recentProgress
            self._recorder.on_reports(reports)
            self._progress = advanced(self._progress, reports, control, scans_of(self.plan))
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


def _rows_after_the_end() -> ExecutionError:
    return ExecutionError(
        ROWS_AFTER_END,
        "rows came after the end of the input",
        detail="An earlier run of the job has read its input to the end and closed all windows; these rows are late.",
        hint="Start in a new directory ('execution.checkpointing.dir'), or let the source go on without an end.",
    )
