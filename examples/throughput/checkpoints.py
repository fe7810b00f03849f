"""What an epoch costs as state grows: time and bytes of its checkpoint, by the keys that it touches of those stored.

``make bench-checkpoints``, or ``python -m examples.throughput.checkpoints --keys 10000 100000``. A window of rows keeps
a count, a sum and a maximum per key. When each key has a row, micro-batches follow that touch 1 % of the keys, drawn at
random, then as many that touch 100: what a checkpoint costs has to follow the keys that are touched, not those stored.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput import state_bytes
from examples.throughput.bids import write_stored
from sqlstream.jobs import Job

KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
SHARE = 0.01
FEW = 100

_SNAPSHOTS = (".zip", ".sst", ".log", ".snapshot")
_SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '{folder}/bids', 'format' = 'parquet', 'source.max-files-per-trigger' = '1');
CREATE TABLE nowhere (auction BIGINT, bids BIGINT, total BIGINT, best BIGINT) WITH ('connector' = 'blackhole');
"""
_INSERT = (
    "INSERT INTO nowhere SELECT auction, COUNT(*), SUM(price), MAX(price) FROM bids GROUP BY auction "
    "COUNT WINDOW (1000000 ROWS)"
)


@dataclass(frozen=True)
class Cost:
    """Of an epoch with ``touched`` of ``stored`` keys: medians. ``bytes_``: offsets, commits and changes of state."""

    stored: int
    touched: int
    milliseconds: float
    bytes_: float


@dataclass(frozen=True)
class Measured:
    """``snapshot_bytes``: whole versions of the state that Spark wrote in the background, over the whole run."""

    costs: tuple[Cost, ...]
    snapshot_bytes: int


def measured(stored: int, touched: Sequence[int], epochs: int, rows: int) -> Measured:
    """``epochs`` of each number of touched keys behind those that store the keys, ``rows`` in one."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder, sqlstream.connect() as session:
        batches = [count for count in touched for _ in range(epochs)]
        write_stored(Path(folder, "bids"), stored, rows, tuple(batches), 0)
        session.sql(_SCRIPT.format(folder=folder))
        job = session.sql(_INSERT)
        assert isinstance(job, Job)
        job.wait()
        lines = [line for line in sorted(job.checkpoints(), key=lambda line: line.epoch) if line.rows]
        lines = lines[-(-stored // rows) :]
        costs = []
        for i, count in enumerate(touched):
            of_count = lines[i * epochs : (i + 1) * epochs]
            assert [line.rows for line in of_count] == [count] * epochs, "an epoch reads a file"
            times = [line.duration_ms for line in of_count if line.duration_ms is not None]
            sizes = [line.size for line in of_count if line.size is not None]
            costs.append(Cost(stored, count, statistics.median(times), statistics.median(sizes)))
        return Measured(tuple(costs), _snapshots(Path(folder, "checkpoints")))


def _snapshots(checkpoints: Path) -> int:
    state = (path for path in checkpoints.rglob("*") if path.suffix in _SNAPSHOTS and path.name[0] != ".")
    return sum(path.stat().st_size for path in state)


def table_of(items: Sequence[Measured]) -> Table:
    title = "an epoch, medians; × is to the row above with as many touched, or the same share"
    headers = ("stored keys", "touched", "ms", "×", "bytes", "×", "bytes per touched key", "snapshots in all")
    table = Table(*headers, title=title, title_justify="left")
    for i in range(len(items[0].costs)):
        before: Cost | None = None
        for of_size in items:
            cost = of_size.costs[i]
            table.add_row(
                f"{cost.stored:,}",
                f"{cost.touched:,}",
                f"{cost.milliseconds:,.0f}",
                "" if before is None else f"{cost.milliseconds / before.milliseconds:.1f}",
                f"{cost.bytes_:,.0f}",
                "" if before is None else f"{cost.bytes_ / before.bytes_:.1f}",
                f"{cost.bytes_ / cost.touched:,.0f}",
                f"{of_size.snapshot_bytes:,}",
            )
            before = cost
        table.add_section()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and bytes of an epoch as state grows.")
    parser.add_argument("--keys", type=int, nargs="+", default=[*KEYS], help="stored (default: 10,000 to 10 million)")
    parser.add_argument("--share", type=float, default=SHARE, help="of the keys, touched (default: %(default)s)")
    parser.add_argument("--few", type=int, default=FEW, help="keys touched at every size (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=7, help="of each number of keys (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=2_000_000, help="in an epoch that stores (default: %(default)s)")
    chosen = parser.parse_args()
    console = Console(width=140)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}")
    console.print(state_bytes.table_of(chosen.keys, chosen.share))
    runs = []
    for keys in chosen.keys:
        runs.append(measured(keys, (max(1, int(keys * chosen.share)), chosen.few), chosen.epochs, chosen.rows))
        costs = (
            f"{cost.milliseconds:,.0f} ms, {cost.bytes_:,.0f} bytes for {cost.touched:,}" for cost in runs[-1].costs
        )
        console.print(f"{keys:,} keys: {'; '.join(costs)}")
    console.print("", table_of(runs))
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
