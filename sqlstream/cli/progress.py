"""What is said of a job in lines that stay: rows, rates, its watermark, and what it has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.batch.run import BatchRun
from sqlstream.jobs.reports.progress import waiting_text
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.planner.suggestions import counted
from sqlstream.times import watermark_text

if TYPE_CHECKING:
    from sqlstream.jobs.lifecycle.job import Job
    from sqlstream.jobs.reports.counts import LookupTotals
    from sqlstream.jobs.reports.progress import Progress


def summary(name: str, progress: Progress, seconds: float) -> str:
    """One line about a job: ``name: 1,000 rows in, 10 out, 3 batches, 5,000 rows/s, watermark …, 12 s``."""
    parts = [
        f"{progress.rows_in:,} rows in",
        f"{progress.rows_out:,} out",
        f"{progress.batches} batch{'' if progress.batches == 1 else 'es'}",
        f"{progress.rows_per_second:,.0f} rows/s",
        "end of input" if progress.input_ended else f"watermark {watermark_text(progress.watermark_ms)}",
    ]
    return f"{name}: {', '.join([*parts, *exceptions_of(progress)])}, {seconds:.0f} s"


def exceptions_of(progress: Progress) -> list[str]:
    """What only some jobs have: late and bad rows, lookups, restarts and the like."""
    return [
        *_late(progress),
        *_bad(progress),
        *_missing(progress),
        *_lookups(progress),
        *_pending(progress),
        *_restarts(progress),
        *([waiting_text(progress.waiting)] if progress.waiting else []),
    ]


def _late(progress: Progress) -> list[str]:
    """The late rows, apart by operator where a query has several."""
    if not progress.late_rows:
        return []
    operators = progress.late_by_operator
    apart = ", ".join(f"operator {number}: {rows:,}" for number, rows in operators.items())
    return [f"{progress.late_rows:,} late" + (f" ({apart})" if len(operators) > 1 else "")]


def _bad(progress: Progress) -> list[str]:
    """The bad rows, apart by table and function where a query has several."""
    counts = {name: rows for name, rows in progress.bad_rows.items() if rows}
    if not counts:
        return []
    apart = ", ".join(f"{name}: {rows:,}" for name, rows in counts.items())
    return [f"{sum(counts.values()):,} bad" + (f" ({apart})" if len(counts) > 1 else "")]


def _missing(progress: Progress) -> list[str]:
    """The files that were gone, where tables skip such."""
    count = sum(progress.missing_files.values())
    return [f"{count:,} missing file{'' if count == 1 else 's'}"] if count else []


def _lookups(progress: Progress) -> list[str]:
    """The requests of each lookup and what came of them, by number where a query has several."""
    several = len(progress.lookups) > 1
    return [
        f"lookup{f' {number}' if several else ''} ({_lookup(totals)})" for number, totals in progress.lookups.items()
    ]


def _lookup(totals: LookupTotals) -> str:
    parts = [f"{totals.requests:,} request{'' if totals.requests == 1 else 's'}"]
    latencies = totals.latencies
    parts += [f"p50 {latencies['p50']:.0f} ms, p99 {latencies['p99']:.0f} ms"] if latencies else []
    parts += [] if totals.hit_rate is None else [f"{totals.hit_rate:.0%} from cache"]
    counts = {"retries": totals.retries, "timeouts": totals.timeouts, "errors": totals.errors}
    parts += [f"{count:,} {name}" for name, count in {**counts, "deferred": totals.deferred}.items() if count]
    return ", ".join(parts)


def _pending(progress: Progress) -> list[str]:
    return [f"{progress.pending:,} waiting for lookups"] if progress.pending else []


def _restarts(progress: Progress) -> list[str]:
    return [f"{progress.restarts:,} restart{'' if progress.restarts == 1 else 's'}"] if progress.restarts else []


def line_of(job: Job | BatchRun, seconds: float) -> str:
    """The line about a job that runs; before its first micro-batch there is nothing to count yet."""
    progress = job.progress()
    if isinstance(job, BatchRun):
        return f"{job.name}: runs as a batch, {seconds:.0f} s"
    if not progress.batches:
        return f"{job.name}: reading, no rows yet, {seconds:.0f} s"
    return summary(job.name, progress, seconds)


def total(job: Job | BatchRun, seconds: float) -> str:
    """The line about a job that has ended."""
    if isinstance(job, BatchRun):
        return f"{job.name}: {counted(job.progress().rows_out, 'row')}, {seconds:.0f} s"
    return summary(job.name, job.progress(), seconds)


def written(job: Job) -> str:
    """What an INSERT has done that has ended: the rows, by table where it has several, and what it leaves to the next
    run."""
    progress = job.progress()
    match job.plan:
        case Insert(table=table):
            rows = {table.name: progress.rows_out}
        case StatementSet(tables=tables):
            rows = {table.name: progress.rows_by_table.get(table.name, 0) for table in tables}
        case _:
            raise TypeError(type(job.plan).__name__)
    done = ", ".join(f'{counted(count, "row")} written to "{table}"' for table, count in rows.items())
    return done if job.waiting is None else f"{done}; {job.waiting}"
