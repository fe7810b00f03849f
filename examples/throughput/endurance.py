"""An hour of three updating queries in one job, at a steady rate: memory stays flat, and no row is lost.

``python -m examples.throughput.endurance [--minutes 60] [--rate 20000]``. A process writes bids and auctions, so many
each second, as files of Parquet. A statement set reads them: GROUP BY auction, a regular join whose rows live for a
minute, and the ten best bids of each category. Every minute a line says what the processes hold in memory, how large
the state is and how far behind the job is. In the end the three tables are compared with Spark SQL over all files.

``--epochs 5000`` runs so many small micro-batches of two of the queries instead, as fast as they go. Every 5 % a line
says what the heap of Java holds after a full collection, and the end which classes have grown since the first tenth.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import sqlstream
from examples.throughput.processes import memory
from sqlstream.jobs import Job
from sqlstream.jobs.reports.progress import state_bytes
from sqlstream.query import Query

AUCTION_SHARE = 20
"""One event in so many opens an auction, the others are bids."""
KEYS = 10_000
CATEGORIES = 500
OPEN_S = 5
"""Bids are on auctions that were opened within so many seconds before them."""

_TABLES = """
CREATE TABLE bids (id BIGINT, auction BIGINT, category BIGINT, price BIGINT, opened BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{folder}/bids', 'format' = 'parquet', 'source.monitor-interval' = '1 s');
CREATE TABLE auctions (id BIGINT, category BIGINT) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/auctions', 'format' = 'parquet', 'source.monitor-interval' = '1 s');
CREATE TABLE totals (auction BIGINT, n BIGINT, total BIGINT, best BIGINT, PRIMARY KEY (auction) NOT ENFORCED)
WITH ('connector' = 'memory');
CREATE TABLE joined (category BIGINT, n BIGINT, total BIGINT, PRIMARY KEY (category) NOT ENFORCED)
WITH ('connector' = 'memory');
CREATE TABLE best (category BIGINT, rn INT, price BIGINT, id BIGINT, PRIMARY KEY (category, rn) NOT ENFORCED)
WITH ('connector' = 'memory');
"""
_GROUPS = "SELECT auction, COUNT(*) AS n, SUM(price) AS total, MAX(price) AS best FROM bids GROUP BY auction"
_JOIN = """
SELECT a.category, COUNT(*) AS n, SUM(b.price) AS total
FROM {bids} AS b JOIN {auctions} AS a ON b.opened = a.id GROUP BY a.category
"""
_BEST = """
SELECT category, rn, price, id FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY category ORDER BY price DESC, id) AS rn FROM bids
) AS numbered WHERE rn <= 10
"""
_LIVING = "(SELECT /*+ STATE_TTL('b' = '{ttl}', 'a' = '{ttl}') */ a.category AS category, b.price AS price FROM bids AS b JOIN auctions AS a ON b.opened = a.id)"  # noqa: E501
QUERIES = {"totals": _GROUPS, "joined": _JOIN.format(bids="bids", auctions="auctions"), "best": _BEST}
"""By table, as Spark SQL has them over all files."""


def job_of(session: sqlstream.Session, folder: Path, ttl: str) -> Job:
    session.sql(_TABLES.format(folder=folder))
    living = f"SELECT category, COUNT(*), SUM(price) FROM {_LIVING.format(ttl=ttl)} AS pairs GROUP BY category"
    inserts = {**QUERIES, "joined": living}
    text = "".join(f"INSERT INTO {table} {query};\n" for table, query in inserts.items())
    found = session.sql(f"EXECUTE STATEMENT SET BEGIN\n{text}END")
    assert isinstance(found, Job)
    return found


# --- events ---------------------------------------------------------------------------------------------------


def produce(folder: Path, rate: int, over: Event) -> None:
    """Writes the events of each second when it has passed, of all seconds that have passed where it was late."""
    started, second = time.monotonic(), 1
    while not over.wait(max(0.0, started + second - time.monotonic())):
        write_second(folder, second, rate)
        second += 1


def write_second(folder: Path, second: int, rate: int) -> None:
    random = np.random.default_rng(second)
    opened = max(1, rate // AUCTION_SHARE)
    bids = rate - opened
    ids = np.arange(second * opened, (second + 1) * opened)
    auctions = {"id": ids, "category": ids % CATEGORIES}
    oldest = max(0, second - OPEN_S) * opened
    of_bids = {
        "id": np.arange(second * bids, (second + 1) * bids),
        "auction": random.integers(0, KEYS, bids),
        "category": random.integers(0, CATEGORIES, bids),
        "price": random.integers(1, 10_000_000, bids),
        "opened": random.integers(oldest, (second + 1) * opened, bids),
    }
    _write(folder / "auctions", second, auctions)
    _write(folder / "bids", second, of_bids)


def _write(folder: Path, second: int, columns: dict[str, Any]) -> None:
    """Files appear whole: names that begin with a dot are not read."""
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    pq.write_table(table, folder / f".{second:06}")
    (folder / f".{second:06}").rename(folder / f"{second:06}.parquet")


# --- what is printed ------------------------------------------------------------------------------------------


def state_of(session: sqlstream.Session) -> tuple[int, int]:
    """Rows of state, which are entries of many rows each, and the bytes that the state stores hold."""
    query = next(iter(session.spark.streams.active), None)
    if query is None or query.lastProgress is None:
        return 0, 0
    report = json.loads(query.lastProgress.json)
    return sum(o["numRowsTotal"] for o in report["stateOperators"]), state_bytes(report)


def size_of(folder: Path) -> int:
    """Bytes of files below a folder, some of which may go meanwhile."""
    found = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                found += Path(at, name).stat().st_size
            except OSError:
                continue
    return found


def line(session: sqlstream.Session, job: Job, folder: Path, minute: float, rate: int) -> str:
    written = sum(1 for _ in folder.joinpath("bids").glob("*.parquet")) * rate
    read = job.progress().rows_in
    held, (entries, state) = memory(), state_of(session)
    checkpoint = size_of(folder / "checkpoints")
    return (
        f"{minute:5.1f} min: driver {held.driver:,} MB, java {held.java:,} MB, workers {held.workers:,} MB; "
        f"state {state >> 20:,} MB in {entries:,} entries, checkpoint {checkpoint >> 20:,} MB; "
        f"{read:,} rows read, {(written - read) / rate:.1f} s behind"
    )


# --- the end --------------------------------------------------------------------------------------------------


def differences(session: sqlstream.Session, folder: Path) -> dict[str, int]:
    """By table, how many rows are not those that Spark SQL has over the same files."""
    spark = session.spark
    for name in ("bids", "auctions"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    found = {}
    for table, query in QUERIES.items():
        expected = {tuple(row) for row in spark.sql(query).collect()}
        kept = session.sql(f"SELECT * FROM {table}")
        assert isinstance(kept, Query)
        rows = set(kept.fetchall())
        found[table] = len(expected ^ rows)
    return found


def run(folder: Path, minutes: float, rate: int, ttl: str, interval: str) -> int:
    for name in ("bids", "auctions"):
        (folder / name).mkdir()
    write_second(folder, 0, rate)  # Spark reads the columns of files that are there
    processes = multiprocessing.get_context("spawn")
    over = processes.Event()
    producer = processes.Process(target=produce, args=(folder, rate, over), daemon=True)
    with sqlstream.connect() as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{folder}/checkpoints'")
        session.sql(f"SET 'execution.checkpointing.interval' = '{interval}'")
        job = job_of(session, folder, ttl)
        producer.start()
        started, minute = time.monotonic(), 1
        while (passed := time.monotonic() - started) < 60 * minutes and not job.wait(1):
            if passed >= 60 * minute:
                print(line(session, job, folder, passed / 60, rate), flush=True)
                minute += 1
        over.set()
        producer.join()
        _read_all(job, folder, rate)
        print(line(session, job, folder, (time.monotonic() - started) / 60, rate), flush=True)
        job.stop()
        wrong = differences(session, folder)
    rows = sum(1 for _ in folder.joinpath("bids").glob("*.parquet")) * rate
    print(f"{rows:,} rows; rows that differ from Spark SQL's: {wrong}")
    return 1 if any(wrong.values()) else 0


# --- many small epochs ----------------------------------------------------------------------------------------

_SMALL = """
CREATE TABLE bids (id BIGINT, auction BIGINT, category BIGINT, price BIGINT, opened BIGINT) WITH (
    'connector' = 'datagen', 'rows-per-second' = '1000', 'fields.auction.min' = '0', 'fields.auction.max' = '99',
    'fields.category.min' = '0', 'fields.category.max' = '9', 'fields.opened.min' = '0', 'fields.opened.max' = '99',
    'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '1000000000',
    'fields.price.min' = '1', 'fields.price.max' = '1000');
CREATE TABLE totals (auction BIGINT, n BIGINT, total BIGINT, best BIGINT, PRIMARY KEY (auction) NOT ENFORCED)
WITH ('connector' = 'blackhole');
CREATE TABLE best (category BIGINT, rn INT, price BIGINT, id BIGINT, PRIMARY KEY (category, rn) NOT ENFORCED)
WITH ('connector' = 'blackhole');
"""
_HISTOGRAM_LINE = re.compile(r"^\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)", re.MULTILINE)
_GROWN_SHOWN = 15


def java_pid() -> int:
    children = psutil.Process().children(recursive=True)
    return next(int(process.pid) for process in children if "java" in process.name())


def live_heap(pid: int) -> dict[str, int]:
    """Bytes of Java's heap by class after a full collection."""
    command = ["jcmd", str(pid), "GC.class_histogram"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: int(size) for _, size, name in _HISTOGRAM_LINE.findall(text)}


def run_epochs(folder: Path, epochs: int, most_minutes: float) -> int:
    with sqlstream.connect() as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{folder}/checkpoints'")
        session.sql(_SMALL)
        text = "".join(f"INSERT INTO {table} {QUERIES[table]};\n" for table in ("totals", "best"))
        job = session.sql(f"EXECUTE STATEMENT SET BEGIN\n{text}END")
        assert isinstance(job, Job)
        started, shown, early = time.monotonic(), 0, None
        while not job.wait(0.5):
            done, minutes = job.progress().batches, (time.monotonic() - started) / 60
            if done < shown + epochs // 20 and minutes < most_minutes:
                continue
            shown, heap, held = done, live_heap(java_pid()), memory()
            if early is None and done >= epochs // 10:
                early = heap
            whole = sum(heap.values()) / 2**20
            line = f"{done:6,} epochs, {minutes:5.1f} min: heap {whole:7.1f} MB live; java {held.java:,} MB, "
            print(f"{line}driver {held.driver:,} MB, workers {held.workers:,} MB", flush=True)
            if done >= epochs or minutes >= most_minutes:
                break
        grown = {name: size - (early or {}).get(name, 0) for name, size in heap.items()}
        for name in sorted(grown, key=lambda name: -grown[name])[:_GROWN_SHOWN]:
            print(f"  {grown[name] / 2**20:+8.2f} MB of {heap[name] / 2**20:7.2f} MB  {name}")
        job.stop()
    return 0


def _read_all(job: Job, folder: Path, rate: int) -> None:
    """Waits until the job has read what was written, as long as it reads on."""
    written = sum(1 for _ in folder.joinpath("bids").glob("*.parquet")) * rate
    read, since = -1, time.monotonic()
    while job.progress().rows_in < written and not job.wait(0.5):
        if job.progress().rows_in > read:
            read, since = job.progress().rows_in, time.monotonic()
        elif time.monotonic() - since > 300:
            print(f"the job has read {read:,} of {written:,} rows, and nothing for 5 minutes")
            return


def main() -> None:
    parser = argparse.ArgumentParser(description="Updating queries at a steady rate, for a long time.")
    parser.add_argument("--minutes", type=float, default=60, help="(default: %(default)s)")
    parser.add_argument("--rate", type=int, default=20_000, help="events per second (default: %(default)s)")
    parser.add_argument("--ttl", default="1 min", help="of the rows of the join (default: %(default)s)")
    parser.add_argument("--interval", default="2 s", help="of micro-batches (default: %(default)s)")
    parser.add_argument("--epochs", type=int, help="so many small micro-batches, in at most --minutes")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sqlstream-endurance-") as folder:
        if chosen.epochs:
            sys.exit(run_epochs(Path(folder), chosen.epochs, chosen.minutes))
        sys.exit(run(Path(folder), chosen.minutes, chosen.rate, chosen.ttl, chosen.interval))


if __name__ == "__main__":
    main()
