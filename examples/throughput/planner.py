"""How long the planner takes as a library: ``make bench-planner``, or ``python -m examples.throughput.planner``.

Milliseconds of the clock and of the processor, p50 and p99, for the queries of Nexmark, a script of 500 statements,
queries of up to 4,000 lines and catalogs of up to 10,000 tables. ``plan`` parses, binds and optimizes; ``analyze`` also
tells columns, lineage, state, tables, functions and the fingerprint. Nothing runs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from examples.nexmark.queries import FUNCTIONS, QUERIES, TABLES
from sqlstream.analysis import Planner


@dataclass(frozen=True)
class Times:
    """Milliseconds: of the clock at p50 and p99, of the processor at p50."""

    p50: float
    p99: float
    cpu: float


def measured(action: Callable[[], object], repeats: int) -> Times:
    """The action, after a run that warms up."""
    action()
    clock, cpu = list[float](), list[float]()
    for _ in range(repeats):
        wall, own = time.perf_counter(), time.process_time()
        action()
        clock.append((time.perf_counter() - wall) * 1000)
        cpu.append((time.process_time() - own) * 1000)
    clock.sort()
    return Times(clock[len(clock) // 2], clock[min(len(clock) - 1, len(clock) * 99 // 100)], sorted(cpu)[len(cpu) // 2])


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left")


def _cells(times: Times) -> tuple[str, str, str]:
    return f"{times.p50:.1f}", f"{times.p99:.1f}", f"{times.cpu:.1f}"


def nexmark(repeats: int) -> Table:
    planner = Planner().with_ddl(TABLES + FUNCTIONS)
    table = _table("Queries of Nexmark, ms", "query", "plan p50", "p99", "cpu", "analyze p50", "p99", "cpu")
    for name, text in QUERIES.items():
        plan = measured(lambda text=text: planner.plan(text), repeats)  # type: ignore[misc]
        analysis = measured(lambda text=text: planner.analyze(text), repeats)  # type: ignore[misc]
        table.add_row(name, *_cells(plan), *_cells(analysis))
    return table


def scripts(repeats: int) -> Table:
    """Views and queries over them, as a project has them."""
    planner = Planner().with_ddl(TABLES + FUNCTIONS)
    table = _table("Scripts, ms", "statements", "analyze p50", "p99", "cpu", "cpu per statement")
    for count in (125, 250, 500):
        text = "\n".join(_statement(number) for number in range(count))
        times = measured(lambda text=text: planner.analyze(text), repeats)  # type: ignore[misc]
        table.add_row(f"{count:,}", *_cells(times), f"{times.cpu / count:.2f}")
    return table


def _statement(number: int) -> str:
    if number % 2 == 0:
        return f"CREATE VIEW v{number} AS SELECT auction, bidder, price, dateTime FROM bid WHERE price > {number};"
    return f"SELECT auction, MAX(price) AS top FROM v{number - 1} WHERE bidder < {number} GROUP BY auction;"


def long_queries(repeats: int) -> Table:
    planner = Planner().with_ddl(TABLES + FUNCTIONS)
    table = _table("Long queries, ms", "lines", "plan p50", "p99", "cpu", "cpu per 1,000 lines")
    for lines in (500, 1_000, 2_000, 4_000):
        text = _long(lines)
        times = measured(lambda text=text: planner.plan(text), repeats)  # type: ignore[misc]
        table.add_row(f"{lines:,}", *_cells(times), f"{times.cpu * 1000 / lines:.0f}")
    return table


def _long(lines: int) -> str:
    """A third of the lines are queries of WITH, a third columns, a third conditions."""
    third = lines // 3
    queries = ",\n".join(f"c{i} AS (SELECT * FROM bid WHERE price > {i})" for i in range(third))
    columns = ",\n".join(f"price * {i} + auction AS x{i}" for i in range(third))
    conditions = "\nAND ".join(f"bidder <> {i}" for i in range(third))
    return f"WITH {queries}\nSELECT {columns}\nFROM c{third - 1}\nWHERE {conditions}"


def catalogs(repeats: int) -> Table:
    table = _table("Catalogs, ms", "tables", "what", "p50", "p99", "cpu")
    columns: Mapping[str, Any] = {f"c{i}": "BIGINT" for i in range(20)} | {"at": "TIMESTAMP(3)"}
    for count in (100, 1_000, 10_000):
        tables = {f"table_{i}": {"columns": columns, "watermark": "at"} for i in range(count)}
        planner = Planner().with_tables(tables)
        query = f"SELECT a.c1, COUNT(*) AS n FROM table_7 AS a JOIN table_{count - 1} AS b ON a.c0 = b.c0 GROUP BY a.c1"
        asked: dict[str, Callable[[], object]] = {
            "catalog of dictionaries": lambda tables=tables: Planner().with_tables(tables),  # type: ignore[misc]
            "analyze a join": lambda planner=planner, query=query: planner.analyze(query),  # type: ignore[misc]
            "a view and a query of it": lambda planner=planner: planner.analyze(  # type: ignore[misc]
                "CREATE VIEW v AS SELECT c1 FROM table_7; SELECT c1 FROM v"
            ),
            "a misspelt name": lambda planner=planner: planner.analyze("SELECT c1 FROM tabel_7"),  # type: ignore[misc]
            "completion of a table": lambda planner=planner: planner.complete("SELECT c1 FROM ta", 17),  # type: ignore[misc]
        }
        for what, action in asked.items():
            table.add_row(f"{count:,}", what, *_cells(measured(action, repeats)))
    return table


_PARTS = {"nexmark": nexmark, "scripts": scripts, "long": long_queries, "catalogs": catalogs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(_PARTS), metavar="|".join(_PARTS))
    parser.add_argument("--repeats", type=int, default=100)
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(_PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    console = Console(width=120)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    for name in chosen.parts:
        repeats = chosen.repeats if name == "nexmark" else max(5, chosen.repeats // 10)
        console.print(_PARTS[name](repeats), "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
