"""A stream over one large file of CSV: memory follows the bound of a micro-batch, not the file.

``make bench-large-files``, or ``python -m examples.throughput.large_files [--gb 0.1 1 4] [--bound "512 mb"]``. Bids as
in ``throughput.formats``, in a single file, into ``blackhole``: counted by bidder, and filtered without any state. Rows
per second are those of the micro-batches; memory is the largest resident size that was seen, five times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.formats import DDL, QUERIES, texts
from examples.throughput.processes import memory
from sqlstream.jobs import Job

NAMES = ("GROUP BY", "q2")
_CHUNK_ROWS = 250_000
_TABLE = """CREATE TABLE bids ({ddl}, WATERMARK FOR at AS at - INTERVAL '4' SECOND) WITH ('connector' = 'filesystem',
    'path' = '{path}', 'format' = 'csv'{more})"""


@dataclass
class Run:
    """What one job took: ``java_mb`` and ``workers_mb`` are peaks, the latter of all Python workers together."""

    rows: int
    seconds: float
    micro_batches: int
    java_mb: int
    workers_mb: int


def write(path: Path, size: int) -> None:
    """A file of at least ``size`` bytes: the same bids again and again."""
    chunk = texts("csv", 0, _CHUNK_ROWS)
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(chunk[: chunk.find(b"\n", min(size - file.tell(), len(chunk) - 1)) + 1])


def measured(query: str, folder: Path, bound: str | None) -> Run:
    more = "" if bound is None else f", 'source.max-bytes-per-trigger' = '{bound}'"
    columns, text = QUERIES[query]
    over, peaks = threading.Event(), [0, 0]

    def look() -> None:
        while not over.wait(0.2):
            held = memory()
            peaks[:] = max(peaks[0], held.java), max(peaks[1], held.workers)

    with sqlstream.connect() as session:
        session.sql(_TABLE.format(ddl=DDL, path=folder, more=more))
        session.sql(f"CREATE TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        job = session.sql(f"INSERT INTO nowhere {text}")
        assert isinstance(job, Job)
        job.wait()
        progress = job.progress()
        over.set()
        watching.join()
    return Run(progress.rows_in, progress.busy_ms / 1000, progress.batches, *peaks)


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory and speed of streams over one large file of CSV.")
    parser.add_argument("--gb", type=float, nargs="*", default=[0.1, 1, 4], help="sizes of the file")
    parser.add_argument("--bound", action="append", help="of a micro-batch; not given, the default")
    parser.add_argument("--query", action="append", choices=NAMES)
    parser.add_argument("--measure", nargs="*", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        query, folder, *bound = chosen.measure
        print(json.dumps(asdict(measured(query, Path(folder), *bound or [None]))))
        return
    console = Console(width=140)
    table = Table(title="One file of CSV into blackhole")
    for name in ("file", "bound", "query", "micro-batches", "rows", "rows/s", "Java, peak", "Python workers, peak"):
        table.add_column(name, justify="left" if name in ("bound", "query") else "right")
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    for gb in chosen.gb:
        with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
            if shutil.disk_usage(folder).free < 2 * gb * 1e9:
                raise SystemExit(f"there is no room for a file of {gb} GB")
            write(Path(folder, "bids.csv"), int(gb * 1e9))
            for bound in chosen.bound or [None]:
                for query in chosen.query or NAMES:
                    run = _apart(query, folder, *([] if bound is None else [bound]))
                    rate, sizes = f"{run.rows / run.seconds:,.0f}", (f"{run.java_mb:,} MB", f"{run.workers_mb:,} MB")
                    counts = (f"{run.micro_batches}", f"{run.rows:,}")
                    table.add_row(f"{gb:g} GB", bound or "default", query, *counts, rate, *sizes)
    console.print(table, f"load after: {os.getloadavg()[0]:.1f}")


def _apart(*words: str) -> Run:
    """Measured in a process of its own."""
    print(" ".join(words), "…", file=sys.stderr, flush=True)
    ran = subprocess.run([sys.executable, "-m", __spec__.name, "--measure", *words], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{ran.stderr}")
    return Run(**json.loads(ran.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
