"""One measurement in a process of its own, so that memory and warm-up are its own: prints a line of JSON.

``python -m examples.throughput.measure columnar|native|per_key QUERY FOLDER [SECONDS]``; ``throughput.windows``
calls it for each cell of its tables. With SECONDS the query is stopped so long after its first micro-batch.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlstream
from examples.throughput.processes import Usage, usage
from sqlstream.jobs import Job
from sqlstream.jobs.reports.counts import rows_read
from sqlstream.jobs.reports.progress import state_bytes, state_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "TUMBLE 10 s": "TUMBLE(at, INTERVAL '10' SECOND)",
    "HOP 10 s by 2 s": "HOP(at, INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    "SESSION 2 s": "SESSION(at, INTERVAL '2' SECOND)",
    "COUNT WINDOW 100": "COUNT WINDOW (100 ROWS)",
    "COUNT WINDOW 100 by 10": "COUNT WINDOW (100 ROWS SLIDE 10 ROWS)",
}
OBSERVED_BY = "SQLSTREAM_BENCH_COLLECTOR"
"""The variable with the address of a collector of OpenTelemetry, for measurements of observed jobs."""
MOST_BATCHES = 1_000
"""Spark keeps the reports of so many, of which the figures are made."""

_TABLES = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1');
CREATE TABLE nowhere (auction BIGINT, bids BIGINT, total BIGINT, best BIGINT) WITH ('connector' = 'blackhole');
"""


@dataclass
class Batches:
    """Rows, milliseconds and processor seconds of each micro-batch, the peak of the memory of all processes, and the
    bytes of state in the end. ``memory_mb``, ``states`` and ``entries``: memory, bytes of state and its entries at the
    end of each micro-batch.
    """

    rows: list[int] = field(default_factory=list)
    milliseconds: list[int] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    peak_mb: int = 0
    state_bytes: int = 0
    memory_mb: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)


def sqlstream_batches(engine: str, query: str, folder: Path, seconds: float | None) -> Batches:
    with sqlstream.connect() as session:
        session.sql(f"SET 'sqlstream.engine' = '{engine}'")
        session.sql(f"SET 'spark.sql.streaming.numRecentProgressUpdates' = '{MOST_BATCHES}'")
        for key, value in observing_settings().items():
            session.workspace.settings.set(key, value)
        session.sql(_TABLES.format(path=folder))
        window = QUERIES[query]
        grouping = f"auction {window}" if window.startswith("COUNT") else f"auction, {window}"
        insert = f"INSERT INTO nowhere SELECT auction, COUNT(*), SUM(price), MAX(price) FROM bids GROUP BY {grouping}"
        watch = Watch(session.spark, seconds)
        with watch.watching():
            job = session.sql(insert)
            assert isinstance(job, Job)
            while not job.wait(0.5):
                if watch.is_over:
                    job.stop()
        return watch.batches()


def observing_settings() -> dict[str, str]:
    """What makes the job be observed as in production: metrics to Prometheus and OTLP, a span for each epoch, logs.
    Nothing where ``OBSERVED_BY`` names no collector.
    """
    collector = os.environ.get(OBSERVED_BY)
    if collector is None:
        return {}
    return {
        "metrics.prometheus.port": "0", "metrics.otlp.url": collector, "metrics.otlp.interval": "10 s",
        "traces.otlp.url": collector, "logging.format": "json",
    }  # fmt: skip


def per_key_batches(query: str, folder: Path, seconds: float | None) -> Batches:
    """Count windows as one writes them for PySpark: a call of ``transformWithState`` per key."""
    from examples.throughput.per_key import count_windows

    slide = 10 if query.endswith("by 10") else 100
    with sqlstream.connect() as session, tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as checkpoint:
        watch = Watch(session.spark, seconds)
        with watch.watching():
            running = count_windows(session.spark, folder, Path(checkpoint), size=100, slide=slide)
            while not running.awaitTermination(1):
                if watch.is_over:
                    running.stop()
        return watch.batches()


class Watch:
    """Looks twice a second at the first query of a session and at the processes.

    A listener in Python would cost half a second of processor time per micro-batch.
    """

    def __init__(self, spark: SparkSession, seconds: float | None) -> None:
        self._spark = spark
        self._seconds = seconds
        self._query: Any = None
        self._first_batch = float("inf")
        self._seen: list[tuple[float, Usage]] = []

    @property
    def is_over(self) -> bool:
        return self._seconds is not None and time.time() > self._first_batch + self._seconds

    @contextmanager
    def watching(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=_every, args=(0.5, over, self._look), daemon=True)
        thread.start()
        yield
        over.set()
        thread.join()

    def batches(self) -> Batches:
        reports = self._reports()
        peak_mb = max(usage.resident_mb for _, usage in self._seen)
        actual = Batches(peak_mb=peak_mb, state_bytes=state_bytes(reports[-1]))
        for report in reports:
            begin = datetime.fromisoformat(report["timestamp"]).timestamp()
            actual.rows.append(rows_read(report) or report["numInputRows"])
            actual.milliseconds.append(report["batchDuration"])
            before, after = self._nearest(begin), self._nearest(begin + report["batchDuration"] / 1000)
            actual.processor.append(after.processor_seconds - before.processor_seconds)
            actual.memory_mb.append(after.resident_mb)
            actual.states.append(state_bytes(report))
            actual.entries.append(state_rows(report))
        return actual

    def first_result(self, start: float) -> float:
        """Seconds from ``start`` (of ``time.time``) to the end of the first micro-batch with rows."""
        first = next(report for report in self._reports() if rows_read(report) or report["numInputRows"])
        begin = datetime.fromisoformat(first["timestamp"]).timestamp()
        return begin + float(first["batchDuration"]) / 1000 - start

    def durations(self) -> list[dict[str, int]]:
        """The milliseconds of each micro-batch by Spark's names of its phases."""
        return [report["durationMs"] for report in self._reports()]

    def _reports(self) -> list[dict[str, Any]]:
        return [json.loads(report.json) for report in self._query.recentProgress]

    def _look(self) -> None:
        self._seen.append((time.time(), usage()))
        if self._query is None:
            self._query = next(iter(self._spark.streams.active), None)
        elif self._first_batch == float("inf") and self._query.lastProgress is not None:
            self._first_batch = time.time()

    def _nearest(self, at: float) -> Usage:
        _, nearest = min(self._seen, key=lambda seen: abs(seen[0] - at))
        return nearest


def _every(seconds: float, over: threading.Event, action: Callable[[], None]) -> None:
    while not over.wait(seconds):
        action()


def main() -> None:
    engine, query, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else None
    if engine == "per_key":
        actual = per_key_batches(query, folder, seconds)
    else:
        actual = sqlstream_batches(engine, query, folder, seconds)
    print(json.dumps(asdict(actual)))


if __name__ == "__main__":
    main()
