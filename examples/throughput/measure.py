"""One measurement in a process of its own, so that memory and warm-up are its own: prints a line of JSON.

``python -m examples.throughput.measure columnar|native|per_key QUERY FOLDER KEYS``; ``examples.throughput.windows``
calls it for each cell of its tables.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlstream
from sqlstream.jobs import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "TUMBLE 10 s": "TUMBLE(at, INTERVAL '10' SECOND)",
    "HOP 10 s by 2 s": "HOP(at, INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    "SESSION 2 s": "SESSION(at, INTERVAL '2' SECOND)",
    "COUNT WINDOW 100": "COUNT WINDOW (100 ROWS)",
    "COUNT WINDOW 100 by 10": "COUNT WINDOW (100 ROWS SLIDE 10 ROWS)",
}
_TABLES = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1');
CREATE TABLE nowhere (auction BIGINT, bids BIGINT, total BIGINT, best BIGINT) WITH ('connector' = 'blackhole');
"""


@dataclass
class Batches:
    """Rows and milliseconds of each micro-batch, and the peak of the memory of all processes."""

    rows: list[int] = field(default_factory=list)
    milliseconds: list[int] = field(default_factory=list)
    peak_mb: int = 0


def sqlstream_batches(gear: str, query: str, folder: Path) -> Batches:
    with sqlstream.connect() as session:
        session.sql(f"SET 'sqlstream.gear' = '{gear}'")
        session.sql(_TABLES.format(path=folder))
        window = QUERIES[query]
        grouping = f"auction {window}" if window.startswith("COUNT") else f"auction, {window}"
        with _measured(session.spark) as batches:
            job = session.sql(
                f"INSERT INTO nowhere SELECT auction, COUNT(*), SUM(price), MAX(price) FROM bids GROUP BY {grouping}"
            )
            assert isinstance(job, Job)
            job.wait()
    return batches


def per_key_batches(query: str, folder: Path) -> Batches:
    """Count windows as one writes them for PySpark: a call of ``transformWithState`` per key."""
    from examples.throughput.per_key import count_windows

    with sqlstream.connect() as session, _measured(session.spark) as batches:
        count_windows(session.spark, folder, size=100, slide=10 if query.endswith("by 10") else 100)
    return batches


@contextmanager
def _measured(spark: SparkSession) -> Iterator[Batches]:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    found = Batches()
    runs: list[Any] = []  # the second one only flushes the windows that are open at the end

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            runs.append(event.runId)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            report = event.progress
            if report.runId == runs[0]:
                found.rows.append(report.numInputRows)
                found.milliseconds.append(report.batchDuration)

        def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    listener = Listener()
    spark.streams.addListener(listener)
    with _peak_memory(lambda mb: setattr(found, "peak_mb", max(found.peak_mb, mb))):
        yield found
    spark.streams.removeListener(listener)


@contextmanager
def _peak_memory(seen: Callable[[int], None]) -> Iterator[None]:
    """Tells ``seen`` the resident memory of this process and its children in MB, twice a second."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            seen(_resident_mb())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def _resident_mb() -> int:
    """Of this process and all below it."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    processes = [tuple(map(int, line.split())) for line in listed.splitlines()]
    family, before = {os.getpid()}, 0
    while len(family) > before:
        before = len(family)
        family |= {pid for pid, parent, _ in processes if parent in family}
    return sum(rss for pid, _, rss in processes if pid in family) // 1024


def main() -> None:
    gear, query, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    found = per_key_batches(query, folder) if gear == "per_key" else sqlstream_batches(gear, query, folder)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
