"""Texts about the progress of jobs: lines that stay, and the status of a running job on a terminal."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Protocol, TextIO

import pyarrow as pa
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from sqlstream.batch.run import BatchRun
from sqlstream.cli.output import PagedWriter, TableWriter, Writer
from sqlstream.jobs.reports.progress import size_text, waiting_text
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.planner.suggestions import counted
from sqlstream.query import shown_rows_of
from sqlstream.results import latency_text, watermark_text
from sqlstream.settings import RESULT_MODE, Settings
from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from sqlstream.jobs.lifecycle.job import Job
    from sqlstream.jobs.reports.counts import LookupTotals
    from sqlstream.jobs.reports.progress import Progress, Share
    from sqlstream.query import Query


def summary(name: str, progress: Progress, seconds: float) -> str:
    """Formats a job's counts as one line: ``name: 1,000 rows in, 10 out, 3 batches, 5,000 rows/s, watermark …, 12 s``.

    ``seconds``: how long the job has been running.
    """
    parts = [
        f"{progress.rows_in:,} rows in",
        f"{progress.rows_out:,} out",
        f"{progress.batches} batch{'' if progress.batches == 1 else 'es'}",
        f"{progress.rows_per_second:,.0f} rows/s",
        "end of input" if progress.input_ended else f"watermark {watermark_text(progress.watermark_ms)}",
    ]
    return f"{name}: {', '.join([*parts, *exceptions_of(progress)])}, {seconds:.0f} s"


def exceptions_of(progress: Progress) -> list[str]:
    """Returns the parts of a job's line that are only shown if not zero: late and bad rows, missing files, lookups,
    restarts.
    """
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
    """The missing files, of tables that skip them."""
    count = sum(progress.missing_files.values())
    return [f"{count:,} missing file{'' if count == 1 else 's'}"] if count else []


def _lookups(progress: Progress) -> list[str]:
    """The requests of each lookup and their outcome, by number where a query has several."""
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
    """Formats the line about a running job. It has counts only after the first micro-batch. ``seconds``: how long it
    has been running.
    """
    progress = job.progress()
    if isinstance(job, BatchRun):
        return f"{job.name}: runs as a batch, {seconds:.0f} s"
    if not progress.batches:
        return f"{job.name}: reading, no rows yet, {seconds:.0f} s"
    return summary(job.name, progress, seconds)


def total(job: Job | BatchRun, seconds: float) -> str:
    """Formats the line about a job that has ended. ``seconds``: how long it ran."""
    if isinstance(job, BatchRun):
        return f"{job.name}: {counted(job.progress().rows_out, 'row')}, {seconds:.0f} s"
    return summary(job.name, job.progress(), seconds)


def written(job: Job) -> str:
    """Formats how many rows an INSERT that has ended wrote, for each table of a statement set, and what remains for
    the next run.
    """
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


# --- Status of a running job on a terminal ---------------------------------------------------------------------


RATE_SECONDS = 5.0
_SHARE_SECONDS = 0.5
_BAR_COLUMNS = 20
_INDENT = "  "
_BESIDE = len(_INDENT) + 1
"""Columns that a spinner and its margin take."""


class Followed(Protocol):
    """A job or batch query whose progress is shown."""

    @property
    def name(self) -> str:
        """The name of the job."""
        ...

    @property
    def is_bounded(self) -> bool:
        """True where the job ends by itself."""
        ...

    def progress(self) -> Progress:
        """Returns the job's totals up to the last micro-batch."""
        ...

    def share(self) -> Share | None:
        """Returns how much of the work is done, such as 16 of 40 tasks; None where that is unknown."""
        ...


@dataclass
class Rates:
    """Computes rows per second, averaged over the last few seconds. ``began``: the start of the job on the monotonic
    clock.
    """

    began: float
    _ends: deque[tuple[float, int, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._ends.append((self.began, 0, 0))

    def at(self, now: float, rows_in: int, rows_out: int) -> tuple[float, float]:
        """Returns rows per second read and written, given the time ``now`` (monotonic clock) and the totals at that
        time.
        """
        ends = self._ends
        if (rows_in, rows_out) != ends[-1][1:]:
            ends.append((now, rows_in, rows_out))
        while len(ends) > 2 and ends[1][0] <= now - RATE_SECONDS:
            ends.popleft()
        began, first_in, first_out = ends[0]
        until = ends[-1][0] if len(ends) > 1 and now - ends[-1][0] < RATE_SECONDS else now
        seconds = until - began
        return ((rows_in - first_in) / seconds, (rows_out - first_out) / seconds) if seconds > 0 else (0.0, 0.0)


class JobStatus:
    """Formats the status of one running job. ``began``: its start on the monotonic clock, by default now."""

    def __init__(self, job: Followed, began: float | None = None) -> None:
        self._job = job
        self._began = time.monotonic() if began is None else began
        self._rates = Rates(self._began)
        self._share: Share | None = None
        self._asked = 0.0

    def text(self, columns: int | None = None) -> str:
        """Returns the current status, broken into lines of ``columns`` characters; by default of the terminal's width
        less that of a spinner.
        """
        width = shutil.get_terminal_size().columns - _BESIDE if columns is None else columns
        return "\n".join(packed(self._parts(), width))

    def _parts(self) -> list[str]:
        now, job, progress = time.monotonic(), self._job, self._job.progress()
        seconds = f"{now - self._began:.0f} s"
        bar = [bar_of(share)] if (share := self._share_at(now)) is not None else []
        if isinstance(job, BatchRun):
            return [f"{job.name}: runs as a batch", *bar, seconds]
        if not progress.batches:
            return [f"{job.name}: reading, no rows yet", *bar, seconds]
        rates = self._rates.at(now, progress.rows_in, progress.rows_out)
        return [*job_parts(job.name, progress, rates, time.time()), *exceptions_of(progress), *bar, seconds]

    def _share_at(self, now: float) -> Share | None:
        """The finished share, asked of Spark at most twice a second; None where Spark does not answer."""
        if self._job.is_bounded and now - self._asked >= _SHARE_SECONDS:
            self._asked, self._share = now, None
            with suppress(Exception):
                self._share = self._job.share()
        return self._share


def job_parts(name: str, progress: Progress, rates: tuple[float, float], now: float) -> list[str]:
    """Returns those parts of a job's status line that every stream has, such as ``jobs: 1,000 rows in (50/s)``: rows,
    watermark, duration of the micro-batch, state. ``rates``: rows per second read and written. ``now``: seconds since
    1970.
    """
    parts = [
        f"{name}: {progress.rows_in:,} rows in ({rates[0]:,.0f}/s)",
        f"{progress.rows_out:,} out ({rates[1]:,.0f}/s)",
    ]
    if progress.input_ended:
        parts.append("end of input")
    elif progress.watermark_ms is not None:
        lag = lag_text(progress.watermark_ms, now)
        parts.append(f"watermark {watermark_text(progress.watermark_ms)} ({lag}){_holders(progress)}")
    elif progress.state_rows:
        parts.append(f"no watermark yet{_holders(progress)}")
    if progress.latency_ms:
        parts.append(f"latency {latency_text(progress.latency_ms)}")
    parts.append(f"micro-batch {progress.batch_ms:,} ms")
    if progress.state_rows:
        parts.append(f"state {progress.state_rows:,} rows ({size_text(progress.state_bytes)})")
    return parts


def _holders(progress: Progress) -> str:
    return f" held by {', '.join(progress.held_by)}" if progress.held_by else ""


def lag_text(watermark_ms: int, now: float) -> str:
    """Formats how far a watermark (milliseconds since 1970) is behind the time ``now`` (seconds since 1970)."""
    seconds = now - watermark_ms / 1000
    return f"{span_text(abs(seconds))} {'behind' if seconds >= 0 else 'ahead'}"


def span_text(seconds: float) -> str:
    """Formats a duration, given in seconds, in its largest suitable unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def bar_of(share: Share) -> str:
    """Formats a progress bar: ``[████████············] 40 % of 12 tasks``."""
    full = int(share.fraction * _BAR_COLUMNS)
    bar = "█" * full + "·" * (_BAR_COLUMNS - full)
    return f"[{bar}] {share.fraction:.0%} of {share.total:,} {share.what}"


def packed(parts: list[str], columns: int) -> list[str]:
    """Joins the parts with commas into as few lines of ``columns`` characters as possible. A part that is too long is
    cut off.
    """
    lines: list[str] = []
    for number, part in enumerate(parts):
        text = part + ("," if number < len(parts) - 1 else "")
        if lines and len(lines[-1]) + 1 + len(text) <= columns:
            lines[-1] += f" {text}"
        else:
            indent = _INDENT if lines else ""
            lines.append((indent + text)[: max(columns, 1)])
    return lines


class Following(Protocol):
    """What the terminal shows while a query runs. ``follow`` reads the query to its end; meanwhile ``__rich__``
    returns the current display.
    """

    def follow(self) -> None:
        """Reads the results of the query until it ends."""
        ...

    def __rich__(self) -> RenderableType: ...


def follow_on(out: TextIO, following: Following) -> None:
    """Calls ``following.follow()``. On a terminal its display is shown meanwhile, four times a second, and removed at
    the end.
    """
    if not out.isatty():
        following.follow()
        return
    keep_stderr()
    console = Console(file=out, highlight=False)
    with Live(following, console=console, refresh_per_second=4, transient=True, redirect_stdout=False):
        following.follow()


# --- Updating results as a table -------------------------------------------------------------------------------


_SMALLEST_PAGE = 10


def page_of_terminal(lines_per_row: int = 1, least: int = _SMALLEST_PAGE) -> int:
    """Returns how many rows fit on the terminal, besides header, row count and status lines. ``least``: the number of
    lines of rows that even a small terminal gets.
    """
    return max(1, max(least, shutil.get_terminal_size().lines - 8) // lines_per_row)


def is_shown_as_table(query: Query, settings: Settings, by_default: bool = False) -> bool:
    """True for an updating query if its current table is shown, and not its changes: as the settings say, and where
    they say nothing ``by_default``.
    """
    mode = settings[RESULT_MODE]
    return query.is_updating and (by_default if mode is None else mode == "table")


def write_table(query: Query, writer: Writer, out: TextIO) -> None:
    """Reads an updating query to its end, then writes its final table, all rows of it. Meanwhile a terminal shows the
    current table.

    If Ctrl-C interrupts it, the current table is written, and the caller must stop the query.
    """
    live = LiveTable(query, query.tables())
    try:
        follow_on(out, live)
    finally:
        if live.table is not None:
            writer.write(shown_rows_of(live.table))
        writer.close()


class LiveTable:
    """The newest table of an updating query, and how it looks on a terminal: its first rows, as many as fit, and the
    number of all.

    ``tables``: the iterator ``query.tables()``. ``writer_into``: creates the writer that formats the rows.
    """

    def __init__(
        self,
        query: Query,
        tables: Iterator[pa.Table],
        writer_into: Callable[[Sequence[str], TextIO], PagedWriter] = TableWriter,
    ) -> None:
        self._tables = tables
        self._writer_into = writer_into
        self._status = JobStatus(query.job)
        self.table: pa.Table | None = None

    def follow(self) -> None:
        """Reads the tables until the query ends."""
        for table in self._tables:
            self.table = table

    def __rich__(self) -> RenderableType:
        lines, table = StringIO(), self.table
        if table is not None:
            writer = self._writer_into(table.column_names, lines)
            write_page(writer, table, page_of_terminal(writer.lines_per_row, least=1))
        lines.write(self._status.text())
        return Text(lines.getvalue(), no_wrap=True, overflow="ellipsis")


def write_page(writer: PagedWriter, table: pa.Table, page: int) -> None:
    """Writes the first ``page`` rows of a whole result, and how many there are."""
    shown = table.slice(0, page)
    writer.write(shown_rows_of(shown))
    writer.skip(table.num_rows - shown.num_rows)
    writer.close()


# --- The last rows of a result ---------------------------------------------------------------------------------


def write_tail(
    query: Query, writer_into: Callable[[TextIO], PagedWriter], out: TextIO, page: int, tables: Iterator[pa.Table]
) -> None:
    """Shows the last ``page`` rows of a query on the terminal while they arrive. They remain visible when it ends or
    is interrupted.

    ``writer_into``: creates the writer that formats the rows. ``tables``: the query's rows, as Arrow tables.
    """
    tail = _Tail(query, writer_into, page, tables)
    try:
        follow_on(out, tail)
    finally:
        out.write(tail.text())
        out.flush()


class _Tail:
    def __init__(
        self, query: Query, writer_into: Callable[[TextIO], PagedWriter], page: int, tables: Iterator[pa.Table]
    ) -> None:
        self._writer_into = writer_into
        self._page = page
        self._tables = tables
        self._status = JobStatus(query.job)
        self._last: pa.Table | None = None
        self._skipped = 0

    def follow(self) -> None:
        for table in self._tables:
            rows = table if self._last is None else pa.concat_tables([self._last, table])
            gone = max(0, rows.num_rows - self._page)
            self._skipped += gone
            self._last = rows.slice(gone).combine_chunks()

    def text(self) -> str:
        lines = StringIO()
        writer = self._writer_into(lines)
        if self._last is not None:
            writer.leave_out(self._skipped)
            writer.write(shown_rows_of(self._last))
        writer.close()
        return lines.getvalue()

    def __rich__(self) -> RenderableType:
        columns = shutil.get_terminal_size().columns
        return Text(self.text() + self._status.text(columns), no_wrap=True, overflow="ellipsis")
