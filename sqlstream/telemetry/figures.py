"""The figures of a job at a moment, which instruments read, and the observer that collects them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from sqlstream.jobs.lifecycle.observers import ObservedJob, Report
from sqlstream.jobs.reports.progress import Progress
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.telemetry.epochs import EpochTotals, FilesRead, with_epoch

if TYPE_CHECKING:
    from sqlstream.errors import SqlStreamError


@dataclass(frozen=True)
class PlanNames:
    """How metrics call the parts of a plan. Operators with state and lookups are numbered from the top, as in a job's
    progress; ``sink`` is the table of an INSERT on its own.
    """

    operators: Mapping[int, str] = field(default_factory=dict)
    lookups: Mapping[int, str] = field(default_factory=dict)
    sink: str | None = None

    def operator(self, number: int) -> str:
        """The name of an operator, such as ``0: WindowAggregate``."""
        return self.operators.get(number, str(number))

    def lookup(self, number: int) -> str:
        """The name of a lookup, such as ``0: planes`` for that in the table ``planes``."""
        return self.lookups.get(number, str(number))


def names_of(plan: Node) -> PlanNames:
    """The names of the operators, lookups and the sink of a plan."""
    nodes = list(plan.walk())
    operators = [type(node).__name__ for node in nodes if node.keeps_state]
    lookups = [node.source.name for node in nodes if isinstance(node, Lookup)]
    return PlanNames(_numbered(operators), _numbered(lookups), plan.table.name if isinstance(plan, Insert) else None)


def _numbered(names: Sequence[str]) -> dict[int, str]:
    return {number: f"{number}: {name}" for number, name in enumerate(names)}


@dataclass(frozen=True)
class JobFigures:
    """What is known of a job at a moment. ``failures``: how often it has failed, restarts included. ``started``: in
    seconds since 1970.
    """

    name: str
    id: str
    state: str
    started: float
    progress: Progress = field(default_factory=Progress)
    epochs: EpochTotals = field(default_factory=EpochTotals)
    names: PlanNames = field(default_factory=PlanNames)
    failures: int = 0

    @property
    def is_running(self) -> bool:
        """True until the job has ended."""
        return self.state in ("RUNNING", "RESTARTING")


class MeasuredJob:
    """An observer of one job that has its figures at any time, from any thread."""

    def __init__(self) -> None:
        self._job: ObservedJob | None = None
        self._names = PlanNames()
        self._epochs = EpochTotals()
        self._files = FilesRead()
        self._failures = 0
        self._last: JobFigures | None = None
        self._lock = Lock()
        self.is_over = False
        """True for a query of a caller that has ended: nobody asks for its figures any more."""

    def on_start(self, job: ObservedJob) -> None:
        """Take the names of the plan."""
        self._names = names_of(job.plan)
        self._job = job

    def on_epochs(self, job: ObservedJob, reports: Sequence[Report]) -> None:
        """Add the epochs to the totals."""
        with self._lock:
            for report in reports:
                self._epochs = with_epoch(self._epochs, report, self._files.bytes_of(report))

    def on_failure(self, job: ObservedJob, error: SqlStreamError) -> None:
        """Count the failure."""
        self._failures += 1

    def on_end(self, job: ObservedJob) -> None:
        """Keep the last figures alone, so that the job's plan and Spark's query are given free."""
        self._last = self._figures(job)
        self._job = None
        self.is_over = isinstance(job.plan, Output)

    def figures(self) -> JobFigures | None:
        """The figures now, or those of the end; None before the start."""
        job = self._job
        return self._last if job is None else self._figures(job)

    def _figures(self, job: ObservedJob) -> JobFigures:
        with self._lock:
            return JobFigures(
                name=job.name,
                id=job.id,
                state=job.state.value,
                started=job.started.timestamp(),
                progress=job.progress(),
                epochs=self._epochs,
                names=self._names,
                failures=self._failures,
            )


class MeasuredJobs:
    """The jobs that one export shows: those that run, and the last run of each that has ended and has a sink."""

    def __init__(self) -> None:
        self._jobs: list[MeasuredJob] = []
        self._lock = Lock()

    def new(self) -> MeasuredJob:
        """An observer for a job that is about to start."""
        with self._lock:
            self._jobs = [job for job in self._jobs if not job.is_over]
            self._jobs.append(MeasuredJob())
            return self._jobs[-1]

    def figures(self) -> list[JobFigures]:
        """The figures of all jobs, oldest first; those of its last run of a job that was started again."""
        with self._lock:
            jobs = list(self._jobs)
        return list({figures.name: figures for job in jobs if (figures := job.figures()) is not None}.values())
