"""Jobs from start to end: results, flush, restart, stop, failure."""

from __future__ import annotations

import dataclasses
import time

import pyarrow.parquet as pq
import pytest

from sqlstream.errors import ExecutionError, UnsupportedError
from sqlstream.jobs import JobState, checkpoint_exists
from sqlstream.jobs.lifecycle.coordinator import Checkpointing, EpochDeadline
from sqlstream.jobs.lifecycle.launch import Launch
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.nodes import AssignTime, Filter, Insert, Output, Project, Union
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import Tumble
from tests.depth import usually
from tests.sqlstream.jobs.lifecycle.starting import started
from tests.streams import at, item, rows_of, scan, sql, table, timed

pytestmark = pytest.mark.spark

EVENTS = table("events", delay_ms=500, k="STRING", v="INT", ts="TIMESTAMP")
TOTALS = table("totals", k="STRING", start="TIMESTAMP", s="BIGINT")
LIVE = dataclasses.replace(EVENTS, name="live", bounded=False)
ROWS = [("a", 1, 0), ("a", 2, 999), ("b", 5, 10), ("a", 4, 1000)]
EXPECTED = [("a", at(0), 3), ("a", at(1000), 4), ("b", at(0), 5)]


def totals(source=EVENTS, size_ms=1000):
    windows = AssignWindows(timed(source), Tumble(size_ms), "ts", ())
    aggregated = WindowAggregate(windows, ("k",), (item("s", "SUM(v)"),))
    return Project(aggregated, (item("k", "k"), item("start", "window_start"), item("s", "s")))


class Files:
    """A Parquet sink that counts how often it was written to."""

    def __init__(self, folder):
        self.path = str(folder / "out")

    def __call__(self, rows):
        return rows.writeStream.format("parquet").option("path", self.path)

    def rows(self):
        return rows_of([pq.read_table(self.path)])


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_a_bounded_query_gives_all_its_rows_and_ends(spark, streams):
    streams.write(EVENTS, ROWS)
    job = started(spark, Output(totals(), ("k", "x", "x")), streams)
    tables = list(job.results())
    assert rows_of(tables) == EXPECTED
    assert {tuple(t.column_names) for t in tables} == {("k", "x", "x")}
    assert job.wait(0)
    progress = job.progress()
    assert (job.state, job.exception, job.is_bounded) == (JobState.FINISHED, None, True)
    assert (progress.rows_in, progress.rows_out, progress.late_rows, progress.input_ended) == (4, 3, 0, True)
    assert progress.rows_per_second > 0


def test_results_come_through_files_where_python_cannot_see_the_batches(spark, streams, monkeypatch):
    monkeypatch.setattr("sqlstream.jobs.lifecycle.start.is_connect", lambda _: True)
    streams.write(EVENTS, ROWS)
    tables = list(started(spark, Output(totals(), ("k", "x y", "x y")), streams).results())
    assert rows_of(tables) == EXPECTED
    assert {tuple(t.column_names) for t in tables} == {("k", "x y", "x y")}


@pytest.mark.parametrize(
    "died", usually(["before the end was written", "before the end was read"], "before the end was read")
)
def test_a_job_that_died_before_its_flush_finishes_it_and_emits_once(
    spark, streams, files, tmp_path, monkeypatch, died
):
    streams.write(EVENTS, ROWS)

    def die(launch):
        if died == "before the end was read":
            original(launch)
        raise RuntimeError("died")

    original = Launch.end_input
    checkpoint = str(tmp_path / "checkpoint")
    with monkeypatch.context() as patched:
        patched.setattr(Launch, "end_input", die)
        job = started(spark, Insert(totals(), TOTALS), streams, sink=files, checkpoint=checkpoint)
        with pytest.raises(ExecutionError, match="died"):
            job.wait()
    assert job.progress().rows_in == 4

    for rows_in in (0, 0):
        job = started(spark, Insert(totals(), TOTALS), streams, sink=files, checkpoint=checkpoint)
        assert job.wait()
        assert files.rows() == EXPECTED
        assert job.progress().rows_in == rows_in


def test_rows_behind_the_end_of_the_input_are_an_error_and_no_silent_loss(spark, streams, files, tmp_path):
    start = {"sink": files, "checkpoint": str(tmp_path / "checkpoint")}
    streams.write(EVENTS, ROWS[:2])
    started(spark, Insert(totals(), TOTALS), streams, **start).wait()
    streams.write(EVENTS, ROWS[2:])
    with pytest.raises(ExecutionError, match="SS422: an earlier run of the job has ended its input for good"):
        started(spark, Insert(totals(), TOTALS), streams, **start).wait()
    assert files.rows() == EXPECTED[:1]


def test_an_unbounded_job_runs_until_stopped_and_goes_on_from_its_checkpoint(spark, streams, files, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")
    start = {"sink": files, "checkpoint": checkpoint, "name": "totals"}
    streams.write(LIVE, ROWS[:3])
    assert not checkpoint_exists(checkpoint, spark)
    job = started(spark, Insert(totals(LIVE), TOTALS), streams, **start)
    assert not job.wait(0.01)
    until(lambda: job.progress().rows_in == 3)
    job.stop()
    assert (job.name, job.state, job.is_bounded) == ("totals", JobState.STOPPED, False)
    assert checkpoint_exists(checkpoint, spark)

    streams.write(LIVE, [ROWS[3], ("z", 1, 2500)])
    again = started(spark, Insert(totals(LIVE), TOTALS), streams, **start, checkpointing=Checkpointing(interval_ms=100))
    assert again.id == job.id
    until(lambda: again.progress().rows_out == 3)
    streams.write(LIVE, [("late", 1, 1999)])
    until(lambda: again.progress().late_rows == 1)
    again.stop()
    assert files.rows() == EXPECTED
    assert again.progress().watermark_ms == 2000


def two_sources(other):
    windows = AssignWindows(Union((timed(LIVE), timed(other))), Tumble(1000), "ts", ())
    aggregated = WindowAggregate(windows, ("k",), (item("s", "SUM(v)"),))
    items = (item("k", "k"), item("start", "window_start"), item("s", "s"))
    return Insert(Project(aggregated, items), TOTALS)


@pytest.mark.parametrize("again", usually(["stopped", "at rest", "given up"], "at rest"))
def test_a_source_that_is_silent_after_a_restart_does_not_hold_windows_back(
    spark, streams, files, tmp_path, monkeypatch, again
):
    other = dataclasses.replace(LIVE, name="other")
    plan = two_sources(other)
    given_up: list[bool] = []
    monkeypatch.setattr(EpochDeadline, "is_over", lambda *_: bool(given_up) and given_up.pop())
    start = {
        "sink": files,
        "checkpoint": str(tmp_path / "checkpoint"),
        "checkpointing": Checkpointing(interval_ms=100, timeout_ms=600_000, tolerable_failures=1),
    }
    streams.write(LIVE, [("a", 1, 9000)])
    streams.write(other, [("a", 2, 1600)])
    job = started(spark, plan, streams, **start)
    until(lambda: job.progress().watermark_ms == 1100)
    if again == "stopped":
        job.stop()
        assert files.rows() == []
        job = started(spark, plan, streams, **start)
    elif again == "at rest":
        job.checkpoint()
    else:
        given_up.append(True)
        until(lambda: not given_up)

    streams.write(other, [("a", 4, 3600)])
    until(lambda: job.progress().watermark_ms == 3100)
    until(lambda: not list((tmp_path / "checkpoint/control").rglob("*.json")))  # those of the start have been read
    job.stop()
    assert files.rows() == [("a", at(1000), 2)]


def test_a_checkpoint_of_another_query_is_refused_and_says_where_they_differ(spark, streams, files, tmp_path):
    streams.write(EVENTS, ROWS)
    checkpoint = str(tmp_path / "checkpoint")
    started(spark, Insert(totals(), TOTALS), streams, sink=files, checkpoint=checkpoint).wait()
    with pytest.raises(ExecutionError) as caught:
        started(spark, Insert(totals(size_ms=5000), TOTALS), streams, sink=files, checkpoint=checkpoint)
    assert str(caught.value).startswith(
        f'SS421: checkpoint "{checkpoint}" belongs to another query: windows\n'
        'DETAIL: It holds the windows with the window "TUMBLE size 1 s", where the query has "TUMBLE size 5 s".'
    )


def test_processing_time_windows_close_by_themselves(spark, streams):
    streams.write(LIVE, ROWS)
    clock = AssignTime(scan(LIVE), "pt", 0, TimeDomain.PROCESSING, "live")
    windows = AssignWindows(clock, Tumble(1), "pt", (), domain=TimeDomain.PROCESSING)
    plan = WindowAggregate(windows, (), (item("s", "SUM(v)"),), domain=TimeDomain.PROCESSING)
    job = started(spark, Output(plan, ("a", "b", "c", "s")), streams)
    actual = next(job.results())
    job.stop()
    assert actual.column("s").to_pylist() == [12]
    assert job.state is JobState.STOPPED
    assert list(job.results()) == []


def test_two_jobs_run_at_once(spark, streams):
    streams.write(EVENTS, ROWS)
    plans = [Output(Filter(scan(EVENTS), sql(f"v > {least}")), ("k", "v", "ts")) for least in (1, 4)]
    jobs = [started(spark, plan, streams) for plan in plans]
    assert [len(rows_of(job.results())) for job in jobs] == [3, 1]


def test_a_failed_job_names_the_root_cause_and_the_checkpoint(spark, streams):
    def inverse(v: int) -> float:
        return 1 / v

    streams.implementations["inverse"] = inverse
    streams.write(EVENTS, [("a", 0, 0)])
    job = started(spark, Output(Project(scan(EVENTS), (item("x", "inverse(v)"),)), ("x",)), streams, name="inverses")
    with pytest.raises(ExecutionError):
        list(job.results())
    with pytest.raises(ExecutionError) as caught:
        job.wait()
    assert job.state is JobState.FAILED
    assert caught.value is job.exception
    assert str(caught.value) == (
        'SS411: function "inverse" failed: ZeroDivisionError: division by zero\n'
        f'DETAIL: The call was inverse(0). See line {inverse.__code__.co_firstlineno + 1} of "{__file__}".'
    )


def test_a_row_without_event_time_fails_the_job(spark, streams):
    streams.write(EVENTS, [("a", 0, None)])
    job = started(spark, Output(totals(), ("k", "w", "s")), streams)
    row = r'in a row of file ".*/events/000000.parquet": {"k":"a","v":0,"ts":null}'
    with pytest.raises(ExecutionError, match=rf'^SS401: event time "ts" of table "events" is NULL {row}\nHINT'):
        job.wait()


def test_spark_names_the_cause_of_its_own_failures(spark, streams):
    streams.write(EVENTS, [("a", 0, 0)])
    job = started(spark, Output(Project(scan(EVENTS), (item("x", "1 / v"),)), ("x",)), streams)
    with pytest.raises(ExecutionError, match=r"SS400: .*DIVIDE_BY_ZERO"):
        job.wait()


def test_what_spark_cannot_stream_is_refused_at_the_start(spark, streams):
    plan = Output(Project(scan(EVENTS), (item("x", "row_number() OVER (ORDER BY v)"),)), ("x",))
    with pytest.raises(UnsupportedError, match="SS394"):
        started(spark, plan, streams)


def until(reached, seconds=30):
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.05)
