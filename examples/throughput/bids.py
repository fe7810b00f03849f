"""Bids for the benchmarks of windows, as Parquet files that are read one per micro-batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_MS = 1_700_000_000_000
BIDS_PER_SECOND = 10_000
"""Of event time, as in Nexmark."""
DISORDER_MS = 4_000

SCHEMA = pa.schema(
    [("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
)


def write_bids(
    folder: Path, files: int, rows: int, keys: int, *, hot: float = 0.0, per_second: float = BIDS_PER_SECOND
) -> None:
    """``files`` of ``rows`` bids each on ``keys`` auctions, at most 4 s out of order. ``hot``: the share of bids that
    are on one auction, the first. ``per_second``: so many bids in a second of event time.
    """
    folder.mkdir(parents=True)
    random = np.random.default_rng(42)
    for number in range(files):
        elapsed = (np.arange(number * rows, (number + 1) * rows) * 1000 / per_second).astype(np.int64)
        at = START_MS + elapsed - random.integers(0, DISORDER_MS, rows)
        auctions = random.integers(0, keys, rows)
        if hot:
            auctions[random.random(rows) < hot] = 0
        _write(folder, number, auctions, at, random)


def write_stored(folder: Path, stored: int, rows: int, touched: tuple[int, ...], empty: int) -> None:
    """Files of ``rows`` bids until each of ``stored`` auctions has one, then for each count as many bids again, then
    ``empty`` files without a bid."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(42)
    keys = random.permutation(stored)
    loads = [keys[i : i + rows] for i in range(0, stored, rows)]
    again = [random.choice(stored, n, replace=False) for n in (*touched, *[0] * empty)]
    for number, auctions in enumerate([*loads, *again]):
        at = np.full(len(auctions), START_MS + number * 1000)
        _write(folder, number, auctions, at, random)


def _write(folder: Path, number: int, auctions: np.ndarray, at_ms: np.ndarray, random: np.random.Generator) -> None:
    count = len(auctions)
    columns = [auctions, random.integers(0, 10_000, count), random.integers(1, 100_000, count), at_ms * 1000]
    arrays = [pa.array(c.astype(np.int64)).cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    # Row groups are what Spark's tasks share a file by.
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    pq.write_table(table, folder / f"bids-{number:05}.parquet", row_group_size=1 << 17)
