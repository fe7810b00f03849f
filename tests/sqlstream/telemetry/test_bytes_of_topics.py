"""Bytes of the messages that jobs read of topics of a real broker, on every way that they are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import usually
from tests.sqlstream.connectors.test_kafka_source import Topics
from tests.sqlstream.telemetry.test_running_job import scraped

pytestmark = pytest.mark.spark

_KEYED = {"value.format": "json", "key.format": "json", "key.fields": "n"}
_IO, _PARTITION_IO = "sqlstream_source_io_bytes_total", "sqlstream_source_partition_io_bytes_total"


@pytest.fixture
def session(spark: Any) -> Any:
    with sqlstream.connect(spark) as session:
        session.sql("SET 'metrics.prometheus.port' = '0'")
        session.sql("SET 'pipeline.name' = 'count clicks'")
        session.sql("CREATE TABLE results (k STRING, n BIGINT) WITH ('connector' = 'blackhole')")
        yield session


def declare(session: Session, topics: Topics, columns: str, topic: str, **options: str) -> None:
    usual = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": topics.address,
        "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset",
    }  # fmt: skip
    form = {} if "value.format" in options else {"format": "json"}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in {**usual, **form, **options}.items() if value)
    session.sql(f"CREATE TABLE clicks ({columns}) WITH ({pairs})")


def sizes_after(session: Session, text: str) -> dict[str, float]:
    """What a job has read, by metric, table or topic, and partition."""
    job = session.sql(text)
    assert isinstance(job, Job)
    job.wait()
    url = session.open_metrics()
    assert url is not None
    return {name: value for name, value in scraped(url).items() if name.split()[0] in (_IO, _PARTITION_IO)}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) FROM clicks GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
        "SELECT k, n FROM clicks WHERE n > 1",
        pytest.param("SELECT k, COUNT(*) OVER (PARTITION BY k ORDER BY ts) FROM clicks", marks=pytest.mark.long),
    ],
    ids=["exchange", "rows", "over"],
)
def test_values_are_counted_by_partition(session: Session, topics: Topics, query: str):
    topic = topics.create(2)
    sizes = []
    for partition, count in enumerate((3, 40)):
        messages = [json.dumps({"k": "a" * n, "n": n, "ts": "2026-01-01 00:00:01"}).encode() for n in range(count)]
        topics.send(topic, *messages, None, partition=partition, key=b"not read")
        sizes.append(sum(map(len, messages)))
    declare(session, topics, "k STRING, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", topic)
    assert sizes_after(session, f"INSERT INTO results {query}") == {
        f"{_IO} clicks": sum(sizes), f"{_PARTITION_IO} {topic} 0": sizes[0], f"{_PARTITION_IO} {topic} 1": sizes[1],
    }  # fmt: skip


@pytest.mark.parametrize("upserts", usually([False, True], False), ids=["kafka", "upsert-kafka"])
def test_keys_are_counted_where_columns_are_in_them(session: Session, topics: Topics, upserts: bool):
    topic = topics.create()
    for n in range(5):
        topics.send(topic, b'{"k": "a"}', key=b'{"n": %d}' % n)
    columns, options = "k STRING, n BIGINT", {**_KEYED, "value.fields-include": "EXCEPT_KEY"}
    if upserts:
        columns += ", PRIMARY KEY (n) NOT ENFORCED"
        options |= {"connector": "upsert-kafka", "scan.startup.mode": "", "key.fields": ""}
    declare(session, topics, columns, topic, **options)
    sizes = sizes_after(session, "INSERT INTO results SELECT k, n FROM clicks")
    assert sizes == {f"{_IO} clicks": 5 * (10 + 8), f"{_PARTITION_IO} {topic} 0": 5 * (10 + 8)}


def test_nothing_is_counted_without_metrics(spark: Any, topics: Topics):
    with sqlstream.connect(spark) as session:
        topic = topics.create()
        topics.send(topic, b'{"k": "a"}')
        declare(session, topics, "k STRING", topic)
        before = len(_counters())
        query = session.sql("SELECT k FROM clicks")
        assert isinstance(query, Query) and [tuple(row) for row in query] == [("a",)]
        assert len(_counters()) == before


def _counters() -> Any:
    from pyspark.accumulators import _accumulatorRegistry

    return _accumulatorRegistry
