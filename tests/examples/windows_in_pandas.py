"""The queries of ``examples/windows`` computed with pandas from the rows in order of arrival, without sqlstream."""

from __future__ import annotations

import pandas as pd

_MILLISECOND = pd.Timedelta(milliseconds=1)


def last_100_departures(left: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([_every_10(str(origin), rows) for origin, rows in left.groupby("origin")], ignore_index=True)


def _every_10(origin: str, rows: pd.DataFrame) -> pd.DataFrame:
    last = rows.scheduled.astype("datetime64[ms]").astype("int64").rolling(100, min_periods=1)
    delays = rows.dep_delay.rolling(100, min_periods=1)
    departures = delays.count().astype("int64")
    collected = {
        "origin": origin,
        "oldest": last.min().astype("int64").astype("datetime64[ms]"),
        "newest": last.max().astype("int64").astype("datetime64[ms]") + _MILLISECOND,
        "departures": departures,
        "mean_delay": delays.sum().round() / departures,
    }
    return pd.DataFrame(collected).iloc[9::10]


def hourly_delays(left: pd.DataFrame) -> pd.DataFrame:
    """What is left when every result has withdrawn the one before it."""
    hours = left.groupby(left.scheduled.dt.floor("1h").rename("window_start"))
    return hours.dep_delay.agg(departures="size", mean_delay="mean").reset_index()


def delay_alerts(left: pd.DataFrame) -> pd.DataFrame:
    collected = []
    for carrier, rows in left.groupby("carrier"):
        reference, since = None, 0
        for delay, tailnum in zip(rows.dep_delay, rows.tailnum, strict=True):
            since += 1
            if reference is None:
                reference = delay
            elif delay - reference > 120:
                collected.append((carrier, delay, tailnum, since))
                reference, since = delay, 0
    return pd.DataFrame(collected, columns=["carrier", "delay", "tailnum", "departures_since"])


def last_20_departures(left: pd.DataFrame) -> pd.DataFrame:
    collected = []
    for origin, rows in left.groupby("origin"):
        for end in range(50, len(rows) + 1, 50):
            last = rows.iloc[end - 20 : end]
            collected.append((origin, len(last), last.dep_delay.max(), " ".join(last.carrier)))
    return pd.DataFrame(collected, columns=["origin", "departures", "worst_delay", "carriers"])
