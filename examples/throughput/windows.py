"""Windows through the columnar gear, Spark's native operators and ``transformWithState`` per key, as tables.

``make bench-windows``, or ``python -m examples.throughput.windows [--rows 2000000] [--files 6]``. The first half of the
micro-batches of each run is left out: they start workers, and for about a minute the JVM spends a third of its time on
compiling, on every gear. Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.throughput.bids import write_bids, write_stored
from examples.throughput.measure import QUERIES, Batches

GEARS = ("columnar", "native", "per_key")
TOUCHED = (1_000, 10_000, 100_000, 1_000_000)
_PER_KEY_SHARE = 4
"""``transformWithState`` per key gets a part of the rows: it takes a minute for what others do in seconds."""


@dataclass(frozen=True)
class Steady:
    """What is left of a run without its first half."""

    rows_per_second: float
    empty_ms: int | None
    peak_mb: int


def measured(gear: str, query: str, folder: Path) -> Batches:
    command = [sys.executable, "-m", "examples.throughput.measure", gear, query, str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return Batches(**json.loads(ran.stdout.splitlines()[-1]))


def steady(batches: Batches) -> Steady:
    """Batches without rows between those with rows (a watermark that passes) belong to the work; the last is empty."""
    filled = [i for i, rows in enumerate(batches.rows) if rows]
    first, last = filled[(len(filled) - 1) // 2], filled[-1]
    busy = sum(batches.milliseconds[first + 1 : last + 1])
    empty = [ms for i, ms in enumerate(batches.milliseconds) if i > first and not batches.rows[i]]
    rate = sum(batches.rows[first + 1 :]) * 1000 / busy
    return Steady(rate, int(statistics.median(empty)) if empty else None, batches.peak_mb)


def can_run(gear: str, query: str) -> bool:
    counts = query.startswith("COUNT")
    return gear == "columnar" or (gear == "per_key") == counts


def throughput(rows: int, files: int, keys: int, folder: Path, queries: list[str]) -> Table:
    write_bids(folder / "bids", files, rows, keys)
    write_bids(folder / "few", files, rows // _PER_KEY_SHARE, keys)
    title = f"{rows * files:,} bids, {keys:,} keys, {files} micro-batches; rows/s of the second half"
    table = Table("query", "gear", "rows/s", "columnar is", "peak memory", title=title, title_justify="left")
    for query in queries:
        found: dict[str, Steady] = {}
        for gear in GEARS:
            if can_run(gear, query):
                found[gear] = steady(measured(gear, query, folder / ("few" if gear == "per_key" else "bids")))
        ours = found["columnar"].rows_per_second
        for gear, figures in found.items():
            ratio = "" if gear == "columnar" else f"{ours / figures.rows_per_second:.1f} ×"
            table.add_row(query, gear, f"{figures.rows_per_second:,.0f}", ratio, f"{figures.peak_mb:,} MB")
    return table


def stored(keys: int, rows: int, folder: Path) -> Table:
    """The time of a batch by the keys it touches, of ``keys`` that are stored, and that of a batch without rows."""
    touched = tuple(n for n in (*TOUCHED, *TOUCHED) if n <= keys)
    write_stored(folder / "stored", keys, rows, touched)
    found = measured("columnar", "COUNT WINDOW 100", folder / "stored")
    filled = [ms for rows, ms in zip(found.rows, found.milliseconds, strict=True) if rows]
    title = f"{keys:,} keys stored, COUNT WINDOW 100: time of a batch by the keys that it touches"
    table = Table("touched keys", "milliseconds", "µs per key", title=title, title_justify="left")
    half = len(touched) // 2
    for count, ms in zip(touched[half:], filled[-half:], strict=True):
        table.add_row(f"{count:,}", f"{ms:,}", f"{ms * 1000 / count:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Windows: columnar, native, per key.")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of a micro-batch (default: %(default)s)")
    parser.add_argument("--files", type=int, default=6, help="micro-batches (default: %(default)s)")
    parser.add_argument("--keys", type=int, nargs="*", default=[10_000, 1_000_000])
    parser.add_argument("--stored", type=int, default=10_000_000, help="keys in state; 0: leave this table out")
    parser.add_argument("--query", action="append", choices=[*QUERIES], help="only this one; may be repeated")
    chosen = parser.parse_args()
    console = Console()
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    for keys in chosen.keys:
        with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
            queries = chosen.query or [*QUERIES]
            console.print(throughput(chosen.rows, chosen.files, keys, Path(folder), queries), "")
    if chosen.stored:
        with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
            console.print(stored(chosen.stored, chosen.rows, Path(folder)), "")


if __name__ == "__main__":
    main()
