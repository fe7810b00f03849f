"""Statements about jobs: those that the session has started, and all with a record in the checkpoint directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows, latency_text, moment, time_text, watermark_text
from sqlstream.runner import ControlledJob
from sqlstream.statements.statement import Execution, S, StatementType

if TYPE_CHECKING:
    from sqlstream.jobs.records.history import CheckpointLine
    from sqlstream.jobs.records.record import JobRecord
    from sqlstream.jobs.reports.counts import LookupTotals
    from sqlstream.jobs.reports.progress import Progress


NO_JOB = "SS230"


class JobStatement(StatementType[S]):
    """Base of statements about jobs. Which jobs exist is known only when the statement runs, so checking a script finds
    no mistakes in it.
    """

    def run(self, statement: S, execution: Execution) -> Rows:
        """Run the statement over the jobs that the session knows."""
        return self.result(statement, execution.known_jobs())

    def result(self, statement: S, jobs: Sequence[ControlledJob]) -> Rows:
        """Carries out the statement; ``jobs`` are the known jobs, those of the session first. Returns its rows.

        BindError SS230 for an unknown job. An error of a job is reported at the statement's span.
        """
        try:
            return self.rows(statement, jobs)
        except SqlStreamError as error:
            raise _at(error, statement) from error.__cause__

    def rows(self, statement: S, jobs: Sequence[ControlledJob]) -> Rows:
        """The rows that the statement returns."""
        raise NotImplementedError


class ShowJobs(JobStatement[nodes.Show]):
    """Carries out SHOW JOBS, which lists the jobs of the session and of the checkpoint directory."""

    def rows(self, statement: nodes.Show, jobs: Sequence[ControlledJob]) -> Rows:
        """A row per job."""
        return job_rows(job.record for job in jobs)


class ShowCheckpoints(JobStatement[nodes.Show]):
    """Carries out SHOW CHECKPOINTS, which lists the checkpoints of one job, or of all jobs."""

    def rows(self, statement: nodes.Show, jobs: Sequence[ControlledJob]) -> Rows:
        """A row per checkpoint."""
        shown = jobs if statement.name is None else [named_job(statement.name, jobs)]
        rows = [row for job in shown for row in checkpoint_rows(job.name, job.checkpoints())]
        return Rows.of_text(CHECKPOINT_COLUMNS, rows)


class DescribeJob(JobStatement[nodes.Describe]):
    """Carries out DESCRIBE JOB, which returns the properties of a job, such as state and counts."""

    def rows(self, statement: nodes.Describe, jobs: Sequence[ControlledJob]) -> Rows:
        """A row per property of the job."""
        job = named_job(statement.name, jobs)
        return properties(job.record, job.notes)


class StopJob(JobStatement[nodes.StopJob]):
    """Carries out STOP JOB, which stops a job and returns its properties, as DESCRIBE JOB does."""

    def rows(self, statement: nodes.StopJob, jobs: Sequence[ControlledJob]) -> Rows:
        """Stop the job and return its properties."""
        job = named_job(statement.job, jobs)
        path = job.stop(savepoint=statement.path or statement.savepoint, drain=statement.drain)
        return properties(job.record_now(), [*(() if path is None else [("savepoint path", path)]), *job.notes])


class CheckpointJob(JobStatement[nodes.CheckpointJob]):
    """Carries out CHECKPOINT JOB, which makes a job take a checkpoint now and returns its number (epoch)."""

    def rows(self, statement: nodes.CheckpointJob, jobs: Sequence[ControlledJob]) -> Rows:
        """Make a checkpoint and return its epoch."""
        job = named_job(statement.job, jobs)
        epoch = job.checkpoint()
        return Rows.of_text(("job name", "epoch"), [(job.name, None if epoch is None else str(epoch))])


class SavepointJob(JobStatement[nodes.SavepointJob]):
    """Carries out SAVEPOINT JOB, which takes a savepoint of a job and returns the savepoint's path."""

    def rows(self, statement: nodes.SavepointJob, jobs: Sequence[ControlledJob]) -> Rows:
        """Make a savepoint and return its path."""
        job = named_job(statement.job, jobs)
        return Rows.of_text(("job name", "savepoint path"), [(job.name, job.savepoint(statement.path))])


def named_job(name: nodes.Name, jobs: Sequence[ControlledJob]) -> ControlledJob:
    """The job of that name, regardless of case, or with that id. BindError SS230 if there is none."""
    wanted = str(name).casefold()
    for job in jobs:
        if wanted in (job.name.casefold(), job.id.casefold()):
            return job
    none = "This session has started no job; SET 'execution.checkpointing.dir' to see those of others."
    hint = did_you_mean(str(name), [job.name for job in jobs], "jobs") or none
    raise BindError(NO_JOB, f'job "{name}" does not exist', name.span, hint=hint)


def _at(error: SqlStreamError, statement: nodes.Node) -> SqlStreamError:
    """The error with the place of the statement, where it has none of its own."""
    return SqlStreamError.of(d if d.span is not None else replace(d, span=statement.span) for d in error.diagnostics)


# --- jobs and checkpoints as rows -----------------------------------------------------------------------------


JOB_COLUMNS = ("job id", "job name", "status", "start time")
CHECKPOINT_COLUMNS = ("job name", "epoch", "time", "rows", "duration", "size", "state rows", "retained")

Property = tuple[str, str]


def job_rows(records: Iterable[JobRecord]) -> Rows:
    """A row per job, with Flink's columns and times in UTC. Of damaged records only the name is known."""
    rows = [
        (None, r.name, r.status, None) if r.is_damaged else (r.id or None, r.name, r.status, _time(r.life.started))
        for r in records
    ]
    return Rows.of_text(JOB_COLUMNS, rows)


def properties(record: JobRecord, more: Iterable[Property] = ()) -> Rows:
    """The rows of DESCRIBE JOB, each a property and its value: state, process, times in UTC, and the counts up to the
    last micro-batch. The properties in ``more`` are shown after the status.
    """
    if record.is_damaged:
        return Rows.of_text(("property", "value"), _damage(record))
    return Rows.of_text(("property", "value"), [*_identity(record, more), *_counts(record.life.progress)])


def _damage(record: JobRecord) -> list[Property]:
    error = [("error", ": ".join(record.error))] if record.error is not None else []
    return [("job name", record.name), ("status", record.status), *error, ("checkpoint", record.checkpoint)]


def checkpoint_rows(name: str, lines: Iterable[CheckpointLine]) -> list[tuple[str | None, ...]]:
    """The rows of SHOW CHECKPOINTS for the job ``name``: one for each checkpoint, newest first, with the columns
    CHECKPOINT_COLUMNS. NULL stands for unknown.
    """
    return [
        (
            name,
            str(line.epoch),
            _time(line.time),
            _number(line.rows),
            None if line.duration_ms is None else f"{line.duration_ms:,} ms",
            None if line.size is None else f"{line.size:,} B",
            _number(line.state_rows),
            "yes" if line.retained else "no",
        )
        for line in lines
    ]


def _time(seconds: float) -> str:
    """A time in seconds since 1970, in UTC."""
    return time_text(moment(seconds))


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _identity(record: JobRecord, more: Iterable[Property]) -> Iterator[Property]:
    life = record.life
    yield "job name", record.name
    if record.id:
        yield "job id", record.id
    yield "status", record.status
    yield from more
    if record.error is not None:
        yield "error", ": ".join(record.error)
    elif life.last_failure is not None:
        yield "last failure", ": ".join(life.last_failure)
    if life.progress.restarts:
        yield "restarts", f"{life.progress.restarts:,}"
    yield "process", f"{life.process.pid} on {life.process.host}"
    yield "start time", _time(life.started)
    if life.ended is not None:
        yield "end time", _time(life.ended)
    if record.starts > 1:
        yield "first start time", _time(record.created)
        yield "starts", f"{record.starts:,}"
    yield "checkpoint", record.checkpoint if life.kept else f"{record.checkpoint} (deleted)"
    if record.description.sql:
        yield "statement", record.description.sql
    for key, value in record.description.settings.items():
        yield f"setting {key}", value


def _counts(progress: Progress) -> Iterator[Property]:
    yield "rows in", f"{progress.rows_in:,}"
    yield "rows out", f"{progress.rows_out:,}"
    yield from ((f"rows out to {table}", f"{rows:,}") for table, rows in progress.rows_by_table.items())
    yield "micro-batches", f"{progress.batches:,}"
    yield "last micro-batch", f"{progress.batch_ms:,} ms"
    yield "rows per second", f"{progress.rows_per_second:,.0f}"
    if progress.latency_ms:
        yield "latency", latency_text(progress.latency_ms)
    yield "watermark", "end of input" if progress.input_ended else watermark_text(progress.watermark_ms)
    if progress.held_by:
        yield "watermark held by", ", ".join(progress.held_by)
    yield "state rows", f"{progress.state_rows:,}"
    yield "state bytes", f"{progress.state_bytes:,}"
    yield "late rows", f"{progress.late_rows:,}"
    for number, rows in progress.late_by_operator.items():
        yield f"operator {number}: late rows", f"{rows:,}"
    yield from ((f'bad rows of "{name}"', f"{rows:,}") for name, rows in progress.bad_rows.items())
    yield from ((f'missing files of "{name}"', f"{files:,}") for name, files in progress.missing_files.items())
    if progress.pending is not None:
        yield "rows waiting", f"{progress.pending:,}"
    if progress.waiting:
        yield "waiting for the next run", progress.waiting_text
    for number, totals in progress.lookups.items():
        yield from ((f"lookup {number}: {name}", value) for name, value in _lookup(totals))


def _lookup(totals: LookupTotals) -> Iterator[Property]:
    counts = {
        "rows": totals.rows,
        "requests": totals.requests,
        "most in flight": totals.max_in_flight,
        "retries": totals.retries,
        "timeouts": totals.timeouts,
        "errors": totals.errors,
        "deferred": totals.deferred,
    }
    yield from ((name, f"{count:,}") for name, count in counts.items())
    if totals.hit_rate is not None:
        yield "cache hits", f"{totals.hits:,} of {totals.hits + totals.misses:,} ({totals.hit_rate:.0%})"
    yield from ((f"latency {name}", f"{ms:,.0f} ms") for name, ms in totals.latencies.items())
