"""A job that a shell has submitted, as every process of the user's sees it: from its submission, and its record once
there is one."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass

from sqlstream.jobs.checkpoints.storage import Storage, local_storage_at
from sqlstream.jobs.records.history import CheckpointLine
from sqlstream.jobs.records.record import GONE, LOST, Description, JobRecord, Life, read_record, require_running
from sqlstream.jobs.records.recorded_job import WAIT_S, RecordedJob, storage_here
from sqlstream.jobs.records.submissions import Submission, submissions

STARTING = "STARTING"
INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ends."""

_FAILURE = re.compile(r"^(SS\d{3}): (.*)$", re.MULTILINE)
_ENDED = "SS461"
_LOG_LINES = 50

Property = tuple[str, str]


@dataclass(frozen=True)
class SubmittedJob:
    """As ``RecordedJob``. Before its first record a job is STARTING, and only its process can be asked to end."""

    submission: Submission
    record: JobRecord
    storage: Storage | None = None

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def notes(self) -> tuple[Property, ...]:
        """What is known of a job of its own beside its record."""
        status = self.submission.exit_status
        ended = () if status is None else (("exit status", str(status)),)
        return (*ended, ("log", str(self.submission.log)), ("script", str(self.submission.script)))

    def record_now(self) -> JobRecord:
        return submitted_job(self.submission).record

    def stop(self, *, savepoint: str | bool = False, drain: bool = False, timeout_s: float = WAIT_S) -> str | None:
        if self.storage is not None or savepoint or drain:
            return self._recorded().stop(savepoint=savepoint, drain=drain, timeout_s=timeout_s)
        if not self.submission.is_over and self.submission.process.is_here:
            with suppress(ProcessLookupError):
                os.killpg(self.submission.process.pid, signal.SIGINT)
        return None

    def checkpoint(self, timeout_s: float = WAIT_S) -> int | None:
        return self._recorded().checkpoint(timeout_s)

    def savepoint(self, path: str | None = None, timeout_s: float = WAIT_S) -> str:
        return self._recorded().savepoint(path, timeout_s)

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        return () if self.storage is None else self._recorded().checkpoints()

    def _recorded(self) -> RecordedJob:
        """BindErrors: SS231 while it has no record, SS232 where that is not on this machine."""
        if self.storage is None:
            require_running(self.name, self.record.status)
        return RecordedJob(self.record, self.storage or storage_here(self.submission.checkpoint))


def submitted_jobs() -> tuple[SubmittedJob, ...]:
    """The jobs that the user has submitted on this machine, the last submission of each, oldest first."""
    return tuple(submitted_job(submission) for submission in submissions())


def submitted_job(submission: Submission) -> SubmittedJob:
    """A record that was written before the submission is that of an earlier start."""
    storage = local_storage_at(submission.checkpoint)
    record = None
    if storage is not None:
        with suppress(Exception):  # damaged, or not to be read: the submission tells what it knows
            record = read_record(storage)
    if record is None or record.life.started < submission.submitted:
        return SubmittedJob(submission, _record_of(submission))
    return SubmittedJob(submission, record, storage)


def failure_of(submission: Submission) -> tuple[str, str]:
    """Code and message of what has ended its process, as its log tells."""
    failures = _FAILURE.findall(submission.log_end(_LOG_LINES))
    if failures:
        code, message = failures[-1]
        return code, message
    if submission.exit_status is None:
        return GONE, f"its process {submission.process.pid} on {submission.process.host} is gone"
    return _ENDED, f"its process has ended with exit status {submission.exit_status}"


def _record_of(submission: Submission) -> JobRecord:
    """What the submission itself tells."""
    status = _status(submission)
    error = failure_of(submission) if status in ("FAILED", LOST) else None
    life = Life(status, submission.process, "", submission.submitted, submission.submitted, error=error, kept=False)
    return JobRecord(
        id="",
        run_id="",
        name=submission.job,
        checkpoint=submission.checkpoint,
        bounded=False,
        created=submission.submitted,
        starts=1,
        description=Description(sql=submission.statement),
        life=life,
    )


def _status(submission: Submission) -> str:
    match submission.exit_status:
        case None if submission.is_over:
            return LOST
        case None:
            return STARTING if local_storage_at(submission.checkpoint) is not None else "RUNNING"
        case 0:
            return "FINISHED"
        case status:
            return "STOPPED" if status == INTERRUPTED else "FAILED"
