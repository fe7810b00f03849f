"""Updating results beside Spark's own aggregation of streams, as a table.

``make bench-sql``, or ``python -m examples.throughput.ordinary_sql [--rows 5000000] [--keys 10000] [--query NAME]``.
Bids are on random auctions. Each measurement runs in a process of its own, of which the first half is left out: it
starts workers and compiles. Both engines read the same Parquet files, write to nowhere and keep their state in RocksDB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.bids import write_bids
from examples.throughput.measure import MOST_BATCHES, Batches, Watch
from examples.throughput.windows import Steady, steady
from sqlstream.jobs import Job

_PER_AUCTION = "SELECT auction, COUNT(*) AS n, SUM(price) AS total, MAX(price) AS best FROM bids GROUP BY auction"
QUERIES = {
    "GROUP BY": _PER_AUCTION,
    "GROUP BY of GROUP BY": f"SELECT n, COUNT(*) AS auctions, SUM(total) AS total, MAX(best) AS best "
    f"FROM ({_PER_AUCTION}) GROUP BY n",
    "COUNT(DISTINCT)": "SELECT auction, COUNT(DISTINCT bidder), MIN(price), MAX(price) FROM bids GROUP BY auction",
}
ONLY_OURS = {"GROUP BY of GROUP BY", "COUNT(DISTINCT)"}
"""Spark has no aggregate over the changes of another one, and no DISTINCT in those of streams."""

ROWS_PER_SECOND = {"GROUP BY": 1_000_000}
"""What we want, at 10,000 keys."""

_BIDS = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1')
"""
_NOWHERE = "CREATE TABLE nowhere (k BIGINT, n BIGINT, total BIGINT, best BIGINT) WITH ('connector' = 'blackhole')"


def ours(query: str, folder: Path) -> Batches:
    with sqlstream.connect() as session:
        session.sql(f"SET 'spark.sql.streaming.numRecentProgressUpdates' = '{MOST_BATCHES}'")
        session.sql(_BIDS.format(folder=folder))
        session.sql(_NOWHERE)
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql(f"INSERT INTO nowhere {QUERIES[query]}")
            assert isinstance(job, Job)
            job.wait()
        return watch.batches()


def of_spark(query: str, folder: Path) -> Batches:
    """Spark's aggregation of streams in update mode, as one writes it for PySpark."""
    with sqlstream.connect() as session, tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as checkpoint:
        spark = session.spark
        schema = spark.read.parquet(str(folder)).schema
        bids = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
        bids.createOrReplaceTempView("bids")
        watch = Watch(spark, None)
        with watch.watching():
            writer = spark.sql(QUERIES[query]).writeStream.format("noop").outputMode("update")
            writer = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint)
            writer.start().awaitTermination()
        return watch.batches()


ENGINES = {"sqlstream": ours, "Spark": of_spark}


def measured(engine: str, query: str, folder: Path) -> Steady:
    command = [sys.executable, "-m", "examples.throughput.ordinary_sql", "--measure", engine, query, str(folder)]
    print(f"{query}, {engine} …", file=sys.stderr, flush=True)
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return steady(Batches(**json.loads(ran.stdout.splitlines()[-1])))


def compared(rows: int, keys: int, files: int, queries: list[str]) -> Table:
    title = f"{rows:,} rows, {keys:,} keys; the second half of {files} micro-batches"
    table = Table("query", "engine", "rows/s", "processor, µs/row", "wanted", "peak memory", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        write_bids(Path(made) / "bids", files, rows // files, keys)
        for query in queries:
            for engine in ENGINES if query not in ONLY_OURS else ["sqlstream"]:
                found = measured(engine, query, Path(made) / "bids")
                table.add_row(query, engine, *_row(query if engine == "sqlstream" else None, found))
    return table


def _row(query: str | None, figures: Steady) -> list[str]:
    rate, least = figures.rows_per_second, ROWS_PER_SECOND.get(query or "")
    wanted = "" if least is None else f"≥ {least:,} rows/s: {'holds' if rate >= least else 'missed'}"
    return [f"{rate:,.0f}", f"{figures.processor_us:.2f}", wanted, f"{figures.peak_mb:,} MB"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Updating results beside Spark's aggregation of streams.")
    parser.add_argument("--rows", type=int, default=5_000_000, help="(default: %(default)s)")
    parser.add_argument("--keys", type=int, nargs="*", default=[10_000, 1_000_000])
    parser.add_argument("--files", type=int, default=5, help="micro-batches, of one file each (default: %(default)s)")
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
        console.print(compared(chosen.rows, keys, chosen.files, chosen.query or [*QUERIES]), "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
