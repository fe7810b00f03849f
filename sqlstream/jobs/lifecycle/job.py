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

from sqlstream.connectors.connector import NOT_REAL_TIME
from sqlstream.connectors.secrets import secrets_of_plan
from sqlstream.errors import SqlStreamError, UnsupportedError
from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.jobs.lifecycle.coordinator import EpochDeadline, EpochPace, Failures, RestartStrategy, after_failure
from sqlstream.jobs.lifecycle.failure import is_cancellation, is_slow_start
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.jobs.lifecycle.observers import CURRENT_JOB, JobObservers
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
    """Runs a job until it ends, or until its restart strategy gives up.

    ``reported`` turns an exception into the error that users see; ``stopping`` is an event that is set when the job is
    to stop.
    """

    def __init__(
        self, strategy: RestartStrategy, reported: Callable[[BaseException], SqlStreamError], stopping: Event
    ) -> None:
        self._strategy = strategy
        self._reported = reported
        self._stopping = stopping
        self._failures = Failures()
        self._slow_starts = 0
        self.last_failure: SqlStreamError | None = None

    def run(self, to_end: Callable[[], None], start_again: Callable[[], None], on_waiting: Callable[[], None]) -> None:
        """Runs a job to its end. After a failure it waits, restarts the job and runs it again. Raises the error that
        ends the job.

        ``to_end`` runs the job until it ends or fails. ``start_again`` restarts it; a failure of that counts as a
        failure of the job. ``on_waiting`` is called before each wait. The first two times that a Python process was
        slow to start do not count, whatever the strategy: Spark waits only 10 s for some of them, such as those that
        open state.
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
        """Wait as long as the strategy says; False where it gives up or the job is stopped."""
        if self._stopping.is_set() or is_cancellation(error):
            return False
        failure, now_ms = self._reported(error), time.time_ns() // 1_000_000
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
class Savepoints:
    """Takes savepoints of one job. ``directory`` is the folder in which savepoints without a path are created.

    ``has_sink``: False for a query whose results are fetched, which no other job could continue.
    """

    name: str
    checkpoint: Storage
    path: str
    directory: str | None
    has_sink: bool

    def require_possible(self) -> None:
        """Raises ExecutionError SS426 where the job has no sink."""
        require_sink(self.name, self.has_sink)

    def take(self, path: str | bool, *, drained: bool = False) -> str:
        """Copy the last epoch to ``path``, or for True to the default path, and return the savepoint's path.

        Spark's query must be at rest. Raises ExecutionError SS426 where no savepoint can be taken.
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
    """A plan that is running as a job. A thread watches Spark's query.

    For a bounded input the thread restarts the query so that windows and timers fire, and as often as rows wait for
    lookups. A crash at any point is safe: the input is read to its end before the end is written to the checkpoint, and
    a restarted job completes what is missing.
    """

    is_batch = False

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
        self._restarts = Restarts(specification.execution.restart, self._failure, self._stopping)
        self.started = datetime.now(UTC)
        self._recorder = recorder
        self._observers = JobObservers(specification.observers)
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
        self._observers.start(self)
        # Not Thread.join(): up to Python 3.12 one that a signal interrupts takes the thread for one that has ended.
        self._ended = Event()
        Thread(target=self._run, name=f"sqlstream-{self.name}", daemon=True).start()

    @property
    def id(self) -> str:
        """Spark's id of the query, which is the same for all runs from one checkpoint."""
        return self.ids[0]

    @property
    def state(self) -> JobState:
        """The state of the job now."""
        return self._state

    @property
    def exception(self) -> SqlStreamError | None:
        """The error that ended the job; None unless it FAILED."""
        return self._error

    @property
    def last_failure(self) -> SqlStreamError | None:
        """The last error of the job, from which it may have been restarted since; None without one."""
        return self._restarts.last_failure

    @property
    def checkpoint_path(self) -> str:
        """The folder of the job's checkpoint."""
        return self._query.launch.checkpoint.path

    @property
    def has_sink(self) -> bool:
        """False for a query whose rows are read by the caller."""
        return self._results is None

    @property
    def is_bounded(self) -> bool:
        """True where the job ends by itself."""
        launch = self._query.launch
        return launch.bounded or launch.row_limit is not None

    def progress(self) -> Progress:
        """Totals of the job (rows, watermark, state and so on) up to the last micro-batch; at most a second old."""
        return self._query.progress

    def share(self) -> Share | None:
        """How much of a running bounded job is finished, as a ``Share``; None if that is unknown."""
        launch, query = self._query.launch, self._query.present
        if not self.is_bounded or self._state is not JobState.RUNNING:
            return None
        row_limit = None if self._query.row_limit is None else self._query.row_limit.rows
        tasks = partial(tasks_done, launch.rows.sparkSession, str(query.runId))
        return share_done(self.plan, self.progress(), row_limit, tasks)

    @property
    def waiting(self) -> str | None:
        """The windows and timers that an ended bounded job leaves to its next run, as text; None without any.

        For example ``3 rows wait in open windows for the watermark 2013-06-14 12:59:59.999``.
        """
        return waiting_text(self.progress().waiting) or None

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Remarks for DESCRIBE JOB that are not in the job's record; here none."""
        return ()

    @property
    def record(self) -> JobRecord:
        """The job's description and state, as other processes read it from the checkpoint."""
        return self._recorder.record(self)

    def record_now(self) -> JobRecord:
        """The current record. It is a method because jobs of other processes must read their record again."""
        return self.record

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False where ``timeout`` seconds passed before. Raises the error of a FAILED job."""
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def savepoint(self, path: str | None = None) -> str:
        """Copy the last epoch to ``path``, from which other jobs can start, and return its path. The job continues.

        Raises BindError SS231 where the job does not run, ExecutionError SS426 where no savepoint can be taken.
        """
        require_running(self.name, self._state.value)
        with self._query.at_rest():
            return self._savepoints.take(path or True)

    def stop(self, *, savepoint: str | bool = False, drain: bool = False) -> str | None:
        """Stops the job after the last complete micro-batch and returns the path of the savepoint, if one was
        requested.

        Without ``drain``, pending windows and timers do not fire, and the job can be continued from its checkpoint.
        ``drain`` ends the input: available rows are read, all windows and timers fire, and the job ends as FINISHED;
        its savepoint is taken after that, as in Flink. Raises the errors of ``savepoint``, after which a job without
        ``drain`` continues; UnsupportedError SS369 for ``drain`` in real time.
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
        self._ended.wait()
        return path

    def _drained(self, savepoint: str | bool) -> str | None:
        require_running(self.name, self._state.value)
        if self._query.launch.real_time:
            message = f'job "{self.name}" runs in real time, where STOP WITH DRAIN is not executed'
            raise UnsupportedError(NOT_REAL_TIME, message, hint="Stop it without: no rows and no windows wait in it.")
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
        """Complete an epoch with all available rows; returns its number, None where there were no rows yet.

        Raises BindError SS231 where the job does not run.
        """
        require_running(self.name, self._state.value)
        if self._pace is not None:
            self._pace.run_at_once()
        else:
            self._query.complete_epoch()
        return last_committed(self._query.launch.checkpoint.storage)

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """The epochs of the job as lines of SHOW CHECKPOINTS, newest first."""
        if self._state is JobState.RUNNING:
            self._query.report()
            self._recorder.write_history()
        return checkpoints(self._query.launch.checkpoint.storage)

    def results(self) -> Iterator[pa.Table]:
        """Yields the rows of a query without sink as Arrow tables, one per micro-batch, until the job has ended. Raises
        the error of a FAILED job at the end.

        Columns are those of ``results.columns_of``; names may repeat.
        """
        assert self._results is not None, "a job with a sink has no results"
        yield from self._results
        if self._error is not None:
            raise self._error

    # --- the job's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._run_queries()
        finally:
            self._ended.set()

    def _run_queries(self) -> None:
        CURRENT_JOB.set(self)
        clock = self._to_end.started_clock()
        watching = self._to_end.started_watches()
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
            for thread in watching if clock is None else (clock, *watching):
                thread.join()
            self._observers.end(self)
            self._recorder.finish(self)

    def _on_waiting_to_restart(self) -> None:
        self._state = JobState.RESTARTING

    def _start_again(self) -> None:
        if self._query.start_again():
            self._query.count_restart()
            self._state = JobState.RUNNING

    def _on_reports(self, reports: Sequence[Mapping[str, Any]], last_batch: int) -> None:
        self._recorder.on_reports(reports)
        self._observers.epochs(self, reports)
        if self._results is not None:
            self._results.on_progress(last_batch)

    def _reported(self, error: BaseException) -> SqlStreamError:
        """The failure as users and the record see it, without the secrets of the tables and the settings."""
        reported = self._query.launch.error(error, self.name if self._results is None else None)
        return without_secrets(reported, secrets_of_plan(self.plan) + self._query.launch.secrets)

    def _failure(self, error: BaseException) -> SqlStreamError:
        """The failure as users see it, which observers are told of: once each, whether the job restarts or ends."""
        reported = self._reported(error)
        self._recorder.on_failure(reported)
        self._observers.failure(self, reported)
        return reported

    def _fail(self, error: Exception) -> None:
        if self._stopping.is_set() or is_cancellation(error):
            self._state = JobState.STOPPED
            return
        self._error = self._reported(error)
        self._state = JobState.FAILED


def _savepoints(name: str, specification: JobSpecification, launch: Launch, *, has_sink: bool) -> Savepoints:
    checkpoint = launch.checkpoint
    return Savepoints(name, checkpoint.storage, checkpoint.path, specification.place.savepoints, has_sink)
