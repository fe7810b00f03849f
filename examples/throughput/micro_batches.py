"""What a micro-batch of few rows costs: ``make bench-micro-batches``, or ``python -m examples.throughput.micro_batches
[--query q3] [--rows 10000] [--batches 60]``.

Each micro-batch reads so many rows of Nexmark, of all tables of the query together, from one file per table. All are
medians of the second half of them, in milliseconds of Spark's report. *Planning*: which rows are next, and the plan of
the micro-batch; *run*: its job; *commit*: the files of the checkpoint that say what is read and what is done; *rest*:
what else Spark does between two triggers. *Processor*: that of all processes, a mean.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.nexmark.generator import AUCTIONS, BIDS, EPOCH, PERSONS, TABLES, Generator
from examples.nexmark.queries import QUERIES, tables
from examples.throughput.measure import MOST_BATCHES, Watch
from examples.throughput.queries import holds
from sqlstream.jobs import Job

PARTS: Mapping[str, tuple[str, ...]] = {
    "planning": ("latestOffset", "getBatch", "queryPlanning"),
    "run": ("addBatch",),
    "commit": ("walCommit", "commitOffsets", "commitBatch"),
}
"""The phases in Spark's report of a micro-batch."""


@dataclass(frozen=True)
class Small:
    """A query, the tables of Nexmark that it reads, and the milliseconds that a micro-batch of it may take."""

    text: str
    reads: tuple[str, ...]
    wanted_ms: int | None = None


_AGGREGATES = "COUNT(*) AS bids, SUM(price) AS total, MAX(price) AS best"
_WINDOW = "TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)"
SMALL = {
    "q2": Small(QUERIES["q2"], ("bid",), 120),
    "q3": Small(QUERIES["q3"], ("person", "auction"), 250),
    "TUMBLE": Small(
        f"SELECT auction, window_start, {_AGGREGATES} FROM {_WINDOW} GROUP BY auction, window_start, window_end",
        ("bid",),
    ),
    "GROUP BY": Small(f"SELECT auction, {_AGGREGATES} FROM bid GROUP BY auction", ("bid",)),
}
_OF_EPOCH = {"person": PERSONS, "auction": AUCTIONS, "bid": BIDS}


@dataclass(frozen=True)
class Measured:
    """Milliseconds and processor seconds of each micro-batch with rows, and its rows."""

    durations: list[dict[str, int]]
    processor: list[float]
    rows: list[int]


def write(folder: Path, query: Small, rows: int, batches: int) -> None:
    """A file of each table of the query for each micro-batch."""
    events = rows * EPOCH // sum(_OF_EPOCH[table] for table in query.reads)
    generator = Generator()
    for table in query.reads:
        (folder / table).mkdir(parents=True)
        whole = TABLES[table](generator, 0, events * batches)
        ends = [events * number * _OF_EPOCH[table] // EPOCH for number in range(batches + 1)]
        for number, (first, end) in enumerate(pairwise(ends)):
            pq.write_table(whole.slice(first, end - first), folder / table / f"{number:05}.parquet")


def measured(query: Small, folder: Path) -> Measured:
    options = (
        f"'connector' = 'filesystem', 'path' = '{folder}/{{table}}', 'format' = 'parquet',"
        " 'source.max-files-per-trigger' = '1'"
    )
    with sqlstream.connect() as session:
        session.sql(f"SET 'spark.sql.streaming.numRecentProgressUpdates' = '{MOST_BATCHES}'")
        for statement in tables(options).split(";\n"):
            if any(statement.strip().startswith(f"CREATE TABLE {name} ") for name in query.reads):
                session.sql(statement)
        session.sql("SET 'execution.runtime-mode' = 'streaming'")
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql(f"CREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {query.text}")
            assert isinstance(job, Job)
            job.wait()
        batches = watch.batches()
        with_rows = [number for number, rows in enumerate(batches.rows) if rows]
        durations = watch.durations()
        return Measured(
            [durations[number] for number in with_rows],
            [batches.processor[number] for number in with_rows],
            [batches.rows[number] for number in with_rows],
        )


def cells(name: str, query: Small, result: Measured) -> list[str]:
    half = len(result.durations) // 2
    steady = result.durations[half:]
    whole = statistics.median(_total(durations) for durations in steady)
    parts = {
        name: statistics.median(_part(durations, phases) for durations in steady) for name, phases in PARTS.items()
    }
    others = statistics.median(
        _total(durations) - sum(_part(durations, phases) for phases in PARTS.values()) for durations in steady
    )
    processor = 1000 * statistics.mean(result.processor[half:])
    wanted = "" if query.wanted_ms is None else f"≤ {query.wanted_ms} ms: {holds(whole <= query.wanted_ms)}"
    numbers = (statistics.median(result.rows[half:]), whole, *parts.values(), others, processor)
    return [name, *(f"{number:,.0f}" for number in numbers), f"{_total(result.durations[0]):,}", wanted]


def _total(durations: Mapping[str, int]) -> int:
    return durations["triggerExecution"]


def _part(durations: Mapping[str, int], phases: tuple[str, ...]) -> int:
    return sum(durations.get(phase, 0) for phase in phases)


def in_process(name: str, folder: Path) -> Measured:
    """In a process of its own, which has nothing compiled."""
    command = [sys.executable, "-m", "examples.throughput.micro_batches", "--measure", name, str(folder)]
    print(f"{name} …", file=sys.stderr, flush=True)
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return Measured(**json.loads(ran.stdout.splitlines()[-1]))


HEADERS = ("query", "rows", "ms", *PARTS, "rest", "processor", "the first, ms", "wanted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", nargs="+", choices=SMALL, default=[*SMALL])
    parser.add_argument("--rows", type=int, default=10_000, help="of a micro-batch (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=60, help="micro-batches (default: %(default)s)")
    parser.add_argument("--measure", nargs=2, metavar=("QUERY", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        name, folder = chosen.measure
        print(json.dumps(asdict(measured(SMALL[name], Path(folder)))))
        return
    console = Console(width=140)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}")
    table = Table(
        *HEADERS, title=f"a micro-batch, medians of the second half of {chosen.batches}", title_justify="left"
    )
    for name in chosen.query:
        with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
            write(Path(folder), SMALL[name], chosen.rows, chosen.batches)
            table.add_row(*cells(name, SMALL[name], in_process(name, Path(folder))))
    console.print(table)
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
