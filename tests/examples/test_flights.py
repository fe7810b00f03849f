"""The four flight queries equal pandas, row by row; no departure is late."""

from __future__ import annotations

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import sqlstream
from examples.flights.demo import script
from examples.flights.prepare import departures, hours_behind
from sqlstream.query import Query
from tests.depth import usually
from tests.examples import flights_in_pandas
from tests.examples.frames import comparable
from tests.examples.replay import FILES_AT_A_TIME, REPLAYED_WEEKS

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "name",
    usually(["departures_per_carrier", "delay_by_airport", "rotations", "totals_of_the_day"], "departures_per_carrier"),
)
def test_query_equals_pandas(name, spark, left, folder):
    with sqlstream.connect(spark) as session:
        # Fewer micro-batches than in the demo, still several, and the watermark moves between them.
        session.sql(script("tables.sql", folder).replace("'4'", FILES_AT_A_TIME))
        query = session.sql(script(f"{name}.sql", folder))
        assert isinstance(query, Query)
        frame = query.to_pandas()
        progress = query.job.progress()
    expected = getattr(flights_in_pandas, name)(left)
    assert progress.rows_in == len(left)
    assert progress.batches >= 3
    assert progress.late_rows == 0
    assert len(frame) == len(expected) > 1000
    assert_frame_equal(comparable(frame), comparable(expected), check_dtype=False, rtol=1e-12)


def test_cancelled_flights_are_not_in_the_stream(flights):
    left = departures(flights)
    assert len(flights) == 336_776
    assert flights.departed.isna().sum() == len(flights) - len(left) == 8_255


def test_stream_is_out_of_order_by_less_than_the_watermark_delay(left):
    behind = hours_behind(left)
    assert (behind > 0).mean() > 0.5
    assert behind.max() < 24


def test_files_hold_a_week_each_in_order(left, folder):
    files = sorted((folder / "departures").glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    assert len(files) == REPLAYED_WEEKS
    assert files == sorted(files)
    rows = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
    assert_frame_equal(rows, left[rows.columns], check_dtype=False)
