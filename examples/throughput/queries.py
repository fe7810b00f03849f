"""Queries that benchmarks compare: each measured in a process of its own, on its engine, and shown in tables.

Both engines read the same Parquet files, one a micro-batch, write to nowhere and keep their state in RocksDB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.measure import MOST_BATCHES, Batches, Watch
from examples.throughput.windows import Steady, steady
from sqlstream.jobs import Job

FILES = 10
"""Micro-batches, unless asked for otherwise: one file each."""

Engines = Mapping[str, Callable[[str, Path], Batches]]
"""By name: runs the query of a name over the files in a folder."""


def ours(definitions: Iterable[str], columns: str, query: str, *, master: str | None = None, **options: str) -> Batches:
    """What a job reports that writes the query to nowhere, a table of ``columns``. ``master`` and ``options`` are those
    of the session."""
    with sqlstream.connect(master, **options) as session:
        session.sql(f"SET 'spark.sql.streaming.numRecentProgressUpdates' = '{MOST_BATCHES}'")
        for definition in definitions:
            session.sql(definition)
        session.sql(f"CREATE TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql(f"INSERT INTO nowhere {query}")
            assert isinstance(job, Job)
            job.wait()
        return watch.batches()


def of_spark(tables: Mapping[str, Path], query: str, *, delay: str | None = None, mode: str = "append") -> Batches:
    """What Spark reports of the query, as one writes it for PySpark. ``delay``: that of the watermark on ``at``."""
    with sqlstream.connect() as session, tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as checkpoint:
        spark = session.spark
        for name, folder in tables.items():
            schema = spark.read.parquet(str(folder)).schema
            rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
            rows = rows if delay is None else rows.withWatermark("at", delay)
            rows.createOrReplaceTempView(name)
        result = spark.sql(query)
        watch = Watch(spark, None)
        with watch.watching():
            writer = result.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
            writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return watch.batches()


def apart(module: str, *words: str) -> Batches:
    """What ``python -m MODULE --measure WORDS…`` prints: one measurement in a process of its own."""
    command = [sys.executable, "-m", module, "--measure", *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return Batches(**json.loads(ran.stdout.splitlines()[-1]))


def wanted_text(rate: float, least: int | None) -> str:
    """Whether so many rows per second are what was wanted."""
    return "" if least is None else f"≥ {least:,} rows/s: {holds(rate >= least)}"


def holds(does: bool) -> str:
    return "holds" if does else "missed"


@dataclass(frozen=True)
class Benchmark:
    """``module`` is what ``python -m`` runs; its command line asks for one measurement, or for ``table``, which is
    called with the arguments and a number of keys."""

    module: str
    description: str
    queries: Collection[str]
    engines: Engines
    table: Callable[[argparse.Namespace, int], Table]
    rows: int
    keys: tuple[int, ...]

    def measured(self, engine: str, query: str, folder: Path) -> Steady:
        """In a process of its own."""
        print(f"{query}, {engine} …", file=sys.stderr, flush=True)
        return steady(apart(self.module, engine, query, str(folder)))

    def main(self) -> None:
        parser = argparse.ArgumentParser(description=self.description)
        parser.add_argument("--rows", type=int, default=self.rows, help="warm-up included (default: %(default)s)")
        parser.add_argument(
            "--files", type=int, default=FILES, help="micro-batches, of one file each (default: %(default)s)"
        )
        parser.add_argument("--keys", type=int, nargs="*", default=[*self.keys])
        parser.add_argument("--query", action="append", choices=[*self.queries], help="only this one; may be repeated")
        parser.add_argument("--measure", nargs=3, metavar=("ENGINE", "QUERY", "FOLDER"), help=argparse.SUPPRESS)
        chosen = parser.parse_args()
        if chosen.measure:
            engine, query, folder = chosen.measure
            print(json.dumps(asdict(self.engines[engine](query, Path(folder)))))
            return
        chosen.query = chosen.query or [*self.queries]
        console = Console(width=160)
        console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
        for keys in chosen.keys:
            console.print(self.table(chosen, keys), "")
        console.print(f"load after: {os.getloadavg()[0]:.1f}")
