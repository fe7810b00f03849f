"""Joins of streams without an engine, on one core: where the time of a batch goes, as a table.

``python -m examples.throughput.join_kernels [--rows 1000000] [--batches 4]``. Batches of bids meet the auctions that
they are for: a tenth as many auctions as bids come in each batch, until all are there. The rows of both sides pass the
cut of the exchange into 128 key groups, and the kernel. Processor time is counted; the first batch is left out. Stores
are dictionaries: state costs what it takes to pack and unpack it, not the calls of a state server.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from examples.throughput.spent import Spent
from sqlstream.udfs.driver import GroupContext
from sqlstream.udfs.exchange import ROWS_PER_CUT, cut, from_bytes, to_bytes
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.pairs import Side
from sqlstream.udfs.joins.regular import RegularJoinKernel
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Kernel, MemoryStore

GROUPS = 128
UPDATES = 20
KEY_COUNTS = (10_000, 1_000_000)
KEY = "__key_0"

BIDS = pa.schema([(KEY_HASH, pa.int64()), (KEY, pa.int64()), ("price", pa.int64()), ("bidder", pa.int64())])
AUCTIONS = pa.schema([(KEY_HASH, pa.int64()), (KEY, pa.int64()), ("item", pa.string()), ("seller", pa.int64())])
UPDATED = AUCTIONS.append(pa.field(ROW_KIND, pa.string()))

OF_BIDS = (("auction", KEY), ("price", "price"), ("bidder", "bidder"))
OF_AUCTIONS = (("item", "item"), ("seller", "seller"))


def regular(kind: JoinKind, auctions: pa.Schema = AUCTIONS) -> Kernel:
    return RegularJoinKernel(kind, (Side(BIDS, OF_BIDS), Side(auctions, OF_AUCTIONS)), (KEY,), (False,))


KERNELS: dict[str, tuple[Kernel, bool]] = {
    "INNER": (regular(JoinKind.INNER), False),
    "LEFT": (regular(JoinKind.LEFT), False),
    "LEFT SEMI": (regular(JoinKind.SEMI), False),
    "INNER, updated auctions": (regular(JoinKind.INNER, UPDATED), True),
}
"""The kernel, and whether auctions are updated."""

STAGES = ("exchange", "join")


def hashed(keys: np.ndarray) -> np.ndarray:
    mixed = keys * np.int64(-7046029254386353131)
    return np.asarray(mixed ^ (mixed >> 29))


def bids(rows: int, keys: int, batch: int) -> pa.Table:
    random = np.random.default_rng(batch)
    auction = random.integers(0, keys, rows)
    columns = [hashed(auction), auction, random.integers(0, 10_000, rows), random.integers(0, 1_000_000, rows)]
    return pa.table(columns, schema=BIDS)


def auctions(rows: int, keys: int, batch: int, *, updated: bool) -> pa.Table:
    """New ones as long as there are some; with updates, each of UPDATES batches changes a share of the old."""
    known = min(batch * rows, keys)
    new = _auctions(np.arange(known, min(known + rows, keys)), 0)
    if not updated:
        return new
    assert batch < UPDATES, "each auction is updated once"
    old = np.arange(batch, known, UPDATES)
    kinds = ((new, "+I"), (_auctions(old, 0), "-U"), (_auctions(old, 1), "+U"))
    return pa.concat_tables([part.append_column(ROW_KIND, pa.repeat(kind, part.num_rows)) for part, kind in kinds])


def _auctions(auction: np.ndarray, version: int) -> pa.Table:
    items = pa.array(np.char.add("item ", auction.astype(str)), pa.string())
    return pa.table([hashed(auction), auction, items, auction % 1000 + version], schema=AUCTIONS)


def measured(kernel: Kernel, rows: int, keys: int, batches: int, *, updated: bool) -> Spent:
    """What all batches but the first cost."""
    groups = [GroupContext(MemoryStore()) for _ in range(GROUPS)]
    spent = Spent()
    for batch in range(batches):
        if batch == 1:
            spent = Spent()
        _run(kernel, groups, (bids(rows, keys, batch), auctions(rows // 10, keys, batch, updated=updated)), spent)
    return spent


def _run(kernel: Kernel, groups: list[GroupContext], rows: tuple[pa.Table, pa.Table], spent: Spent) -> None:
    exchanged = spent.on("exchange", lambda: _exchanged(rows))
    spent.on("join", lambda: _take(kernel, groups, exchanged))
    for group in groups:
        for emitted in group.emitted.values():
            spent.results += sum(table.num_rows for table in emitted)
            emitted.clear()


def _take(kernel: Kernel, groups: list[GroupContext], rows: dict[int, dict[int, pa.Table]]) -> None:
    for group, item in rows.items():
        kernel.on_ports(item, groups[group])


def _exchanged(rows: tuple[pa.Table, pa.Table]) -> dict[int, dict[int, pa.Table]]:
    blobs: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for port, of_port in enumerate(rows):
        for start in range(0, of_port.num_rows, ROWS_PER_CUT):
            for group, part in cut(of_port.slice(start, ROWS_PER_CUT), GROUPS):
                blobs[group][port].append(to_bytes(part))
    return {
        group: {port: pa.concat_tables(map(from_bytes, parts)) for port, parts in ports.items()}
        for group, ports in blobs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="bids of a batch")
    parser.add_argument("--batches", type=int, default=4, help="batches, the first of which is left out")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    table = Table("join", "auctions", "M bids/s", "ms a batch:", *STAGES, "results", title="Joins on one core")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, (kernel, updated) in KERNELS.items():
        for keys in KEY_COUNTS:
            spent = measured(kernel, options.rows, keys, options.batches, updated=updated)
            count = options.batches - 1
            times = [spent.seconds[stage] * 1000 / count for stage in STAGES]
            rate = options.rows / sum(times) / 1000
            cells = [f"{keys:,}", f"{rate:.2f}", f"{sum(times):.0f}", *(f"{t:.0f}" for t in times)]
            table.add_row(name, *cells, f"{spent.results // count:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
