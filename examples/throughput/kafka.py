"""Messages of Kafka a second: queries over bids, beside a bare client and Spark's connector, broker on this machine.

``python -m examples.throughput.kafka``; ``make bench-kafka``. Bids of seven columns as in Nexmark, about 200 bytes of
CSV, 240 of JSON and 150 of Avro and protobuf, in two partitions. Jobs read what is there in micro-batches of an eighth
of it, into ``blackhole``; their figures leave the first half of the micro-batches out. The bare client is
``confluent-kafka``, one process for each partition, which counts messages and looks into none. Spark reads with its own
connector, ``from_json``, ``from_csv`` or ``from_avro``, and its own operators; their jars are fetched from Maven's
repository. With ``--flink`` Flink runs beside: its messages per second are of the whole statement. All formats and
queries take half an hour with the usual number of messages; the table of each format is printed when it is ready
(``--messages 400000 --format json --query q0`` for a first look).
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

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput import kafka_flink
from examples.throughput.formats import COLUMNS, DDL, QUERIES, bids, texts
from examples.throughput.measure import Batches, Watch
from examples.throughput.queries import ours
from examples.throughput.windows import steady
from sqlstream.connectors.schema_formats import avro_text
from sqlstream.formats.avro_encoder import AvroEncoder
from sqlstream.formats.protobuf import ProtoType
from sqlstream.formats.protobuf_encoder import ProtobufEncoder, proto_of_columns
from sqlstream.planner.catalog import Column
from sqlstream.testing.kafka_broker import running_broker
from sqlstream.types import DataType

FORMATS = ("json", "csv", "avro", "protobuf")
PARTITIONS = 2
_MICRO_BATCHES = 8
_AT_ONCE = 250_000
PACKAGES = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", "org.apache.spark:spark-avro_2.13:4.2.0")
"""The newest that Maven has."""
_BY_SPARK = ("json", "csv", "avro")
"""The formats that Spark reads by functions of these packages."""
_TYPES = [(name, DataType(kind)) for name, kind in COLUMNS.items()]
_AVRO = avro_text(Column(name, kind) for name, kind in _TYPES)
_PROTO = proto_of_columns(_TYPES)
_MESSAGE = "Record"
_SHOWN = {"TUMBLE": "TUMBLE by bidder", "GROUP BY": "GROUP BY bidder"}
_TABLE = """CREATE TABLE bids ({ddl}, WATERMARK FOR at AS at - INTERVAL '4' SECOND) WITH ('connector' = 'kafka',
    'topic' = '{form}', 'properties.bootstrap.servers' = '{brokers}', 'format' = '{form}',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
    'source.max-rows-per-trigger' = '{most}'{more})"""
_MORE = {"protobuf": f", 'protobuf.schema' = '{_PROTO}', 'protobuf.message-class-name' = '{_MESSAGE}'"}


def values(form: str, number: int, rows: int) -> list[bytes]:
    """The values of ``rows`` messages in a format, of which those of each ``number`` differ."""
    if form in ("json", "csv"):
        return texts(form, number, rows).splitlines()
    table = bids(pa.BufferReader(texts("csv", number, rows)), [*COLUMNS])
    at = pc.assume_timezone(table.column("at"), "UTC")
    table = table.set_column(table.column_names.index("at"), "at", at)
    encoder = AvroEncoder(_AVRO) if form == "avro" else ProtobufEncoder(ProtoType(_PROTO, _MESSAGE))
    return [value for batch in table.to_batches() for value in encoder.encoded(batch).to_pylist()]


def fill(brokers: str, form: str, messages: int) -> float:
    """Makes the topic of a format and sends bids to its partitions in turns. Returns messages per second."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for answer in admin.create_topics([NewTopic(form, PARTITIONS, 1)]).values():
        answer.result()
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    seconds = 0.0
    for number in range(-(-messages // _AT_ONCE)):
        encoded = values(form, number, min(_AT_ONCE, messages - number * _AT_ONCE))
        begin = time.perf_counter()
        for at, value in enumerate(encoded):
            producer.produce(form, value, partition=at % PARTITIONS)
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
        "fetch.queue.backoff.ms": 10,
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
    most, more = -(-messages // _MICRO_BATCHES), _MORE.get(form, "")
    table = _TABLE.format(ddl=DDL, form=form, brokers=brokers, most=most, more=more)
    columns, text = QUERIES[query]
    return ours(["SET 'execution.runtime-mode' = 'streaming'", table], columns, text)


def spark_job(brokers: str, form: str, query: str, messages: int) -> Batches:
    """What Spark reports of the query, as one writes it for PySpark."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    options = {"spark.jars.packages": ",".join(PACKAGES)}
    with sqlstream.connect(**options) as session, tempfile.TemporaryDirectory() as checkpoint:
        read = session.spark.readStream.format("kafka").option("subscribe", form).option("startingOffsets", "earliest")
        read = read.option("kafka.bootstrap.servers", brokers)
        read = read.option("maxOffsetsPerTrigger", -(-messages // _MICRO_BATCHES))
        text = F.col("value").cast("string")
        match form:
            case "json":
                bid = F.from_json(text, DDL)
            case "csv":
                bid = F.from_csv(text, DDL)
            case _:
                bid = from_avro("value", _AVRO)
        given = read.load().select(bid.alias("bid")).select("bid.*")
        result: Any
        match query:
            case "q0":
                result, mode = given, "append"
            case "q2":
                result, mode = given.where("auction % 123 = 0").select("auction", "price"), "append"
            case "TUMBLE":
                windows = given.withWatermark("at", "4 seconds").groupBy("bidder", F.window("at", "10 seconds"))
                result, mode = windows.agg(F.count("*"), F.sum("price")), "append"
            case _:
                result, mode = given.groupBy("bidder").count(), "update"
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
    """Prints a table for each format, as soon as it is measured."""
    for form in chosen.format or FORMATS:
        table = Table(title=f"{chosen.messages:,} messages in {PARTITIONS} partitions: messages per second, steady")
        for name in (
            "format",
            "query",
            "messages/s",
            "of the bare client",
            "Spark's connector",
            "ratio",
            "Flink",
            "peak",
        ):
            table.add_column(name, justify="left" if name in ("format", "query") else "right")
        sent = fill(brokers, form, chosen.messages)
        floor = max(bare(brokers, form) for _ in range(2))
        table.add_row(form, "a bare producer", f"{sent:,.0f}", "", "", "", "", "")
        table.add_row(form, "the bare client", f"{floor:,.0f}", "1.00", "", "", "", "")
        for query in chosen.query or [*QUERIES]:
            words = (brokers, form, query, str(chosen.messages))
            own = steady(Batches(**_answer(_started("ours", *words))))
            cells = [f"{own.rows_per_second:,.0f}", f"{own.rows_per_second / floor:.2f}"]
            if chosen.without_spark or form not in _BY_SPARK:
                cells += ["-", "-"]
            else:
                theirs = steady(Batches(**_answer(_started("spark", *words)))).rows_per_second
                cells += [f"{theirs:,.0f}", f"{own.rows_per_second / theirs:.1f}"]
            cells.append(flink_cell(brokers, form, query, chosen) if chosen.flink else "-")
            print(form, query, *cells, file=sys.stderr, flush=True)
            table.add_row(form, _SHOWN.get(query, query), *cells, f"{own.peak_mb:,} MB")
        console.print(table)


def flink_cell(brokers: str, form: str, query: str, chosen: argparse.Namespace) -> str:
    figures = kafka_flink.REFUSED.get(form) or kafka_flink.on_flink(
        kafka_flink.with_kafka(chosen.home.resolve()), brokers, form, QUERIES[query][1]
    )
    rate = kafka_flink.rows_per_second(chosen.messages, figures)
    return "-" if rate is None else f"{rate:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000, help="in each topic")
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--query", action="append", choices=[*QUERIES])
    parser.add_argument("--without-spark", action="store_true", help="do not fetch and measure Spark's connector")
    parser.add_argument("--flink", action="store_true", help="measure Flink, too; it reads json and csv")
    parser.add_argument("--home", type=Path, default=Path(".flink"), help="where Flink is installed (default: .flink)")
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
