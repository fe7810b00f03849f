"""Queries and jobs over topics of a real broker: the default mode, checkpoints, bad messages and keys."""

from __future__ import annotations

import itertools
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.formats.registered import header_of
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import usually
from tests.schema_registry import serving
from tests.sqlstream.connectors.jobs_of_tables import named
from tests.sqlstream.connectors.test_kafka_source import Topics

pytestmark = pytest.mark.spark

START_S = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())


@pytest.fixture
def session(spark: Any) -> Any:
    with sqlstream.connect(spark) as session:
        yield session


def declare(session: Session, topics: Topics, columns: str, topic: str, **options: str) -> None:
    usual = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": topics.address, "format": "json",
        "scan.startup.mode": "earliest-offset",
    }  # fmt: skip
    given = {**usual, **named(options)}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    session.sql(f"CREATE TABLE t ({columns}) WITH ({pairs})")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return sorted(map(tuple, result))


@pytest.mark.long
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
    topic = topics.create(retention_ms="-1")  # else Kafka may remove messages of 1970
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


@pytest.mark.long
@pytest.mark.parametrize("query", usually(["SELECT a FROM t", "SELECT DISTINCT a FROM t"], "SELECT DISTINCT a FROM t"))
def test_messages_of_a_schema_that_is_registered_later_are_read(
    session: Session, topics: Topics, tmp_path: Path, query: str
):
    topic, schema = topics.create(), {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    with serving() as registry:
        declare(
            session, topics, "a BIGINT", topic, format="avro-confluent", avro_confluent__url=registry.url,
            on_error="skip",
        )  # fmt: skip
        session.sql("CREATE TABLE kept (a BIGINT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'memory')")
        session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'registered'")

        def run(number: int) -> list[tuple[Any, ...]]:
            topics.send(topic, header_of(7) + bytes([2 * number]))
            job = session.sql(f"INSERT INTO kept {query}")
            assert isinstance(job, Job)
            job.stop(drain=True)
            return rows(session, "SELECT a FROM kept")

        assert run(1) == []
        registry.register("late", schema, id=7)
        assert run(2) == [(2,)]
        assert registry.asked == ["GET /schemas/ids/7"] * 2


def test_keys_are_columns_and_upserts_are_the_last_of_each_key(session: Session, topics: Topics):
    topic = topics.create()
    for key, value in ((b'{"k": 1}', b'{"v": "a"}'), (b'{"k": 2}', b'{"v": "b"}'), (None, b'{"v": "c"}')):
        topics.send(topic, value, key=key)
    declare(
        session, topics, "k INT, v STRING", topic, scan__bounded__mode="latest-offset", format="",
        key__format="json", key__fields="k", value__format="json", value__fields_include="EXCEPT_KEY",
    )  # fmt: skip
    assert sorted(map(repr, rows(session, "SELECT v, k FROM t"))) == ["('a', 1)", "('b', 2)", "('c', None)"]


def test_metadata_of_a_change_format_is_taken_from_the_value(session: Session, topics: Topics):
    topic = topics.create()
    value = {"before": None, "after": {"id": 1}, "op": "c", "ts_ms": 5000, "source": {"table": "x"}}
    topics.send(topic, json.dumps(value).encode())
    declare(
        session, topics,
        "id INT, at TIMESTAMP(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL, "
        "origin STRING METADATA FROM 'source.table' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL",
        topic, scan__bounded__mode="latest-offset", format="debezium-json",
    )  # fmt: skip
    assert [(kind, at.timestamp(), *rest) for kind, at, *rest in rows(session, "SELECT at, id, origin, o FROM t")] == [
        ("+I", 5.0, 1, "x", 0)
    ]
    assert [row[-2:] for row in rows(session, "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin")] == [("x", 1)]


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


def test_tasks_hand_messages_to_the_exchange_as_columns(session: Session, topics: Topics):
    topic = topics.create(2)
    for partition in range(2):
        for n in range(10):
            key, value = json.dumps({"k": n % 3}), json.dumps({"at": f"2026-01-01 00:00:0{n}"})
            topics.send(topic, value.encode(), partition=partition, key=key)
        topics.send(topic, b"{}", partition=partition, key=b"no json")
        topics.send(topic, b"no json", partition=partition, key=b'{"k": 0}')
    columns = "k INT, at TIMESTAMP(3), o BIGINT METADATA FROM 'offset', WATERMARK FOR at AS at"
    options = {"key__format": "json", "key__fields": "k", "value__fields_include": "EXCEPT_KEY"}
    options["scan__bounded__mode"] = "latest-offset"
    declare(session, topics, columns, topic, on_error="skip", **options)
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    query = (
        "SELECT k, COUNT(*) AS n, MAX(o) AS o FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '5' SECOND) "
        "WHERE o < 9 GROUP BY k, window_start, window_end"
    )
    expected = [(0, 4, 3), (0, 2, 6), (1, 4, 4), (1, 2, 7), (2, 2, 2), (2, 4, 8)]
    assert rows(session, query) == sorted(expected)
    assert rows(session, "SELECT o, k FROM t WHERE o > 7 AND o < 10") == [(8, 2), (8, 2), (9, 0), (9, 0)]
    session.sql("DROP TABLE t")
    declare(session, topics, columns, topic, **options)
    assert "the exchange above reads and filters their columns" in str(session.sql(f"EXPLAIN PHYSICAL {query}"))
    with pytest.raises(SqlStreamError, match=rf"SS402: a row at {topic}\[[01]\]@10 cannot be read: .*no json"):
        rows(session, query)


@pytest.mark.long
def test_a_micro_batch_behind_a_slow_one_reads_fewer_messages(session: Session, topics: Topics):
    topic = topics.create()
    topics.send(topic, *(b'{"a": 1}' for _ in range(450)))
    options = {"scan__bounded__mode": "latest-offset", "source__max_rows_per_trigger": "300"}
    declare(session, topics, "a INT", topic, **options)
    body = "\nimport time\ntime.sleep(0.004)\nreturn a\n"
    session.sql(f"CREATE FUNCTION slow(a INT) RETURNS INT LANGUAGE PYTHON AS $${body}$$")
    session.sql("CREATE TABLE kept (a INT) WITH ('connector' = 'blackhole')")
    batches = []
    for duration in ("500 ms", "0 s"):
        session.sql(f"SET 'sqlstream.micro-batch-duration' = '{duration}'")
        job = session.sql("INSERT INTO kept SELECT slow(a) FROM t")
        assert isinstance(job, Job)
        job.wait()
        assert job.progress().rows_in == 450
        batches.append(job.progress().batches)
    assert batches[0] == batches[1] + 1  # 300, 100 and 50 in place of 300 and 150


_AT, _KEYS = "at TIMESTAMP(3)", {"key__format": "json", "key__fields": "id"}
_UPSERTS = {"connector": "upsert-kafka", "format": "", "key__format": "json", "value__format": "json"}


@pytest.mark.parametrize(
    ("at", "options", "latency"),
    [
        (_AT, {}, "low"),
        pytest.param(_AT, {}, "normal", marks=pytest.mark.long),
        pytest.param(_AT, {"on_error": "skip"}, "normal", marks=pytest.mark.long),
        pytest.param("ms BIGINT, at AS TO_TIMESTAMP_LTZ(ms, 3)", {}, "normal", marks=pytest.mark.long),
        pytest.param(_AT, {"value__fields_include": "EXCEPT_KEY", **_KEYS}, "normal", marks=pytest.mark.long),
        pytest.param(_AT, {"format": "debezium-json"}, "normal", marks=pytest.mark.long),
        pytest.param(_AT, {**_UPSERTS, "scan__startup__mode": ""}, "normal", marks=pytest.mark.long),
    ],
    ids=["windows that fire at once", "columns that tasks hand to the exchange", "rows of Spark",
         "times that are computed", "keys", "changes", "upserts"],
)  # fmt: skip
def test_a_slow_partition_makes_nothing_late_and_an_idle_one_holds_nothing_back(
    session: Session, topics: Topics, tmp_path: Path, at: str, options: dict[str, str], latency: str
):
    topic, numbers = topics.create(2), itertools.count()

    def send(partition: int, *seconds: int) -> None:
        for s in seconds:
            row: dict[str, Any] = {"id": next(numbers), "k": partition, "at": f"2026-01-01 00:00:{s:02d}"}
            row["ms"] = (START_S + s) * 1000
            value = {"op": "c", "after": row} if "debezium-json" in options.values() else row
            key = json.dumps({"id": row["id"]}).encode()
            topics.send(topic, json.dumps(value).encode(), partition=partition, key=key)

    key = " PRIMARY KEY NOT ENFORCED" if options.get("connector") else ""
    columns = f"id INT{key}, k INT, {at}, WATERMARK FOR at AS at"
    declare(session, topics, columns, topic, scan__bounded__mode="unbounded", **options)
    session.sql("CREATE TABLE kept (k INT, n BIGINT, s TIMESTAMP(3)) WITH ('connector' = 'memory')")
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'partitions'")
    session.sql(f"SET 'execution.latency' = '{latency}'")
    insert = (
        "INSERT INTO kept SELECT k, COUNT(*), window_start FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND) "
        "GROUP BY k, window_start, window_end"
    )

    def run_until(second: int) -> Job:
        job = session.sql(insert)
        assert isinstance(job, Job)
        deadline, reached = time.monotonic() + 90, (START_S + second) * 1000
        while job.progress().watermark_ms != reached:
            assert time.monotonic() < deadline, job.progress()
            time.sleep(0.2)
        job.stop()
        return job

    def kept() -> list[tuple[int, int, int]]:
        return [(k, n, s.second) for k, n, s in rows(session, "SELECT * FROM kept")]

    send(0, 1, 12, 25)
    send(1, 2, 11)
    assert run_until(11).progress().held_by == (f"{topic}[1]",)
    assert kept() == [(0, 1, 0), (1, 1, 0)]
    session.sql("SET 'table.exec.source.idle-timeout' = '1 s'")
    send(1, 13)
    send(0, 45)
    assert run_until(45).progress().late_rows == 0
    assert kept() == [(0, 1, 0), (0, 1, 10), (0, 1, 20), (1, 1, 0), (1, 2, 10)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("reuse", "chosen"),
    [
        ("true", "o + 1 > 1"),  # which only Spark computes, of the rows that tasks read
        pytest.param("true", "o > 0", marks=pytest.mark.long),
        pytest.param("false", "o > 0", marks=pytest.mark.long),
    ],
)
def test_the_queries_of_a_set_read_a_topic_once_and_have_the_watermark_of_its_partitions(
    session: Session, topics: Topics, tmp_path: Path, reuse: str, chosen: str
):
    topic = topics.create(2)

    def send(partition: int, *seconds: int) -> None:
        values = (json.dumps({"k": partition, "at": f"2026-01-01 00:00:{s:02d}"}) for s in seconds)
        topics.send(topic, *(value.encode() for value in values), partition=partition)

    declare(session, topics, f"k INT, {_AT}, o BIGINT METADATA FROM 'offset', WATERMARK FOR at AS at", topic)
    session.sql("CREATE TABLE windows (k INT, n BIGINT, s TIMESTAMP(3)) WITH ('connector' = 'memory')")
    session.sql("CREATE TABLE counts (k INT PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'memory')")
    session.sql("CREATE TABLE chosen (k INT, o BIGINT) WITH ('connector' = 'memory')")
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'set-of-topic'")
    session.sql(f"SET 'table.optimizer.reuse-source-enabled' = '{reuse}'")
    of_set = f"""EXECUTE STATEMENT SET BEGIN
        INSERT INTO windows SELECT k, COUNT(*), window_start
            FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY k, window_start, window_end;
        INSERT INTO counts SELECT k, COUNT(*) FROM t GROUP BY k;
        INSERT INTO chosen SELECT k, o FROM t WHERE k = 1 AND {chosen}; END"""
    explained = str(session.sql(f"EXPLAIN PHYSICAL {of_set}"))
    assert explained.count("Reused(reference_id=[1])") == (2 if reuse == "true" else 0)

    def run_until(second: int) -> Job:
        job = session.sql(of_set)
        assert isinstance(job, Job)
        deadline, reached = time.monotonic() + 90, (START_S + second) * 1000
        while job.progress().watermark_ms != reached:
            assert time.monotonic() < deadline, job.progress()
            time.sleep(0.2)
        job.stop()
        return job

    send(0, 1, 12, 25)
    send(1, 2, 11)
    progress = run_until(11).progress()
    assert (progress.held_by, progress.rows_in) == ((f"{topic}[1]",), 5)
    assert rows(session, "SELECT k, n FROM windows") == [(0, 1), (1, 1)]
    session.sql("SET 'table.exec.source.idle-timeout' = '1 s'")
    send(1, 13)
    send(0, 45)
    assert run_until(45).progress().late_rows == 0
    assert [(k, n, s.second) for k, n, s in rows(session, "SELECT * FROM windows")] == [
        (0, 1, 0), (0, 1, 10), (0, 1, 20), (1, 1, 0), (1, 2, 10),
    ]  # fmt: skip
    assert rows(session, "SELECT * FROM counts") == [(0, 4), (1, 3)]
    assert rows(session, "SELECT * FROM chosen") == [(1, 1), (1, 2)]


def test_the_first_rows_of_a_topic_without_end_come_at_once(session: Session, topics: Topics):
    topic = topics.create()
    topics.send(topic, *(json.dumps({"a": n}).encode() for n in range(5000)))
    declare(session, topics, "a INT, o BIGINT METADATA FROM 'offset'", topic)
    result = session.sql("SELECT a, o FROM t LIMIT 3")
    assert isinstance(result, Query)
    assert [tuple(row) for row in result] == [(0, 0), (1, 1), (2, 2)]
