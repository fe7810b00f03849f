"""What ``SET 'execution.latency' = 'low'`` changes, and that settings which are given go before."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.jobs.checkpoints.checkpoint import open_checkpoint
from sqlstream.jobs.lifecycle.specification import JobSpecification, Work, execution_of
from sqlstream.jobs.lifecycle.start import _opened
from sqlstream.latency import LATENCY
from sqlstream.planner.nodes import Output
from sqlstream.planner.physical.sources import ThroughSpark
from sqlstream.settings import Settings
from sqlstream.spark.handle import spark_settings
from tests.streams import table, timed

CLOCK = "sqlstream.clock-interval"
POLLING = "spark.sql.streaming.pollingDelay"


def settings(latency: str | None, **given: str) -> Settings:
    actual = Settings()
    for key, value in {LATENCY: latency, CLOCK: given.get("clock"), POLLING: given.get("polling")}.items():
        if value is not None:
            actual.set(key, value)
    return actual


@pytest.mark.parametrize(
    ("given", "clock_ms"), [(settings(None), 1000), (settings("low"), 100), (settings("low", clock="5 s"), 5000)]
)
def test_the_clock_of_low_latency_ticks_more_often(given, clock_ms):
    assert execution_of(given, lambda: 0, named=True).clock_interval_ms == clock_ms


@pytest.mark.parametrize(
    ("given", "delay"), [(settings("normal"), None), (settings("low"), "10"), (settings("low", polling="70"), "70")]
)
def test_sources_are_looked_at_more_often(given, delay):
    assert spark_settings(given).get(POLLING) == delay


def test_a_checkpoint_keeps_its_key_groups_whatever_the_latency(tmp_path):
    nowhere: Any = None  # Spark is not asked
    plan = Output(timed(table("events", delay_ms=0, k="STRING", ts="TIMESTAMP")), ("k", "ts"))
    path = str(tmp_path)
    assert open_checkpoint(path, plan, nowhere, new_key_groups=2).layout.key_groups == 2
    assert open_checkpoint(path, plan, nowhere).layout.key_groups == 2
    assert open_checkpoint(str(tmp_path / "given"), plan, nowhere, "auto", 5, new_key_groups=2).layout.key_groups == 5


def test_a_latency_is_one_of_two():
    with pytest.raises(ConnectorError, match=f'"{LATENCY}"'):
        settings("lowest")


@pytest.mark.parametrize(
    ("given", "partitions", "key_groups"),
    [(settings(None), "2", 16), (settings("low"), "2", 2), (settings("low"), "200", 64)],
)
def test_a_job_of_low_latency_has_a_key_group_for_each_task(tmp_path, given, partitions, key_groups):
    plan = Output(timed(table("events", delay_ms=0, k="STRING", ts="TIMESTAMP")), ("k", "ts"))
    spark: Any = SimpleNamespace(conf={"spark.sql.shuffle.partitions": partitions})
    sources: Any = ThroughSpark()
    job = JobSpecification(Work(plan, sources), execution=execution_of(given, lambda: 0, named=True))
    assert _opened(str(tmp_path), spark, job).layout.key_groups == key_groups
    assert json.loads((tmp_path / "layout.json").read_text())["key_groups"] == key_groups
