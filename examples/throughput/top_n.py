"""The last row and the ten best rows of each key, as a table.

``make bench-top-n``, or ``python -m examples.throughput.top_n [--rows 10000000] [--keys 10000] [--query NAME]``. Bids
are on random auctions. The first half of the rows warms each measurement up and is left out.
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

_KEYS = "OVER (PARTITION BY auction ORDER BY"
_TEN = f"(SELECT *, ROW_NUMBER() {_KEYS} price DESC) AS rn FROM bids) AS b WHERE rn <= 10"
QUERIES = {
    "first row": f"SELECT auction, price, bidder FROM bids QUALIFY ROW_NUMBER() {_KEYS} at) = 1",
    "last row": f"SELECT auction, price, bidder FROM bids QUALIFY ROW_NUMBER() {_KEYS} at DESC) = 1",
    "best 10": f"SELECT auction, price, bidder FROM {_TEN}",
    "best 10, numbered": f"SELECT auction, price, rn FROM {_TEN}",
}
ROWS_PER_SECOND = {"last row": 1_000_000, "best 10": 700_000}
"""What we want on two cores."""

_TABLE = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1')
"""


def ours(query: str, folder: Path) -> Batches:
    columns = "auction BIGINT, price BIGINT, more BIGINT"
    return queries.ours([_TABLE.format(folder=folder)], columns, QUERIES[query])


def table_of(chosen: argparse.Namespace, keys: int) -> Table:
    rows: int = chosen.rows
    title = f"{rows:,} rows, {keys:,} keys; the second half of {chosen.files} micro-batches"
    table = Table("query", "rows/s", "processor, µs/row", "wanted", "peak memory", "state", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder = Path(made) / "bids"
        write_bids(folder, chosen.files, rows // chosen.files, keys)
        for query in chosen.query:
            measured = BENCHMARK.measured("sqlstream", query, folder)
            wanted = wanted_text(measured.rows_per_second, ROWS_PER_SECOND.get(query))
            rate, processor = f"{measured.rows_per_second:,.0f}", f"{measured.processor_us:.2f}"
            table.add_row(query, rate, processor, wanted, *measured.sizes)
    return table


BENCHMARK = Benchmark(
    "examples.throughput.top_n",
    "The last row and the ten best rows of each key.",
    QUERIES,
    {"sqlstream": ours},
    table_of,
    rows=10_000_000,
    keys=(10_000, 1_000_000),
)

if __name__ == "__main__":
    BENCHMARK.main()
