"""How long a message takes from one topic of Kafka to another, at a steady rate: ``make bench-kafka-latency``.

``python -m examples.throughput.kafka_latency [--rates 1000 20000] [--seconds 30] [--latency low]``. The broker, the
producer, the job and the reader of its results share the machine. Times are from the timestamp of a message to the
clock of the reader, for each message: its row (stateless), the change that counts it (GROUP BY). A window of one second
(TUMBLE) is measured from its end, when the next message is created. ``real-time`` is Spark's real-time mode with its
own connector, whose jar is fetched from Maven's repository; it has no windows that close.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.kafka import PACKAGES
from sqlstream.jobs import Job
from sqlstream.testing.kafka_broker import running_broker

KEYS = 100
WARM_UP_S = 15.0
_PER_SECOND = 100
_ONE = {"stateless": "stateless", "GROUP BY": "changes", "TUMBLE 1 s": "windows"}
"""For each query the topic of its results."""

_TABLES = """
SET 'execution.latency' = '{latency}';
SET 'execution.runtime-mode' = 'streaming';
SET 'parallelism.default' = '1';
CREATE TABLE events (k BIGINT, ms BIGINT, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, WATERMARK FOR at AS at)
WITH ('connector' = 'kafka', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset', {of});
CREATE TABLE stateless (k BIGINT, ms BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'stateless', 'format' = 'json', {of});
CREATE TABLE changes (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
    'topic' = 'changes', 'key.format' = 'json', 'value.format' = 'json', {of});
CREATE TABLE windows (k BIGINT, ms BIGINT, n BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'windows', 'format' = 'json', {of});
"""
QUERIES = {
    "stateless": "INSERT INTO stateless SELECT k, ms FROM events WHERE k >= 0",
    "GROUP BY": "INSERT INTO changes SELECT k, COUNT(*) FROM events GROUP BY k",
    "TUMBLE 1 s": """INSERT INTO windows SELECT k, UNIX_MILLIS(window_end), COUNT(*)
        FROM TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY k, window_start, window_end""",
}


def run_job(brokers: str, query: str, latency: str) -> None:
    """Runs the job of a query until standard input ends."""
    by_spark = latency == "real-time"
    of = f"'properties.bootstrap.servers' = '{brokers}'" + (", 'kafka.client' = 'spark'" if by_spark else "")
    options = {"spark.jars.packages": PACKAGES[0]} if by_spark else {}
    with sqlstream.connect(**options) as session:
        session.sql(_TABLES.format(latency=latency, of=of))
        job = session.sql(QUERIES[query])
        assert isinstance(job, Job)
        sys.stdin.read()
        job.stop()


@contextmanager
def running(brokers: str, query: str, latency: str) -> Iterator[None]:
    """The job of a query, in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, "--job", brokers, query, latency]
    with tempfile.TemporaryFile("w+") as said:
        job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said, text=True)
        try:
            yield
        finally:
            ended = job.poll() is not None
            if not ended:
                job.communicate("")
            if ended or job.returncode:
                said.seek(0)
                print(said.read()[-4000:], file=sys.stderr)


class Load:
    """Sends ``rate`` messages a second until it is stopped. Message i has key i % KEYS and is created at ``start`` +
    i / ``rate``.
    """

    def __init__(self, producer: Producer, rate: int) -> None:
        self._producer, self.rate, self.start = producer, rate, time.time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def created(self, numbers: np.ndarray) -> np.ndarray:
        """When the messages with these numbers were created, in seconds since 1970."""
        return self.start + numbers / self.rate

    def _run(self) -> None:
        sent, pieces = 0, 0
        while not self._over.wait(max(0.0, self.start + pieces / _PER_SECOND - time.time())):
            pieces += 1
            until = self.rate * pieces // _PER_SECOND
            for number in range(sent, until):
                send(self._producer, number % KEYS, int((self.start + number / self.rate) * 1000))
            self._producer.poll(0)
            sent = until

    def stop(self) -> None:
        """Sends no more."""
        self._over.set()
        self._thread.join()
        self._producer.flush()


def send(producer: Producer, key: int, ms: int) -> None:
    """One message, created at ``ms`` milliseconds since 1970."""
    producer.produce("events", b'{"k":%d,"ms":%d}' % (key, ms), timestamp=ms)


def latencies_ms(brokers: str, query: str, latency: str, rate: int, seconds: float) -> np.ndarray:
    """The milliseconds of each message, or window, that came after the warm-up."""
    _make_topics(brokers)
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reader", "fetch.wait.max.ms": 5})
    consumer.assign([TopicPartition(_ONE[query], 0, 0)])
    taken: list[np.ndarray] = []
    counted = np.zeros(KEYS, np.int64)
    with running(brokers, query, latency):
        _wait_for_first(producer, consumer, windows=query.startswith("TUMBLE"))
        load = Load(producer, rate)
        until = load.start + WARM_UP_S + seconds
        while (now := time.time()) < until:
            come = [m for m in consumer.consume(10_000, 0.005) if m.error() is None and m.value() is not None]
            arrived = time.time()
            found = [since for message in come for since in _created(query, message, load, counted)]
            if found and now > load.start + WARM_UP_S:
                taken.append((arrived - np.array(found)) * 1000)
        load.stop()
    consumer.close()
    return np.concatenate(taken) if taken else np.zeros(0)


def _make_topics(brokers: str) -> None:
    admin, names = AdminClient({"bootstrap.servers": brokers}), ("events", *_ONE.values())
    there = [name for name in admin.list_topics(timeout=10).topics if name in names]
    if there:
        for answer in admin.delete_topics(there).values():
            answer.result()
        time.sleep(2)
    for answer in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        answer.result()


def _wait_for_first(producer: Producer, consumer: Consumer, *, windows: bool) -> None:
    """Sends a message of key 0, and for windows one that closes its window, until a result is there."""
    send(producer, 0, int(time.time() * 1000))
    until = time.time() + 120
    while not any(message.error() is None for message in consumer.consume(1, 1.0)):
        if time.time() > until:
            raise SystemExit("the job has written nothing in two minutes")
        if windows:
            send(producer, 0, int(time.time() * 1000))
        producer.flush()


def _created(query: str, message: Message, load: Load, counted: np.ndarray) -> Sequence[float]:
    """When what the result is the first to tell was created, in seconds since 1970; nothing for results of before."""
    row = json.loads(message.value() or b"{}")
    if query == "GROUP BY":
        n = row["n"] - (row["k"] == 0)  # the first one
        before, counted[row["k"]] = counted[row["k"]], max(n, counted[row["k"]])
        return list(load.created(row["k"] + np.arange(before, n) * KEYS))
    since = row["ms"] / 1000
    return [since] if since > load.start else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 20_000], help="messages a second")
    parser.add_argument("--latency", nargs="+", choices=["normal", "low", "real-time"], default=["normal", "low"])
    parser.add_argument("--query", nargs="+", choices=[*QUERIES], default=[*QUERIES])
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.job:
        run_job(*chosen.job)
        return 0
    title = f"Kafka to Kafka, {chosen.seconds:.0f} s each; load of the machine {os.getloadavg()[0]:.1f}"
    table = Table("query", "latency", "messages/s", "p50, ms", "p95, ms", "p99, ms", "measured", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as scratch, running_broker(Path(scratch)) as broker:
        for query in chosen.query:
            for latency in chosen.latency:
                if latency == "real-time" and query.startswith("TUMBLE"):
                    continue
                for rate in chosen.rates:
                    taken = latencies_ms(broker.address, query, latency, rate, chosen.seconds)
                    parts = [f"{np.percentile(taken, p):,.0f}" if len(taken) else "–" for p in (50, 95, 99)]
                    table.add_row(query, latency, f"{rate:,}", *parts, f"{len(taken):,}")
                    print(query, latency, rate, *parts, len(taken), file=sys.stderr, flush=True)
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
