"""The exchange of running jobs for those of changed scripts: stop with a savepoint, start, watch, and back on failure.

A job whose state carries over goes on in its own checkpoint, so that each epoch is written once, be it by the former
query or by the new one, and the way back is the former query in the same checkpoint. Where state is discarded, the
former checkpoint is moved aside, and back again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs.checkpoints.own_files import claim_at
from sqlstream.jobs.records.history import last_committed
from sqlstream.jobs.records.record import JobRecord, read_record
from sqlstream.jobs.records.requests import RecordedJob
from sqlstream.jobs.savepoints.create import create_savepoint, default_savepoint
from sqlstream.upgrade.comparison import Comparison
from sqlstream.upgrade.planned import PlannedJob

FAILED = "SS479"
_LOOK_SECONDS = 0.3
_RELEASE_SECONDS = 60.0
_ENDED = ("FINISHED", "STOPPED")

Tell = Callable[[str], None]


class Starter(Protocol):
    """What starts the jobs of scripts, in another process."""

    def start(self) -> None:
        """Starts them. Raises ExecutionError where that is impossible."""
        ...

    def failure(self) -> str | None:
        """Why the process has failed; None while it works, and where it has ended well."""
        ...

    def stop(self) -> None:
        """Ends the process, which may have ended."""
        ...


@dataclass(frozen=True)
class Exchange:
    """An upgrade that is to be carried out.

    ``epochs``: how many must succeed before the new jobs are trusted. ``patience_s``: how long to wait for these since
    a job has started; one that has not failed by then is trusted as well, because without rows there are no epochs.
    ``previous``: starts the former scripts; None where there is no way back. ``answer_s``: how long a running job may
    take to stop, and a new one to start.
    """

    comparisons: Sequence[Comparison]
    starter: Starter
    previous: Starter | None
    epochs: int
    patience_s: float
    answer_s: float
    tell: Tell

    def carry_out(self) -> None:
        """Exchanges the jobs. Raises ExecutionError SS479 where the new jobs failed; the message says what runs now."""
        stopped = self._stop()
        moved: list[tuple[Path, Path]] = []
        begun = time.time()
        try:
            moved += [_set_aside(comparison.job) for comparison in self._discarded()]
            self._start(self.starter, begun, self.epochs)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            self._back(error, moved, stopped, begun)

    def _discarded(self) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if comparison.refusal is not None]

    def _stop(self) -> dict[str, str]:
        """Stop the jobs that run, and return the savepoints by the names of jobs; of ended ones as well."""
        savepoints = {}
        for comparison in self.comparisons:
            path = _savepoint(comparison, self.answer_s)
            if path is not None:
                savepoints[comparison.job.name] = path
                self.tell(f'job "{comparison.job.name}" stopped, savepoint: {path}')
        for comparison in self.comparisons:
            _wait_for_folder(comparison.job)
        return savepoints

    def _start(self, starter: Starter, begun: float, epochs: int) -> None:
        """Start the jobs, and wait until each has completed its epochs, has ended, or has worked long enough. Raises
        ExecutionError SS479 for the first that fails.
        """
        since = {comparison.job.name: last_committed(comparison.job.storage) for comparison in self.comparisons}
        starter.start()
        start_end = time.monotonic() + self.answer_s
        trusted: dict[str, float] = {}
        waiting = {comparison.job.name: comparison.job for comparison in self.comparisons}
        while waiting:
            failure = starter.failure()
            for name, job in list(waiting.items()):
                record = _started_record(job, begun)
                if (reason := _failure(record)) is not None or failure is not None:
                    raise ExecutionError(FAILED, f'job "{name}" has failed', detail=reason or failure)
                if record is None:
                    if time.monotonic() > start_end:
                        message = f'job "{name}" has not started within {self.answer_s:g} seconds'
                        raise ExecutionError(FAILED, message)
                    continue
                end = trusted.setdefault(name, time.monotonic() + self.patience_s)
                done = _epochs_since(since[name], last_committed(job.storage))
                if record.status in _ENDED or done >= epochs or time.monotonic() > end:
                    self.tell(f'job "{name}" is {record.status} with {done:,} more epoch{"" if done == 1 else "s"}')
                    del waiting[name]
            time.sleep(_LOOK_SECONDS)

    def _back(
        self, error: Exception, moved: Sequence[tuple[Path, Path]], savepoints: dict[str, str], begun: float
    ) -> None:
        """End what was started, give moved checkpoints back, start the former scripts, and raise the failure."""
        names = ", ".join(f'"{comparison.job.name}"' for comparison in self.comparisons)
        message = f"the upgrade of {names} has failed"
        reason = _reason(error)
        self.tell(f"{message}: {reason}")
        for comparison in self.comparisons:
            _stop_new(comparison.job, begun, self.answer_s)
        self.starter.stop()
        for comparison in self.comparisons:
            _wait_for_folder(comparison.job)
        for folder, aside in moved:
            _put_back(folder, aside)
        kept = f" Savepoints: {', '.join(savepoints.values())}." if savepoints else ""
        if self.previous is None:
            hint = f"Nothing runs now. Start the former scripts: they go on behind the last complete epoch.{kept}"
            raise ExecutionError(FAILED, message, detail=reason, hint=hint) from error
        again = time.time()
        try:
            self._start(self.previous, again, 0)
        except Exception as other:
            hint = f"The former scripts did not start again either: {_reason(other)}.{kept}"
            raise ExecutionError(FAILED, message, detail=reason, hint=hint) from error
        hint = f"The former scripts run again, behind the last complete epoch.{kept}"
        raise ExecutionError(FAILED, message, detail=reason, hint=hint) from error


def _reason(error: Exception) -> str:
    if isinstance(error, SqlStreamError):
        diagnostic = error.diagnostic
        return f"{diagnostic.message}: {diagnostic.detail}" if diagnostic.detail else diagnostic.message
    return f"{type(error).__name__}: {error}"


def _savepoint(comparison: Comparison, answer_s: float) -> str | None:
    """Stop a job with a savepoint and return its path; None for a job without a complete epoch, which is stopped
    without one.
    """
    job, record = comparison.job, comparison.record
    if comparison.is_new and not comparison.is_running:
        return None
    if record is not None and record.is_running:
        complete = last_committed(job.storage) is not None
        return RecordedJob(record, job.storage).stop(savepoint=complete, timeout_s=answer_s)
    if comparison.epoch is None:
        return None
    parent = job.workspace.settings["execution.checkpointing.savepoint-dir"]
    return create_savepoint(job.storage, default_savepoint(str(job.storage.root), job.name, parent), job.name)


def _wait_for_folder(job: PlannedJob) -> None:
    """Wait until the process of the stopped job has given its folder free. Raises SS452 where it does not."""
    if not job.storage.root.exists():
        return
    end = time.monotonic() + _RELEASE_SECONDS
    while True:
        try:
            claim_at(job.storage, job.path).release()
            return
        except ExecutionError:
            if time.monotonic() > end:
                raise
        time.sleep(_LOOK_SECONDS)


def _set_aside(job: PlannedJob) -> tuple[Path, Path]:
    """Move the folder of a job's checkpoint to ``superseded`` beside it."""
    folder = job.storage.root
    aside = folder.parent / "superseded" / f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    aside.parent.mkdir(exist_ok=True)
    folder.rename(aside)
    return folder, aside


def _put_back(folder: Path, aside: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)  # what the new job has made since
    aside.rename(folder)


def _started_record(job: PlannedJob, begun: float) -> JobRecord | None:
    """The record of the start that was asked for; None before it is written."""
    record = read_record(job.storage)
    return None if record is None or record.life.started < begun else record


def _failure(record: JobRecord | None) -> str | None:
    if record is None:
        return None
    if record.error is not None:
        return ": ".join(record.error)
    if record.life.progress.restarts and record.life.last_failure is not None:
        return ": ".join(record.life.last_failure)
    return None


def _epochs_since(before: int | None, now: int | None) -> int:
    return 0 if now is None else now - (-1 if before is None else before)


def _stop_new(job: PlannedJob, begun: float, answer_s: float) -> None:
    record = _started_record(job, begun)
    if record is not None and record.is_running:
        with suppress(SqlStreamError):  # it may have failed meanwhile
            RecordedJob(record, job.storage).stop(timeout_s=answer_s)
