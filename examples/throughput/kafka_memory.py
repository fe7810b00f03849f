"""Memory of jobs that read Kafka, by the number of partitions and the size of messages, broker on this machine.

``make bench-kafka-memory``, or ``python -m examples.throughput.kafka_memory [--gb 1] [--partitions 2 32 256] [--bytes
10000 1000000]``. Each topic holds as many bytes of JSON, of a key and a text, whatever its messages are; those of
200 bytes are in topics of every number of partitions, larger ones in eight. Jobs read what is there into ``blackhole``
with the defaults: a filter without state, and the greatest text of each of 100 keys. Memory is the largest that was
seen, five times a second, of Java and of all processes of the job, where what they share counts once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.processes import memory, usage
from sqlstream.jobs import Job
from sqlstream.testing.kafka_broker import running_broker

QUERIES = {
    "filter": "SELECT k, text FROM messages WHERE k % 10 = 0",
    "greatest": "SELECT k, MAX(text) AS text FROM messages GROUP BY k",
}
_SMALL, _PARTITIONS_OF_LARGE, _KEYS = 200, 8, 100
_LARGEST = 64 << 20
_TABLE = """CREATE TABLE messages (k INT, text STRING) WITH ('connector' = 'kafka', 'topic' = '{topic}',
    'properties.bootstrap.servers' = '{brokers}', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
    'scan.bounded.mode' = 'latest-offset')"""


@dataclass
class Run:
    """What one job took: ``java_mb`` and ``all_mb`` are peaks."""

    rows: int
    seconds: float
    micro_batches: int
    java_mb: int
    all_mb: int


def values(size: int) -> Iterator[bytes]:
    """JSON of about ``size`` bytes, without end."""
    filling = "x" * max(size - 40, 1)
    number = 0
    while True:
        yield b'{"k": %d, "text": "%d %s"}' % (number % _KEYS, number, filling.encode())
        number += 1


def fill(brokers: str, topic: str, partitions: int, size: int, total: int) -> None:
    """Makes a topic with ``total`` bytes of messages of ``size`` bytes, to each partition in turns."""
    admin = AdminClient({"bootstrap.servers": brokers})
    config = {"max.message.bytes": str(_LARGEST)}
    for answer in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        answer.result()
    settings = {"linger.ms": 50, "queue.buffering.max.kbytes": 262_144, "message.max.bytes": _LARGEST}
    producer = Producer({"bootstrap.servers": brokers, **settings})
    for number, value in zip(range(total // size), values(size), strict=False):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def measured(brokers: str, topic: str, query: str) -> Run:
    over, peaks = threading.Event(), [0, 0]

    def look() -> None:
        while not over.wait(0.2):
            peaks[:] = max(peaks[0], memory().java), max(peaks[1], usage().resident_mb)

    with sqlstream.connect() as session:
        session.sql("SET 'execution.runtime-mode' = 'streaming'")
        session.sql(_TABLE.format(topic=topic, brokers=brokers))
        session.sql("CREATE TABLE nowhere (k INT, text STRING) WITH ('connector' = 'blackhole')")
        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        job = session.sql(f"INSERT INTO nowhere {QUERIES[query]}")
        assert isinstance(job, Job)
        job.wait()
        progress = job.progress()
        over.set()
        watching.join()
    return Run(progress.rows_in, progress.busy_ms / 1000, progress.batches, *peaks)


def _apart(*words: str) -> Run:
    """Measured in a process of its own."""
    print(" ".join(words), "…", file=sys.stderr, flush=True)
    ran = subprocess.run([sys.executable, "-m", __spec__.name, "--measure", *words], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{ran.stderr}")
    return Run(**json.loads(ran.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory of jobs that read Kafka, by partitions and size of messages.")
    parser.add_argument("--gb", type=float, default=1.0, help="of each topic")
    parser.add_argument("--partitions", type=int, nargs="*", default=[2, 32, 256], help=f"of {_SMALL} bytes")
    parser.add_argument("--bytes", type=int, nargs="*", default=[10_000, 1_000_000], help="of larger messages")
    parser.add_argument("--query", action="append", choices=[*QUERIES])
    parser.add_argument("--measure", nargs="*", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(asdict(measured(*chosen.measure))))
        return
    console = Console(width=140)
    table = Table(title=f"{chosen.gb:g} GB of JSON in each topic, into blackhole")
    names = ("bytes of a message", "partitions", "query", "micro-batches", "messages/s", "MB/s", "Java", "all")
    for name in names:
        table.add_column(name, justify="left" if name == "query" else "right")
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    topics = [(_SMALL, partitions) for partitions in chosen.partitions]
    topics += [(size, _PARTITIONS_OF_LARGE) for size in chosen.bytes]
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as name, running_broker(Path(name)) as broker:
        for size, partitions in topics:
            topic = f"of-{size}-in-{partitions}"
            fill(broker.address, topic, partitions, size, int(chosen.gb * 1e9))
            for query in chosen.query or QUERIES:
                run = _apart(broker.address, topic, query)
                rates = f"{run.rows / run.seconds:,.0f}", f"{run.rows * size / run.seconds / 1e6:,.0f}"
                table.add_row(
                    f"{size:,}", f"{partitions}", query, f"{run.micro_batches}", *rates, f"{run.java_mb:,} MB",
                    f"{run.all_mb:,} MB",
                )  # fmt: skip
    console.print(table, f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
