"""The four flight queries computed with pandas from the rows, without sqlstream: what the queries must return.

No row is more than a day behind, so the watermark drops none and every function sees all rows.
"""

from __future__ import annotations

import pandas as pd


def departures_per_carrier(left: pd.DataFrame) -> pd.DataFrame:
    groups = left.groupby([left.scheduled.dt.floor("1h").rename("window_start"), "carrier"])
    return groups.dep_delay.agg(departures="size", mean_delay="mean").reset_index()


def delay_by_airport(left: pd.DataFrame) -> pd.DataFrame:
    """Each departure counts in the four hours that contain it, which end at the next four quarters."""
    quarter = pd.Timedelta(minutes=15)
    first_end = left.scheduled.dt.floor("15min") + quarter
    spread = pd.concat([left.assign(window_end=first_end + i * quarter) for i in range(4)])
    groups = spread.groupby(["window_end", "origin"])
    return groups.dep_delay.agg(departures="size", mean_delay="mean").reset_index()


def rotations(left: pd.DataFrame) -> pd.DataFrame:
    rows = left.sort_values(["tailnum", "scheduled"])
    pause = rows.groupby("tailnum").scheduled.diff()
    number = (pause.isna() | (pause > pd.Timedelta(hours=12))).cumsum()
    frame = rows.groupby(number).agg(
        tailnum=("tailnum", "first"),
        first_departure=("scheduled", "min"),
        last_departure=("scheduled", "max"),
        departures=("scheduled", "size"),
        miles=("distance", "sum"),
        worst_delay=("dep_delay", "max"),
    )
    return frame[frame.departures > 1].reset_index(drop=True)


def totals_of_the_day(left: pd.DataFrame) -> pd.DataFrame:
    """From the first departure of a day to its end, hour by hour, everything so far."""
    delays = left.dep_delay
    rows = left.assign(
        day=left.scheduled.dt.floor("1D"), delayed=(delays > 15).astype(int), lost=delays.clip(lower=0).astype(int)
    )
    return pd.concat([_running(of_the_day) for _, of_the_day in rows.groupby("day")], ignore_index=True)


def _running(rows: pd.DataFrame) -> pd.DataFrame:
    day = rows.day.iloc[0]
    first = rows.scheduled.min().floor("1h") + pd.Timedelta(hours=1)
    untils = pd.date_range(first, day + pd.Timedelta(days=1), freq="1h")
    so_far = [rows[rows.scheduled < until] for until in untils]
    return pd.DataFrame(
        {
            "day": day,
            "until": untils,
            "departures": [len(r) for r in so_far],
            "delayed": [r.delayed.sum() for r in so_far],
            "minutes_lost": [r.lost.sum() for r in so_far],
        }
    )
