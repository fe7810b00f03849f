"""Window kernels without an engine, on one core: where the time of a batch goes, as a table.

``make bench-kernels``, or ``python -m examples.throughput.kernels [--rows 1000000] [--batches 4] [--key-groups 16]``.
Batches of bids over ten seconds of event time pass the kernel's ``combine``, the exchange's cut into key groups, and
the kernel. Processor time is counted, not what the clock shows; the first batch is left out. Stores are dictionaries:
state costs what it takes to pack and unpack it, not the calls of a state server.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from examples.throughput.spent import Spent
from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Cumulate, Hop, Session, Tumble
from sqlstream.udfs.driver import GroupContext
from sqlstream.udfs.exchange import ROWS_PER_CUT, cut, from_bytes, to_bytes
from sqlstream.udfs.kernel import KEY_HASH, Domain, Kernel, MemoryStore
from sqlstream.udfs.windows.aligned import AlignedWindows
from sqlstream.udfs.windows.counted import CountWindows
from sqlstream.udfs.windows.sessions import SessionKernel

SECOND = 1_000_000
SPAN = 10 * SECOND
GROUPS = 128
KEY_COUNTS = (10_000, 1_000_000)

SCHEMA = pa.schema([(KEY_HASH, pa.int64()), ("auction", pa.int64()), ("ts", pa.int64()), ("price", pa.int64())])
AGGREGATES = Aggregates(
    (
        AggregateCall("bids", "count", (), pa.int64()),
        AggregateCall("total", "sum", ("price",), pa.int64()),
        AggregateCall("highest", "max", ("price",), pa.int64()),
    ),
    SCHEMA,
)

LAST = Aggregates((AggregateCall("last", "last_value", ("price",), pa.int64()),), SCHEMA)
"""Shows the order of rows, which sessions then keep the numbers of."""

KERNELS: dict[str, Kernel] = {
    "TUMBLE 10 s": AlignedWindows(("auction",), Tumble("ts", SPAN), AGGREGATES),
    "HOP 10 s by 2 s": AlignedWindows(("auction",), Hop("ts", 2 * SECOND, SPAN), AGGREGATES),
    "CUMULATE 60 s by 10 s": AlignedWindows(("auction",), Cumulate("ts", SPAN, 6 * SPAN), AGGREGATES),
    "SESSION 1 s": SessionKernel(SCHEMA, ("auction",), Session("ts", SECOND), AGGREGATES),
    "SESSION 1 s, last bid": SessionKernel(SCHEMA, ("auction",), Session("ts", SECOND), LAST),
    "COUNT WINDOW 100": CountWindows(SCHEMA, ("auction",), "ts", 100, 100, AGGREGATES),
    "COUNT WINDOW 100 by 10": CountWindows(SCHEMA, ("auction",), "ts", 100, 10, AGGREGATES),
    "COUNT WINDOW 100 by 1": CountWindows(SCHEMA, ("auction",), "ts", 100, 1, AGGREGATES),
}

STAGES = ("combine", "exchange", "fire", "rows")


def bids(rows: int, keys: int, batch: int) -> pa.Table:
    """Out of order by up to a second."""
    random = np.random.default_rng(batch)
    auction = random.integers(0, keys, rows)
    mixed = auction * np.int64(-7046029254386353131)
    times = batch * SPAN + np.sort(random.integers(0, SPAN, rows)) - random.integers(0, SECOND, rows)
    columns = [mixed ^ (mixed >> 29), auction, np.maximum(times, 0), random.integers(0, 10_000, rows)]
    return pa.table(columns, schema=SCHEMA)


def measured(kernel: Kernel, rows: int, keys: int, batches: int, key_groups: int = GROUPS) -> Spent:
    """What all batches but the first cost."""
    groups = [GroupContext(MemoryStore()) for _ in range(key_groups)]
    spent = Spent()
    for batch in range(batches):
        if batch == 1:
            spent = Spent()
        _run(kernel, groups, bids(rows, keys, batch), (batch + 1) * SPAN - SECOND, spent)
    return spent


def _run(kernel: Kernel, groups: list[GroupContext], rows: pa.Table, watermark: int, spent: Spent) -> None:
    pieces = [rows.slice(start, ROWS_PER_CUT) for start in range(0, rows.num_rows, ROWS_PER_CUT)]
    parts = spent.on("combine", lambda: [kernel.combine(piece) for piece in pieces])
    exchanged = spent.on("exchange", lambda: dict(_exchanged(parts, len(groups))))
    spent.on("fire", lambda: _fire(kernel, groups, watermark))
    spent.on("rows", lambda: _take(kernel, groups, exchanged))
    for group in groups:
        for emitted in group.emitted.values():
            spent.results += sum(table.num_rows for table in emitted)
            emitted.clear()


def _take(kernel: Kernel, groups: list[GroupContext], rows: dict[int, pa.Table]) -> None:
    for group, item in rows.items():
        kernel.on_rows(item, groups[group])


def _exchanged(parts: list[pa.Table], key_groups: int) -> Iterator[tuple[int, pa.Table]]:
    blobs: dict[int, list[bytes]] = {}
    for part in parts:
        for group, rows in cut(part, key_groups):
            blobs.setdefault(group, []).append(to_bytes(rows))
    for group, item in blobs.items():
        yield group, pa.concat_tables([from_bytes(blob) for blob in item])


def _fire(kernel: Kernel, groups: list[GroupContext], watermark: int) -> None:
    for group in groups:
        group.watermark = watermark
        if group.timers[Domain.EVENT] <= watermark:
            kernel.on_event_time(watermark, group)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a batch")
    parser.add_argument("--batches", type=int, default=4, help="batches, the first of which is left out")
    parser.add_argument("--key-groups", type=int, default=GROUPS, help="a call of the kernel each in a batch")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    table = Table(
        "window",
        "keys",
        "M rows/s",
        "ms a batch:",
        *STAGES,
        "results",
        title=f"Kernels on one core, {options.key_groups} key groups",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for name, kernel in KERNELS.items():
        for keys in KEY_COUNTS:
            spent = measured(kernel, options.rows, keys, options.batches, options.key_groups)
            count = options.batches - 1
            times = [spent.seconds[stage] * 1000 / count for stage in STAGES]
            rate = options.rows / sum(times) / 1000
            cells = [f"{keys:,}", f"{rate:.2f}", f"{sum(times):.0f}", *(f"{t:.0f}" for t in times)]
            table.add_row(name, *cells, f"{spent.results // count:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
