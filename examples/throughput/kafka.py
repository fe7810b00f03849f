"""Messages of Kafka a second: queries over bids, beside a bare client and Spark's connector, broker on this machine.

``python -m examples.throughput.kafka``; ``make bench-kafka``. Bids of seven columns as in Nexmark, about 200 bytes of
CSV and 240 of JSON, in two partitions. Jobs read what is there in micro-batches of an eighth of it, into
``blackhole``; their figures leave the first half of the micro-batches out. The bare client is ``confluent-kafka``,
one process for each partition, which counts messages and looks into none. Spark reads with its own connector,
``from_json`` or ``from_csv``, and its own operators; its jar is fetched from Maven's repository.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.formats import DDL, QUERIES, texts
from examples.throughput.measure import Batches, Watch
from examples.throughput.queries import ours
from examples.throughput.windows import steady
from sqlstream.testing.kafka_broker import running_broker

PARTITIONS = 2
_MICRO_BATCHES = 8
_AT_ONCE = 250_000
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The newest that Maven has."""
_SHOWN = {"TUMBLE": "TUMBLE by bidder", "GROUP BY": "GROUP BY bidder"}
_TABLE = """CREATE TABLE bids ({ddl}, WATERMARK FOR at AS at - INTERVAL '4' SECOND) WITH ('connector' = 'kafka',
    'topic' = '{form}', 'properties.bootstrap.servers' = '{brokers}', 'format' = '{form}',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
    'source.max-rows-per-trigger' = '{most}')"""


def fill(brokers: str, form: str, messages: int) -> float:
    """Makes the topic of a format and sends bids to its partitions in turns. Returns messages per second."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for answer in admin.create_topics([NewTopic(form, PARTITIONS, 1)]).values():
        answer.result()
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    seconds = 0.0
    for number in range(-(-messages // _AT_ONCE)):
        lines = texts(form, number, min(_AT_ONCE, messages - number * _AT_ONCE)).splitlines()
        begin = time.perf_counter()
        for at, line in enumerate(lines):
            producer.produce(form, line, partition=at % PARTITIONS)
            if at % 10_000 == 0:
                producer.poll(0)
        producer.flush()
        seconds += time.perf_counter() - begin
    return messages / seconds


# --- what is measured, each in a process of its own -------------------------------------------------------------


def count(brokers: str, topic: str, partition: int) -> tuple[int, float, float]:
    """How many messages a bare client finds in a partition, and when it had the first and the last of them."""
    consumer = Consumer({
        "bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    total, first = 0, 0.0
    while True:
        messages = consumer.consume(10_000, 1.0)
        first = first or (time.time() if messages else 0.0)
        error = messages[-1].error() if messages else None
        total += len(messages) - (error is not None)
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return total, first, time.time()


def job(brokers: str, form: str, query: str, messages: int) -> Batches:
    """What a job reports that runs the query into ``blackhole``."""
    table = _TABLE.format(ddl=DDL, form=form, brokers=brokers, most=-(-messages // _MICRO_BATCHES))
    columns, text = QUERIES[query]
    return ours([table], columns, text)


def spark_job(brokers: str, form: str, query: str, messages: int) -> Batches:
    """What Spark reports of the query, as one writes it for PySpark."""
    from pyspark.sql import functions as F

    options = {"spark.jars.packages": _CONNECTOR}
    with sqlstream.connect(**options) as session, tempfile.TemporaryDirectory() as checkpoint:
        read = session.spark.readStream.format("kafka").option("subscribe", form).option("startingOffsets", "earliest")
        read = read.option("kafka.bootstrap.servers", brokers)
        read = read.option("maxOffsetsPerTrigger", -(-messages // _MICRO_BATCHES))
        parse = F.from_json if form == "json" else F.from_csv
        bids = read.load().select(parse(F.col("value").cast("string"), DDL).alias("bid")).select("bid.*")
        result: Any
        match query:
            case "q0":
                result, mode = bids, "append"
            case "q2":
                result, mode = bids.where("auction % 123 = 0").select("auction", "price"), "append"
            case "TUMBLE":
                windows = bids.withWatermark("at", "4 seconds").groupBy("bidder", F.window("at", "10 seconds"))
                result, mode = windows.agg(F.count("*"), F.sum("price")), "append"
            case _:
                result, mode = bids.groupBy("bidder").count(), "update"
        watch = Watch(session.spark, None)
        with watch.watching():
            writer = result.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
            writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return watch.batches()


def _measured(words: Sequence[str]) -> str:
    kind, brokers, form, last, *more = words
    if kind == "bare":
        return json.dumps(count(brokers, form, int(last)))
    run = job if kind == "ours" else spark_job
    return json.dumps(asdict(run(brokers, form, last, int(more[0]))))


def _started(*words: str) -> subprocess.Popen[str]:
    print(" ".join(words), "…", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", __spec__.name, "--measure", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _answer(process: subprocess.Popen[str]) -> Any:
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"a measurement failed:\n{errors}")
    return json.loads(out.splitlines()[-1])


def bare(brokers: str, form: str) -> float:
    """Messages per second of bare clients, one process for each partition, while they all read."""
    started = [_started("bare", brokers, form, str(partition)) for partition in range(PARTITIONS)]
    totals, firsts, lasts = zip(*map(_answer, started), strict=True)
    return float(sum(totals) / (max(lasts) - min(firsts)))


# --- the table --------------------------------------------------------------------------------------------------


def measure(brokers: str, chosen: argparse.Namespace, console: Console) -> None:
    table = Table(title=f"{chosen.messages:,} messages in {PARTITIONS} partitions: messages per second, steady")
    for name in ("format", "query", "messages/s", "of the bare client", "Spark's connector", "ratio", "peak"):
        table.add_column(name, justify="left" if name in ("format", "query") else "right")
    for form in chosen.format or ("json", "csv"):
        sent = fill(brokers, form, chosen.messages)
        floor = max(bare(brokers, form) for _ in range(2))
        table.add_row(form, "a bare producer", f"{sent:,.0f}", "", "", "", "")
        table.add_row(form, "the bare client", f"{floor:,.0f}", "1.00", "", "", "")
        for query in chosen.query or [*QUERIES]:
            words = (brokers, form, query, str(chosen.messages))
            own = steady(Batches(**_answer(_started("ours", *words))))
            cells = [f"{own.rows_per_second:,.0f}", f"{own.rows_per_second / floor:.2f}"]
            if chosen.without_spark:
                cells += ["-", "-"]
            else:
                theirs = steady(Batches(**_answer(_started("spark", *words)))).rows_per_second
                cells += [f"{theirs:,.0f}", f"{own.rows_per_second / theirs:.1f}"]
            table.add_row(form, _SHOWN.get(query, query), *cells, f"{own.peak_mb:,} MB")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000, help="in each topic")
    parser.add_argument("--format", action="append", choices=["json", "csv"])
    parser.add_argument("--query", action="append", choices=[*QUERIES])
    parser.add_argument("--without-spark", action="store_true", help="do not fetch and measure Spark's connector")
    parser.add_argument("--measure", nargs="*", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(_measured(chosen.measure))
        return
    console = Console(width=140)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as name, running_broker(Path(name)) as broker:
        measure(broker.address, chosen, console)
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
