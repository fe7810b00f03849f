"""Joins of bids with auctions, and OVER, beside Spark's own join of streams, as a table.

``make bench-joins``, or ``python -m examples.throughput.stream_joins [--rows 10000000] [--keys 10000] [--query NAME]``.
Auctions open one after the other, and bids are for those of the last 20 seconds, as in Nexmark; OVER reads bids on
random auctions. Each measurement runs in a process of its own; the first half of its rows warms it up and is left out.
Both engines read the same Parquet files, write to nowhere and keep their state in RocksDB.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from examples.throughput import queries
from examples.throughput.bids import BIDS_PER_SECOND, DISORDER_MS, SCHEMA, START_MS, write_bids
from examples.throughput.measure import Batches
from examples.throughput.queries import FILES, Benchmark, holds, wanted_text
from examples.throughput.windows import Steady

RECENT_S = 20
OPEN_S = 10

_BOUNDS = f"AND b.at BETWEEN a.at AND a.at + INTERVAL '{OPEN_S}' SECOND"
_JOIN = "SELECT b.auction, b.price, a.seller FROM bids AS b JOIN auctions AS a ON b.auction = a.auction"
QUERIES = {
    "interval join": f"{_JOIN} {_BOUNDS}",
    "regular join": _JOIN,
    "OVER 100 rows": "SELECT auction, price, SUM(price) OVER (PARTITION BY auction ORDER BY at "
    "ROWS BETWEEN 99 PRECEDING AND CURRENT ROW) FROM bids",
}
TIMES_FASTER = {"interval join": 3.0}
ROWS_PER_SECOND = {"interval join": 500_000, "OVER 100 rows": 700_000}
"""What we want: so many times as fast as Spark, and so many rows of input."""

AUCTIONS = pa.schema([("auction", pa.int64()), ("seller", pa.int64()), ("at", pa.timestamp("us", "UTC"))])

_TABLE = """
CREATE TABLE {name} (auction BIGINT, {columns}, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = 'parquet',
    'source.max-files-per-trigger' = '1')
"""


def write_auctions(folder: Path, rows: int, keys: int, files: int = FILES) -> None:
    """Files of bids and of as many auctions as ``keys``, ``rows`` together, over the same time."""
    random = np.random.default_rng(42)
    bids, auctions = (rows - keys) // files, keys // files
    per_ms = auctions * BIDS_PER_SECOND / bids / 1000
    (folder / "bids").mkdir(parents=True)
    (folder / "auctions").mkdir()
    for number in range(files):
        elapsed = (number * bids + np.arange(bids)) * 1000 // BIDS_PER_SECOND
        newest = np.minimum((elapsed * per_ms).astype(np.int64), keys - 1)
        recent = random.integers(0, max(int(RECENT_S * 1000 * per_ms), 1), bids)
        at = START_MS + elapsed - random.integers(0, DISORDER_MS, bids)
        columns = [np.maximum(newest - recent, 0), random.integers(0, 10_000, bids), random.integers(1, 100_000, bids)]
        _write(folder / "bids", number, SCHEMA, [*columns, at * 1000])
        opened = number * auctions + np.arange(auctions)
        at = START_MS + (opened / per_ms).astype(np.int64)
        _write(folder / "auctions", number, AUCTIONS, [opened, random.integers(0, 10_000, auctions), at * 1000])


def _write(folder: Path, number: int, schema: pa.Schema, columns: list[np.ndarray]) -> None:
    arrays = [pa.array(c.astype(np.int64)).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    pq.write_table(pa.table(arrays, schema=schema), folder / f"{number:05}.parquet", row_group_size=1 << 17)


# --- one measurement --------------------------------------------------------------------------------------------


def ours(query: str, folder: Path) -> Batches:
    tables = (("bids", "bidder BIGINT, price BIGINT"), ("auctions", "seller BIGINT"))
    definitions = (_TABLE.format(name=name, columns=columns, folder=folder) for name, columns in tables)
    return queries.ours(definitions, "auction BIGINT, price BIGINT, found BIGINT", QUERIES[query])


def of_spark(query: str, folder: Path) -> Batches:
    return queries.of_spark({n: folder / n for n in ("bids", "auctions")}, QUERIES[query], delay="4 seconds")


# --- the table --------------------------------------------------------------------------------------------------


def compared(chosen: argparse.Namespace, keys: int) -> Table:
    rows: int = chosen.rows
    title = f"{rows:,} rows, {keys:,} keys; the second half of {chosen.files} micro-batches"
    table = Table("query", "engine", "rows/s", "processor, µs/row", "is", "wanted", "peak memory", "state", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder = Path(made)
        write_auctions(folder / "joined", rows, keys, chosen.files)
        write_bids(folder / "alone" / "bids", chosen.files, rows // chosen.files, keys)
        for query in chosen.query:
            over = query.startswith("OVER")
            engines = [name for name in BENCHMARK.engines if not over or name != "Spark"]
            read = folder / ("alone" if over else "joined")
            measured = {name: BENCHMARK.measured(name, query, read) for name in engines}
            for name, figures in measured.items():
                table.add_row(query, name, *_row(query, name, figures, measured))
    return table


def _row(query: str, engine: str, figures: Steady, items: Mapping[str, Steady]) -> list[str]:
    ratio, wanted = "", ""
    rate = figures.rows_per_second
    if engine == "sqlstream":
        wanted = wanted_text(rate, ROWS_PER_SECOND.get(query))
    if engine == "Spark":
        times = items["sqlstream"].rows_per_second / rate
        ratio = f"{times:.1f} × slower"
        most = TIMES_FASTER.get(query)
        wanted = f"≥ {most:g} ×: {holds(times >= most)}" if most is not None else ""
    return [f"{rate:,.0f}", f"{figures.processor_us:.2f}", ratio, wanted, *figures.sizes]


BENCHMARK = Benchmark(
    "examples.throughput.stream_joins",
    "Joins of streams and OVER, beside Spark's join.",
    QUERIES,
    {"sqlstream": ours, "Spark": of_spark},
    compared,
    rows=10_000_000,
    keys=(10_000, 1_000_000),
)

if __name__ == "__main__":
    BENCHMARK.main()
