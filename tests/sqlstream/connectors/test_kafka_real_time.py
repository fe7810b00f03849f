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
CREATE TABLE lines (id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP(3))
    WITH ('connector' = 'kafka', {topic}, 'topic' = '{target}', 'format' = 'json', 'key.fields' = 'id');
CREATE TABLE totals (name STRING PRIMARY KEY NOT ENFORCED, n BIGINT, total DECIMAL(20, 2))
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


class Live:
    """Two topics, and a job in its own process that reads the one and writes the other."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.topics = Topics(broker)
        self.source, self.target, self.log = self.topics.create(), self.topics.create(), folder / "log"
        self.rows: list[dict[str, Any]] = []
        reader = {"bootstrap.servers": broker.address, "group.id": self.target, "auto.offset.reset": "earliest"}
        self._consumer = Consumer(reader)
        self._consumer.subscribe([self.target])
        topic = f"'kafka.client' = 'spark', 'properties.bootstrap.servers' = '{broker.address}'"
        names = {"source": self.source, "target": self.target}
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

    def send(self, number: int, **prices: float) -> None:
        items = [{"name": name, "price": price} for name, price in prices.items()]
        self.topics.send(self.source, json.dumps({"id": number, "items": items}).encode())

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
