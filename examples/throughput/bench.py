"""Measures TUMBLE through sqlstream against the same query written by hand in PySpark, and the planner's latency.

``make bench``, or ``python -m examples.throughput.bench [--rows 2000000] [--repeats 3]``. Both queries read the same
files in the same micro-batches of the same Spark session, in turns, after a run that warms up; the ratio counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import sqlstream
from examples.flights.demo import script
from examples.throughput.rows import KEYS, write_rows
from sqlstream.grammar import parse_script
from sqlstream.jobs import Job
from sqlstream.plans import plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES_PER_BATCH = 2
_TABLES = """
CREATE TABLE readings (key BIGINT, value BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet', 'source.max-files-per-trigger' = '{files}');
CREATE TABLE nowhere (start TIMESTAMP(3), key BIGINT, readings BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
"""
_INSERT = """
INSERT INTO nowhere
SELECT window_start, key, COUNT(*), SUM(value)
FROM TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '10' SECOND)
GROUP BY window_start, window_end, key
"""
_QUERIES = ("departures_per_carrier", "delay_by_airport", "rotations", "totals_of_the_day")


def through_sqlstream(session: sqlstream.Session) -> None:
    job = session.sql(_INSERT)
    assert isinstance(job, Job)
    job.wait()


def by_hand(spark: SparkSession, path: Path, checkpoint: Path) -> None:
    """The query as one writes it for PySpark; at the end of the input its last windows stay open."""
    from pyspark.sql import functions as F

    rows = spark.readStream.schema("key BIGINT, value BIGINT, at TIMESTAMP").option(
        "maxFilesPerTrigger", _FILES_PER_BATCH
    )
    windows = rows.parquet(str(path)).withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds"), "key")
    totals = windows.agg(F.count("*").alias("readings"), F.sum("value").alias("total"))
    writer = totals.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.outputMode("append").trigger(availableNow=True).start()
    query.awaitTermination()


def seconds(action: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - begin


def throughput(rows: int, repeats: int, folder: Path) -> Table:
    """Rows per second of both, the median of ``repeats`` runs."""
    write_rows(folder / "readings", rows)
    with sqlstream.connect() as session:
        session.sql(_TABLES.format(path=folder / "readings", files=_FILES_PER_BATCH))
        ours, hand = [], []
        for turn in range(repeats + 1):
            ours.append(seconds(through_sqlstream, session))
            hand.append(seconds(by_hand, session.spark, folder / "readings", folder / f"checkpoint-{turn}"))
    measured, baseline = statistics.median(ours[1:]), statistics.median(hand[1:])
    title = f"TUMBLE of 10 s, COUNT and SUM, {rows:,} rows, {KEYS:,} keys, median of {repeats}"
    table = Table("", "seconds", "rows/s", "ratio", title=title, title_justify="left")
    table.add_row("PySpark by hand", f"{baseline:.1f}", f"{rows / baseline:,.0f}", "1.00")
    table.add_row("sqlstream", f"{measured:.1f}", f"{rows / measured:,.0f}", f"{baseline / measured:.2f}")
    return table


def planning(repeats: int = 20) -> Table:
    """Milliseconds to parse, and to bind and optimize, the queries of the flights example."""
    table = Table("query", "parse, ms", "bind and optimize, ms", title="Planning, no Spark", title_justify="left")
    with sqlstream.connect() as session:
        session.sql(script("tables.sql", Path("out/flights")))
        catalog = session.workspace.catalog
        for name in _QUERIES:
            text = script(f"{name}.sql", Path())
            (statement,) = parse_script(text)
            parse = statistics.median(seconds(parse_script, text) for _ in range(repeats))
            bind = statistics.median(seconds(plan_of, statement, catalog) for _ in range(repeats))
            table.add_row(name, f"{parse * 1000:.1f}", f"{bind * 1000:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput against plain PySpark, and the planner's latency.")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    console = Console()
    console.print(f"{os.cpu_count()} cores; load before: {_load()}\n")
    console.print(planning(), "")
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
        console.print(throughput(chosen.rows, chosen.repeats, Path(folder)), "")
    console.print(f"load after: {_load()}")
    console.print("sqlstream also flushes the windows that are open at the end, which PySpark by hand does not.")


def _load() -> str:
    return ", ".join(f"{load:.1f}" for load in os.getloadavg())


if __name__ == "__main__":
    main()
