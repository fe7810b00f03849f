"""The small query that the shell runs of its own: when it runs, and that nobody notices."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest

import sqlstream
from sqlstream.shell.warm_up import WarmUp
from tests.sqlstream.shell.test_shell import _WithoutSpark as WithoutSpark


class Started:
    """A start of Spark that is over when ``there`` is set."""

    def __init__(self, spark: object, error: Exception | None = None) -> None:
        self.there = Event()
        self._spark, self._error = spark, error

    @property
    def spark(self) -> Any:
        assert self.there.wait(10)
        if self._error is not None:
            raise self._error
        return self._spark


class Watched(WarmUp):
    """Notes how often it has run, and runs until somebody asks for something or it is told to end."""

    def __init__(self, session: Any, start: Any) -> None:
        super().__init__(session, start)
        self.runs = 0
        self.running = Event()
        self.may_end = Event()

    def _once(self) -> bool:
        self.runs += 1
        self.running.set()
        while not self._wanted.is_set() and not self.may_end.wait(0.01):
            continue
        self.running.clear()
        return not self._wanted.is_set()

    @property
    def is_over(self) -> bool:
        return self._thread is None or not self._thread.is_alive()


def until(condition: Any) -> None:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.fixture
def start(monkeypatch) -> Started:
    monkeypatch.setattr("sqlstream.shell.warm_up.master_of", lambda spark: spark)
    return Started("local[2]")


def test_it_runs_once_when_spark_is_there(start):
    warm_up = Watched(WithoutSpark(), start)
    warm_up.begin()
    time.sleep(0.5)
    assert warm_up.runs == 0
    start.there.set()
    assert warm_up.running.wait(10)
    warm_up.may_end.set()
    until(lambda: warm_up.is_over)
    assert warm_up.runs == 1


def test_what_is_asked_for_stops_it_and_it_begins_again_afterwards(start):
    start.there.set()
    warm_up = Watched(WithoutSpark(), start)
    with warm_up.held():
        warm_up.begin()
        time.sleep(0.5)
        assert warm_up.runs == 0
    assert warm_up.running.wait(10)
    with warm_up.held():
        until(lambda: not warm_up.running.is_set())
        time.sleep(0.5)
        assert warm_up.runs == 1
    until(lambda: warm_up.runs == 2)
    warm_up.close()
    assert warm_up.is_over and warm_up.runs == 2


def test_it_waits_while_a_job_runs_in_the_background(start, monkeypatch):
    start.there.set()
    monkeypatch.setattr(WithoutSpark, "running", ["a job"])
    warm_up = Watched(WithoutSpark(), start)
    warm_up.begin()
    time.sleep(0.6)
    warm_up.close()
    assert warm_up.is_over and warm_up.runs == 0


def test_it_does_not_go_on_for_ever_where_it_is_always_stopped(start):
    start.there.set()
    warm_up = Watched(WithoutSpark(), start)
    warm_up.begin()
    while not warm_up.is_over:
        if warm_up.running.wait(0.05):
            with warm_up.held():
                until(lambda: not warm_up.running.is_set())
    assert warm_up.runs == 5


def test_who_leaves_at_once_does_not_wait_for_spark(start):
    warm_up = Watched(WithoutSpark(), start)
    warm_up.begin()
    began = time.monotonic()
    warm_up.close()
    assert time.monotonic() - began < 5
    start.there.set()
    until(lambda: warm_up.is_over)
    assert warm_up.runs == 0


def test_a_setting_switches_it_off(start):
    session = WithoutSpark()
    session.workspace.settings.set("shell.warm-up", "false")
    warm_up = Watched(session, start)
    warm_up.begin()
    assert warm_up.is_over
    warm_up.close()


def test_no_cluster_is_warmed_up(start):
    start.there.set()
    start._spark = "spark://somewhere:7077"
    warm_up = Watched(WithoutSpark(), start)
    warm_up.begin()
    until(lambda: warm_up.is_over)
    assert warm_up.runs == 0


@pytest.mark.parametrize("where", ["start", "query"])
def test_its_failures_are_nobodys(where, start, monkeypatch):
    start = Started("local", ValueError("no Java")) if where == "start" else start
    start.there.set()

    def fail(self: object) -> bool:
        raise ValueError("no query")

    monkeypatch.setattr(Watched, "_once", fail)
    warm_up = Watched(WithoutSpark(), start)
    warm_up.begin()
    until(lambda: warm_up.is_over)
    warm_up.close()


@pytest.mark.spark
def test_the_query_runs_to_its_end_and_no_statement_sees_it(spark):
    started = Started(spark)
    started.there.set()
    with sqlstream.connect(spark) as session:
        warm_up = WarmUp(session, started)  # type: ignore[arg-type]
        assert warm_up._once()
        assert session.jobs == () and next(session.results("SHOW JOBS")).fetchall() == []  # type: ignore[union-attr]
        assert [query.name for query in spark.streams.active] == []
        warm_up._wanted.set()
        assert not warm_up._once()
