"""Departures enriched from PostgreSQL, Redis and HTTP equal a join in pandas, row by row."""

from __future__ import annotations

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import sqlstream
from examples.lookups import run
from examples.lookups.servers import read, running
from examples.lookups.weather_server import COLUMNS, observations
from tests.examples.frames import comparable

pytestmark = pytest.mark.spark

ROWS = 600


def enriched(left: pd.DataFrame) -> pd.DataFrame:
    """What the three servers know of the departures."""
    airlines = read("airlines").rename(columns={"name": "airline"})
    planes = read("planes")[["tailnum", "manufacturer", "model", "seats"]]
    hours = left.scheduled.dt.strftime("%Y-%m-%dT%H")
    frame = left.assign(hour=hours).merge(airlines, "left", "carrier").merge(planes, "left", "tailnum")
    frame = frame.merge(observations(read("weather")), "left", ["origin", "hour"])
    first = ["scheduled", "carrier", "flight", "origin", "dest", "dep_delay", "airline"]
    return frame[[*first, "manufacturer", "model", "seats", *COLUMNS]]


def with_dashes(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts that are missing as dashes: they are None here and NaN there."""
    texts = frame.select_dtypes("object").columns
    return frame.assign(**{name: frame[name].fillna("–") for name in texts})


def test_enriched_departures_equal_a_join(spark, tmp_path):
    left = run.prepare(tmp_path, ROWS)
    with running(latency_ms=1) as servers, sqlstream.connect(spark) as session:
        result, progress = run.run(session, servers, tmp_path)
    frame, expected = pd.read_parquet(result), enriched(left)
    assert_frame_equal(comparable(with_dashes(frame)), comparable(with_dashes(expected)), check_dtype=False)
    assert frame.model.notna().any()
    assert frame.model.isna().any()
    assert [totals.rows for totals in progress.lookups.values()] == [left.tailnum.notna().sum(), ROWS, ROWS]
    assert all(totals.requests < ROWS for totals in progress.lookups.values())
