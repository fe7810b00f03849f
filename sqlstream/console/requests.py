"""What the page asks of jobs: each request runs in a thread of its own, and its answer is shown on the job's page."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, Thread

from sqlstream.console.watching import WatchedJob
from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.runner import ControlledJob
from sqlstream.upgrade.exchange import FAILED
from sqlstream.upgrade.starting import OwnProcess

KINDS: Mapping[str, str] = {
    "checkpoint": "Checkpoint now",
    "savepoint": "Savepoint",
    "stop-with-savepoint": "Stop with savepoint",
    "drain": "Drain with savepoint",
    "stop": "Stop",
    "restart": "Restart",
}
"""The requests, and their buttons."""

RUNNING_ONLY = frozenset(KINDS) - {"restart"}
MOST_SHOWN = 10
_START_S = 300.0
_LOOK_S = 0.5


@dataclass
class Asked:
    """A request that was sent to a job. ``answer`` and ``error`` are None until it is answered."""

    kind: str
    time: float
    answer: str | None = None
    error: str | None = None
    hint: str | None = None

    @property
    def is_over(self) -> bool:
        """True once the job has answered."""
        return self.answer is not None or self.error is not None


class Requests:
    """Sends requests to jobs, one at a time to each. ``start_with``: the command of the shell that starts a job again;
    None: jobs cannot be started.
    """

    def __init__(self, start_with: str | None = None) -> None:
        self.start_with = start_with
        self._asked: dict[str, deque[Asked]] = {}
        self._lock = Lock()

    def of(self, name: str) -> Sequence[Asked]:
        """The last requests to a job, newest first."""
        with self._lock:
            return tuple(reversed(self._asked.get(name, ())))

    def possible(self, watched: WatchedJob) -> tuple[str, ...]:
        """What can be asked of a job now."""
        record = watched.record
        kinds = RUNNING_ONLY if record.is_running else frozenset[str]()
        if self.start_with is not None and not record.is_damaged:
            kinds |= {"restart"}
        return tuple(kind for kind in KINDS if kind in kinds)

    def ask(self, name: str, kind: str, watched: WatchedJob) -> bool:
        """Begin a request; False where the job still works on the last one, or cannot do what is asked."""
        if kind not in self.possible(watched):
            return False
        with self._lock:
            asked = self._asked.setdefault(name, deque(maxlen=MOST_SHOWN))
            if asked and not asked[-1].is_over:
                return False
            request = Asked(kind, time.time())
            asked.append(request)
        Thread(target=self._carry_out, args=(request, watched.job), name="sqlstream-console-request").start()
        return True

    def _carry_out(self, request: Asked, job: ControlledJob) -> None:
        try:
            request.answer = self._answer(request.kind, job)
        except SqlStreamError as error:
            told = error.diagnostic
            request.hint = told.hint
            request.error = f"{error.code}: {told.message}" + (f" {told.detail}" if told.detail else "")
        except Exception as error:
            request.error = f"{type(error).__name__}: {error}"

    def _answer(self, kind: str, job: ControlledJob) -> str:
        match kind:
            case "checkpoint":
                epoch = job.checkpoint()
                return "no row has come yet" if epoch is None else f"epoch {epoch} is complete"
            case "savepoint":
                return f"the savepoint is {job.savepoint()}"
            case "restart":
                return self._restarted(job)
        drain, savepoint = kind == "drain", kind != "stop"
        path = job.stop(savepoint=savepoint, drain=drain)
        return "it has stopped" if path is None else f"it has stopped; the savepoint is {path}"

    def _restarted(self, job: ControlledJob) -> str:
        """Stop the job where it runs, start it by the command, and wait until its record says that it runs."""
        assert self.start_with is not None
        record = job.record_now()
        if record.is_running:
            job.stop()
        environment = (f"SQLSTREAM_JOB={record.name}", f"SQLSTREAM_CHECKPOINT={record.checkpoint}")
        command = ("env", *environment, "sh", "-c", self.start_with)
        process = OwnProcess(command, record.name, record.checkpoint, f"-- {self.start_with}\n")
        process.start()
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            now = job.record_now()
            if now.life.instance != record.life.instance and now.life.instance:
                return f"it is {now.status}; the log of its process is {process.log}"
            failure = process.failure()
            if failure is not None:
                raise _not_started(record.name, failure, process.log)
            time.sleep(_LOOK_S)
        raise _not_started(record.name, f"Its record does not say that it runs after {_START_S:g} s.", process.log)


def _not_started(job: str, detail: str, log: str) -> ExecutionError:
    message = f'job "{job}" has not been started again by the command'
    return ExecutionError(FAILED, message, detail=detail, hint=f'All that the command has said is in "{log}".')
