"""Writes the record of a running job, and carries out the requests of other processes.

Its thread looks for requests each second, and writes the record when it has changed, and every 15 seconds.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from sqlstream.errors import BindError, ExecutionError
from sqlstream.jobs.checkpoints.own_files import Claim, remove_checkpoint
from sqlstream.jobs.checkpoints.storage import LocalStorage, Storage, storage_at
from sqlstream.jobs.lifecycle.coordinator import Retention
from sqlstream.jobs.records import requests
from sqlstream.jobs.records.history import History
from sqlstream.jobs.records.record import (
    MOST_FAILURES,
    Description,
    Failure,
    JobRecord,
    Life,
    in_use,
    read_record,
    this_process,
    write_record,
)
from sqlstream.jobs.reports.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.errors import SqlStreamError
    from sqlstream.jobs.lifecycle.job import Job

CANNOT_DELETE = "SS233"

_LOCAL_POLL_S = 1.0
_REMOTE_POLL_S = 5.0
"""Through Spark each listing of a directory is a job."""
_SIGN_OF_LIFE_S = 15.0

_Written = tuple[str, Progress, tuple[Failure, ...]]
"""What a record has that changes: state, progress and failures."""

_instances: set[str] = set()
"""The instances of jobs that run in this process."""


class Recorder:
    """Writes the record of one job, by which other processes know it, and answers their requests. ``storage`` is that
    of the checkpoint.

    ``history``: collects the job's epochs; None: no record is written, and no request is answered. ``retention``: after
    which ends of the job its checkpoint is kept. ``claim``: the exclusive right to write in the job's folder, which is
    released when the job has ended.
    """

    def __init__(
        self,
        storage: Storage,
        description: Description,
        retention: Retention,
        history: History | None = None,
        claim: Claim | None = None,
    ) -> None:
        self.storage = storage
        self._description = description
        self._retention = retention
        self._instance = uuid.uuid4().hex
        self._earlier = read_record(storage) if history is not None else None
        self._failures = self._earlier.failures if self._earlier is not None else ()
        self._history = history
        self._claim = claim
        self._written: _Written | None = None
        self._written_at = 0.0
        self._kept = True
        self._ended: float | None = None
        self._stopped = Event()
        self._thread: Thread | None = None
        self._ids = ("", "")
        self._taken: set[str] = set()

    def require_free(self, path: str) -> None:
        """Raises ExecutionError SS452 where another job runs with this checkpoint, BindError SS233 where the settings
        delete the checkpoint at the end and the storage cannot.
        """
        if self._retention is not Retention.ALWAYS and not self.storage.can_remove:
            message = f'the checkpoint "{path}" cannot be deleted when its job ends'
            hint = "RESET 'execution.checkpointing.externalized-checkpoint-retention': Spark deletes no files there."
            raise BindError(CANNOT_DELETE, message, hint=hint)
        earlier = self._earlier
        if earlier is None or not earlier.is_running:
            return
        if earlier.life.process == this_process() and earlier.life.instance not in _instances:
            return
        raise in_use(earlier, path)

    # --- the job's life ---

    def start(self, job: Job) -> None:
        """Begin to record the job, after its query has started."""
        self._ids = job.ids
        if self._history is None:
            return
        _instances.add(self._instance)
        self._write(job)
        self._thread = Thread(target=self._run, args=(job,), name=f"sqlstream-record-{job.name}", daemon=True)
        self._thread.start()

    def on_reports(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Add the epochs of new reports of Spark to the history."""
        if self._history is not None:
            self._history.add(reports)

    def on_failure(self, error: SqlStreamError) -> None:
        """Add a failure of the job to its record."""
        told = error.diagnostic
        failure = Failure(time.time(), error.code, told.message, told.hint)
        self._failures = (*self._failures, failure)[-MOST_FAILURES:]

    def write_history(self) -> None:
        """Write the epochs that have been reported so far."""
        if self._history is not None:
            self._history.write()

    def finish(self, job: Job) -> None:
        """Write the final record and release the claim; called last, on the job's own thread."""
        self._ended = time.time()
        try:
            if self._history is not None:
                self._finish_record(job)
        finally:
            if self._claim is not None:
                self._claim.release()

    def _finish_record(self, job: Job) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if not self._retention.keeps(job.state.value):
            self._kept = False
            with suppress(ExecutionError):
                remove_checkpoint(self.storage)
        with suppress(Exception):  # Spark may be gone; the job has ended anyway
            self._write(job)
        _instances.discard(self._instance)

    def record(self, job: Job) -> JobRecord:
        """The record of the job as it is now."""
        now, earlier, started = time.time(), self._earlier, job.started.timestamp()
        life = Life(
            status=job.state.value,
            process=this_process(),
            instance=self._instance,
            started=started,
            heartbeat=now,
            ended=self._ended,
            error=_code_and_message(job.exception),
            last_failure=_code_and_message(job.last_failure),
            progress=job.progress(),
            kept=self._kept,
        )
        return JobRecord(
            id=self._ids[0],
            run_id=self._ids[1],
            name=job.name,
            checkpoint=job.checkpoint_path,
            bounded=job.is_bounded,
            created=earlier.created if earlier else started,
            starts=earlier.starts + 1 if earlier else 1,
            description=self._description,
            life=life,
            failures=self._failures,
        )

    # --- the recorder's thread ---

    def _run(self, job: Job) -> None:
        pause_s = _LOCAL_POLL_S if isinstance(self.storage, LocalStorage) else _REMOTE_POLL_S
        while not self._stopped.wait(pause_s):
            with suppress(Exception):  # a full disk, an unreachable server: the next attempt may succeed
                self._answer_requests(job)
                changed = self._present(job) != self._written
                if changed or time.time() > self._written_at + _SIGN_OF_LIFE_S:
                    self._write(job)

    def _write(self, job: Job) -> None:
        present = self._present(job)
        self.write_history()
        write_record(self.storage, self.record(job))
        self._written, self._written_at = present, time.time()

    def _present(self, job: Job) -> _Written:
        return job.state.value, job.progress(), self._failures

    def _answer_requests(self, job: Job) -> None:
        for request in requests.waiting(self.storage, self._instance):
            if request.id in self._taken:
                continue
            self._taken.add(request.id)
            act = _acts(job, request)
            # Not a daemon: the answer is written even if the process ends with the job.
            Thread(target=requests.answer, args=(self.storage, request, act), name="sqlstream-request").start()


def recorder_of(
    path: str,
    spark: SparkSession,
    description: Description | None,
    retention: Retention = Retention.ALWAYS,
    claim: Claim | None = None,
) -> Recorder:
    """Returns the recorder of a job that is about to start at the checkpoint ``path``. Without a ``description`` it
    writes no record of the job.

    ``retention``: after which ends of the job the checkpoint is kept. ``claim``: the exclusive right to write in the
    folder, which is released when the job has ended. Raises ExecutionError SS452 if another job uses the path,
    BindError SS233 if the checkpoint is to be deleted at the end and the storage cannot delete.
    """
    storage = storage_at(path, spark)
    history = None if description is None else History(storage)
    recorder = Recorder(storage, description or Description(), retention, history, claim)
    recorder.require_free(path)
    return recorder


def _acts(job: Job, request: requests.Request) -> Callable[[], requests.Answer]:
    match request.kind:
        case "stop":
            return lambda: job.stop(savepoint=request.savepoint or False, drain=request.drain)
        case "checkpoint":
            return job.checkpoint
        case "savepoint":
            path = request.savepoint
            return lambda: job.savepoint(path if isinstance(path, str) else None)
    raise TypeError(request.kind)


def _code_and_message(error: SqlStreamError | None) -> tuple[str, str] | None:
    return None if error is None else (error.code, error.diagnostic.message)
