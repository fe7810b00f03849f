"""Joins of bids with auctions, and OVER, beside Spark's own join of streams, as a table.

``make bench-joins``, or ``python -m examples.throughput.stream_joins [--rows 10000000] [--keys 10000] [--query NAME]``.
Auctions open one after the other, and bids are for those of the last 20 seconds, as in Nexmark; OVER reads bids on
random auctions. Each measurement runs in a process of its own; the first half of its rows warms it up and is left out.
Both engines read the same Parquet files, write to nowhere and keep their state in RocksDB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.bids import BIDS_PER_SECOND, DISORDER_MS, SCHEMA, START_MS, write_bids
from examples.throughput.measure import MOST_BATCHES, Batches, Watch
from examples.throughput.windows import Steady, steady
from sqlstream.jobs import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 10
"""Micro-batches: one file of either table each."""
RECENT_S = 20
OPEN_S = 10

_BOUNDS = f"AND b.at BETWEEN a.at AND a.at + INTERVAL '{OPEN_S}' SECOND"
_JOIN = "SELECT b.auction, b.price, a.seller FROM bids AS b JOIN auctions AS a ON b.auction = a.auction"
QUERIES = {
    "interval join": f"{_JOIN} {_BOUNDS}",
    "regular join": _JOIN,
    "OVER 100 rows": "SELECT auction, price, SUM(price) OVER (PARTITION BY auction ORDER BY at "
    "ROWS BETWEEN 99 PRECEDING AND CURRENT ROW) FROM bids",
}
TIMES_FASTER = {"interval join": 3.0}
ROWS_PER_SECOND = {"interval join": 500_000, "OVER 100 rows": 700_000}
"""What we want: so many times as fast as Spark, and so many rows of input."""

AUCTIONS = pa.schema([("auction", pa.int64()), ("seller", pa.int64()), ("at", pa.timestamp("us", "UTC"))])

_TABLE = """
CREATE TABLE {name} (auction BIGINT, {columns}, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = 'parquet',
    'source.max-files-per-trigger' = '1')
"""


def write_auctions(folder: Path, rows: int, keys: int) -> None:
    """Files of bids and of as many auctions as ``keys``, ``rows`` together, over the same time."""
    random = np.random.default_rng(42)
    bids, auctions = (rows - keys) // FILES, keys // FILES
    per_ms = auctions * BIDS_PER_SECOND / bids / 1000
    (folder / "bids").mkdir(parents=True)
    (folder / "auctions").mkdir()
    for number in range(FILES):
        elapsed = (number * bids + np.arange(bids)) * 1000 // BIDS_PER_SECOND
        newest = np.minimum((elapsed * per_ms).astype(np.int64), keys - 1)
        recent = random.integers(0, max(int(RECENT_S * 1000 * per_ms), 1), bids)
        at = START_MS + elapsed - random.integers(0, DISORDER_MS, bids)
        columns = [np.maximum(newest - recent, 0), random.integers(0, 10_000, bids), random.integers(1, 100_000, bids)]
        _write(folder / "bids", number, SCHEMA, [*columns, at * 1000])
        opened = number * auctions + np.arange(auctions)
        at = START_MS + (opened / per_ms).astype(np.int64)
        _write(folder / "auctions", number, AUCTIONS, [opened, random.integers(0, 10_000, auctions), at * 1000])


def _write(folder: Path, number: int, schema: pa.Schema, columns: list[np.ndarray]) -> None:
    arrays = [pa.array(c.astype(np.int64)).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    pq.write_table(pa.table(arrays, schema=schema), folder / f"{number:05}.parquet", row_group_size=1 << 17)


# --- one measurement --------------------------------------------------------------------------------------------


def ours(query: str, folder: Path) -> Batches:
    with sqlstream.connect() as session:
        session.sql(f"SET 'spark.sql.streaming.numRecentProgressUpdates' = '{MOST_BATCHES}'")
        session.sql(_TABLE.format(name="bids", columns="bidder BIGINT, price BIGINT", folder=folder))
        session.sql(_TABLE.format(name="auctions", columns="seller BIGINT", folder=folder))
        session.sql(
            "CREATE TABLE nowhere (auction BIGINT, price BIGINT, found BIGINT) WITH ('connector' = 'blackhole')"
        )
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql(f"INSERT INTO nowhere {QUERIES[query]}")
            assert isinstance(job, Job)
            job.wait()
        return watch.batches()


def of_spark(query: str, folder: Path) -> Batches:
    """Spark's join of streams, as one writes it for PySpark."""
    with sqlstream.connect() as session, tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as checkpoint:
        spark = session.spark
        bids, auctions = (_stream(spark, folder / name) for name in ("bids", "auctions"))
        bids.createOrReplaceTempView("bids")
        auctions.createOrReplaceTempView("auctions")
        rows = spark.sql(QUERIES[query])
        watch = Watch(spark, None)
        with watch.watching():
            writer = rows.writeStream.format("noop").trigger(availableNow=True)
            writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return watch.batches()


def _stream(spark: SparkSession, folder: Path) -> DataFrame:
    schema = spark.read.parquet(str(folder)).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return rows.withWatermark("at", "4 seconds")


ENGINES = {"sqlstream": ours, "Spark": of_spark}


def measured(engine: str, query: str, folder: Path) -> Steady:
    command = [sys.executable, "-m", "examples.throughput.stream_joins", "--measure", engine, query, str(folder)]
    print(f"{query}, {engine} …", file=sys.stderr, flush=True)
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return steady(Batches(**json.loads(ran.stdout.splitlines()[-1])))


# --- the table --------------------------------------------------------------------------------------------------


def compared(rows: int, keys: int, queries: list[str]) -> Table:
    title = f"{rows:,} rows, {keys:,} keys; the second half of {FILES} micro-batches"
    table = Table("query", "engine", "rows/s", "processor, µs/row", "is", "wanted", "peak memory", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder = Path(made)
        write_auctions(folder / "joined", rows, keys)
        write_bids(folder / "alone" / "bids", FILES, rows // FILES, keys)
        for query in queries:
            over = query.startswith("OVER")
            engines = [name for name in ENGINES if not over or name != "Spark"]
            found = {name: measured(name, query, folder / ("alone" if over else "joined")) for name in engines}
            for name, figures in found.items():
                table.add_row(query, name, *_row(query, name, figures, found))
    return table


def _row(query: str, engine: str, figures: Steady, found: Mapping[str, Steady]) -> list[str]:
    ratio, wanted = "", ""
    rate, least = figures.rows_per_second, ROWS_PER_SECOND.get(query)
    if engine == "sqlstream" and least is not None:
        wanted = f"≥ {least:,} rows/s: {_holds(rate >= least)}"
    if engine == "Spark":
        times = found["sqlstream"].rows_per_second / rate
        ratio = f"{times:.1f} × slower"
        most = TIMES_FASTER.get(query)
        wanted = f"≥ {most:g} ×: {_holds(times >= most)}" if most is not None else ""
    return [f"{rate:,.0f}", f"{figures.processor_us:.2f}", ratio, wanted, f"{figures.peak_mb:,} MB"]


def _holds(does: bool) -> str:
    return "holds" if does else "missed"


def main() -> None:
    parser = argparse.ArgumentParser(description="Joins of streams and OVER, beside Spark's join.")
    parser.add_argument(
        "--rows", type=int, default=10_000_000, help="of both tables, warm-up included (default: %(default)s)"
    )
    parser.add_argument("--keys", type=int, nargs="*", default=[10_000, 1_000_000])
    parser.add_argument("--query", action="append", choices=[*QUERIES], help="only this one; may be repeated")
    parser.add_argument("--measure", nargs=3, metavar=("ENGINE", "QUERY", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        engine, query, folder = chosen.measure
        print(json.dumps(asdict(ENGINES[engine](query, Path(folder)))))
        return
    console = Console(width=160)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    for keys in chosen.keys:
        console.print(compared(chosen.rows, keys, chosen.query or [*QUERIES]), "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
