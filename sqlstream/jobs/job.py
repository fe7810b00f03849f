"""A running plan: its states, its end, its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from threading import Event, Thread
from typing import Any

import pyarrow as pa

from sqlstream.connectors.secrets import secrets_of_plan
from sqlstream.errors import SqlStreamError
from sqlstream.jobs.coordinator import Checkpointing, EpochDeadline, Pace
from sqlstream.jobs.end_of_input import after_the_end
from sqlstream.jobs.failure import is_cancellation
from sqlstream.jobs.history import CheckpointLine, checkpoints, last_committed
from sqlstream.jobs.launch import Launch
from sqlstream.jobs.progress import Progress
from sqlstream.jobs.recorder import Recorder
from sqlstream.jobs.records import JobRecord, require_running
from sqlstream.jobs.restart import NO_RESTART, RestartStrategy
from sqlstream.jobs.restarting import Restarts
from sqlstream.jobs.results import Results
from sqlstream.jobs.running_query import RunningQuery
from sqlstream.jobs.savepoint_taking import SavepointTaking
from sqlstream.jobs.waiting import Waiting, waiting_text
from sqlstream.planner.nodes import Node
from sqlstream.udfs.hiding import without_secrets
from sqlstream.udfs.spark.call import AFTER_THE_END

_FIRST_PAUSE_S = 0.05


class JobState(Enum):
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
        name: str,
        plan: Node,
        launch: Launch,
        results: Results | None,
        recorder: Recorder,
        checkpointing: Checkpointing,
        restart: RestartStrategy = NO_RESTART,
        savepoints: str | None = None,
        count_waiting: Callable[[], tuple[Waiting, ...]] = tuple,
    ) -> None:
        self.name = name
        self.plan = plan
        self._results = results
        self._count_waiting = count_waiting
        self._state = JobState.RUNNING
        self._error: SqlStreamError | None = None
        path, storage = launch.checkpoint.path, launch.checkpoint.storage
        self._savepoints = SavepointTaking(name, storage, path, savepoints, has_sink=results is None)
        self._savepoint_at_end: str | bool = False
        self._last_savepoint: str | None = None
        self._stopping = Event()
        self._restarts = Restarts(restart, self._told, self._stopping)
        self.started = datetime.now(UTC)
        self._recorder = recorder
        self._pace = Pace(checkpointing) if launch.paced else None
        self._query = RunningQuery(launch, EpochDeadline(checkpointing), self._stopping, self._on_reports)
        self.ids = str(self._query.present.id), str(self._query.present.runId)
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
        return self._query.launch.checkpoint.path

    @property
    def is_bounded(self) -> bool:
        """True where the job ends by itself."""
        return self._query.launch.bounded

    def progress(self) -> Progress:
        """Totals up to the last micro-batch, at most a second old."""
        return self._query.progress

    @property
    def waiting(self) -> str | None:
        """What stays in the checkpoint of a bounded job that has ended, for rows of the next run: ``3 rows wait in open
        windows for the watermark 2013-06-14 12:59:59.999``. None where nothing does."""
        return waiting_text(self.progress().waiting) or None

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
        if self._query.start_again():
            self._query.count_restart()
            self._state = JobState.RUNNING

    def _started_clock(self) -> Thread | None:
        launch = self._query.launch
        if launch.bounded or not launch.clock:
            return None
        return launch.clock.start(
            launch.control, self._stopping, lambda: self.progress().pending != 0, self._query.fail
        )

    def _run_to_end(self) -> None:
        try:
            self._query.watch()
            self._go_on_in_pace()
        except Exception as error:
            if self._query.launch.ended and AFTER_THE_END in str(error):
                raise after_the_end() from error
            raise
        launch = self._query.launch
        if launch.ended and self.progress().rows_in:
            raise after_the_end()
        if launch.needs_flush and not self._stopping.is_set():
            self._end_or_pause()
        if launch.bounded and launch.clock.calls:
            self._drain()
        if launch.drained:
            raise after_the_end()
        if launch.pauses and not self._stopping.is_set():
            self._query.tell_waiting(self._count_waiting())

    def _end_or_pause(self) -> None:
        """Let all fire that waits for the end of the input, or only what is due by now."""
        launch = self._query.launch
        if not launch.pauses:
            launch.end_input()
        elif launch.clock.tells_time:
            launch.clock.tick(launch.control)
        else:
            return
        self._query.go_on()

    def _go_on_in_pace(self) -> None:
        while self._pace is not None and not self._stopping.is_set() and not self._query.launch.bounded:
            self._pace.rest()
            self._query.go_on()

    def _drain(self) -> None:
        """Until no row waits for the answer to a lookup, which only a micro-batch can tell, nor for a barrier where the
        input has ended."""
        launch = self._query.launch
        pause_s, longest_s = _FIRST_PAUSE_S, launch.clock.interval_ms / 1000
        while self._rows_go_on() and not self._stopping.wait(min(pause_s, longest_s)):
            launch.clock.tick(launch.control)
            self._query.go_on()
            pause_s *= 2

    def _rows_go_on(self) -> bool:
        """True where rows may go on without more input, or no micro-batch has told yet."""
        launch, progress = self._query.launch, self.progress()
        if not launch.pauses:
            return progress.pending != 0
        return any(progress.pending_by_operator.get(number, 1) for number in launch.clock.lookups)

    def _on_reports(self, reports: Sequence[Mapping[str, Any]], last_batch: int) -> None:
        self._recorder.on_reports(reports)
        if self._results is not None:
            self._results.on_progress(last_batch)

    def _told(self, error: BaseException) -> SqlStreamError:
        """What users and the record are told of a failure, without the secrets of the tables and the settings."""
        told = self._query.launch.error(error, self.name if self._results is None else None)
        return without_secrets(told, secrets_of_plan(self.plan) + self._query.launch.secrets)

    def _fail(self, error: Exception) -> None:
        if self._stopping.is_set() or is_cancellation(error):
            self._state = JobState.STOPPED
            return
        self._error = self._told(error)
        self._state = JobState.FAILED
