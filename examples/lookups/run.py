"""Three weeks of departures, each with its aircraft (PostgreSQL), its airline (Redis) and the weather (HTTP).

``make demo-lookups``, or ``python -m examples.lookups.run [--rows 20000] [--latency-ms 20] [--folder out/lookups]``.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

import sqlstream
from examples.flights.prepare import departures, read_flights, write_stream
from examples.lookups.servers import Servers, running
from sqlstream.jobs import Job
from sqlstream.jobs.reports.progress import Progress

_HERE = Path(__file__).parent
_SINK = """
CREATE TABLE enriched_departures (
    scheduled TIMESTAMP, carrier STRING, flight INT, origin STRING, dest STRING, dep_delay INT, airline STRING,
    manufacturer STRING, model STRING, seats INT, temp DOUBLE, wind_speed DOUBLE, visib DOUBLE
) WITH ('connector' = 'filesystem', 'path' = '${result}', 'format' = 'parquet');
"""
SYSTEMS = ("aircraft, PostgreSQL", "airlines, Redis", "weather, HTTP")


def script(name: str, **parameters: object) -> str:
    """The text of one of this directory's SQL files, or of a statement, with its parameters."""
    text = (_HERE / name).read_text(encoding="utf-8") if name.endswith(".sql") else name
    for key, value in parameters.items():
        text = text.replace(f"${{{key}}}", str(value))
    return text


def prepare(folder: Path, rows: int) -> pd.DataFrame:
    """The first departures of the year, as the files that the query reads."""
    left = departures(read_flights(), 10).head(rows)
    write_stream(left, folder / "departures")
    return left


def run(session: sqlstream.Session, servers: Servers, folder: Path) -> tuple[Path, Progress]:
    """Enriches the departures under ``folder``; returns the directory of the result, and what the job did."""
    result = folder / "enriched"
    shutil.rmtree(result, ignore_errors=True)
    addresses = {"postgres": servers.postgres, "redis": servers.redis, "weather": servers.weather}
    session.sql(script("tables.sql", data=folder, **addresses) + script(_SINK, result=result))
    job = session.sql(f"INSERT INTO enriched_departures {script('enriched_departures.sql')}")
    assert isinstance(job, Job)
    job.wait()
    return result, job.progress()


def examples_of(frame: pd.DataFrame) -> Table:
    """Ten of the rows, windy ones."""
    table = Table(title="Departures in the strongest wind", title_justify="left")
    shown = frame.assign(
        scheduled=frame.scheduled.dt.strftime("%m-%d %H:%M"),
        seats=frame.seats.astype("Int64"),
        wind=frame.wind_speed.round(1),
    ).sort_values(["wind_speed", "scheduled", "flight"], ascending=[False, True, True])
    columns = ["scheduled", "flight", "origin", "dest", "airline", "model", "seats", "wind"]
    for name in columns:
        table.add_column(name, no_wrap=True)
    for row in shown.dropna(subset=["wind_speed"]).head(10)[columns].itertuples(index=False):
        table.add_row(*("–" if pd.isna(value) else str(value) for value in row))
    return table


def counts_of(frame: pd.DataFrame) -> Table:
    """Of how many departures each system knew something."""
    table = Table("looked up in", title="Answers", title_justify="left")
    for name in ("found", "of"):
        table.add_column(name, justify="right")
    for system, column in zip(SYSTEMS, ("model", "airline", "temp"), strict=True):
        table.add_row(system, f"{frame[column].notna().sum():,}", f"{len(frame):,}")
    return table


def requests_of(progress: Progress) -> Table:
    """What the lookups asked, as the job counts it."""
    table = Table("lookup", title="Requests", title_justify="left")
    for name in ("rows", "requests", "from the cache", "p50, ms", "p95, ms"):
        table.add_column(name, justify="right")
    for number, totals in sorted(progress.lookups.items()):
        latencies = (f"{totals.latencies.get(name, 0):.0f}" for name in ("p50", "p95"))
        table.add_row(
            str(number), f"{totals.rows:,}", f"{totals.requests:,}", f"{totals.hit_rate or 0:.0%}", *latencies
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Enrich departures from PostgreSQL, Redis and HTTP in one query.")
    parser.add_argument("--rows", type=int, default=20_000, help="the first departures of the year")
    parser.add_argument("--latency-ms", type=int, default=20, help="of the weather's server")
    parser.add_argument("--folder", type=Path, default=Path("out/lookups"), help="where inputs and results go")
    chosen = parser.parse_args()
    console = Console()
    console.print(
        Syntax(script("enriched_departures.sql"), "sql", theme="ansi_dark", background_color="default", word_wrap=True)
    )
    left = prepare(chosen.folder, chosen.rows)
    status = console.status("starting PostgreSQL, Redis, the weather and Spark")
    with status, running(chosen.latency_ms) as servers, sqlstream.connect() as session:
        begin = time.perf_counter()
        result, progress = run(session, servers, chosen.folder)
        taken = time.perf_counter() - begin
    frame = pd.read_parquet(result)
    console.print(examples_of(frame), "", counts_of(frame), "", requests_of(progress), "")
    assert len(frame) == len(left), f"{len(frame):,} rows came out, {len(left):,} went in"
    console.print(f"{len(left):,} departures in {taken:.1f} s, Spark's start included, in {result}/", highlight=False)


if __name__ == "__main__":
    main()
