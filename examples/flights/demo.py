"""A year of departures, end to end: replayed as files, counted per carrier and hour, written as Parquet.

``make demo``, or ``python -m examples.flights.demo [--folder out/flights] [--weeks 53]``.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

import sqlstream
from examples.flights.prepare import WEEKS, departures, read_flights, write_stream
from sqlstream.cli.execution import View
from sqlstream.jobs import Job

_HERE = Path(__file__).parent
_SINK = """
CREATE TABLE departures_per_carrier (
    window_start TIMESTAMP(3), carrier STRING, departures BIGINT, mean_delay DOUBLE
) WITH ('connector' = 'filesystem', 'path' = '{result}', 'format' = 'parquet');
"""


def script(name: str, folder: Path) -> str:
    """The text of one of this directory's SQL files, reading the departures under ``folder``."""
    return (_HERE / name).read_text(encoding="utf-8").replace("${data}", str(folder))


def run(folder: Path, console: Console) -> Path:
    """Count the departures under ``folder``; returns the directory of the result."""
    result = folder / "departures_per_carrier"
    shutil.rmtree(result, ignore_errors=True)
    query = script("departures_per_carrier.sql", folder)
    console.print(Syntax(query, "sql", theme="ansi_dark", background_color="default"))
    with sqlstream.connect() as session:
        with console.status("starting Spark"):
            session.sql(script("tables.sql", folder) + _SINK.format(result=result))
            job = session.sql(f"INSERT INTO departures_per_carrier {query}")
        assert isinstance(job, Job)
        view = View([job])
        try:
            job.wait()
        finally:
            view.close()
    return result


def busiest(frame: pd.DataFrame) -> Table:
    """The ten windows with the most departures."""
    table = Table("hour", "carrier", title="Busiest hours", title_justify="left")
    table.add_column("departures", justify="right")
    table.add_column("mean delay, min", justify="right")
    for row in frame.sort_values(["departures", "window_start"], ascending=[False, True]).head(10).to_dict("records"):
        hour, delay = f"{row['window_start']:%Y-%m-%d %H:%M}", f"{row['mean_delay']:.1f}"
        table.add_row(hour, row["carrier"], f"{row['departures']:,}", delay)
    return table


def totals(frame: pd.DataFrame) -> Table:
    """Departures and delay per carrier and of all, made of the windows."""
    table = Table("carrier", title="The year", title_justify="left", show_footer=True)
    minutes = (frame.departures * frame.mean_delay).groupby(frame.carrier).sum()
    flights = frame.groupby("carrier").departures.sum().sort_values(ascending=False)
    table.columns[0].footer = "all"
    table.add_column("departures", f"{flights.sum():,}", justify="right")
    table.add_column("mean delay, min", f"{minutes.sum() / flights.sum():.1f}", justify="right")
    for carrier, count in flights.items():
        table.add_row(str(carrier), f"{count:,}", f"{minutes[str(carrier)] / count:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Count a year of departures per carrier and hour.")
    parser.add_argument("--folder", type=Path, default=Path("out/flights"), help="where inputs and results go")
    parser.add_argument("--weeks", type=int, default=WEEKS, help="only the first weeks of the year")
    chosen = parser.parse_args()
    console = Console()
    left = departures(read_flights(), chosen.weeks)
    files = write_stream(left, chosen.folder / "departures")
    console.print(f"{len(left):,} departures of 2013 in {len(files)} files, in order of actual departure.\n")
    result = run(chosen.folder, console)
    frame = pd.read_parquet(result)
    console.print("", busiest(frame), "", totals(frame), "")
    counted = int(frame.departures.sum())
    assert counted == len(left), f"{counted:,} departures counted, {len(left):,} replayed"
    console.print(f"Every one of the {counted:,} departures is in one of {len(frame):,} windows, in {result}/")
    here = "examples/flights"
    console.print(
        "\nNext:\n"
        f"  .venv/bin/sqlstream run {here}/tables.sql {here}/delay_by_airport.sql --param data={chosen.folder} | less\n"
        f"  .venv/bin/sqlstream explain {here}/tables.sql {here}/rotations.sql --param data={chosen.folder}\n"
        "  .venv/bin/sqlstream shell",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
