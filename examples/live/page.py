"""What the demo shows while it runs: a page that moves on a terminal, and lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sqlstream.cli.progress import Rates, lag_text
from sqlstream.jobs import Job
from sqlstream.jobs.reports.progress import Progress

TOP = 6


@dataclass(frozen=True)
class JobFigures:
    """``rates``: rows a second that are read and written. ``lag``: messages that have been sent and not read; None
    before the first micro-batch.
    """

    name: str
    progress: Progress
    rates: tuple[float, float]
    lag: int | None

    def watermark(self, now: float) -> str:
        """How far it is behind ``now``, and what holds it there."""
        at = self.progress.watermark_ms
        if self.progress.input_ended:
            return "end of input"
        holders = f", held by {', '.join(self.progress.held_by)}" if self.progress.held_by else ""
        return ("none yet" if at is None else lag_text(at, now)) + holders


@dataclass(frozen=True)
class Figures:
    """The state of the demo ``seconds`` after the first event. ``sellers``: rows of the newest window of the view,
    ``campaigns``: those of the topic; each a name, orders and revenue, the best first.
    """

    seconds: float
    limit: float
    sent: int
    rate: float
    jobs: Sequence[JobFigures]
    window: str = ""
    sellers: Sequence[tuple[str, int, int]] = ()
    campaigns: Sequence[tuple[str, int, int]] = ()


class Watched:
    """A job whose rates and lag are followed. ``began``: on the monotonic clock."""

    def __init__(self, job: Job, began: float) -> None:
        self.job = job
        self._rates = Rates(began)

    def figures(self, sent: Mapping[str, int]) -> JobFigures:
        """``sent``: messages by topic, of which those count that the job reads."""
        progress = self.job.progress()
        read = progress.read_by_table
        lag = sum(max(0, sent[table] - rows) for table, rows in read.items() if table in sent) if read else None
        rates = self._rates.at(time.monotonic(), progress.rows_in, progress.rows_out)
        return JobFigures(self.job.name, progress, rates, lag)


def _lag(job: JobFigures) -> str:
    return "–" if job.lag is None else f"{job.lag:,}"


# --- on a terminal ---------------------------------------------------------------------------------------------


def page(figures: Figures, now: float) -> RenderableType:
    """Fits any width: cells that are too long are cut."""
    head = f"{figures.seconds:.0f} of {figures.limit:.0f} s, {figures.sent:,} events sent ({figures.rate:,.0f}/s)"
    results = [
        _ranking(f"best sellers until {figures.window or '--:--:--'}", "product", figures.sellers),
        _ranking("campaigns, the compacted topic", "campaign", figures.campaigns),
    ]
    return Group(_line(head), _jobs(figures.jobs, now), Columns(results, padding=(0, 3)))


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _jobs(jobs: Sequence[JobFigures], now: float) -> Table:
    table = Table("job", box=None, header_style="bold", pad_edge=False)
    table.columns[0].overflow, table.columns[0].no_wrap = "ellipsis", True
    for name, width in (("in/s", 6), ("out/s", 6), ("lag", 7), ("batch, ms", 9)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    table.add_column("watermark", no_wrap=True, overflow="ellipsis", ratio=1)
    for job in jobs:
        inward, outward = (f"{rate:,.0f}" for rate in job.rates)
        table.add_row(job.name, inward, outward, _lag(job), f"{job.progress.batch_ms:,}", job.watermark(now))
    return table


def _ranking(title: str, name: str, rows: Sequence[tuple[str, int, int]]) -> Table:
    """Always as many lines, so that the page does not jump."""
    table = Table(name, box=None, title=title, title_justify="left", title_style="bold", header_style="dim")
    table.pad_edge = False
    for column in ("orders", "revenue"):
        table.add_column(column, justify="right", no_wrap=True, min_width=10)
    shown = [(text, f"{orders:,}", f"{revenue:,}") for text, orders, revenue in rows[:TOP]]
    for row in [*shown, *[("", "", "")] * (TOP - len(shown))]:
        table.add_row(*row)
    return table


# --- elsewhere -------------------------------------------------------------------------------------------------


def lines(figures: Figures, now: float) -> Iterator[str]:
    """The same as text: a line for the events, one for each job and one for the best of each result."""
    yield f"{figures.seconds:.0f} s: {figures.sent:,} events sent ({figures.rate:,.0f}/s)"
    for job in figures.jobs:
        inward, outward = job.rates
        yield f"  {job.name}: {inward:,.0f}/s in, {outward:,.0f}/s out, lag {_lag(job)}, watermark {job.watermark(now)}"
    best = [f"{name} {revenue:,}" for name, _, revenue in (*figures.sellers[:1], *figures.campaigns[:1])]
    if best:
        yield f"  best: {', '.join(best)}"
