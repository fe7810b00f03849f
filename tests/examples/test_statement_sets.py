"""``examples/statement_sets``: both tables equal pandas, and the departures are read once."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import sqlstream
from examples.flights.demo import script
from examples.flights.prepare import departures, write_stream
from sqlstream.jobs import Job
from tests.examples import windows_in_pandas
from tests.examples.frames import comparable

_SET = Path("examples/statement_sets/delays_and_alerts.sql")
_WEEKS = 4


@pytest.mark.spark
def test_both_tables_equal_pandas_and_the_departures_are_read_once(spark, flights, tmp_path):
    some, left = tmp_path / "flights", departures(flights, _WEEKS)
    write_stream(left, some / "departures")
    with sqlstream.connect(spark) as session:
        session.sql(script("tables.sql", some).replace("'4'", "'2'"))
        job = session.sql(_SET.read_text(encoding="utf-8").replace("${out}", str(tmp_path)))
        assert isinstance(job, Job)
        job.wait()
    tables = {name: _written(tmp_path / name) for name in ("hourly_delays", "alerts")}
    assert job.progress().rows_in == len(left)
    assert job.progress().rows_by_table == {name: len(rows) for name, rows in tables.items()}
    expected = {"hourly_delays": windows_in_pandas.hourly_delays(left), "alerts": windows_in_pandas.delay_alerts(left)}
    for name, item in tables.items():
        assert_frame_equal(comparable(item), comparable(expected[name]), check_dtype=False)


def _written(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder).drop(columns="sqlstream_batch")
