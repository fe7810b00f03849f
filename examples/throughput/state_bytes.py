"""What a kernel writes of its state in the long run, without an engine: ``make bench-checkpoints`` prints it first.

One key group of those that hold the keys gets its share of them, then micro-batches that touch some. Over a hundred of
them buckets are rewritten as often as they ever are; bytes are those given to the store, which Spark compresses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.table import Table

from examples.throughput.kernels import AGGREGATES, GROUPS, SCHEMA
from sqlstream.udfs.driver import GroupContext
from sqlstream.udfs.kernel import MemoryStore
from sqlstream.udfs.windows.counted import CountWindows

BATCHES = 100
_NEVER = 1_000_000
_ROWS = 15_000


@dataclass(frozen=True)
class Written:
    """Of a micro-batch of one key group: means. ``most``: bytes of the largest."""

    stored: int
    touched: int
    bytes_: float
    most: int
    entries: float
    read: float
    milliseconds: float


def written(stored: int, touched: int) -> Written:
    """``stored`` and ``touched`` keys of one key group."""
    kernel = CountWindows(SCHEMA, ("auction",), "ts", _NEVER, _NEVER, AGGREGATES)
    store = MemoryStore()
    group = GroupContext(store)
    random = np.random.default_rng(42)
    for keys in np.array_split(np.arange(stored), -(-stored // _ROWS)):
        kernel.on_rows(_bids(keys, random), group)
    sizes, traffic = [], store.traffic
    entries, read, start = traffic.entries_written, traffic.bytes_read, time.process_time()
    for _ in range(BATCHES):
        before = traffic.bytes_written
        kernel.on_rows(_bids(random.choice(stored, touched, replace=False), random), group)
        sizes.append(traffic.bytes_written - before)
    spent = (time.process_time() - start) * 1000
    counted = (traffic.entries_written - entries, traffic.bytes_read - read, spent)
    return Written(stored, touched, float(np.mean(sizes)), max(sizes), *(value / BATCHES for value in counted))


def table_of(sizes: Sequence[int], share: float) -> Table:
    headers = ("stored keys", "touched", "bytes written", "per touched key", "most", "entries", "bytes read", "CPU ms")
    table = Table(
        *headers, title=f"a micro-batch of one of {GROUPS} key groups, means of {BATCHES}", title_justify="left"
    )
    for touched in (None, 1):
        for stored in sizes:
            here = max(1, stored // GROUPS)
            cost = written(here, touched or max(1, round(here * share)))
            numbers = (cost.bytes_, cost.bytes_ / cost.touched, cost.most)
            table.add_row(
                f"{cost.stored:,}", f"{cost.touched:,}", *(f"{number:,.0f}" for number in numbers),
                f"{cost.entries:.1f}", f"{cost.read:,.0f}", f"{cost.milliseconds:.1f}",
            )  # fmt: skip
        table.add_section()
    return table


def _bids(keys: np.ndarray, random: np.random.Generator) -> pa.Table:
    mixed = keys * np.int64(-7046029254386353131)
    columns = [mixed ^ (mixed >> 29), keys, np.zeros(len(keys), np.int64), random.integers(0, 10_000, len(keys))]
    return pa.table(columns, schema=SCHEMA)
