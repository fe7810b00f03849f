"""Windows through the columnar engine, Spark's native operators and ``transformWithState`` per key, as tables.

``make bench-windows``, or ``python -m examples.throughput.windows [--keys 10000] [--query "TUMBLE 10 s"]
[--engine columnar] [--observed 3]``. Each measurement runs in a process of its own for as many seconds, of which the
first half is left out: it starts workers, and for about a minute the JVM spends a third of its time on compiling, on
every engine. Processor time is that of all processes; where the machine does other work, it says more than rows per
second. ``--observed TURNS`` measures what metrics, traces and logs cost instead.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.table import Table

from examples.throughput.bids import write_bids, write_stored
from examples.throughput.measure import OBSERVED_BY, QUERIES, Batches

ENGINES = ("columnar", "native", "per_key")
TOUCHED = (1_000, 10_000, 100_000, 1_000_000)
EMPTY = 400
"""Batches without rows, of which the first half does not count: all that Spark does for a micro-batch once the JVM
compiles when it has done it some hundred times."""

FEW_KEYS = 10_000
TIMES_FASTER = {"TUMBLE 10 s": 2.0, "HOP 10 s by 2 s": 5.0, "COUNT WINDOW 100": 20.0}
"""What we want at FEW_KEYS: the columnar engine so many times as fast as the other one."""
ROWS_PER_SECOND = {"COUNT WINDOW 100": 1_500_000}
MOST_TIMES_SLOWER = 3.0
MOST_EMPTY_MS = 150
"""What we want of many keys against FEW_KEYS, and of a batch without rows."""
MOST_OBSERVED = 1.02
"""What we want of the processor time of an observed job, of that of another one."""

_SHARES = {"columnar": 1, "native": 2, "per_key": 8}
"""The slower an engine, the smaller its micro-batches: all are to have some in the time that they get."""


@dataclass(frozen=True)
class Steady:
    """What is left of a run without its first half."""

    rows_per_second: float
    processor_us: float
    peak_mb: int
    state_mb: int

    @property
    def sizes(self) -> list[str]:
        """Peak memory and state, as tables show them."""
        return [f"{self.peak_mb:,} MB", f"{self.state_mb:,} MB"]


def measured(
    engine: str, query: str, folder: Path, seconds: float | None = None, collector: str | None = None
) -> Batches:
    """``collector``: the address to which an observed job sends metrics and traces; None for one that is not."""
    limit = [] if seconds is None else [str(seconds)]
    command = [sys.executable, "-m", "examples.throughput.measure", engine, query, str(folder), *limit]
    print(f"{query}, {engine}{'' if collector is None else ', observed'} …", file=sys.stderr, flush=True)
    variables = {**os.environ, **({} if collector is None else {OBSERVED_BY: collector})}
    ran = subprocess.run(command, capture_output=True, text=True, env=variables)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return Batches(**json.loads(ran.stdout.splitlines()[-1]))


def steady(batches: Batches) -> Steady:
    """Batches without rows between those with rows (a watermark that passes) belong to the work."""
    filled = [i for i, rows in enumerate(batches.rows) if rows]
    taken = slice(filled[(len(filled) - 1) // 2] + 1, filled[-1] + 1)
    rows = sum(batches.rows[taken]) or sum(batches.rows)  # one batch alone is all there is
    taken = taken if sum(batches.rows[taken]) else slice(None)
    busy, processor = sum(batches.milliseconds[taken]), sum(batches.processor[taken])
    return Steady(rows * 1000 / busy, processor * 1e6 / rows, batches.peak_mb, batches.state_bytes >> 20)


def can_run(engine: str, query: str) -> bool:
    counts = query.startswith("COUNT")
    return engine == "columnar" or (engine == "per_key") == counts


def throughput(chosen: argparse.Namespace, keys: int, queries: Sequence[str], few: dict[str, Steady]) -> Table:
    """``few``: the columnar engine's figures of FEW_KEYS, which this adds where ``keys`` are as many."""
    title = f"{keys:,} keys, micro-batches of {chosen.rows:,} bids; the second half of {chosen.seconds:g} seconds"
    table = Table(
        "query", "engine", "rows/s", "processor, µs/row", "columnar is", "wanted", "peak memory", "state", title=title,
        title_justify="left",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
        for engine in {engine for engine in chosen.engine for query in queries if can_run(engine, query)}:
            write_bids(Path(folder, engine), chosen.files, chosen.rows // _SHARES[engine], keys)
        for query in queries:
            engines = [engine for engine in chosen.engine if can_run(engine, query)]
            figures = {
                engine: steady(measured(engine, query, Path(folder, engine), chosen.seconds)) for engine in engines
            }
            if keys == FEW_KEYS and "columnar" in figures:
                few[query] = figures["columnar"]
            for row in _rows(query, figures, keys, few):
                table.add_row(*row)
    return table


def _rows(query: str, items: Mapping[str, Steady], keys: int, few: Mapping[str, Steady]) -> list[list[str]]:
    ours = items.get("columnar")
    rows = []
    for engine, figures in items.items():
        ratio, wanted = "", ""
        if ours is None:
            pass  # nothing to compare with
        elif engine != "columnar":
            times = ours.rows_per_second / figures.rows_per_second
            ratio = f"{times:.1f} × ({figures.processor_us / ours.processor_us:.1f} × by processor time)"
            wanted = _verdict(times, TIMES_FASTER.get(query) if keys == FEW_KEYS else None, "×")
        elif keys == FEW_KEYS:
            wanted = _verdict(ours.rows_per_second, ROWS_PER_SECOND.get(query), "rows/s")
        elif query in few:
            slower = few[query].rows_per_second / ours.rows_per_second
            ratio = f"{slower:.1f} × slower than at {FEW_KEYS:,} keys"
            wanted = f"≤ {MOST_TIMES_SLOWER:g} ×: {_holds(slower <= MOST_TIMES_SLOWER)}"
        rate, processor = f"{figures.rows_per_second:,.0f}", f"{figures.processor_us:.2f}"
        rows.append([query, engine, rate, processor, ratio, wanted, *figures.sizes])
    return rows


def _verdict(actual: float, wanted: float | None, unit: str) -> str:
    return "" if wanted is None else f"≥ {wanted:,.0f} {unit}: {_holds(actual >= wanted)}"


def _holds(does: bool) -> str:
    return "holds" if does else "missed"


def stored(keys: Sequence[int], rows: int) -> Table:
    """The time of a batch by the keys it touches, of so many that are stored, and that of a batch without rows."""
    collected = {count: _by_touched(count, rows) for count in keys}
    title = "COUNT WINDOW 100: milliseconds of a batch by the keys that it touches, of those that are stored"
    headers = [f"{count:,} stored" for count in keys]
    table = Table("touched keys", *headers, "wanted", title=title, title_justify="left")
    for touched in TOUCHED:
        table.add_row(f"{touched:,}", *(_milliseconds(collected[count].get(touched)) for count in keys))
    times = collected[max(keys)].get(TOUCHED[0], 0) / (collected[min(keys)].get(TOUCHED[0], 0) or 1)
    empty = max(of_count[0] for of_count in collected.values())
    wanted = f"≤ {MOST_EMPTY_MS} ms: {_holds(empty <= MOST_EMPTY_MS)}"
    table.add_row("none", *(_milliseconds(collected[count][0]) for count in keys), wanted)
    more, longer = max(keys) / min(keys), f"{times:.1f} times as long for {TOUCHED[0]:,} touched keys"
    table.caption = f"{more:.0f} times the stored keys: {longer}" if more > 1 else None
    return table


def _milliseconds(actual: float | None) -> str:
    return "" if actual is None else f"{actual:,.0f}"


def _by_touched(keys: int, rows: int) -> dict[int, float]:
    """Milliseconds by touched keys, 0 for none; each was touched before, so that code for it is compiled."""
    touched = tuple(n for n in TOUCHED if n <= keys)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
        write_stored(Path(folder, "stored"), keys, rows, (*touched, *touched), EMPTY)
        batches = measured("columnar", "COUNT WINDOW 100", Path(folder, "stored"))
    last = dict(zip(batches.rows, batches.milliseconds, strict=True))
    empty = statistics.median(batches.milliseconds[-EMPTY // 2 :])
    return {0: empty, **{count: last[count] for count in touched}}


# --- what observing costs --------------------------------------------------------------------------------------


class _Collector(BaseHTTPRequestHandler):
    """Takes whatever is sent, as a collector of OpenTelemetry does."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 — as above
        """Say nothing."""


def observed(chosen: argparse.Namespace) -> Table:
    """Processor time with metrics (Prometheus, OTLP), traces and logs, and without, in turns; the collector is this
    process, whose time is not counted.
    """
    title = f"Metrics, traces and logs: processor time of {chosen.observed} turns of {chosen.seconds:g} seconds"
    columns = ("query", "without, µs/row", "with, µs/row", "ratio of medians", "wanted")
    table = Table(*columns, title=title, title_justify="left")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as folder:
        write_bids(Path(folder, "bids"), chosen.files, chosen.rows, FEW_KEYS)
        for query in chosen.query or ["TUMBLE 10 s"]:
            spent: dict[str | None, list[float]] = {}
            for _ in range(chosen.observed):
                for collector in (None, f"http://127.0.0.1:{server.server_port}"):
                    batches = measured("columnar", query, Path(folder, "bids"), chosen.seconds, collector)
                    spent.setdefault(collector, []).append(steady(batches).processor_us)
            plain, watched = (statistics.median(times) for times in spent.values())
            texts = [", ".join(f"{time:.3f}" for time in times) for times in spent.values()]
            ratio = watched / plain
            verdict = f"≤ {MOST_OBSERVED:g}: {_holds(ratio <= MOST_OBSERVED)}"
            table.add_row(query, *texts, f"{ratio:.3f}", verdict)
    server.shutdown()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Windows: columnar, native, per key.")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of a micro-batch (default: %(default)s)")
    parser.add_argument("--files", type=int, default=40, help="the most micro-batches (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=40, help="of a measurement (default: %(default)s)")
    parser.add_argument("--keys", type=int, nargs="*", default=[FEW_KEYS, 1_000_000])
    parser.add_argument("--stored", type=int, nargs="*", default=[1_000_000, 10_000_000], help="keys in state")
    parser.add_argument("--query", action="append", choices=[*QUERIES], help="only this one; may be repeated")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this one; may be repeated")
    parser.add_argument("--observed", type=int, metavar="TURNS", help="what metrics, traces and logs cost, alone")
    chosen = parser.parse_args()
    chosen.engine = chosen.engine or [*ENGINES]
    console = Console(width=160)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    if chosen.observed:
        console.print(observed(chosen), f"load after: {os.getloadavg()[0]:.1f}")
        return
    few: dict[str, Steady] = {}
    for keys in chosen.keys:
        queries = chosen.query or [*(QUERIES if keys == FEW_KEYS else TIMES_FASTER)]
        console.print(throughput(chosen, keys, queries, few), "")
    if chosen.stored:
        console.print(stored(chosen.stored, chosen.rows), "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
