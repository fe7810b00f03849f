"""Jobs as their records tell of them: listed, described and asked from any process that sees their checkpoints.

Nothing here starts Spark where the checkpoints are files of this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlstream.errors import BindError, ExecutionError
from sqlstream.jobs.checkpoints.storage import Storage, local_storage_at
from sqlstream.jobs.records.history import CheckpointLine, checkpoints
from sqlstream.jobs.records.record import GONE, JobRecord, read_record, records_below, require_readable, require_running
from sqlstream.jobs.records.requests import Answer, Request, ask

ELSEWHERE = "SS232"
WAIT_S = 600.0


@dataclass(frozen=True)
class RecordedJob:
    """A job by its record; ``record`` is as old as this object. What is asked of it, its own process does."""

    record: JobRecord
    storage: Storage

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def id(self) -> str:
        return self.record.id

    def record_now(self) -> JobRecord:
        return read_record(self.storage) or self.record

    def stop(self, *, savepoint: str | bool = False, drain: bool = False, timeout_s: float = WAIT_S) -> str | None:
        """Stop it and return the path of its savepoint, if one was wanted. Without one, a job that does not run any
        more is left as it is. SS454 where its record is damaged: it may run."""
        require_readable(self.record)
        if not self.record.is_running and not savepoint and not drain:
            return None
        answer = self._ask("stop", timeout_s, savepoint=savepoint, drain=drain)
        return None if answer is None else str(answer)

    def checkpoint(self, timeout_s: float = WAIT_S) -> int | None:
        """Complete an epoch; its number, None where nothing has come yet."""
        answer = self._ask("checkpoint", timeout_s)
        return None if answer is None else int(answer)

    def savepoint(self, path: str | None = None, timeout_s: float = WAIT_S) -> str:
        """Take a savepoint; its path."""
        return str(self._ask("savepoint", timeout_s, savepoint=path))

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """Its epochs, newest first."""
        return checkpoints(self.storage)

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Its record tells all."""
        return ()

    def _ask(self, kind: str, timeout_s: float, *, savepoint: str | bool | None = None, drain: bool = False) -> Answer:
        """BindError SS231 where the job has ended, ExecutionErrors SS451 where its process has."""
        record = self.record
        require_readable(record)
        if record.is_lost:
            hint = "Start it again with its script; it goes on from its checkpoint."
            raise ExecutionError(GONE, f'job "{record.name}" does not run: {record.gone}', hint=hint)
        require_running(record.name, record.status)
        return ask(self.storage, record, Request(record.life.instance, kind, savepoint, drain), timeout_s)


def recorded_jobs(directory: str, storage_of: Callable[[str], Storage] | None = None) -> tuple[RecordedJob, ...]:
    """The jobs with checkpoints in a directory (``execution.checkpointing.dir``), in the order of their first start.

    ``storage_of`` opens directories; without it, only those of this machine can be looked at (BindError SS232).
    """
    open_at = storage_of or storage_here
    root = directory.rstrip("/")
    return tuple(
        RecordedJob(record, open_at(f"{root}/{folder}")) for folder, record in records_below(open_at(directory)).items()
    )


def storage_here(path: str) -> Storage:
    """The storage of a directory. BindError SS232 where it is not one of this machine."""
    storage = local_storage_at(path)
    if storage is None:
        raise BindError(
            ELSEWHERE,
            f'"{path}" is no directory of this machine',
            hint="Ask with SQL in a session, whose Spark reads it: SET 'execution.checkpointing.dir', then SHOW JOBS.",
        )
    return storage
