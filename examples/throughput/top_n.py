"""The last row and the ten best rows of each key, as a table.

``make bench-top-n``, or ``python -m examples.throughput.top_n [--rows 5000000] [--keys 10000] [--query NAME]``. Bids
are on random auctions. Each measurement runs in a process of its own, of which the first half is left out: it starts
workers and compiles. Rows are read from Parquet files and written to nowhere, the state is in RocksDB.
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

FILES = 5
"""Micro-batches: one file each."""

_KEYS = "OVER (PARTITION BY auction ORDER BY"
_TEN = f"(SELECT *, ROW_NUMBER() {_KEYS} price DESC) AS rn FROM bids) AS b WHERE rn <= 10"
QUERIES = {
    "first row": f"SELECT auction, price, bidder FROM bids QUALIFY ROW_NUMBER() {_KEYS} at) = 1",
    "last row": f"SELECT auction, price, bidder FROM bids QUALIFY ROW_NUMBER() {_KEYS} at DESC) = 1",
    "best 10": f"SELECT auction, price, bidder FROM {_TEN}",
    "best 10, numbered": f"SELECT auction, price, rn FROM {_TEN}",
}
ROWS_PER_SECOND = {"last row": 1_000_000, "best 10": 700_000}
"""What we want on two cores."""

_TABLE = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1')
"""


def measure(query: str, folder: Path) -> Batches:
    with sqlstream.connect() as session:
        session.sql(f"SET 'spark.sql.streaming.numRecentProgressUpdates' = '{MOST_BATCHES}'")
        session.sql(_TABLE.format(folder=folder))
        session.sql("CREATE TABLE nowhere (auction BIGINT, price BIGINT, more BIGINT) WITH ('connector' = 'blackhole')")
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql(f"INSERT INTO nowhere {QUERIES[query]}")
            assert isinstance(job, Job)
            job.wait()
        return watch.batches()


def measured(query: str, folder: Path) -> Steady:
    command = [sys.executable, "-m", "examples.throughput.top_n", "--measure", query, str(folder)]
    print(f"{query} …", file=sys.stderr, flush=True)
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return steady(Batches(**json.loads(ran.stdout.splitlines()[-1])))


def table_of(rows: int, keys: int, queries: list[str]) -> Table:
    title = f"{rows:,} rows, {keys:,} keys; the second half of {FILES} micro-batches"
    table = Table("query", "rows/s", "processor, µs/row", "wanted", "peak memory", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder = Path(made) / "bids"
        write_bids(folder, FILES, rows // FILES, keys)
        for query in queries:
            found, least = measured(query, folder), ROWS_PER_SECOND.get(query)
            does = "holds" if least is not None and found.rows_per_second >= least else "missed"
            wanted = f"≥ {least:,} rows/s: {does}" if least is not None else ""
            memory = f"{found.peak_mb:,} MB"
            table.add_row(query, f"{found.rows_per_second:,.0f}", f"{found.processor_us:.2f}", wanted, memory)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="The last row and the ten best rows of each key.")
    parser.add_argument("--rows", type=int, default=5_000_000, help="default: %(default)s")
    parser.add_argument("--keys", type=int, nargs="*", default=[10_000])
    parser.add_argument("--query", action="append", choices=[*QUERIES], help="only this one; may be repeated")
    parser.add_argument("--measure", nargs=2, metavar=("QUERY", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        query, folder = chosen.measure
        print(json.dumps(asdict(measure(query, Path(folder)))))
        return
    console = Console(width=140)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    for keys in chosen.keys:
        console.print(table_of(chosen.rows, keys, chosen.query or [*QUERIES]), "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
