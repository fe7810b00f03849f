"""Jobs and their checkpoints as rows: what SHOW JOBS, DESCRIBE JOB, SHOW CHECKPOINTS and ``sqlstream jobs`` say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sqlstream.jobs.records.record import moment
from sqlstream.jobs.reports.progress import waiting_text
from sqlstream.results import Rows
from sqlstream.times import time_text, watermark_text

if TYPE_CHECKING:
    from sqlstream.jobs.records.history import CheckpointLine
    from sqlstream.jobs.records.record import JobRecord
    from sqlstream.jobs.reports.counts import LookupTotals
    from sqlstream.jobs.reports.progress import Progress

JOB_COLUMNS = ("job id", "job name", "status", "start time")
CHECKPOINT_COLUMNS = ("job name", "epoch", "time", "rows", "duration", "size", "state rows", "retained")

Property = tuple[str, str]


def job_rows(records: Iterable[JobRecord]) -> Rows:
    """A line per job, with the columns of Flink; times are in UTC. Of damaged records only the name is known."""
    rows = [
        (None, r.name, r.status, None)
        if r.is_damaged
        else (r.id or None, r.name, r.status, time_text(moment(r.life.started)))
        for r in records
    ]
    return Rows.of_text(JOB_COLUMNS, rows)


def properties(record: JobRecord, more: Iterable[Property] = ()) -> Rows:
    """What a job is and has done, up to its last micro-batch; times are in UTC. ``more`` goes behind its status."""
    if record.is_damaged:
        return Rows.of_text(("property", "value"), _damage(record))
    return Rows.of_text(("property", "value"), [*_identity(record, more), *_counts(record.life.progress)])


def _damage(record: JobRecord) -> list[Property]:
    error = [("error", ": ".join(record.error))] if record.error is not None else []
    return [("job name", record.name), ("status", record.status), *error, ("checkpoint", record.checkpoint)]


def checkpoint_rows(name: str, lines: Iterable[CheckpointLine]) -> list[tuple[str | None, ...]]:
    """The values of CHECKPOINT_COLUMNS, newest epoch first; NULL is not known."""
    return [
        (
            name,
            str(line.epoch),
            time_text(moment(line.time)),
            _number(line.rows),
            None if line.duration_ms is None else f"{line.duration_ms:,} ms",
            None if line.size is None else f"{line.size:,} B",
            _number(line.state_rows),
            "yes" if line.retained else "no",
        )
        for line in lines
    ]


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
    yield "start time", time_text(moment(life.started))
    if life.ended is not None:
        yield "end time", time_text(moment(life.ended))
    if record.starts > 1:
        yield "first start time", time_text(moment(record.created))
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
    yield "watermark", "end of input" if progress.input_ended else watermark_text(progress.watermark_ms)
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
        yield "waiting for the next run", waiting_text(progress.waiting)
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
