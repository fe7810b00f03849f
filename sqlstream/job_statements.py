"""SHOW JOBS, DESCRIBE JOB and STOP JOB: the jobs that a session has started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlstream.errors import BindError
from sqlstream.grammar import nodes
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows
from sqlstream.times import time_text, watermark_text

if TYPE_CHECKING:
    from sqlstream.jobs import Job
    from sqlstream.jobs.lookups import LookupTotals

NO_JOB = "SS230"


def job_statement(statement: nodes.Show | nodes.Describe | nodes.StopJob, jobs: Sequence[Job]) -> Rows:
    """What the statement shows; a job that was stopped as DESCRIBE JOB shows it. BindError SS230 for an unknown job."""
    match statement:
        case nodes.Show():
            return show_jobs(jobs)
        case nodes.Describe():
            return describe_job(_named(statement.name, jobs))
    job = _named(statement.job, jobs)
    job.stop()
    return describe_job(job)


def show_jobs(jobs: Iterable[Job]) -> Rows:
    """The jobs and queries in the order in which they were started, with the columns of Flink."""
    rows = [(job.id, job.name, job.state.value, time_text(job.started)) for job in jobs]
    return Rows.of_text(("job id", "job name", "status", "start time"), rows)


def describe_job(job: Job) -> Rows:
    """What the job is and has done, up to its last micro-batch; times in UTC."""
    return Rows.of_text(("property", "value"), [*_identity(job), *_counts(job)])


Property = tuple[str, str]


def _identity(job: Job) -> Iterator[Property]:
    yield "job name", job.name
    yield "job id", job.id
    yield "status", job.state.value
    if job.exception is not None:
        yield "error", f"{job.exception.code}: {job.exception.diagnostic.message}"
    if job.last_failure is not None and job.exception is None:
        yield "last failure", f"{job.last_failure.code}: {job.last_failure.diagnostic.message}"
    if job.progress().restarts:
        yield "restarts", f"{job.progress().restarts:,}"
    yield "start time", time_text(job.started)
    yield "checkpoint", job.checkpoint_path


def _counts(job: Job) -> Iterator[Property]:
    progress = job.progress()
    yield "rows in", f"{progress.rows_in:,}"
    yield "rows out", f"{progress.rows_out:,}"
    yield "micro-batches", f"{progress.batches:,}"
    yield "rows per second", f"{progress.rows_per_second:,.0f}"
    yield "watermark", "end of input" if progress.input_ended else watermark_text(progress.watermark_ms)
    yield "late rows", f"{progress.late_rows:,}"
    for number, rows in progress.late_by_operator.items():
        yield f"operator {number}: late rows", f"{rows:,}"
    if progress.pending is not None:
        yield "rows waiting for lookups", f"{progress.pending:,}"
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


def _named(name: nodes.Name, jobs: Sequence[Job]) -> Job:
    """By name, in any case, or by id."""
    wanted = str(name).casefold()
    for job in jobs:
        if wanted in (job.name.casefold(), job.id.casefold()):
            return job
    hint = did_you_mean(str(name), [job.name for job in jobs], "jobs") or "This session has started no job."
    raise BindError(NO_JOB, f'job "{name}" does not exist', name.span, hint=hint)
