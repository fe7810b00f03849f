"""The figures of a job at a moment, which instruments read, and the observer that collects them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from sqlstream.connectors import Sink, sink_connector
from sqlstream.connectors.fetched import FetchedBytes
from sqlstream.connectors.written import WrittenBytes
from sqlstream.jobs.lifecycle.observers import ObservedJob, Report
from sqlstream.jobs.reports.counts import added_by_name
from sqlstream.jobs.reports.progress import Progress
from sqlstream.planner.catalog import Table
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, StatementSet
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.plans import side_tables
from sqlstream.telemetry.epochs import EpochTotals, FilesRead, begin_of, with_epoch
from sqlstream.udfs.kafka.sizes import Sizes

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


def written_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that a job writes, those of side outputs among them."""
    main = plan.tables if isinstance(plan, StatementSet) else [plan.table] if isinstance(plan, Insert) else []
    return (*main, *side_tables(plan))


def _numbered(names: Sequence[str]) -> dict[int, str]:
    return {number: f"{number}: {name}" for number, name in enumerate(names)}


@dataclass(frozen=True)
class JobFigures:
    """What is known of a job at a moment. ``failures``: how often it has failed, restarts included. ``started``: in
    seconds since 1970. ``reported_bytes``: what sinks have written, of those that say so when they write.
    ``fetched_bytes``: what tasks have fetched of each partition of topics, by table.
    """

    name: str
    id: str
    state: str
    started: float
    progress: Progress = field(default_factory=Progress)
    epochs: EpochTotals = field(default_factory=EpochTotals)
    names: PlanNames = field(default_factory=PlanNames)
    failures: int = 0
    reported_bytes: Mapping[str, int] = field(default_factory=dict)
    fetched_bytes: Mapping[str, Sizes] = field(default_factory=dict)

    @property
    def bytes_in(self) -> dict[str, int]:
        """What was read of each table, as far as its source knows."""
        of_messages = {table: sum(sizes.values()) for table, sizes in self.fetched_bytes.items()}
        return added_by_name(self.epochs.bytes_by_table, of_messages)

    @property
    def bytes_by_partition(self) -> dict[tuple[str, int], int]:
        """What was fetched of each topic and partition. One that two tables read is fetched twice, and counts twice."""
        sums: Counter[tuple[str, int]] = Counter()
        for sizes in self.fetched_bytes.values():
            sums.update(sizes)
        return dict(sums)

    @property
    def bytes_out(self) -> dict[str, int]:
        """What was written into each table, as far as its sink knows."""
        return added_by_name(self.epochs.bytes_out, self.reported_bytes)

    @property
    def is_running(self) -> bool:
        """True until the job has ended."""
        return self.state in ("RUNNING", "RESTARTING")


class MeasuredJob:
    """An observer of one job that has its figures at any time, from any thread. ``written``, ``fetched``: what its
    sinks and sources report.
    """

    def __init__(self, written: WrittenBytes, fetched: FetchedBytes) -> None:
        fetched.ask()
        self._written, self._fetched = written, fetched
        self._sinks: tuple[tuple[Table, Sink], ...] = ()
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
        self._sinks = tuple((table, sink_connector(table.connector)) for table in written_tables(job.plan))
        self._job = job

    def on_epochs(self, job: ObservedJob, reports: Sequence[Report]) -> None:
        """Add the epochs to the totals."""
        with self._lock:
            for report in reports:
                read, written = self._files.bytes_of(report), self._stored(report)
                self._epochs = with_epoch(self._epochs, report, read, written)

    def _stored(self, report: Report) -> dict[str, int]:
        """The bytes of an epoch, of the sinks that know them when it is complete."""
        number, begin_ms = int(report["batchId"]), int(begin_of(report) * 1000)
        sizes = {table.name: sink.bytes_of_batch(table, number, begin_ms) for table, sink in self._sinks}
        return {table: size for table, size in sizes.items() if size is not None}

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
                reported_bytes=self._written.by_table(),
                fetched_bytes=self._fetched.by_table(),
            )


class MeasuredJobs:
    """The jobs that one export shows: those that run, and the last run of each that has ended and has a sink."""

    def __init__(self) -> None:
        self._jobs: list[MeasuredJob] = []
        self._lock = Lock()

    def new(self, written: WrittenBytes, fetched: FetchedBytes) -> MeasuredJob:
        """An observer for a job that is about to start, whose sinks report what they have ``written``, and whose tasks
        what they have ``fetched``.
        """
        with self._lock:
            self._jobs = [job for job in self._jobs if not job.is_over]
            self._jobs.append(MeasuredJob(written, fetched))
            return self._jobs[-1]

    def figures(self) -> list[JobFigures]:
        """The figures of all jobs, oldest first; those of its last run of a job that was started again."""
        with self._lock:
            jobs = list(self._jobs)
        return list({figures.name: figures for job in jobs if (figures := job.figures()) is not None}.values())
