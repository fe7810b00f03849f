"""Queries and jobs over topics of a real broker: the default mode, checkpoints, bad messages and keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.testing.kafka_broker import Broker
from tests.sqlstream.connectors.test_kafka_source import Topics

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def topics(kafka_broker: Broker) -> Topics:
    return Topics(kafka_broker)


@pytest.fixture
def session(spark: Any) -> Any:
    with sqlstream.connect(spark) as session:
        yield session


def declare(session: Session, topics: Topics, columns: str, topic: str, **options: str) -> None:
    usual = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": topics.address, "format": "json",
        "scan.startup.mode": "earliest-offset",
    }  # fmt: skip
    given = {**usual, **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    session.sql(f"CREATE TABLE t ({columns}) WITH ({pairs})")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return sorted(map(tuple, result))


def test_a_bounded_table_is_read_in_every_mode(session: Session, topics: Topics):
    topic = topics.create(2)
    for partition in range(2):
        topics.send(topic, *(json.dumps({"k": n % 2}).encode() for n in range(5)), partition=partition)
    topics.transaction(topic, b'{"k": 7}', commits=False)
    declare(session, topics, "k INT", topic, scan__bounded__mode="latest-offset")
    query = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
    assert rows(session, query) == [(0, 6), (1, 4)]
    assert rows(session, "SELECT COUNT(*) FROM t") == [(10,)]
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    assert {(0, 6), (1, 4)} <= {(k, n) for _, k, n in rows(session, query)}


def test_a_job_goes_on_behind_its_checkpoint_and_bad_messages_have_their_place(
    session: Session, topics: Topics, tmp_path: Path
):
    topic = topics.create()
    topics.send(topic, b'{"a": 1}', b"no json", b"", b'{"a": 2}', headers=[("h", b"x")], timestamp=1000)
    declare(
        session, topics,
        "a INT, o BIGINT METADATA FROM 'offset', h MAP<STRING, BINARY> METADATA FROM 'headers', "
        "at TIMESTAMP(3) METADATA FROM 'timestamp', e INT METADATA FROM 'leader-epoch'",
        topic, on_error="dead-letter:dead", scan__bounded__mode="unbounded",
    )  # fmt: skip
    session.sql("CREATE TABLE dead (place STRING, record BINARY, error STRING) WITH ('connector' = 'memory')")
    session.sql("CREATE TABLE kept (a INT, o BIGINT, h STRING, at TIMESTAMP(3), e INT) WITH ('connector' = 'memory')")
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'kafka-job'")

    def run() -> None:
        job = session.sql("INSERT INTO kept SELECT a, o, CAST(h['h'] AS STRING), at, e FROM t")
        assert isinstance(job, Job)
        job.stop(drain=True)

    run()
    assert [(a, o, h, at.timestamp(), e) for a, o, h, at, e in rows(session, "SELECT * FROM kept")] == [
        (1, 0, "x", 1.0, 0), (2, 3, "x", 1.0, 0),
    ]  # fmt: skip
    assert rows(session, "SELECT place, CAST(record AS STRING) FROM dead") == [(f"{topic}[0]@1", "no json")]
    topics.send(topic, b'{"a": 3}')
    run()
    assert [a for a, *_ in rows(session, "SELECT * FROM kept")] == [1, 2, 3]


def test_keys_are_columns_and_upserts_are_the_last_of_each_key(session: Session, topics: Topics):
    topic = topics.create()
    for key, value in ((b'{"k": 1}', b'{"v": "a"}'), (b'{"k": 2}', b'{"v": "b"}'), (None, b'{"v": "c"}')):
        topics.send(topic, value, key=key)
    declare(
        session, topics, "k INT, v STRING", topic, scan__bounded__mode="latest-offset", format="",
        key__format="json", key__fields="k", value__format="json", value__fields_include="EXCEPT_KEY",
    )  # fmt: skip
    assert sorted(map(repr, rows(session, "SELECT v, k FROM t"))) == ["('a', 1)", "('b', 2)", "('c', None)"]


def test_messages_that_are_gone_end_the_job_with_their_numbers(session: Session, topics: Topics):
    topic = topics.create()
    topics.send(topic, b'{"a": 1}', b'{"a": 2}')
    topics.eat(topic, 1)
    declare(
        session, topics, "a INT", topic, scan__bounded__mode="latest-offset",
        scan__startup__mode="specific-offsets", scan__startup__specific_offsets="partition:0,offset:0",
    )  # fmt: skip
    with pytest.raises(SqlStreamError, match=rf"SS592: .*{topic}\[0\] begins at offset 1 now, and was read up to 0"):
        rows(session, "SELECT a FROM t")


def test_spark_shows_no_secrets_of_a_table(session: Session, topics: Topics):
    declare(session, topics, "a INT", "any", properties__sasl__password="hunter2")
    shown = session.dataframe("SELECT a FROM t")._jdf.queryExecution().toString()
    assert "sqlstream_topic_ranges" in shown
    assert "hunter2" not in shown
