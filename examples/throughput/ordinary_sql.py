"""Updating results beside Spark's own aggregation of streams, as a table.

``make bench-sql``, or ``python -m examples.throughput.ordinary_sql [--rows 10000000] [--keys 10000] [--query NAME]``.
Bids are on random auctions. The first half of the rows warms each measurement up and is left out.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.table import Table

from examples.throughput import queries
from examples.throughput.bids import write_bids
from examples.throughput.measure import Batches
from examples.throughput.queries import Benchmark, wanted_text
from examples.throughput.windows import Steady

_PER_AUCTION = "SELECT auction, COUNT(*) AS n, SUM(price) AS total, MAX(price) AS best FROM bids GROUP BY auction"
QUERIES = {
    "GROUP BY": _PER_AUCTION,
    "GROUP BY of GROUP BY": f"SELECT n, COUNT(*) AS auctions, SUM(total) AS total, MAX(best) AS best "
    f"FROM ({_PER_AUCTION}) GROUP BY n",
    "COUNT(DISTINCT)": "SELECT auction, COUNT(DISTINCT bidder), MIN(price), MAX(price) FROM bids GROUP BY auction",
}
ONLY_OURS = {"GROUP BY of GROUP BY", "COUNT(DISTINCT)"}
"""Spark has no aggregate over the changes of another one, and no DISTINCT in those of streams."""

ROWS_PER_SECOND = {"GROUP BY": 1_000_000}
"""What we want, at 10,000 keys."""

_BIDS = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1')
"""


def ours(query: str, folder: Path) -> Batches:
    columns = "k BIGINT, n BIGINT, total BIGINT, best BIGINT"
    return queries.ours([_BIDS.format(folder=folder)], columns, QUERIES[query])


def of_spark(query: str, folder: Path) -> Batches:
    """Spark's aggregation of streams."""
    return queries.of_spark({"bids": folder}, QUERIES[query], mode="update")


def compared(chosen: argparse.Namespace, keys: int) -> Table:
    rows: int = chosen.rows
    title = f"{rows:,} rows, {keys:,} keys; the second half of {chosen.files} micro-batches"
    table = Table("query", "engine", "rows/s", "processor, µs/row", "wanted", "peak memory", "state", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder = Path(made) / "bids"
        write_bids(folder, chosen.files, rows // chosen.files, keys)
        for query in chosen.query:
            for engine in BENCHMARK.engines if query not in ONLY_OURS else ["sqlstream"]:
                measured = BENCHMARK.measured(engine, query, folder)
                least = ROWS_PER_SECOND.get(query) if engine == "sqlstream" else None
                table.add_row(query, engine, *_row(measured, least))
    return table


def _row(figures: Steady, least: int | None) -> list[str]:
    rate = figures.rows_per_second
    return [f"{rate:,.0f}", f"{figures.processor_us:.2f}", wanted_text(rate, least), *figures.sizes]


BENCHMARK = Benchmark(
    "examples.throughput.ordinary_sql",
    "Updating results beside Spark's aggregation of streams.",
    QUERIES,
    {"sqlstream": ours, "Spark": of_spark},
    compared,
    rows=10_000_000,
    keys=(10_000, 1_000_000),
)

if __name__ == "__main__":
    BENCHMARK.main()
