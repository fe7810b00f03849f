"""Jobs whose lookups defer rows: they end when no row waits any more, and can be stopped before."""

from __future__ import annotations

import time
from typing import Any

import pyarrow.parquet as pq
import pytest

from sqlstream.jobs import JobState
from sqlstream.planner.fields import Field
from sqlstream.planner.nodes import Insert, Project
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.windows import Tumble
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.options import LookupOptions, OnTimeout
from sqlstream.udfs.lookup.sources.fed import Behaviour
from tests.sqlstream.jobs.lifecycle.starting import started
from tests.streams import at, item, rows_of, table, timed

pytestmark = pytest.mark.spark

EVENTS = table("events", who="BIGINT", ts="TIMESTAMP")
PEOPLE = table("people", id="BIGINT", name="STRING")
COUNTS = table("counts", start="TIMESTAMP", n="BIGINT", last="STRING")
DEFER = LookupOptions(timeout_ms=100, on_timeout=OnTimeout.DEFER)


def counts() -> Insert:
    """Rows by second, with the last name among them."""
    name = Field("name", parse_type("STRING"))
    collected = (item("name", "name", "STRING"),)
    named = Lookup(timed(EVENTS), PEOPLE, (item("id", "who"),), (name,), collected, outer=True, options=DEFER)
    items = (item("n", "COUNT(*)"), item("last", "MAX(name)", "STRING"))
    windows = WindowAggregate(named, (), items, window=Tumble(1000), time="ts")
    starts = item("start", "window_start", "TIMESTAMP")
    return Insert(Project(windows, (starts, item("n", "n"), item("last", "last", "STRING"))), COUNTS)


@pytest.mark.long
def test_a_bounded_job_waits_for_all_answers_and_may_be_stopped_meanwhile(spark, streams, tmp_path):
    streams.engine = "auto"
    streams.behaviours["people"] = Behaviour(waits=True)
    streams.write(EVENTS, [(1, 100), (2, 1500), (1, 1600), (1, 2100)])
    streams.write(PEOPLE, [(1, "Ann")])
    target = str(tmp_path / "out")
    start: dict[str, Any] = {
        "sink": lambda rows: rows.writeStream.format("parquet").option("path", target),
        "checkpoint": str(tmp_path / "checkpoint"),
        "engine": "auto",
        "key_groups": 2,
        "clock_interval_ms": 200,
    }
    job = started(spark, counts(), streams, **start)
    until(lambda: job.progress().pending == 3 and job.progress().batches >= 4)
    job.stop()
    assert job.state is JobState.STOPPED
    assert rows_of([pq.read_table(target)]) == [(at(0), 1, "Ann")], "the end of the input waits for the others"

    streams.write(PEOPLE, [(2, "Bob")])
    again = started(spark, counts(), streams, **start)
    assert again.wait(timeout=300)
    assert again.progress().pending == 0
    assert rows_of([pq.read_table(target)]) == [(at(0), 1, "Ann"), (at(1000), 2, "Bob"), (at(2000), 1, "Ann")]
    assert started(spark, counts(), streams, **start).wait(timeout=300), "nothing waits from the start"
    assert len(pq.read_table(target)) == 3


def until(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
