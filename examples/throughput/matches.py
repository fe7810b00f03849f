"""MATCH_RECOGNIZE, as a table.

``make bench-match``, or ``python -m examples.throughput.matches [--rows 1000000] [--keys 10000] [--query NAME]``. Bids
are on random auctions, at random prices. The first half of the rows warms each measurement up and is left out.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.table import Table

from examples.throughput import queries
from examples.throughput.bids import write_bids
from examples.throughput.measure import Batches
from examples.throughput.queries import Benchmark

_FROM = """
FROM bids MATCH_RECOGNIZE (PARTITION BY auction ORDER BY at MEASURES A.price AS first_price, {} AS measured
    AFTER MATCH SKIP PAST LAST ROW PATTERN ({}) {} DEFINE {})
"""


def _query(measured: str, pattern: str, definitions: str, within: str = "") -> str:
    return f"SELECT auction, first_price, measured {_FROM.format(measured, pattern, within, definitions)}"


QUERIES = {
    "one row": _query("A.price", "A B", "A AS A.price < 100, B AS B.price > 900"),
    "falling": _query("LAST(B.price)", "A B+ C", "B AS B.price < PREV(B.price), C AS C.price > PREV(C.price)"),
    "falling, by LAST": _query(
        "LAST(B.price)", "A B+ C", "B AS B.price < COALESCE(LAST(B.price, 1), A.price), C AS C.price > LAST(B.price)"
    ),
    "average": _query("AVG(A.price)", "A+ B", "A AS AVG(A.price) < 500"),
    "within": _query(
        "COUNT(*)", "A B*? C", "A AS A.price < 100, C AS C.price > A.price + 800", "WITHIN INTERVAL '10' SECOND"
    ),
}

_TABLE = """
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '4' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'source.max-files-per-trigger' = '1')
"""


def ours(query: str, folder: Path) -> Batches:
    kind = "DOUBLE" if query == "average" else "BIGINT"
    columns = f"auction BIGINT, first_price BIGINT, measured {kind}"
    return queries.ours([_TABLE.format(folder=folder)], columns, QUERIES[query])


def table_of(chosen: argparse.Namespace, keys: int) -> Table:
    rows: int = chosen.rows
    title = f"{rows:,} rows, {keys:,} keys; the second half of {chosen.files} micro-batches"
    table = Table("query", "rows/s", "processor, µs/row", "peak memory", title=title)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as made:
        folder = Path(made) / "bids"
        write_bids(folder, chosen.files, rows // chosen.files, keys)
        for query in chosen.query:
            measured = BENCHMARK.measured("sqlstream", query, folder)
            memory = f"{measured.peak_mb:,} MB"
            table.add_row(query, f"{measured.rows_per_second:,.0f}", f"{measured.processor_us:.2f}", memory)
    return table


BENCHMARK = Benchmark(
    "examples.throughput.matches",
    "Rows that match a pattern.",
    QUERIES,
    {"sqlstream": ours},
    table_of,
    rows=1_000_000,
    keys=(10_000,),
)

if __name__ == "__main__":
    BENCHMARK.main()
