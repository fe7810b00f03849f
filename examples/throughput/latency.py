"""How long an event takes to its result, at a steady rate: ``make bench-latency``.

``python -m examples.throughput.latency [--seconds 20] [--rates 10000] [--loads 10 50 90] [--keys 100]``. Events come in
Parquet files, twenty a second, as a producer writes them; each has the time of its creation. TUMBLE of 1 s is measured
from the creation of the event that closes a window to the arrival of the window's rows at the caller, GROUP BY from the
creation of each event to the arrival of the change that counts it. Loads are parts, in percent, of the rows/s that the
query reaches with a backlog.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sqlstream
from sqlstream.jobs import Job
from sqlstream.query import Query

FILES_PER_SECOND = 20
WARM_UP_S = 12.0
BACKLOG_ROWS, BACKLOG_FILES = 6_000_000, 12

_EVENTS = """
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE events (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
    'path' = '{folder}', 'format' = 'parquet'{options})
"""
_LIVE = ", 'source.monitor-interval' = '10 ms'"
QUERIES = {
    "TUMBLE 1 s": """SELECT window_end AS until, COUNT(*) AS n FROM TUMBLE(TABLE events, DESCRIPTOR(ts),
        INTERVAL '1' SECOND) GROUP BY k, window_start, window_end""",
    "GROUP BY": "SELECT k, COUNT(*) AS n FROM events GROUP BY k",
}


def write(folder: Path, number: int, first: int, times_us: np.ndarray, keys: int) -> None:
    """One file, which appears whole. Event ``first`` + i has the key of its number."""
    numbers = np.arange(first, first + len(times_us))
    times = pa.array(times_us).cast(pa.timestamp("us", "UTC"))
    hidden = folder / f".{number:08}.tmp"
    pq.write_table(pa.table({"k": numbers % keys, "ts": times}), hidden, compression="none")
    hidden.replace(folder / f"{number:08}.parquet")


class Producer:
    """Writes ``rate`` events a second until it is stopped. Event i is created at ``start`` + i / ``rate``."""

    def __init__(self, folder: Path, rate: int, keys: int) -> None:
        self._folder, self._keys = folder, keys
        self.rate = rate
        self.start = time.time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        per_file = max(1, self.rate // FILES_PER_SECOND)
        number = 0
        while True:
            first, number = number * per_file, number + 1
            wait_s = self.start + number * per_file / self.rate - time.time()
            if self._over.wait(max(0.0, wait_s)):
                return
            times = (self.start + np.arange(first, first + per_file) / self.rate) * 1e6
            write(self._folder, number, first, times.astype(np.int64), self._keys)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def running(query: str, folder: Path, latency: str, options: str) -> Iterator[Job]:
    """The job of a query over the files of the folder."""
    with sqlstream.connect() as session:
        session.sql(f"SET 'execution.latency' = '{latency}'; SET 'parallelism.default' = '1'")
        session.sql(_EVENTS.format(folder=folder, options=options))
        result = session.sql(QUERIES[query])
        assert isinstance(result, Query) and isinstance(result.job, Job)
        with result:
            yield result.job


def capacity(query: str, keys: int) -> float:
    """Rows per second of the micro-batches of a backlog, without the first one, which compiles."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder, size = Path(made), BACKLOG_ROWS // BACKLOG_FILES
        for number in range(BACKLOG_FILES):
            times = 1_700_000_000_000_000 + (np.arange(size) + number * size) * 10
            write(folder, number, number * size, times, keys)
        with running(query, folder, "low", ", 'source.max-files-per-trigger' = '1'") as job:
            next(job.results())
            first = job.progress()
            job.wait()
            last = job.progress()
    return (last.rows_in - first.rows_in) * 1000 / max(last.busy_ms - first.busy_ms, 1)


def latencies_ms(query: str, rate: int, seconds: float, latency: str, keys: int) -> np.ndarray:
    """The milliseconds of each window, or of each event, that came after the warm-up."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder = Path(made)
        write(folder, 0, 0, np.array([int(time.time() * 1e6)]), keys)
        with running(query, folder, latency, _LIVE) as job:
            producer = Producer(folder, rate, keys)
            until = time.time() + WARM_UP_S + seconds
            taken: list[np.ndarray] = []
            counted: dict[int, int] = {}
            for rows in job.results():
                now = time.time()
                measure = _of_windows if query.startswith("TUMBLE") else _of_changes
                found = measure(rows, now, producer, counted, keys)
                if now > producer.start + WARM_UP_S:
                    taken.append(found)
                if now > until:
                    break
            producer.stop()
    return np.concatenate(taken) if taken else np.zeros(0)


def _of_windows(rows: pa.Table, now: float, producer: Producer, counted: dict[int, int], keys: int) -> np.ndarray:
    """Each window that closes: from its end, when the next event was created."""
    ends = np.unique(rows.column("until").cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()) / 1e6
    return (now - ends[ends > producer.start]) * 1000


def _of_changes(rows: pa.Table, now: float, producer: Producer, counted: dict[int, int], keys: int) -> np.ndarray:
    """Each event that a change counts for the first time. The first event of key 0 was there before."""
    taken: list[np.ndarray] = []
    changed = (rows.column(name).to_pylist() for name in ("k", "n"))
    for key, n in zip(*changed, strict=True):
        n -= key == 0
        before = counted.get(key, 0)
        if n > before:
            counted[key] = n
            taken.append(now - (producer.start + (key + np.arange(before, n) * keys) / producer.rate))
    return np.concatenate(taken) * 1000 if taken else np.zeros(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rates", type=int, nargs="*", default=[10_000], help="events a second")
    parser.add_argument("--loads", type=int, nargs="*", default=[10, 50, 90], help="percent of what the query reaches")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--latency", nargs="+", choices=["normal", "low"], default=["normal", "low"])
    parser.add_argument("--query", nargs="+", choices=[*QUERIES], default=[*QUERIES])
    chosen = parser.parse_args()
    title = f"{chosen.keys} keys, {chosen.seconds:.0f} s each; load of the machine {os.getloadavg()[0]:.1f}"
    table = Table("query", "latency", "events/s", "of capacity", "p50, ms", "p99, ms", "measured", title=title)
    for query in chosen.query:
        most = capacity(query, chosen.keys) if chosen.loads else 0.0
        offered = [(rate, "") for rate in chosen.rates]
        offered += [(int(most * percent / 100), f"{percent} %") for percent in chosen.loads]
        for rate, load in offered:
            for latency in chosen.latency:
                print(f"{query}, {rate:,} events/s, {latency} …", file=sys.stderr, flush=True)
                taken = latencies_ms(query, rate, chosen.seconds, latency, chosen.keys)
                p50, p99 = (f"{np.percentile(taken, p):,.0f}" if len(taken) else "–" for p in (50, 99))
                table.add_row(query, latency, f"{rate:,}", load, p50, p99, f"{len(taken):,}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
