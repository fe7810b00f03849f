"""Spark's real-time mode from topic to topic, in a process of its own, whose Spark has its connector of Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from sqlstream.testing.kafka_broker import Broker
from tests.sqlstream.connectors.test_kafka_source import Topics

pytestmark = [pytest.mark.spark, pytest.mark.long]

_EPOCH_S = 6
_JOB = """
import json
import sys

import sqlstream

statements, insert = sys.argv[1:]
package = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
with sqlstream.connect("local[4]", **{"spark.jars.packages": package}) as session:
    session.sql(statements)
    job = session.sql(insert)
    print("runs", flush=True)
    for line in sys.stdin:
        if line.strip() == "stop":
            break
        if line.strip() == "drain":
            try:
                job.stop(drain=True)
            except sqlstream.SqlStreamError as error:
                print(str(error).splitlines()[0], flush=True)
            continue
        progress = job.progress()
        print(json.dumps([progress.rows_in, progress.rows_out, progress.latency_ms]), flush=True)
    job.stop()
"""
_TABLES = """
SET 'execution.latency' = 'real-time'; SET 'execution.checkpointing.interval' = '{epoch} s';
SET 'execution.checkpointing.dir' = '{folder}'; SET 'pipeline.name' = 'live'; SET 'parallelism.default' = '1';
CREATE TABLE orders (id BIGINT, items ARRAY<STRUCT<name: STRING, price: DECIMAL(10, 2)>>,
    sent TIMESTAMP(3) METADATA FROM 'timestamp')
    WITH ('connector' = 'kafka', {topic}, 'topic' = '{source}', 'format' = 'json',
    'scan.startup.mode' = 'earliest-offset');
CREATE TABLE returns (id BIGINT, items ARRAY<STRUCT<name: STRING, price: DECIMAL(10, 2)>>)
    WITH ('connector' = 'kafka', {topic}, 'topic' = '{other}', 'format' = 'json',
    'scan.startup.mode' = 'earliest-offset');
CREATE TABLE lines (id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP(3))
    WITH ('connector' = 'kafka', {topic}, 'topic' = '{target}', 'format' = 'json', 'key.fields' = 'id');
CREATE TABLE totals (name STRING PRIMARY KEY NOT ENFORCED, n BIGINT, total DECIMAL(20, 2))
    WITH ('connector' = 'upsert-kafka', {topic}, 'topic' = '{target}', 'key.format' = 'raw', 'value.format' = 'json');
CREATE TABLE names (name STRING PRIMARY KEY NOT ENFORCED)
    WITH ('connector' = 'upsert-kafka', {topic}, 'topic' = '{target}', 'key.format' = 'raw', 'value.format' = 'json')
"""
_COPY = (
    "INSERT INTO lines SELECT id, UPPER(i.name), i.price * 2, DATE_TRUNC('MINUTE', sent) "
    "FROM orders CROSS JOIN UNNEST(items) AS i (name, price) WHERE price > 1"
)
_SUM = (
    "INSERT INTO totals SELECT i.name, COUNT(*), SUM(i.price) "
    "FROM orders CROSS JOIN UNNEST(items) AS i (name, price) GROUP BY i.name"
)
_BOTH = " UNION ALL ".join(
    f"SELECT id, i.name AS name, i.price * {sign} AS price FROM {table} CROSS JOIN UNNEST(items) AS i (name, price)"
    for table, sign in (("orders", 1), ("returns", -1))
)
_UNITED = f"INSERT INTO lines SELECT id, name, price, CAST(NULL AS TIMESTAMP(3)) FROM ({_BOTH}) WHERE name <> 'clip'"
_DISTINCT = f"INSERT INTO names SELECT DISTINCT name FROM ({_BOTH})"


class Live:
    """Three topics, and a job in its own process that reads one or two of them and writes the third."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.topics = Topics(broker)
        self.source, self.other, self.target = (self.topics.create() for _ in range(3))
        self.log = folder / "log"
        self.rows: list[dict[str, Any]] = []
        reader = {"bootstrap.servers": broker.address, "group.id": self.target, "auto.offset.reset": "earliest"}
        self._consumer = Consumer(reader)
        self._consumer.subscribe([self.target])
        topic = f"'kafka.client' = 'spark', 'properties.bootstrap.servers' = '{broker.address}'"
        names = {"source": self.source, "other": self.other, "target": self.target}
        self._tables = _TABLES.format(epoch=_EPOCH_S, folder=folder, topic=topic, **names)

    @contextmanager
    def running(self, insert: str) -> Iterator[Callable[[str], str]]:
        """Runs the job; gives a function that asks its process: for the ``progress``, as JSON, or to ``drain``."""
        command = [sys.executable, "-c", _JOB, self._tables, insert]
        piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.log.open("a") as log, subprocess.Popen(command, **piped, stderr=log, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            ask, answers = process.stdin, process.stdout

            def asked(word: str) -> str:
                print(word, file=ask, flush=True)
                return str(answers.readline()).strip()

            try:
                assert answers.readline().strip() == "runs", self.log.read_text()[-3000:]
                yield asked
            finally:
                with suppress(BrokenPipeError):
                    print("stop", file=ask, flush=True)
                process.wait(60)
            assert process.returncode == 0, self.log.read_text()[-3000:]

    def send(self, number: int, *, back: bool = False, **prices: float) -> None:
        """Sends an order, or, if ``back``, a return."""
        items = [{"name": name, "price": price} for name, price in prices.items()]
        self.topics.send(self.other if back else self.source, json.dumps({"id": number, "items": items}).encode())

    def until(self, comes: Callable[[dict[str, Any]], bool]) -> float:
        """Reads messages until one comes, and returns after how many seconds it does."""
        begun = time.monotonic()
        while time.monotonic() < begun + 60:
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.rows.append(json.loads(message.value() or b""))
                if comes(self.rows[-1]):
                    return time.monotonic() - begun
        raise AssertionError(self.rows)


@pytest.fixture
def live(kafka_broker: Broker, tmp_path: Path) -> Live:
    return Live(kafka_broker, tmp_path)


def test_rows_go_from_topic_to_topic_within_an_epoch_and_on_after_a_stop(live: Live):
    def sent(number: int) -> float:
        live.send(number, pen=1.5, clip=0.5)
        return live.until(lambda row: row["id"] == number)

    with live.running(_COPY) as asked:
        sent(0)  # once the query runs
        waits = sorted(sent(number) for number in range(1, 20))
        assert waits[10] < 1 < _EPOCH_S  # no row waits for the end of an epoch
        deadline = time.monotonic() + 30
        while json.loads(asked("progress"))[0] < 20:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        rows_in, rows_out, latency = json.loads(asked("progress"))
        assert (rows_in, rows_out) == (20, 20)
        assert 0 <= latency[0] <= latency[1] <= latency[2]
        assert asked("drain") == 'SS369: job "live" runs in real time, where STOP WITH DRAIN is not executed'
    with live.running(_COPY):
        sent(20)
    found = {(row["id"], row["name"], row["price"]) for row in live.rows}
    assert sorted(found) == [(number, "PEN", 3.0) for number in range(21)]


def test_results_of_groups_replace_each_other_at_once_and_are_kept(live: Live):
    with live.running(_SUM):
        for number in range(1, 6):
            live.send(number, pen=1.5, clip=0.5)
            live.until(lambda row: row == {"name": "pen", "n": number, "total": number * 1.5})  # noqa: B023
    with live.running(_SUM):
        live.send(6, pen=1.5)
        live.until(lambda row: row == {"name": "pen", "n": 6, "total": 9.0})


def test_rows_of_two_topics_are_united_and_go_on_after_a_stop(live: Live):
    def sent(number: int) -> None:
        live.send(number, back=number % 2 == 0, pen=1.5, clip=0.5)
        live.until(lambda row: row["id"] == number)

    with live.running(_UNITED):
        for number in range(1, 6):
            sent(number)
    with live.running(_UNITED):
        sent(6)
        sent(7)
    found = {(row["id"], row["name"], row["price"]) for row in live.rows}
    assert sorted(found) == [(number, "pen", 1.5 if number % 2 else -1.5) for number in range(1, 8)]


def test_distinct_rows_are_written_at_once_and_known_after_a_stop(live: Live):
    def sent(number: int, name: str, *, back: bool = False) -> None:
        live.send(number, back=back, pen=1.5, **{name: 0.5})
        live.until(lambda row: row == {"name": name})

    with live.running(_DISTINCT) as asked:
        sent(1, "clip")
        sent(2, "ink", back=True)
        deadline = time.monotonic() + 30
        while json.loads(asked("progress"))[0] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    with live.running(_DISTINCT):
        sent(3, "cap")
    assert sorted(row["name"] for row in live.rows) == ["cap", "clip", "ink", "pen"]
