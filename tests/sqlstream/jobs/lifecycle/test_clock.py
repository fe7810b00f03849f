"""The clock of processing time: who follows it, and what it writes."""

from __future__ import annotations

import time
from threading import Event

import pytest

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs import Job
from sqlstream.jobs.checkpoints.control import Clock, ControlRows, clock_of
from sqlstream.jobs.checkpoints.storage import LocalStorage, cannot_write, disk_full
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.tested_session import plan_of_script
from tests.planner.plans import physical

TABLE = (
    "CREATE TABLE t (v INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');"
    " SELECT COUNT(*) AS n FROM t GROUP BY "
)
BY_EVENT_TIME = "TUMBLE(ts, INTERVAL '1' SECOND)"
BY_THE_CLOCK = "TUMBLE(pt, INTERVAL '1' SECOND)"
EARLY = BY_EVENT_TIME + " TRIGGER AFTER WATERMARK EARLY EVERY INTERVAL '1' SECOND"
IN_ROWS = "v COUNT WINDOW (2 ROWS)"
LOOKUP = "CREATE TABLE s (k INT, w INT) WITH ('connector' = 'test', 'role' = 'lookup');"
DEFERRED = "SELECT w FROM t JOIN s FOR SYSTEM_TIME AS OF t.pt LOOKUP ASYNC (ON TIMEOUT DEFER) ON s.k = t.v"


@pytest.mark.parametrize(
    ("windows", "clock"),
    [
        (BY_EVENT_TIME, Clock()),
        (BY_THE_CLOCK, Clock(tables=("t",))),
        (EARLY, Clock(ticks=True)),
        (IN_ROWS, Clock()),
    ],
)
def test_the_clock_ticks_only_for_what_uses_it(windows, clock):
    with LocalSession() as session:
        plan = plan_of_script(TABLE + windows, session)
    assert clock_of(physical(plan, "columnar")) == clock
    assert bool(clock) == (windows in (BY_THE_CLOCK, EARLY))


def test_the_clock_calls_for_rows_whose_lookups_are_deferred():
    with LocalSession() as session:
        plan = plan_of_script(LOOKUP + TABLE.partition("SELECT")[0] + DEFERRED, session)
    assert clock_of(physical(plan, "columnar")) == Clock(ticks=True, calls=True, calls_only=True, lookups=(0,))


@pytest.mark.parametrize("rows_wait", [True, False])
def test_a_clock_that_only_calls_stands_still_where_no_row_waits(tmp_path, rows_wait):
    control, stopped = ControlRows(LocalStorage(tmp_path)), Event()
    asked: list[None] = []

    def waiting():
        asked.append(None)
        stopped.set()
        return rows_wait

    Clock(ticks=True, calls=True, calls_only=True, interval_ms=1).start(control, stopped, waiting).join()
    assert len(list(tmp_path.rglob("tick-*.json"))) == rows_wait == len(asked) * rows_wait


def test_a_tick_moves_watermarks_and_the_clock(tmp_path):
    control = ControlRows(LocalStorage(tmp_path))
    Clock(tables=("t",), ticks=True).show(control, 7000, "tick-1")
    assert control.storage.read("control/t/tick-1.json") == '{"watermark_ms": 6999}'
    assert control.storage.read("control-clock/tick-1.json") == '{"processing_time_ms": 7000}'
    assert not control.clock_has_ended
    control.end_clock()
    control.end_clock()
    assert control.clock_has_ended


@pytest.mark.spark
def test_a_running_job_fires_early_by_the_clock_with_kinds():
    with LocalSession() as session:
        session.sql(
            """
            SET 'sqlstream.engine' = 'columnar';
            SET 'pipeline.max-parallelism' = '1';
            SET 'sqlstream.clock-interval' = '200 ms';
            CREATE TABLE live (v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' DAY)
                WITH ('connector' = 'datagen', 'rows-per-second' = '20');
            """
        )
        windows = "TUMBLE(ts, INTERVAL '10000' DAY)"
        early = "TRIGGER AFTER WATERMARK EARLY EVERY INTERVAL '1' SECOND RETRACTING"
        query = session.sql(f"SELECT COUNT(*) AS n FROM live GROUP BY {windows} {early}")
        assert isinstance(query, Query)
        with query:
            (_, (first,)), (before, (withdrawn,)), (after, (second,)) = (next(query.changes()) for _ in range(3))
        assert query.columns == ("op", "n")
        assert (before.value, after.value) == ("-U", "+U")
        assert first == withdrawn < second


@pytest.mark.spark
def test_operators_that_wait_for_the_clock_read_its_ticks_once(spark, tmp_path):
    """Of two sources each would delete the files that it has read, which the other may have still to read."""
    control = ControlRows(LocalStorage(tmp_path), transient=True)
    assert control.clock(spark) is control.clock(spark)
    assert control.stream(spark, "t") is control.stream(spark, "t")
    assert control.stream(spark, "t") is not control.stream(spark, "u")


class FullDisk(LocalStorage):
    """Full at first."""

    def write(self, path, text):
        seen = self.root / "seen"
        if not seen.exists():
            seen.touch()
            raise disk_full("No space left on device")
        super().write(path, text)


def test_a_full_disk_does_not_stop_the_clock(tmp_path):
    stopped = Event()
    thread = Clock(ticks=True, interval_ms=1).start(ControlRows(FullDisk(tmp_path)), stopped)
    deadline = time.monotonic() + 10
    while not [*tmp_path.glob("control-clock/*")] and time.monotonic() < deadline:
        time.sleep(0.01)
    stopped.set()
    thread.join()
    assert [*tmp_path.glob("control-clock/tick-*.json")]


class ReadOnly(LocalStorage):
    def write(self, path, text):
        raise cannot_write(self.root / path, OSError(30, "Read-only file system"))


def test_a_clock_that_cannot_tick_for_long_is_told_again_and_again(tmp_path, monkeypatch):
    monkeypatch.setattr("sqlstream.jobs.checkpoints.control.GIVE_UP_SECONDS", 0.05)
    stopped = Event()
    told: list[SqlStreamError] = []
    control = ControlRows(ReadOnly(tmp_path))
    thread = Clock(ticks=True, interval_ms=1).start(control, stopped, on_failure=told.append)
    deadline = time.monotonic() + 10
    while len(told) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    stopped.set()
    thread.join()
    assert {error.code for error in told[:2]} == {"SS416"}
    idle = Clock(ticks=True, calls_only=True, interval_ms=1)
    stopped.clear()
    told.clear()
    thread = idle.start(control, stopped, lambda: False, told.append)
    time.sleep(0.2)
    stopped.set()
    thread.join()
    assert not told, "nothing waits for it"


@pytest.mark.spark
def test_a_job_whose_clock_cannot_tick_fails_and_does_not_wait_for_ever(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("sqlstream.jobs.checkpoints.control.GIVE_UP_SECONDS", 0.1)
    with Session(spark) as session:
        session.sql("SET 'sqlstream.clock-interval' = '50 ms'")
        job = session.sql("""
            CREATE TABLE s (value BIGINT, pt AS PROCTIME()) WITH ('connector' = 'rate', 'rows-per-second' = '1');
            CREATE TABLE t (n BIGINT) WITH ('connector' = 'blackhole');
            INSERT INTO t SELECT COUNT(*) FROM s GROUP BY TUMBLE(pt, INTERVAL '1' HOUR)""")
        assert isinstance(job, Job)
        monkeypatch.setattr(ControlRows, "lift", refuse)
        monkeypatch.setattr(ControlRows, "tick", refuse)
        with pytest.raises(ExecutionError, match="SS416"):
            job.wait(60)


def refuse(*_: object) -> None:
    raise cannot_write("/c/control-clock/tick.json", OSError(30, "Read-only file system"))
