"""A running plan: its states, its end, its errors."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from threading import Event, Thread
from typing import Any

import pyarrow as pa

from sqlstream.connectors.secrets import secrets_of_plan
from sqlstream.errors import SqlStreamError
from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.jobs.lifecycle.coordinator import EpochDeadline, EpochPace, Failures, RestartStrategy, after_failure
from sqlstream.jobs.lifecycle.failure import is_cancellation, is_slow_start
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.jobs.lifecycle.results import ResultQueue
from sqlstream.jobs.lifecycle.running_query import RunningQuery, RunToEnd
from sqlstream.jobs.lifecycle.specification import JobSpecification
from sqlstream.jobs.records.history import CheckpointLine, checkpoints, last_committed
from sqlstream.jobs.records.record import JobRecord, require_running
from sqlstream.jobs.records.recorder import Recorder
from sqlstream.jobs.reports.progress import Progress, Share, Waiting, share_done, tasks_done, waiting_text
from sqlstream.jobs.savepoints import create_savepoint, default_savepoint, require_sink
from sqlstream.udfs.hiding import without_secrets

# --- Restarts --------------------------------------------------------------------------------------------------


_SLOW_STARTS = 2


class Restarts:
    """The failures of one job, as ``told`` words them. ``stopping`` is set when the job is not to go on."""

    def __init__(
        self, strategy: RestartStrategy, told: Callable[[BaseException], SqlStreamError], stopping: Event
    ) -> None:
        self._strategy = strategy
        self._told = told
        self._stopping = stopping
        self._failures = Failures()
        self._slow_starts = 0
        self.last_failure: SqlStreamError | None = None

    def run(self, to_end: Callable[[], None], start_again: Callable[[], None], on_waiting: Callable[[], None]) -> None:
        """Run to the end; where that fails, wait, start again and run again. Raises what the job ends with.

        ``on_waiting`` is called before each wait. A start that fails counts as a failure of the job. That a Python
        process was slow to start is no failure twice, whatever the strategy: for some of them, as those that open
        state, Spark waits 10 s and no longer.
        """
        failed = False
        while True:
            try:
                if failed:
                    start_again()
                to_end()
                return
            except Exception as error:
                if not self._waited(error, on_waiting):
                    raise
                failed = True

    def _waited(self, error: Exception, on_waiting: Callable[[], None]) -> bool:
        """Whether the strategy lets the job go on; after the time that it says, or before, if the job is stopped."""
        if self._stopping.is_set() or is_cancellation(error):
            return False
        failure, now_ms = self._told(error), time.time_ns() // 1_000_000
        self.last_failure = failure
        if is_slow_start(error) and self._slow_starts < _SLOW_STARTS:
            self._slow_starts += 1
            on_waiting()
            return True
        self._failures, delay_ms = after_failure(self._strategy, self._failures, failure, now_ms, random.random())
        if delay_ms is None:
            return False
        on_waiting()
        return not self._stopping.wait(delay_ms / 1000)


# --- Savepoints ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SavepointTaking:
    """``checkpoint`` is that of the job with a name. ``directory``: where savepoints go that get no path of their own.

    ``has_sink``: False for a query whose results are fetched, which another job could not go on with.
    """

    name: str
    checkpoint: Storage
    path: str
    directory: str | None
    has_sink: bool

    def require_possible(self) -> None:
        """ExecutionError SS426 where the job has no sink."""
        require_sink(self.name, self.has_sink)

    def take(self, path: str | bool, *, drained: bool = False) -> str:
        """A copy of the last epoch, at ``path`` or, for True, where they go by default; where it is.

        Spark's query must be at rest. ExecutionError SS426 where no savepoint can be taken.
        """
        self.require_possible()
        target = path if isinstance(path, str) else default_savepoint(self.path, self.name, self.directory)
        return create_savepoint(self.checkpoint, target, self.name, drained=drained)


class JobState(Enum):
    """The state of a job; RESTARTING between a failure and the restart."""

    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class Job:
    """A plan at work. A thread of its own watches Spark's query and, for bounded input that is to end, starts it again
    to flush, and as often as rows wait for the answers to lookups.

    All that survives a crash at any point: rows are read to their end before the end is written to the checkpoint,
    and a job that restarts does whatever is still undone.
    """

    def __init__(
        self,
        specification: JobSpecification,
        launch: Launch,
        results: ResultQueue | None,
        recorder: Recorder,
        count_waiting: Callable[[], tuple[Waiting, ...]] = tuple,
    ) -> None:
        self.name = specification.name or launch.query_name
        self.plan = specification.work.plan
        self._results = results
        self._state = JobState.RUNNING
        self._error: SqlStreamError | None = None
        self._savepoints = _savepoints(self.name, specification, launch, has_sink=results is None)
        self._savepoint_at_end: str | bool = False
        self._last_savepoint: str | None = None
        self._stopping = Event()
        self._restarts = Restarts(specification.execution.restart, self._told, self._stopping)
        self.started = datetime.now(UTC)
        self._recorder = recorder
        checkpointing = specification.execution.checkpointing
        self._pace = EpochPace(checkpointing) if launch.paced else None
        self._query = RunningQuery(launch, EpochDeadline(checkpointing), self._stopping, self._on_reports)
        self._to_end = RunToEnd(self._query, self._pace, self._stopping, count_waiting)
        self.ids = str(self._query.present.id), str(self._query.present.runId)
        try:
            self._recorder.start(self)
        except BaseException:
            self._query.stop()
            raise
        self._thread = Thread(target=self._run, name=f"sqlstream-{self.name}", daemon=True)
        self._thread.start()

    @property
    def id(self) -> str:
        """Spark's id of the query, which stays the same over restarts from one checkpoint."""
        return self.ids[0]

    @property
    def state(self) -> JobState:
        """The state of the job now."""
        return self._state

    @property
    def exception(self) -> SqlStreamError | None:
        """Why the job FAILED."""
        return self._error

    @property
    def last_failure(self) -> SqlStreamError | None:
        """The last error of the job; it may have been restarted since."""
        return self._restarts.last_failure

    @property
    def checkpoint_path(self) -> str:
        """The folder of the job's checkpoint."""
        return self._query.launch.checkpoint.path

    @property
    def is_bounded(self) -> bool:
        """True where the job ends by itself."""
        launch = self._query.launch
        return launch.bounded or launch.enough is not None

    def progress(self) -> Progress:
        """Totals up to the last micro-batch, at most a second old."""
        return self._query.progress

    def share(self) -> Share | None:
        """How much of its work a bounded job has done; None where nobody knows."""
        launch, query = self._query.launch, self._query.present
        if not self.is_bounded or self._state is not JobState.RUNNING:
            return None
        enough = None if launch.enough is None else launch.enough.rows
        tasks = partial(tasks_done, launch.rows.sparkSession, str(query.runId))
        return share_done(self.plan, self.progress(), enough, tasks)

    @property
    def waiting(self) -> str | None:
        """What the checkpoint of an ended bounded job keeps for rows of the next run: ``3 rows wait in open windows
        for the watermark 2013-06-14 12:59:59.999``. None if nothing waits."""
        return waiting_text(self.progress().waiting) or None

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Its record tells all."""
        return ()

    @property
    def record(self) -> JobRecord:
        """The job's description and state, as other processes read it from the checkpoint."""
        return self._recorder.record(self)

    def record_now(self) -> JobRecord:
        """The record as ``record`` gives it; for jobs of other processes it is read again."""
        return self.record

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
        with self._query.at_rest():
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
            with self._query.at_rest():
                path = self._savepoints.take(savepoint)
                self._stopping.set()
        self._stopping.set()
        if self._results is not None:
            self._results.close()
        if self._pace is not None:
            self._pace.skip()
        self._query.stop()
        self._thread.join()
        return path

    def _drained(self, savepoint: str | bool) -> str | None:
        require_running(self.name, self._state.value)
        if savepoint:
            self._savepoints.require_possible()
        self._savepoint_at_end = savepoint
        with self._query.at_rest():
            self._query.read_to_end()
        if self._pace is not None:
            self._pace.skip()
        self.wait()
        return self._last_savepoint

    def checkpoint(self) -> int | None:
        """Complete an epoch with all that is there now; its number, None where nothing has come yet.

        BindError SS231 where the job does not run.
        """
        require_running(self.name, self._state.value)
        if self._pace is not None:
            self._pace.run_at_once()
        else:
            self._query.complete_epoch()
        return last_committed(self._query.launch.checkpoint.storage)

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """Its epochs, newest first."""
        if self._state is JobState.RUNNING:
            self._query.report()
            self._recorder.write_history()
        return checkpoints(self._query.launch.checkpoint.storage)

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
        clock = self._to_end.started_clock()
        try:
            self._restarts.run(self._to_end.run, self._start_again, self._on_waiting_to_restart)
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
        if self._query.start_again():
            self._query.count_restart()
            self._state = JobState.RUNNING

    def _on_reports(self, reports: Sequence[Mapping[str, Any]], last_batch: int) -> None:
        self._recorder.on_reports(reports)
        if self._results is not None:
            self._results.on_progress(last_batch)

    def _told(self, error: BaseException) -> SqlStreamError:
        """The failure as users and the record see it, without the secrets of the tables and the settings."""
        told = self._query.launch.error(error, self.name if self._results is None else None)
        return without_secrets(told, secrets_of_plan(self.plan) + self._query.launch.secrets)

    def _fail(self, error: Exception) -> None:
        if self._stopping.is_set() or is_cancellation(error):
            self._state = JobState.STOPPED
            return
        self._error = self._told(error)
        self._state = JobState.FAILED


def _savepoints(name: str, specification: JobSpecification, launch: Launch, *, has_sink: bool) -> SavepointTaking:
    checkpoint = launch.checkpoint
    return SavepointTaking(name, checkpoint.storage, checkpoint.path, specification.place.savepoints, has_sink)
