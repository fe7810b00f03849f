"""What a terminal shows of a running job."""

from __future__ import annotations

import pytest

from sqlstream.cli.progress import JobStatus, Rates, bar_of, job_parts, lag_text, packed
from sqlstream.grammar import nodes, parse_script
from sqlstream.jobs import Progress
from sqlstream.jobs.reports.progress import Share, share_done, size_text
from sqlstream.planner.node import Node
from sqlstream.plans import plan_of
from sqlstream.statements.registry import define
from sqlstream.workspace import Workspace

NOON = 1_700_000_000.0
PROGRESS = Progress(rows_in=2000, rows_out=10, batches=3, watermark_ms=int(NOON - 3) * 1000, batch_ms=1210)


class Running:
    """A job of which only its status is asked."""

    name = "totals"
    is_bounded = True

    def __init__(self, progress: Progress, share: Share | None = None) -> None:
        self._progress = progress
        self._share = share

    def progress(self) -> Progress:
        return self._progress

    def share(self) -> Share | None:
        if self._share is None:
            raise ConnectionError("Spark is gone")
        return self._share


def test_the_status_has_rates_watermark_micro_batch_and_state():
    progress = Progress(**{**vars(PROGRESS), "state_rows": 1234, "state_bytes": 5 << 20})
    assert job_parts("totals", progress, (50.4, 0.2), NOON) == [
        "totals: 2,000 rows in (50/s)",
        "10 out (0/s)",
        "watermark 2023-11-14 22:13:17 (3.0 s behind)",
        "micro-batch 1,210 ms",
        "state 1,234 rows (5.0 MB)",
    ]


def test_a_query_without_time_says_nothing_of_a_watermark():
    assert job_parts("q", Progress(rows_in=1), (0, 0), NOON)[2:] == ["micro-batch 0 ms"]
    assert "no watermark yet" in job_parts("q", Progress(rows_in=1, state_rows=1), (0, 0), NOON)
    held = Progress(rows_in=1, watermark_ms=int(NOON * 1000), held_by=("clicks[3]",))
    assert job_parts("q", held, (0, 0), NOON)[2].endswith(" held by clicks[3]")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2 s behind"),
        (-2.5, "2.5 s ahead"),
        (90, "90 s behind"),
        (600, "10 min behind"),
        (1e9, "11,574 d behind"),
    ],
)
def test_how_far_a_watermark_lags(seconds, text):
    assert lag_text(int((NOON - seconds) * 1000), NOON) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (2048, "2.0 KB"), (3 << 20, "3.0 MB"), (5 << 30, "5.0 GB")])
def test_sizes_are_in_units(size, text):
    assert size_text(size) == text


def test_rates_are_those_of_the_last_seconds():
    rates = Rates(0.0)
    assert rates.at(0.0, 0, 0) == (0, 0)
    assert rates.at(2.0, 1000, 10) == (500, 5)
    assert rates.at(4.0, 1000, 10) == (500, 5)  # no micro-batch has ended since
    for second in range(5, 30):
        rates.at(float(second), 1000 + 100 * second, 10)
    assert rates.at(29.5, 3900, 10) == (100, 0)
    assert rates.at(39.0, 3900, 10)[0] < 60  # nothing comes any more


def test_what_does_not_fit_begins_a_new_line():
    parts = ["job: 2,000 rows in", "10 out", "a watermark", "12 s"]
    assert packed(parts, 200) == ["job: 2,000 rows in, 10 out, a watermark, 12 s"]
    assert packed(parts, 30) == ["job: 2,000 rows in, 10 out,", "  a watermark, 12 s"]
    assert packed(["x" * 40], 20) == ["x" * 20]


def test_a_bar_shows_how_much_is_done():
    assert bar_of(Share(3, 12, "tasks")) == "[█████···············] 25% of 12 tasks"
    assert bar_of(Share(13, 12, "rows")) == f"[{'█' * 20}] 100% of 12 rows"
    text = JobStatus(Running(PROGRESS, Share(3, 12, "tasks"))).text(200)
    assert "[█████···············] 25% of 12 tasks, 0 s" in text
    assert (
        JobStatus(Running(Progress(), Share(0, 2, "tasks"))).text(200).startswith("totals: reading, no rows yet, [··")
    )


def test_a_job_that_cannot_be_asked_has_no_bar():
    assert "[" not in JobStatus(Running(PROGRESS)).text(200)


def _plan(options: str) -> Node:
    workspace = Workspace()
    text = f"CREATE TABLE t (n BIGINT) WITH ({options}); SELECT n FROM t UNION ALL SELECT n FROM t;"
    table, query = parse_script(text)
    define(table, workspace, text)
    assert isinstance(query, nodes.Query)
    return plan_of(query, workspace)


def test_rows_are_counted_where_somebody_knows_how_many_there_are():
    known = _plan("'connector' = 'datagen', 'number-of-rows' = '50'")
    unknown = _plan("'connector' = 'socket', 'hostname' = 'localhost', 'port' = '1', 'format' = 'json'")
    tasks = Share(1, 2, "tasks")
    assert share_done(known, Progress(rows_in=20), None, lambda: tasks) == Share(20, 100, "rows")
    assert share_done(known, Progress(), None, lambda: tasks) == tasks
    assert share_done(unknown, Progress(rows_in=20), None, lambda: tasks) == tasks
    assert share_done(unknown, Progress(rows_out=5), 10, lambda: tasks) == Share(5, 10, "rows")
