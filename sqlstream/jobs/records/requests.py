"""Requests of other processes to a job, and the jobs that such processes see.

A request is a file ``requests/<id>.json`` in the checkpoint directory, which the process of the job answers with
``replies/<id>.json``. It is addressed to one start of the job, so that a later start ignores old requests.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from sqlstream.errors import BindError, Diagnostic, ExecutionError, SqlStreamError
from sqlstream.jobs.checkpoints.storage import Storage, local_storage_at
from sqlstream.jobs.records.history import CheckpointLine, checkpoints
from sqlstream.jobs.records.record import GONE, JobRecord, read_record, records_below, require_readable, require_running
from sqlstream.udfs.texts import json_of

NO_ANSWER = "SS453"

KINDS = ("stop", "checkpoint", "savepoint")

_TYPES = {"instance": str, "kind": str, "savepoint": str | bool | None, "drain": bool, "id": str}
_ID = re.compile(r"[0-9a-f]{32}")
_POLL_SECONDS = 0.2
_CHECK_SECONDS = 1.0
_LAST_SECONDS = 5.0


@dataclass(frozen=True)
class Request:
    """A request that another process sends to a running job, as a file.

    ``instance``: the start of the job that it is for. ``kind``: ``stop``, ``checkpoint`` or ``savepoint``.
    ``savepoint``: the path of the savepoint, True for the default path, None or False for no savepoint. ``drain``:
    before it stops, the job ends its input, so that all windows and timers fire.
    """

    instance: str
    kind: str
    savepoint: str | bool | None = None
    drain: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


Answer = str | int | None
"""The path of a savepoint, the number of an epoch, or nothing."""


def send(storage: Storage, request: Request) -> None:
    """Writes the file of a request; does not wait for the answer."""
    storage.write(f"requests/{request.id}.json", json.dumps(asdict(request)))


def waiting(storage: Storage, instance: str) -> tuple[Request, ...]:
    """Returns the requests to one start of a job, identified by ``instance``, that are not answered yet. Removes
    invalid files and requests to other starts, if the storage can.
    """
    requests = {path: _request(path, text) for path, text in storage.texts("requests/*.json").items()}
    for path, request in requests.items():
        if (request is None or request.instance != instance) and storage.can_remove:
            storage.remove(path)
    return tuple(request for request in requests.values() if request is not None and request.instance == instance)


def _request(path: str, text: str) -> Request | None:
    """The request in a file; None for an invalid one, because a job must not fail of it. The name has to match the
    id."""
    try:
        values = dict(json_of(text))
        request = Request(**values) if all(isinstance(value, _TYPES[key]) for key, value in values.items()) else None
    except (ValueError, TypeError, KeyError):
        return None
    if request is None or request.kind not in KINDS or not _ID.fullmatch(request.id):
        return None
    return request if path == f"requests/{request.id}.json" else None


def answer(storage: Storage, request: Request, act: Callable[[], Answer]) -> None:
    """Carries out a request by calling ``act``, and writes its answer or its error for the process that asked."""
    try:
        reply: Mapping[str, object] = {"answer": act()}
    except SqlStreamError as error:
        reply = {"error": [asdict(_without_place(d)) for d in error.diagnostics]}
    except Exception as error:
        reply = {"error": [asdict(Diagnostic("SS400", f"{type(error).__name__}: {error}"))]}
    storage.write(f"replies/{request.id}.json", json.dumps(reply))
    _withdraw(storage, request)


def _without_place(diagnostic: Diagnostic) -> Diagnostic:
    """Removes the span, which refers to a text that the other process does not have."""
    return Diagnostic(diagnostic.code, diagnostic.message, detail=diagnostic.detail, hint=diagnostic.hint)


def ask(storage: Storage, record: JobRecord, request: Request, timeout_s: float) -> Answer:
    """Send the request to the process of a running job and wait for the answer.

    Raises ExecutionError SS451 where the process ends before it answers, SS453 after ``timeout_s`` seconds, and the
    error with which that process answers.
    """
    send(storage, request)
    end, check = time.monotonic() + timeout_s, time.monotonic() + _CHECK_SECONDS
    while time.monotonic() < end:
        reply = _reply(storage, request)
        if reply is not None:
            return _answered(storage, request, reply)
        if time.monotonic() >= check:
            newest = read_record(storage)
            if newest is not None and not (newest.is_running and newest.life.instance == request.instance):
                reply = _last_reply(storage, request, newest)
                if reply is not None or (request.kind == "stop" and not request.savepoint and not newest.is_lost):
                    return None if reply is None else _answered(storage, request, reply)
                raise _gone(storage, request, newest)
            check = time.monotonic() + _CHECK_SECONDS
        time.sleep(_POLL_SECONDS)
    _withdraw(storage, request)
    message = f'job "{record.name}" has not answered within {timeout_s:g} seconds'
    hint = "A long micro-batch may keep it; ask again, with more time."
    raise ExecutionError(NO_ANSWER, message, hint=hint)


def _last_reply(storage: Storage, request: Request, record: JobRecord) -> Mapping[str, object] | None:
    """The answer of a job that has ended as asked: its record may say so a moment before the answer is there."""
    end, process = time.monotonic() + _LAST_SECONDS, record.life.process
    ended_so = record.life.instance == request.instance and record.life.status in ("STOPPED", "FINISHED")
    while True:
        may_answer = ended_so and (not process.is_here or process.is_alive)
        reply = _reply(storage, request)
        if reply is not None or not may_answer or time.monotonic() > end:
            return reply
        time.sleep(_POLL_SECONDS)


def _gone(storage: Storage, request: Request, record: JobRecord) -> ExecutionError:
    _withdraw(storage, request)
    message = f'job "{record.name}" is {record.status} and cannot answer any more'
    hint = "Start it again with its script; it goes on from its checkpoint."
    return ExecutionError(GONE, message, detail=record.error and record.error[1], hint=hint)


def _withdraw(storage: Storage, request: Request) -> None:
    if storage.can_remove:
        storage.remove(f"requests/{request.id}.json")


def _reply(storage: Storage, request: Request) -> Mapping[str, object] | None:
    text = storage.read(f"replies/{request.id}.json")
    if text is None:
        return None
    if storage.can_remove:
        storage.remove(f"replies/{request.id}.json")
    try:
        reply: Mapping[str, object] = dict(json_of(text))
    except (ValueError, TypeError) as error:
        raise _no_reply(storage, request, error) from error
    return reply


def _answered(storage: Storage, request: Request, reply: Mapping[str, object]) -> Answer:
    wrong, answer = reply.get("error"), reply.get("answer")
    try:
        if isinstance(wrong, list):
            failure = SqlStreamError.of([Diagnostic(**entry) for entry in wrong])
        elif answer is None or isinstance(answer, str | int):
            return answer
        else:
            raise ValueError(f"{type(answer).__name__} is no answer")
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise _no_reply(storage, request, error) from error
    raise failure


def _no_reply(storage: Storage, request: Request, error: Exception) -> ExecutionError:
    message = f'the answer "{storage.location(f"replies/{request.id}.json")}" of a job cannot be read'
    hint = "SHOW JOBS tells what has become of it; ask again."
    return ExecutionError(NO_ANSWER, message, detail=f"{type(error).__name__}: {error}", hint=hint)


# --- Jobs of other processes, known by their records -----------------------------------------------------------
# Nothing here starts Spark where the checkpoints are files of this machine.


ELSEWHERE = "SS232"
WAIT_S = 600.0


@dataclass(frozen=True)
class RecordedJob:
    """A job of another process, known by its record as of the object's creation. Requests are sent to that process."""

    record: JobRecord
    storage: Storage

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.record.name

    @property
    def id(self) -> str:
        """Spark's id of the query."""
        return self.record.id

    def record_now(self) -> JobRecord:
        """The record as it is in the checkpoint directory now."""
        return read_record(self.storage) or self.record

    def stop(self, *, savepoint: str | bool = False, drain: bool = False, timeout_s: float = WAIT_S) -> str | None:
        """Stop the job and return the path of the savepoint, if one was requested.

        An ended job is not changed unless a savepoint is requested. Raises SS454 where its record is damaged, because
        it may be running.
        """
        require_readable(self.record)
        if not self.record.is_running and not savepoint and not drain:
            return None
        answer = self._ask("stop", timeout_s, savepoint=savepoint, drain=drain)
        return None if answer is None else str(answer)

    def checkpoint(self, timeout_s: float = WAIT_S) -> int | None:
        """Complete an epoch; returns its number, None where there were no rows yet."""
        answer = self._ask("checkpoint", timeout_s)
        return None if answer is None else int(answer)

    def savepoint(self, path: str | None = None, timeout_s: float = WAIT_S) -> str:
        """Take a savepoint and return its path."""
        return str(self._ask("savepoint", timeout_s, savepoint=path))

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """The epochs of the job as lines of SHOW CHECKPOINTS, newest first."""
        return checkpoints(self.storage)

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Remarks for DESCRIBE JOB that are not in the job's record; here none."""
        return ()

    def _ask(self, kind: str, timeout_s: float, *, savepoint: str | bool | None = None, drain: bool = False) -> Answer:
        """Send a request. BindError SS231 where the job has ended, ExecutionError SS451 where its process is gone."""
        record = self.record
        require_readable(record)
        if record.is_lost:
            hint = "Start it again with its script; it goes on from its checkpoint."
            raise ExecutionError(GONE, f'job "{record.name}" does not run: {record.gone}', hint=hint)
        require_running(record.name, record.status)
        return ask(self.storage, record, Request(record.life.instance, kind, savepoint, drain), timeout_s)


def recorded_jobs(directory: str, storage_of: Callable[[str], Storage] | None = None) -> tuple[RecordedJob, ...]:
    """The jobs with checkpoints in a directory (``execution.checkpointing.dir``), in the order of their first start.

    ``storage_of`` opens directories; by default only those of this machine (BindError SS232 for others).
    """
    open_at = storage_of or storage_here
    root = directory.rstrip("/")
    return tuple(
        RecordedJob(record, open_at(f"{root}/{folder}")) for folder, record in records_below(open_at(directory)).items()
    )


def storage_here(path: str) -> Storage:
    """The storage of a directory. Raises BindError SS232 where it is not one of this machine."""
    storage = local_storage_at(path)
    if storage is None:
        raise BindError(
            ELSEWHERE,
            f'"{path}" is no directory of this machine',
            hint="Ask with SQL in a session, whose Spark reads it: SET 'execution.checkpointing.dir', then SHOW JOBS.",
        )
    return storage
