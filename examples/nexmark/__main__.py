"""The queries of Nexmark over files, one after the other, as a table: ``make nexmark``, or ``python -m examples.nexmark
[--events 5000000] [--format parquet] [--rows-per-trigger 500000] [--query q3 q5]``.

Rows are those that the query reads. *Steady* is the second half of the micro-batches; each reads one file of each
table. The final result of each query is compared with what DuckDB computes from the same files, that of the pattern
queries with the same query over the finished data. A query that fails or ends with other rows is a line that says so,
and the command ends with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.nexmark import files
from examples.nexmark.expected import MATCHING
from examples.nexmark.generator import Generator
from examples.nexmark.queries import QUERIES
from examples.nexmark.run import Measured, Processors
from examples.throughput.measure import Batches
from examples.throughput.windows import steady

HEADERS = (
    "query", "rows/s", "steady", "batch p50, ms", "p99", "first result, s", "Java, s", "compilers", "Python",
    "peak, MB", "state, MB", "result",
)  # fmt: skip


def measured(query: str, folder: Path, file_format: str, *options: str) -> Measured | str:
    """The figures, or the error. ``options`` are those of ``examples.nexmark.run``."""
    command = [sys.executable, "-m", "examples.nexmark.run", query, str(folder), file_format, *options]
    print(f"{query} …", file=sys.stderr, flush=True)
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        return error_in(ran.stderr)
    return measured_of(json.loads(ran.stdout.splitlines()[-1]))


def measured_of(figures: dict[str, object]) -> Measured:
    batches, used = figures.pop("batches"), figures.pop("processors")
    assert isinstance(batches, dict) and isinstance(used, dict)
    return Measured(batches=Batches(**batches), processors=Processors(**used), **figures)  # type: ignore[arg-type]


def error_in(stderr: str) -> str:
    """The line of a traceback that says what happened."""
    lines = [line for line in stderr.splitlines() if line and not line.startswith((" ", "HINT", "DETAIL", "LINE"))]
    errors = [line for line in lines if line.split(":")[0].rpartition(".")[2].endswith(("Error", "Exception", "Exit"))]
    return (errors or lines or ["it ended without a word"])[-1]


def cells(query: str, result: Measured | str) -> list[str]:
    if isinstance(result, str):
        return [query, *["–"] * (len(HEADERS) - 2), f"failed: {result}"]
    batches = result.batches
    durations = sorted(batches.milliseconds)
    used, rest = result.processors, steady(batches)
    numbers = (
        sum(batches.rows) / result.seconds, rest.rows_per_second, statistics.median(durations),
        durations[min(len(durations) - 1, len(durations) * 99 // 100)],
    )  # fmt: skip
    return [
        query, *(f"{number:,.0f}" for number in numbers), f"{result.first_result:.1f}",
        f"{used.java:.1f}", f"{used.compilers:.1f}", f"{used.python:.1f}",
        f"{rest.peak_mb:,}", f"{batches.state_bytes / 2**20:,.1f}",
        f"wrong: {result.difference}" if result.difference else f"right: {result.rows:,} rows ({judge(query)})",
    ]  # fmt: skip


def judge(query: str) -> str:
    return "finished data" if query in MATCHING else "DuckDB"


def is_right(result: Measured | str) -> bool:
    return isinstance(result, Measured) and not result.difference


def parser_of(program: str, description: str | None) -> argparse.ArgumentParser:
    """A parser of the options that say what is measured over which files."""
    parser = argparse.ArgumentParser(
        prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--format", choices=files.FORMATS, default="parquet")
    parser.add_argument("--query", nargs="+", choices=QUERIES, default=[*QUERIES], metavar="q5")
    return parser


def main() -> None:
    parser = parser_of("examples.nexmark", __doc__)
    parser.add_argument("--rows-per-trigger", type=int, default=500_000, help="events of a micro-batch")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second of event time")
    chosen = parser.parse_args()
    console = Console(width=180)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}")
    table = Table(*HEADERS, title=f"{chosen.events:,} events, {chosen.format}", title_justify="left")
    with tempfile.TemporaryDirectory(prefix="sqlstream-nexmark-") as made:
        folder = Path(made) / "events"
        count = files.files_for(chosen.events, chosen.rows_per_trigger)
        files.write(folder, chosen.events, count, chosen.format, Generator(chosen.seed, chosen.rate))
        results = {query: measured(query, folder, chosen.format, "--file-per-trigger") for query in chosen.query}
    for query, result in results.items():
        table.add_row(*cells(query, result))
    console.print(table)
    console.print(f"load after: {os.getloadavg()[0]:.1f}")
    sys.exit(not all(is_right(result) for result in results.values()))


if __name__ == "__main__":
    main()
