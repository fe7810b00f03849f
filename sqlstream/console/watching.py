"""Watches the jobs of a folder by their records: plan, metrics of the last hour, savepoints, and side tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from sqlstream.console.history import MetricsHistory
from sqlstream.console.side_rows import SideRows, side_rows
from sqlstream.errors import SqlStreamError
from sqlstream.jobs.checkpoints.storage import local_storage_at
from sqlstream.jobs.records.history import CheckpointLine, Epoch, read_epochs
from sqlstream.jobs.records.record import JobRecord
from sqlstream.jobs.reports.plan_figures import PlanFigures
from sqlstream.jobs.savepoints.create import FILE, read_manifest, savepoint_folder
from sqlstream.runner import ControlledJob
from sqlstream.telemetry.epochs import EpochTotals
from sqlstream.telemetry.figures import JobFigures, PlanNames, names_of

LOOK_S = 1.0
MOST_JOBS = 500
MOST_SAVEPOINTS = 50

_SAVEPOINTS = "execution.checkpointing.savepoint-dir"


@dataclass(frozen=True)
class Savepoint:
    """A savepoint of a job. ``created`` is a time in UTC as its manifest has it."""

    path: str
    epoch: int
    created: str
    drained: bool


class WatchedJob:
    """One job, as its last record shows it, and its last hour. The watcher's thread calls ``take``, others read."""

    def __init__(self, job: ControlledJob) -> None:
        self.job = job
        self.history = MetricsHistory()
        self.figures: PlanFigures | None = None
        self._names = PlanNames()
        self._epochs = EpochTotals()

    @property
    def record(self) -> JobRecord:
        """The last record of the job."""
        return self.job.record

    def take(self, job: ControlledJob, now: float) -> None:
        """Take a newer record of the job. ``now``: in seconds since 1970."""
        before, record = self.record.life.instance, job.record
        self.job = job
        self._take_plan(record)
        if record.life.instance != before:
            self._epochs = EpochTotals()
        if record.is_running:
            self._epochs = with_epochs(self._epochs, _epochs_of(record), record.life.started)
            self.history.add(self._job_figures(), now)

    def _take_plan(self, record: JobRecord) -> None:
        if self.figures is not None and self.figures.is_of(record):
            self.figures.take(record)
            return
        try:
            self.figures = PlanFigures(record)
            self._names = names_of(self.figures.plan)
        except SqlStreamError:  # it has written down no plan yet, or one of another version
            self.figures = None

    def _job_figures(self) -> JobFigures:
        record = self.record
        progress = record.life.progress
        return JobFigures(
            name=record.name,
            id=record.id,
            state=record.status,
            started=record.life.started,
            progress=progress,
            epochs=self._epochs,
            names=self._names,
            failures=progress.restarts,
        )

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """The epochs of the job, newest first; none where they cannot be read."""
        with suppress(SqlStreamError):
            return self.job.checkpoints()
        return ()

    def savepoints(self) -> tuple[Savepoint, ...]:
        """The savepoints of the job in its default directory, newest first."""
        return savepoints_of(self.record)

    def side_rows(self) -> tuple[SideRows, ...]:
        """The newest rows of the tables for bad rows, late rows and failed lookups."""
        return () if self.figures is None else side_rows(self.figures.plan)


def _epochs_of(record: JobRecord) -> Iterable[Epoch]:
    storage = local_storage_at(record.checkpoint)
    with suppress(SqlStreamError):
        return () if storage is None else read_epochs(storage).values()
    return ()


def with_epochs(totals: EpochTotals, epochs: Iterable[Epoch], since: float) -> EpochTotals:
    """Returns the totals with the epochs that are newer than their last one. ``since``: the start of the job, in
    seconds since 1970, before which epochs do not count.
    """
    last = -1 if totals.last_epoch is None else totals.last_epoch
    for epoch in sorted(epochs, key=lambda each: each.epoch):
        if epoch.epoch > last and epoch.time >= since:
            totals = totals.with_one(epoch.epoch, epoch.duration_ms / 1000, epoch.time)
    return totals


def savepoints_of(record: JobRecord) -> tuple[Savepoint, ...]:
    """Returns the savepoints of a job in the directory of its savepoints without a path, newest first. Damaged ones are
    left out.
    """
    given = record.description.settings.get(_SAVEPOINTS)
    here = local_storage_at(savepoint_folder(record.checkpoint, given)) if record.checkpoint else None
    if here is None:
        return ()
    collected = list[Savepoint]()
    with suppress(OSError, ValueError):
        for manifest_file in here.root.resolve().glob(f"*/{FILE}"):
            with suppress(SqlStreamError):
                manifest = read_manifest(manifest_file.parent)
                if manifest is not None and manifest.job == record.name:
                    path = str(manifest_file.parent)
                    collected.append(Savepoint(path, manifest.epoch, manifest.created, manifest.drained))
    return tuple(sorted(collected, key=lambda each: (each.created, each.epoch), reverse=True)[:MOST_SAVEPOINTS])


class Watcher:
    """Looks at all jobs once a second, in a thread, until it is closed. ``jobs``: reads their records. ``now``: the
    time in seconds since 1970, for tests.
    """

    def __init__(self, jobs: Callable[[], Sequence[ControlledJob]], now: Callable[[], float] = time.time) -> None:
        self._jobs, self._now = jobs, now
        self._watched: Mapping[str, WatchedJob] = {}
        self._error: str | None = None
        self._closed = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self.look()
        self._thread = Thread(target=self._run, name="sqlstream-console", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause_s = LOOK_S
        while not self._closed.wait(pause_s):
            begin = time.monotonic()
            self.look()
            pause_s = max(LOOK_S, 9 * (time.monotonic() - begin))  # a tenth of a processor at most

    def look(self) -> None:
        """Read all records once. Jobs that are gone are dropped with their history."""
        try:
            jobs = self._jobs()
        except Exception as error:  # of the folder, such as its rights; the thread goes on, and looks again
            self._error = error.diagnostic.message if isinstance(error, SqlStreamError) else str(error)
            return
        self._error = None
        watched = dict[str, WatchedJob]()
        for job in jobs[-MOST_JOBS:]:
            name = _unused(job.name, watched)
            one = self._watched.get(name)
            if one is None or one.record.id != job.record.id:
                one = WatchedJob(job)
            try:
                one.take(job, self._now())
            except Exception as error:  # one job must not hide the others, nor end the thread
                self._error = f'job "{name}" cannot be shown: {type(error).__name__}: {error}'
            watched[name] = one
        self._watched = watched

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def now(self) -> float:
        """The time, in seconds since 1970."""
        return self._now()

    @property
    def jobs(self) -> Mapping[str, WatchedJob]:
        """The jobs by name, in the order of their first start."""
        return self._watched

    @property
    def error(self) -> str | None:
        """Why the jobs could not be read the last time; None where they could."""
        return self._error


def _unused(name: str, watched: Mapping[str, object]) -> str:
    """The name of a job on the page: jobs of different folders may have the same one."""
    number, unused = 1, name
    while unused in watched:
        number += 1
        unused = f"{name} ({number})"
    return unused
