"""What is said about a running job."""

from __future__ import annotations

import pytest

from sqlstream.cli.progress import summary
from sqlstream.jobs import Progress
from sqlstream.jobs.reports.counts import LookupTotals
from sqlstream.results import watermark_text


@pytest.mark.parametrize(
    ("watermark_ms", "text"),
    [
        (None, "none yet"),
        (0, "1970-01-01 00:00:00"),
        (-1000, "1969-12-31 23:59:59"),
        (1_700_000_000_000, "2023-11-14 22:13:20"),
        (10**15, "beyond year 9999"),
    ],
)
def test_watermarks_are_times(watermark_ms, text):
    assert watermark_text(watermark_ms) == text


def test_summary_names_rows_rates_and_watermark():
    progress = Progress(rows_in=2000, rows_out=10, batches=1, busy_ms=500, watermark_ms=0)
    assert summary("job", progress, 3.2) == (
        "job: 2,000 rows in, 10 out, 1 batch, 4,000 rows/s, watermark 1970-01-01 00:00:00, 3 s"
    )


def test_summary_counts_late_rows():
    progress = Progress(rows_in=1, batches=2, busy_ms=1, late_rows=1234)
    assert "2 batches" in summary("job", progress, 0)
    assert ", 1,234 late, " in summary("job", progress, 0)


def test_summary_tells_the_late_rows_of_several_operators_apart():
    progress = Progress(late_rows=3, late_by_operator={0: 1, 1: 2})
    assert ", 3 late (operator 0: 1, operator 1: 2), " in summary("job", progress, 0)


def test_summary_counts_files_that_were_gone():
    assert ", 1 missing file, " in summary("job", Progress(missing_files={"t": 1}), 0)
    assert ", 1,003 missing files, " in summary("job", Progress(missing_files={"t": 3, "u": 1000}), 0)


def test_summary_tells_what_lookups_have_asked():
    cached = LookupTotals({"requests": 1, "hits": 3, "misses": 1, "latency_le_10": 1})
    progress = Progress(lookups={0: cached})
    assert ", lookup (1 request, p50 8 ms, p99 10 ms, 75% from cache), " in summary("job", progress, 0)
    slow = LookupTotals({"requests": 1200, "retries": 7, "timeouts": 2, "deferred": 2})
    progress = Progress(lookups={0: LookupTotals(), 1: slow})
    told = "lookup 0 (0 requests), lookup 1 (1,200 requests, 7 retries, 2 timeouts, 2 deferred)"
    assert f", {told}, " in summary("job", progress, 0)
