"""The record of a job in its checkpoint directory (``job.json``): its plan, its state and its progress.

It outlives the process of the job, and other processes read it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlstream.errors import BindError, ExecutionError
from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.jobs.reports.progress import Progress, progress_from_json, require_plain
from sqlstream.udfs.texts import json_of

# --- The process of a job --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """A process on some machine. ``started`` distinguishes it from later processes with the same number: how many clock
    ticks after the start of the machine it began, None if unknown.
    """

    host: str
    pid: int
    started: int | None = None

    @property
    def is_here(self) -> bool:
        """True for processes of this machine. Of processes elsewhere it is unknown whether they still run."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """True for a running process of this machine."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it exists and belongs to another user
        return _start_of(self.pid) == self.started

    def ends_within(self, seconds: float) -> bool:
        """Waits until a process of this machine has ended, at most so long. Returns whether it has."""
        end = time.monotonic() + seconds
        while self.is_alive:
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_SECONDS)
        return True


@cache
def this_process() -> Process:
    """The process that runs this code."""
    return process_here(os.getpid())


def process_here(pid: int) -> Process:
    """The process of this machine with the number ``pid``."""
    return Process(socket.gethostname(), pid, _start_of(pid))


def _start_of(pid: int) -> int | None:
    """The start time of a process on Linux; None elsewhere, and for a process that has ended (also a zombie)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state == "Z" else int(fields[18])


NOT_RUNNING = "SS231"
UNREADABLE = "SS454"
GONE = "SS451"
IN_USE = "SS452"

RECORD_FILE = "job.json"
VERSION = 1
LOST = "LOST"
DAMAGED = "DAMAGED"
LOST_AFTER_S = 60
_REMOVE = "Remove the file: the job can go on without it, and writes a new one."
_LIVING = ("RUNNING", "RESTARTING")

_LOOK_SECONDS = 0.1

_T = TypeVar("_T")


@dataclass(frozen=True)
class Description:
    """What a job runs. ``plan`` is the JSON of EXPLAIN FORMAT JSON, ``settings`` those that were set explicitly."""

    sql: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Life:
    """The current state of a job. Times are in seconds since 1970.

    ``instance`` identifies one start of the job in one process; requests are addressed to it. ``error`` is the code and
    the message of a FAILED job; ``last_failure`` the same of the last failure, after which the job may have been
    restarted. ``kept`` is False once the checkpoint has been removed.
    """

    status: str
    process: Process
    instance: str
    started: float
    heartbeat: float
    ended: float | None = None
    error: tuple[str, str] | None = None
    last_failure: tuple[str, str] | None = None
    progress: Progress = field(default_factory=Progress)
    kept: bool = True


@dataclass(frozen=True)
class Failure:
    """A failure of a job, after which it restarted or ended. ``time`` is in seconds since 1970."""

    time: float
    code: str
    message: str
    hint: str | None = None


MOST_FAILURES = 20
"""The number of failures in a record: a job that fails every few seconds must not grow it."""


@dataclass(frozen=True)
class JobRecord:
    """What other processes can know about a job; stored as JSON in its checkpoint.

    ``id`` is Spark's id of the query, the same for all runs from one checkpoint. ``created`` is the time of the first
    start in seconds since 1970, ``starts`` the number of starts. ``failures``: the last ones of all starts, oldest
    first.
    """

    id: str
    run_id: str
    name: str
    checkpoint: str
    bounded: bool
    created: float
    starts: int
    description: Description
    life: Life
    failures: tuple[Failure, ...] = ()

    @property
    def is_lost(self) -> bool:
        """True if the record says that the job runs, but its process has ended.

        A process on another machine counts as ended if the record has not been written for a minute.
        """
        if self.life.status not in _LIVING:
            return False
        process = self.life.process
        return not process.is_alive if process.is_here else time.time() - self.life.heartbeat > LOST_AFTER_S

    @property
    def is_damaged(self) -> bool:
        """True where the record cannot be read, so that only its folder and the reason are known."""
        return self.life.status == DAMAGED

    @property
    def is_running(self) -> bool:
        """True where the record says that the job runs, and its process is alive."""
        return self.life.status in _LIVING and not self.is_lost

    @property
    def status(self) -> str:
        """The status of the job: a ``JobState``, LOST or DAMAGED."""
        return LOST if self.is_lost else self.life.status

    @property
    def error(self) -> tuple[str, str] | None:
        """Code and message of the error that ended the job; None without one."""
        if not self.is_lost:
            return self.life.error
        return GONE, self.gone

    @property
    def gone(self) -> str:
        """The message for a lost job: that its process has ended."""
        return f"its process {self.life.process.pid} on {self.life.process.host} is gone"


def require_readable(record: JobRecord) -> None:
    """Raises ExecutionError SS454 for a damaged record."""
    if record.is_damaged and record.error is not None:
        raise ExecutionError(*record.error, hint=_REMOVE)


def require_running(name: str, status: str) -> None:
    """Raises BindError SS231 unless ``status`` is that of a running job. ``name``: the job's name, for the message."""
    if status != "RUNNING":
        hint = "SHOW JOBS lists the jobs with their status."
        raise BindError(NOT_RUNNING, f'job "{name}" is not running but {status}', hint=hint)


def in_use(record: JobRecord, path: str) -> ExecutionError:
    """Returns the error SS452: a running job uses the checkpoint at ``path``."""
    return ExecutionError(
        IN_USE,
        f'job "{record.name}" runs already with the checkpoint "{path}"',
        detail=f"It runs in process {record.life.process.pid} on {record.life.process.host}.",
        hint="Stop it first (STOP JOB, sqlstream jobs stop), or give this job another 'pipeline.name'.",
    )


def runs_already(record: JobRecord) -> ExecutionError:
    """Returns the error SS452: a job of this session already does what the new job is to do."""
    hint = "Stop it first (STOP JOB), or give this job another 'pipeline.name'."
    return ExecutionError(IN_USE, f'job "{record.name}" runs already, and does the same', hint=hint)


def being_started(path: str) -> ExecutionError:
    """Returns the error SS452: another process is starting a job with the checkpoint at ``path``, and has written no
    record yet.
    """
    message = f'another start of the job with the checkpoint "{path}" is under way'
    hint = "Wait for it, and see SHOW JOBS; or give this job another 'pipeline.name'."
    return ExecutionError(IN_USE, message, hint=hint)


def working_elsewhere(path: str) -> ExecutionError:
    """Returns the error SS452: Spark has found micro-batches of another job in the checkpoint at ``path``."""
    message = f'another job works with the checkpoint "{path}"'
    hint = "Stop one of them (SHOW JOBS, STOP JOB), or give it another 'pipeline.name'."
    return ExecutionError(IN_USE, message, hint=hint)


def to_text(record: JobRecord) -> str:
    """The record as JSON, as ``job.json`` stores it."""
    return json.dumps({"version": VERSION, **asdict(record)}, ensure_ascii=False, indent=1)


def from_text(text: str, path: str) -> JobRecord:
    """Returns the record in a text. Raises ExecutionError SS454 for an invalid record, or one of another version.
    ``path``: the checkpoint, for the message.
    """
    try:
        document = json_of(text)
        if document.pop("version") != VERSION:
            raise ValueError("it is of another version of sqlstream")
        life = document["life"]
        progress = progress_from_json(life["progress"])
        read = replace(_made(Life, life), process=_made(Process, life["process"]), progress=progress)
        read = replace(read, error=_pair(read.error), last_failure=_pair(read.last_failure))
        failures = tuple(_made(Failure, failure) for failure in document.pop("failures", ()))
        described = _made(Description, document["description"])
        return replace(_made(JobRecord, document), description=described, life=read, failures=failures)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f'the record "{path}" of a job cannot be read'
        raise ExecutionError(UNREADABLE, message, detail=f"{type(error).__name__}: {error}", hint=_REMOVE) from error


def _pair(values: Sequence[str] | None) -> tuple[str, str] | None:
    """A pair that JSON has made a list."""
    return None if values is None else (values[0], values[1])


def _made(kind: type[_T], values: Mapping[str, Any]) -> _T:
    """The object with these fields; those that a newer version has added are left out."""
    require_plain(kind, values)
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})


def read_record(storage: Storage) -> JobRecord | None:
    """The record in a checkpoint directory; None where there is none."""
    text = storage.read(RECORD_FILE)
    return None if text is None else from_text(text, storage.location(RECORD_FILE))


def write_record(storage: Storage, record: JobRecord) -> None:
    """Write the record to the checkpoint directory."""
    storage.write(RECORD_FILE, to_text(record))


def records_below(storage: Storage) -> dict[str, JobRecord]:
    """Returns a dictionary from folder to record, for all jobs with a checkpoint below a directory. They are in the
    order of their first start; damaged records come last.
    """
    by_folder = {
        path.removesuffix(f"/{RECORD_FILE}"): _read_or_damaged(storage, path, text)
        for path, text in storage.texts(f"*/{RECORD_FILE}").items()
    }
    return dict(sorted(by_folder.items(), key=lambda entry: (entry[1].is_damaged, entry[1].created)))


def _read_or_damaged(storage: Storage, path: str, text: str) -> JobRecord:
    """The record, or a DAMAGED one that is named after the folder, as the job is."""
    folder = path.removesuffix(f"/{RECORD_FILE}")
    try:
        return from_text(text, storage.location(path))
    except ExecutionError as error:
        reason = (error.code, error.diagnostic.message)
        life = Life(DAMAGED, Process("", 0), "", started=0.0, heartbeat=0.0, error=reason)
        return JobRecord("", "", folder, storage.location(folder), False, 0.0, 0, Description(), life)
