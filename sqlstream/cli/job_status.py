"""What a terminal shows of a running job, as it moves: rows and rates, watermark, micro-batch, state, a bar."""

from __future__ import annotations

import shutil
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sqlstream.batch.run import BatchRun
from sqlstream.cli.progress import exceptions_of
from sqlstream.jobs.reports.progress import size_text
from sqlstream.times import watermark_text

if TYPE_CHECKING:
    from sqlstream.jobs.reports.progress import Progress, Share

RATE_SECONDS = 5.0
_SHARE_SECONDS = 0.5
_BAR_COLUMNS = 20
_INDENT = "  "
_BESIDE = len(_INDENT) + 1
"""Columns that a spinner and its margin take."""


class Followed(Protocol):
    """A job, or a batch that runs."""

    @property
    def name(self) -> str: ...

    @property
    def is_bounded(self) -> bool: ...

    def progress(self) -> Progress: ...

    def share(self) -> Share | None: ...


@dataclass
class Rates:
    """Rows per second over the last seconds, from the totals after each micro-batch."""

    began: float
    _ends: deque[tuple[float, int, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._ends.append((self.began, 0, 0))

    def at(self, now: float, rows_in: int, rows_out: int) -> tuple[float, float]:
        """Rows in and out per second, with totals as they are at a time of the monotonic clock."""
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
    """The status of one job, to be asked for again and again."""

    def __init__(self, job: Followed, began: float | None = None) -> None:
        self._job = job
        self._began = time.monotonic() if began is None else began
        self._rates = Rates(self._began)
        self._share: Share | None = None
        self._asked = 0.0

    def text(self, columns: int | None = None) -> str:
        """In lines of so many columns, by default those of the terminal beside a spinner."""
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
        """Spark is asked twice a second; what it cannot say, the job may have ended, is no reason to fail."""
        if self._job.is_bounded and now - self._asked >= _SHARE_SECONDS:
            self._asked, self._share = now, None
            with suppress(Exception):
                self._share = self._job.share()
        return self._share


def job_parts(name: str, progress: Progress, rates: tuple[float, float], now: float) -> list[str]:
    """What is worth saying of every stream; ``now`` in seconds since 1970."""
    parts = [
        f"{name}: {progress.rows_in:,} rows in ({rates[0]:,.0f}/s)",
        f"{progress.rows_out:,} out ({rates[1]:,.0f}/s)",
    ]
    if progress.input_ended:
        parts.append("end of input")
    elif progress.watermark_ms is not None:
        parts.append(f"watermark {watermark_text(progress.watermark_ms)} ({lag_text(progress.watermark_ms, now)})")
    elif progress.state_rows:
        parts.append("no watermark yet")
    parts.append(f"micro-batch {progress.batch_ms:,} ms")
    if progress.state_rows:
        parts.append(f"state {progress.state_rows:,} rows ({size_text(progress.state_bytes)})")
    return parts


def lag_text(watermark_ms: int, now: float) -> str:
    """How far a watermark is from a time in seconds since 1970."""
    seconds = now - watermark_ms / 1000
    return f"{span_text(abs(seconds))} {'behind' if seconds >= 0 else 'ahead'}"


def span_text(seconds: float) -> str:
    """A span of time in its largest unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def bar_of(share: Share) -> str:
    """``[████████············] 40 % of 12 tasks``."""
    full = int(share.fraction * _BAR_COLUMNS)
    bar = "█" * full + "·" * (_BAR_COLUMNS - full)
    return f"[{bar}] {share.fraction:.0%} of {share.total:,} {share.what}"


def packed(parts: list[str], columns: int) -> list[str]:
    """The parts, with commas between them, in as few lines as hold them; a part that is too long is cut."""
    lines: list[str] = []
    for number, part in enumerate(parts):
        text = part + ("," if number < len(parts) - 1 else "")
        if lines and len(lines[-1]) + 1 + len(text) <= columns:
            lines[-1] += f" {text}"
        else:
            indent = _INDENT if lines else ""
            lines.append((indent + text)[: max(columns, 1)])
    return lines
