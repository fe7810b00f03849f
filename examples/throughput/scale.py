"""Skew and scale, as tables: a hot key, tasks and cores, events, keys, and a year of watermarks.

``make bench-scale``, or ``python -m examples.throughput.scale [--only skew keys] [--rows 5000000] [--events 1000000]``.
Each measurement runs in a process of its own, over Parquet files of bids, one a micro-batch, into ``blackhole``. The
first half of the micro-batches warms Spark up and is left out, unless a column says *whole*. *Processor*: that of all
processes. ``--only cluster``, which needs the tests, is no part of the usual run: what two sizes of a micro-batch on
one core say of a cluster of two workers with a core each, and what such a cluster on this machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from examples.throughput import queries
from examples.throughput.bids import BIDS_PER_SECOND, START_MS, write_bids
from examples.throughput.measure import Batches
from examples.throughput.stream_joins import AUCTIONS
from examples.throughput.windows import Steady, steady

HOT = 0.5
FEW_KEYS = 10_000
EVENTS = (1_000_000, 5_000_000, 20_000_000)
KEYS = (10_000, 1_000_000, 10_000_000)
YEAR_S = 365 * 24 * 3600
YEAR_BATCHES = 100
YEAR_ROWS = 50_000
YEAR_KEYS = 100
PLACES = {"1 task, 1 core": (1, 1), "1 task": (1, None), "2 tasks": (2, None), "4 tasks": (4, None)}
"""Tasks that run at the same time, which are also the partitions of state, and the cores that all processes may use."""
MOST_SLOWER = 5.0
"""What we want at most of a join with a hot key: so many times as slow as with uniform keys."""

_SUMS = "COUNT(*), SUM(price), MAX(price)"
_OF_JOIN = "SELECT b.auction, b.price, a.seller, b.bidder FROM bids AS b JOIN auctions AS a ON b.auction = a.auction"
QUERIES = {
    "GROUP BY": f"SELECT auction, {_SUMS} FROM bids GROUP BY auction",
    "TUMBLE 10 s": f"SELECT auction, {_SUMS} FROM bids GROUP BY auction, TUMBLE(at, INTERVAL '10' SECOND)",
    "TUMBLE 1 h": f"SELECT auction, {_SUMS} FROM bids GROUP BY auction, TUMBLE(at, INTERVAL '1' HOUR)",
    "interval join": f"{_OF_JOIN} AND b.at BETWEEN a.at AND a.at + INTERVAL '1' DAY",
    "regular join": _OF_JOIN,
}
_RESULT = "auction BIGINT, bids BIGINT, total BIGINT, best BIGINT"
_TABLE = """
CREATE TABLE {name} (auction BIGINT, {columns}, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = 'parquet',
    'source.max-files-per-trigger' = '1')
"""
_COLUMNS = {"bids": "bidder BIGINT, price BIGINT", "auctions": "seller BIGINT"}


# --- one measurement ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurement:
    """``master``: that of Spark, ``cluster`` for two workers that are started here. ``cores``: how many of this machine
    all processes together may use; None for all."""

    query: str
    folder: str
    master: str = "local[*]"
    cores: int | None = None


Measure: TypeAlias = Callable[[Measurement], Batches]


def in_process(measurement: Measurement) -> Batches:
    """In a process of its own, which has nothing compiled."""
    print(" ".join(str(value) for value in asdict(measurement).values()), "…", file=sys.stderr, flush=True)
    return queries.apart("examples.throughput.scale", json.dumps(asdict(measurement)))


def measured(measurement: Measurement) -> Batches:
    if measurement.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: measurement.cores])
    folder = Path(measurement.folder)
    definitions = [
        _TABLE.format(name=name, columns=columns, folder=folder)
        for name, columns in _COLUMNS.items()
        if (folder / name).is_dir()
    ]
    with ExitStack() as around:
        master = measurement.master
        if master == "cluster":
            from tests.faults.cluster import cluster

            logs = around.enter_context(tempfile.TemporaryDirectory(prefix="sqlstream-bench-"))
            master = around.enter_context(cluster(Path(logs), os.environ)).url
        return queries.ours(definitions, _RESULT, QUERIES[measurement.query], master=master)


# --- what it reads --------------------------------------------------------------------------------------------


def write_auctions(folder: Path, keys: int, files: int, rows: int) -> None:
    """An auction for each key in the first file. Each other one has an auction on which nobody bids, so that the
    watermark of auctions moves on with that of bids, of which a file has so many ``rows``."""
    folder.mkdir(parents=True)
    for number in range(files):
        auctions = np.arange(keys) if number == 0 else np.array([keys + number])
        seconds = -10 if number == 0 else number * rows // BIDS_PER_SECOND
        at = np.full(len(auctions), (START_MS + seconds * 1000) * 1000)
        columns = (auctions, auctions % 1_000, at)
        arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, AUCTIONS, strict=True)]
        pq.write_table(pa.table(arrays, schema=AUCTIONS), folder / f"{number:05}.parquet")


def bids_in(folder: Path, rows: int, chosen: argparse.Namespace, *, keys: int = FEW_KEYS, hot: float = 0.0) -> int:
    """Writes so many bids, and returns the number of their files."""
    files: int = max(rows // chosen.batch, 1)
    write_bids(folder / "bids", files, rows // files, keys, hot=hot)
    return files


# --- the tables -----------------------------------------------------------------------------------------------


def skew(chosen: argparse.Namespace, measure: Measure) -> Iterator[Table]:
    """One key with half of the rows beside keys that all have as many."""
    title = f"one of {FEW_KEYS:,} keys has {HOT:.0%} of {chosen.rows:,} rows; micro-batches of {chosen.batch:,}"
    headers = ("query", "keys", "rows/s", "skewed is", "wanted", "processor, µs/row", "peak memory", "state")
    table = _table(title, *headers)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folders = {name: Path(made) / name.split()[0] for name in ("uniform", "one hot")}
        for name, folder in folders.items():
            files = bids_in(folder, chosen.rows, chosen, hot=HOT if name == "one hot" else 0.0)
            write_auctions(folder / "auctions", FEW_KEYS, files, chosen.rows // files)
        for query in ("GROUP BY", "TUMBLE 10 s", "interval join", "regular join"):
            figures = {name: steady(measure(Measurement(query, str(folder)))) for name, folder in folders.items()}
            for row in _skew_rows(query, figures):
                table.add_row(*row)
    yield table


def _skew_rows(query: str, figures: Mapping[str, Steady]) -> Iterator[list[str]]:
    uniform, hot = figures["uniform"], figures["one hot"]
    times = uniform.rows_per_second / hot.rows_per_second
    wanted = f"≤ {MOST_SLOWER:g} × slower: {queries.holds(times <= MOST_SLOWER)}" if "join" in query else ""
    yield [query, "uniform", _rate(uniform), "", "", *_cost(uniform)]
    yield [query, "one hot", _rate(hot), f"{1 / times:.2f} × as fast", wanted, *_cost(hot)]


def tasks(chosen: argparse.Namespace, measure: Measure) -> Iterator[Table]:
    """1, 2 and 4 tasks at the same time. With one, Java and Python of a task work at the same time, as does Java's
    compiler, so that it also has a row for a single core."""
    title = f"{chosen.rows:,} rows, {FEW_KEYS:,} keys, micro-batches of {chosen.batch:,}, {os.cpu_count()} cores"
    table = _table(title, "query", "tasks", "rows/s", "×", "processor, µs/row", "peak memory", "state")
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        bids_in(Path(made), chosen.rows, chosen)
        for query in ("GROUP BY", "TUMBLE 10 s"):
            first: Steady | None = None
            for name, (count, cores) in PLACES.items():
                figures = steady(measure(Measurement(query, made, f"local[{count}]", cores)))
                first = first or figures
                times = figures.rows_per_second / first.rows_per_second
                table.add_row(query, name, _rate(figures), f"{times:.2f}", *_cost(figures))
    yield table


def events(chosen: argparse.Namespace, measure: Measure) -> Iterator[Table]:
    """The same micro-batches, fewer and more of them: what an event costs and what memory is needed stay the same."""
    title = f"{FEW_KEYS:,} keys, micro-batches of {chosen.batch:,}"
    headers = ("events", "rows/s", "processor, µs/row", "of the whole run", "peak memory", "state")
    table = _table(title, "query", *headers)
    for count in chosen.events:
        with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
            bids_in(Path(made), count, chosen)
            for query in ("TUMBLE 10 s", "GROUP BY"):
                batches = measure(Measurement(query, made))
                figures = steady(batches)
                processor, *sizes = _cost(figures)
                whole = f"{sum(batches.processor) * 1e6 / sum(batches.rows):.2f}"
                table.add_row(query, f"{count:,}", _rate(figures), processor, whole, *sizes)
    yield table


def keys(chosen: argparse.Namespace, measure: Measure) -> Iterator[Table]:
    """GROUP BY of more and more keys, of which each micro-batch touches as many as it has rows, where there are so
    many."""
    title = f"GROUP BY, micro-batches of {chosen.batch:,} rows on random keys"
    headers = ("keys", "rows", "rows/s", "processor, µs/row", "peak memory", "state")
    table = _table(title, *headers)
    for count in chosen.keys:
        rows = max(chosen.rows, 2 * count)
        with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
            bids_in(Path(made), rows, chosen, keys=count)
            figures = steady(measure(Measurement("GROUP BY", made)))
        table.add_row(f"{count:,}", f"{rows:,}", _rate(figures), *_cost(figures))
    yield table


def year(chosen: argparse.Namespace, measure: Measure) -> Iterator[Table]:
    """Micro-batches that together have a year of event time, of which each closes some 88 windows of an hour. Bytes
    of state also count deletions that RocksDB has not compacted.
    """
    count, rows = chosen.year_batches, chosen.year_rows
    title = f"TUMBLE 1 h over a year of {count * rows:,} events, {YEAR_KEYS} keys, in {count} micro-batches; medians"
    headers = ("tenth of the year", "ms a micro-batch", "processor, ms", "memory in the end", "state", "entries")
    table = _table(title, *headers)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        write_bids(Path(made, "bids"), count, rows, YEAR_KEYS, per_second=count * rows / YEAR_S)
        batches = measure(Measurement("TUMBLE 1 h", made))
    filled = np.flatnonzero(batches.rows)
    medians = []
    for number, numbers in enumerate(np.array_split(filled, 10)):
        if not len(numbers):
            continue
        medians.append(statistics.median(batches.milliseconds[i] for i in numbers))
        processor = 1000 * statistics.mean(batches.processor[i] for i in numbers)
        sizes = (
            f"{batches.memory_mb[numbers[-1]]:,} MB",
            f"{statistics.median(batches.states[i] for i in numbers) / 1e6:,.1f} MB",
            f"{statistics.median(batches.entries[i] for i in numbers):,.0f}",
        )
        table.add_row(f"{number + 1}", f"{medians[-1]:,.0f}", f"{processor:,.0f}", *sizes)
    table.caption = (
        f"the last tenth takes {medians[-1] / medians[0]:.2f} × the first, in which Java compiles, and "
        f"{medians[-1] / medians[len(medians) // 2]:.2f} × the middle"
    )
    yield table


# --- a cluster: what is expected of it, and what it does ------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A micro-batch takes ``fixed_s``, and ``per_row_s`` of one core for each of its rows."""

    fixed_s: float
    per_row_s: float

    @classmethod
    def of(cls, few: tuple[int, float], many: tuple[int, float]) -> Model | None:
        """The line through two micro-batches: rows and seconds, on one core. None where the one with more rows took no
        longer, as on a machine that did other work meanwhile.
        """
        per_row = (many[1] - few[1]) / (many[0] - few[0])
        return cls(few[1] - per_row * few[0], per_row) if per_row > 0 else None

    def rows_per_second(self, rows: int, cores: int) -> float:
        """Of micro-batches of so many rows, that as many tasks share as there are cores."""
        return rows / (self.fixed_s + rows * self.per_row_s / cores)


def cluster(chosen: argparse.Namespace, measure: Measure) -> Iterator[Table]:
    """Predicts rows per second of two workers from one core of this machine, and measures them."""
    sizes = (chosen.batch // 4, chosen.batch)
    table = _table(
        f"{FEW_KEYS:,} keys; local[1] on one core, and predicted from it: two workers with a core each",
        "query", "one core: fixed, ms", "µs a row", "rows of a micro-batch", "predicted, rows/s", "measured", "is",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folders = {size: Path(made) / str(size) for size in sizes}
        for size, folder in folders.items():
            files = max(chosen.rows // chosen.batch, 4)
            write_bids(folder / "bids", files, size, FEW_KEYS)
        for query in ("GROUP BY", "TUMBLE 10 s"):
            alone = {
                size: steady(measure(Measurement(query, str(folder), "local[1]", 1)))
                for size, folder in folders.items()
            }
            few, many = ((size, size / figures.rows_per_second) for size, figures in alone.items())
            model = Model.of(few, many)
            for size, folder in folders.items():
                actual = steady(measure(Measurement(query, str(folder), "cluster"))).rows_per_second
                table.add_row(*_cluster_row(query, model, size, actual))
    yield table


def _cluster_row(query: str, model: Model | None, size: int, actual: float) -> list[str]:
    if model is None:
        return [query, "–", "–", f"{size:,}", "–", f"{actual:,.0f}", "–"]
    predicted = model.rows_per_second(size, 2)
    own = (f"{model.fixed_s * 1000:,.0f}", f"{model.per_row_s * 1e6:.2f}")
    return [query, *own, f"{size:,}", f"{predicted:,.0f}", f"{actual:,.0f}", f"{actual / predicted:.2f}"]


PARTS = {"skew": skew, "tasks": tasks, "events": events, "keys": keys, "year": year, "cluster": cluster}
USUAL = [name for name in PARTS if name != "cluster"]


def _table(title: str, *headers: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    for header in headers:
        table.add_column(header, justify="left" if header in ("query", "keys", "tasks", "wanted") else "right")
    return table


def _rate(figures: Steady) -> str:
    return f"{figures.rows_per_second:,.0f}"


def _cost(figures: Steady) -> list[str]:
    return [f"{figures.processor_us:.2f}", *figures.sizes]


def parser() -> argparse.ArgumentParser:
    described = argparse.ArgumentParser(description="Skew and scale: a hot key, tasks, events, keys, a year.")
    described.add_argument("--only", nargs="+", choices=PARTS, default=USUAL, help="these parts (default: %(default)s)")
    described.add_argument("--rows", type=int, default=5_000_000, help="where nothing else says it (%(default)s)")
    described.add_argument("--batch", type=int, default=500_000, help="rows of a micro-batch (default: %(default)s)")
    described.add_argument("--events", type=int, nargs="+", default=[*EVENTS], help="of 'events' (%(default)s)")
    described.add_argument("--keys", type=int, nargs="+", default=[*KEYS], help="of 'keys' (default: %(default)s)")
    described.add_argument("--year-batches", type=int, default=YEAR_BATCHES, help="of 'year' (default: %(default)s)")
    described.add_argument("--year-rows", type=int, default=YEAR_ROWS, help="of a micro-batch (default: %(default)s)")
    described.add_argument("--measure", help=argparse.SUPPRESS)
    return described


def main() -> None:
    chosen = parser().parse_args()
    if chosen.measure:
        print(json.dumps(asdict(measured(Measurement(**json.loads(chosen.measure))))))
        return
    console = Console(width=160)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    for name in chosen.only:
        for table in PARTS[name](chosen, in_process):
            console.print(table, "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
