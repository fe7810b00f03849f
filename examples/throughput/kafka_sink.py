"""Messages a second that a job writes to Kafka, by guarantee: ``python -m examples.throughput.kafka_sink``.

Bids in Parquet files, one a micro-batch, go as JSON with a key to a topic of a broker on the same machine. Figures
leave the first half of the micro-batches out. Beside them, as a floor, the bare client: one process that produces the
same messages, encoded before.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.bids import write_bids
from examples.throughput.measure import Batches, Watch
from examples.throughput.windows import steady
from sqlstream.jobs import Job
from sqlstream.testing.kafka_broker import running_broker

GUARANTEES = ("at-least-once", "exactly-once", "none")

_TABLES = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1');
CREATE TABLE topic (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3)) WITH ('connector' = 'kafka',
    'topic' = '{guarantee}', 'properties.bootstrap.servers' = '{address}', 'key.format' = 'json',
    'key.fields' = 'auction', 'value.format' = 'json', 'properties.compression.type' = '{compression}',
    'sink.delivery-guarantee' = '{guarantee}'{more}, 'topic.create' = 'true', 'topic.partitions' = '2');
"""


def written(folder: Path, address: str, guarantee: str, compression: str) -> Batches:
    """What a job reports that copies the bids to a topic."""
    more = ", 'sink.transactional-id-prefix' = 'bench'" if guarantee == "exactly-once" else ""
    with sqlstream.connect() as session:
        options = {"guarantee": guarantee, "compression": compression, "more": more}
        session.sql(_TABLES.format(folder=folder, address=address, **options))
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql("INSERT INTO topic SELECT * FROM bids")
            assert isinstance(job, Job)
            job.wait()
        return watch.batches()


def bare(folder: Path, address: str, compression: str) -> float:
    """Messages a second of one process with the client alone."""
    rows = pq.read_table(next(folder.glob("*.parquet"))).to_pylist()
    messages = [(json.dumps({"auction": r["auction"]}).encode(), json.dumps(r, default=str).encode()) for r in rows]
    producer = Producer({
        "bootstrap.servers": address, "enable.idempotence": True, "compression.type": compression,
        "queue.buffering.max.messages": len(messages),
    })  # fmt: skip
    started = time.perf_counter()
    for key, value in messages:
        producer.produce("bare", value, key)
    producer.flush()
    return len(messages) / (time.perf_counter() - started)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="of a micro-batch")
    parser.add_argument("--files", type=int, default=8, help="micro-batches")
    parser.add_argument("--compression", default="none", help="of messages, as Kafka names it")
    chosen = parser.parse_args(arguments)
    table = Table("guarantee", "messages/s", "µs of processor a message", "MB of all processes")
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as scratch:
        folder = Path(scratch) / "bids"
        write_bids(folder, chosen.files, chosen.rows, 10_000)
        with running_broker(Path(scratch) / "broker") as broker:
            for guarantee in GUARANTEES:
                result = steady(written(folder, broker.address, guarantee, chosen.compression))
                numbers = (f"{result.rows_per_second:,.0f}", f"{result.processor_us:.2f}", str(result.peak_mb))
                table.add_row(guarantee, *numbers)
                print(f"{guarantee}: {numbers[0]} messages/s", file=sys.stderr, flush=True)
            table.add_row(
                "bare client, one process", f"{bare(folder, broker.address, chosen.compression):,.0f}", "", ""
            )
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
