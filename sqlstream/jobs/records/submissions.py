"""Jobs that a shell has started as processes of their own: what each left in the user's state folder.

A submission is a folder with the script, what its process says (``log``), a description and, when the process has
ended, its exit status. The job itself keeps its record in its checkpoint, as all jobs do.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.storage import Storage, local_storage_at
from sqlstream.jobs.records.history import CheckpointLine
from sqlstream.jobs.records.record import (
    GONE,
    LOST,
    Description,
    JobRecord,
    Life,
    Process,
    read_record,
    require_running,
)
from sqlstream.jobs.records.requests import WAIT_S, RecordedJob, storage_here
from sqlstream.paths import made, state_folder
from sqlstream.udfs.texts import json_of

NO_STATE_FOLDER = "SS460"

_SUBMITTED, _JOBS = "submitted", "jobs"
_ABOUT, _SCRIPT, _LOG, _EXIT = "submission.json", "script.sql", "log", "exit"


@dataclass(frozen=True)
class Submission:
    """A job that was started in a process of its own. ``process`` is the one that waits for the job's process and
    writes its exit status. ``checkpoint`` is the folder of the job, ``statement`` its INSERT without secrets,
    ``submitted`` the time in seconds since 1970.
    """

    folder: Path
    job: str
    checkpoint: str
    process: Process
    submitted: float
    statement: str

    @property
    def log(self) -> Path:
        """The file with the output of the job's process."""
        return log_of(self.folder)

    @property
    def script(self) -> Path:
        """The script that the job's process runs."""
        return script_of(self.folder)

    @property
    def exit_status(self) -> int | None:
        """The exit status of the job's process; None while it runs, and where it was never written."""
        try:
            return int(exit_file(self.folder).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    @property
    def is_over(self) -> bool:
        """True if the process of the job has ended."""
        return self.exit_status is not None or (self.process.is_here and not self.process.is_alive)

    def log_end(self, lines: int) -> str:
        """The last lines of the log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.rstrip().splitlines()[-lines:])


def log_of(folder: Path) -> Path:
    """The file of the log in the folder of a submission."""
    return folder / _LOG


def script_of(folder: Path) -> Path:
    """The file of the script in the folder of a submission."""
    return folder / _SCRIPT


def exit_file(folder: Path) -> Path:
    """The file with the exit status, in the folder of a submission."""
    return folder / _EXIT


def checkpoints_of_submitted() -> Path:
    """The checkpoint directory of jobs that were submitted without ``execution.checkpointing.dir``."""
    return _state() / _JOBS


def new_folder(job: str) -> Path:
    """A folder for the next submission of a job, which no other user can read."""
    parent = _private(_state() / _SUBMITTED)
    begin, number = f"{job}-{time.strftime('%Y%m%d-%H%M%S')}", 1
    while True:
        folder = parent / (begin if number == 1 else f"{begin}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return folder


# The signals that end the job's process must not end the one that waits for it.
_WAITING = 'trap : INT TERM HUP; "$@"; echo $? > "$0.new" && mv "$0.new" "$0"'


def started_process(
    folder: Path, command: Sequence[str], environment: Mapping[str, str], text: str = ""
) -> subprocess.Popen[bytes]:
    """Starts a command for a submission in a session of its own and returns the process that waits for it, which writes
    the command's exit status to the ``folder``; the command's output goes to the log there.

    ``text``: the command's standard input, through a pipe, because it may hold secrets.
    """
    with log_of(folder).open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", _WAITING, str(exit_file(folder)), *command],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # no terminal sends it signals
        )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(text.encode())
    return process


def write_submission(submission: Submission) -> None:
    """Write the description of a submission to its folder."""
    document = {k: v for k, v in asdict(submission).items() if k != "folder"}
    beside = submission.folder / f".{_ABOUT}"
    beside.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
    beside.replace(submission.folder / _ABOUT)


def submissions() -> tuple[Submission, ...]:
    """The last submission for each checkpoint, oldest first; unreadable ones are left out."""
    state = state_folder()
    folders = [] if state is None else (state / _SUBMITTED).glob(f"*/{_ABOUT}")
    read = [submission for path in folders if (submission := _read(path)) is not None]
    newest = {submission.checkpoint: submission for submission in sorted(read, key=lambda s: s.submitted)}
    return tuple(sorted(newest.values(), key=lambda s: s.submitted))


def remove_submission(submission: Submission) -> None:
    """Removes the folders of all submissions that have the same checkpoint as this one. Removes the checkpoint, too, if
    it is in the user's own directory.

    Raises OSError where they cannot be removed.
    """
    checkpoints = checkpoints_of_submitted()
    if Path(submission.checkpoint).parent == checkpoints and Path(submission.checkpoint).exists():
        shutil.rmtree(submission.checkpoint)
    for path in submission.folder.parent.glob(f"*/{_ABOUT}"):
        other = _read(path)
        if other is not None and other.checkpoint == submission.checkpoint:
            shutil.rmtree(path.parent)


def _read(path: Path) -> Submission | None:
    try:
        values = json_of(path.read_text(encoding="utf-8"))
        return Submission(path.parent, **{**values, "process": Process(**values["process"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _state() -> Path:
    folder = made(state_folder())
    if folder is None:
        hint = "Set the environment variable XDG_STATE_HOME to a directory that can be written."
        raise ExecutionError(NO_STATE_FOLDER, "there is no folder that can be written for jobs of their own", hint=hint)
    return folder


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        hint = f'Make "{folder}" writable.'
        raise ExecutionError(NO_STATE_FOLDER, "there is no folder that can be written for jobs of their own", hint=hint)
    return folder


# --- Submitted jobs, as other processes of the user see them ---------------------------------------------------
# They are known by their submission, and by their record as soon as there is one.


STARTING = "STARTING"
INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ends."""

_FAILURE = re.compile(r"^(SS\d{3}): (.*)$", re.MULTILINE)
_ENDED = "SS461"
_LOG_LINES = 50

Property = tuple[str, str]


@dataclass(frozen=True)
class SubmittedJob:
    """A submitted job, with the methods of ``RecordedJob``. Until the first record is written it is STARTING, and can
    only be stopped.
    """

    submission: Submission
    record: JobRecord
    storage: Storage | None = None

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.record.name

    @property
    def id(self) -> str:
        """Spark's id of the query; empty before the first record."""
        return self.record.id

    @property
    def notes(self) -> tuple[Property, ...]:
        """Remarks for DESCRIBE JOB that are not in the job's record: the exit status, the log and the script."""
        status = self.submission.exit_status
        ended = () if status is None else (("exit status", str(status)),)
        return (*ended, ("log", str(self.submission.log)), ("script", str(self.submission.script)))

    def record_now(self) -> JobRecord:
        """Returns the current record of the job. Until the job has written one, it is made from the submission."""
        return submitted_job(self.submission).record

    def stop(self, *, savepoint: str | bool = False, drain: bool = False, timeout_s: float = WAIT_S) -> str | None:
        """Stops the job and returns the path of the savepoint, if one was requested. A process that has not written its
        record yet is interrupted by a signal instead.
        """
        if self.storage is not None or savepoint or drain:
            return self._recorded().stop(savepoint=savepoint, drain=drain, timeout_s=timeout_s)
        if not self.submission.is_over and self.submission.process.is_here:
            with suppress(ProcessLookupError):
                os.killpg(self.submission.process.pid, signal.SIGINT)
        return None

    def checkpoint(self, timeout_s: float = WAIT_S) -> int | None:
        """Complete an epoch now and return its number."""
        return self._recorded().checkpoint(timeout_s)

    def savepoint(self, path: str | None = None, timeout_s: float = WAIT_S) -> str:
        """Take a savepoint and return its path."""
        return self._recorded().savepoint(path, timeout_s)

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """The epochs of the job as lines of SHOW CHECKPOINTS, newest first."""
        return () if self.storage is None else self._recorded().checkpoints()

    def _recorded(self) -> RecordedJob:
        """The job by its record. BindErrors: SS231 while it has none, SS232 where the record is on another machine."""
        if self.storage is None:
            require_running(self.name, self.record.status)
        return RecordedJob(self.record, self.storage or storage_here(self.submission.checkpoint))


def submitted_jobs() -> tuple[SubmittedJob, ...]:
    """The jobs that the user has submitted on this machine, the last submission of each, oldest first."""
    return tuple(submitted_job(submission) for submission in submissions())


def submitted_job(submission: Submission) -> SubmittedJob:
    """Returns the job that a submission started, with its latest record. A record that is older than the submission is
    ignored, because it belongs to an earlier start.
    """
    storage = local_storage_at(submission.checkpoint)
    record = None
    if storage is not None:
        with suppress(Exception):  # damaged or unreadable: the submission is all that is known
            record = read_record(storage)
    if record is None or record.life.started < submission.submitted:
        return SubmittedJob(submission, _record_of(submission))
    return SubmittedJob(submission, record, storage)


def failure_of(submission: Submission) -> tuple[str, str]:
    """Why the process of a submitted job has ended, as a pair of code and message: the last error in its log, else its
    exit status, or that the process is gone.
    """
    failures = _FAILURE.findall(submission.log_end(_LOG_LINES))
    if failures:
        code, message = failures[-1]
        return code, message
    if submission.exit_status is None:
        return GONE, f"its process {submission.process.pid} on {submission.process.host} is gone"
    return _ENDED, f"its process has ended with exit status {submission.exit_status}"


def _record_of(submission: Submission) -> JobRecord:
    """A record made of the submission alone."""
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
