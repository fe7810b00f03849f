"""The process function of ``examples/process`` equals pandas, row by row."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import sqlstream
from examples.flights.demo import script
from sqlstream.query import Query
from tests.examples.frames import comparable
from tests.examples.replay import FILES_AT_A_TIME

_FOLDER = Path("examples/process")
_IDLE = pd.Timedelta(days=30)


def idle_aircraft(left: pd.DataFrame) -> pd.DataFrame:
    """The last departures before each pause of more than 30 days, and the last of all."""
    collected = []
    for tailnum, rows in left.groupby("tailnum"):
        ordered = rows.sort_values("scheduled", kind="stable")
        pause = (ordered.scheduled.shift(-1) - ordered.scheduled).fillna(pd.Timedelta.max) > _IDLE
        stretch = pause.shift(1, fill_value=False).cumsum()
        count = stretch.map(stretch.value_counts())
        last = ordered[pause]
        columns = {"tailnum": tailnum, "carrier": last.carrier, "dest": last.dest, "last_departure": last.scheduled}
        collected.append(pd.DataFrame({**columns, "departures": count[pause], "noticed": last.scheduled + _IDLE}))
    return pd.concat(collected, ignore_index=True)


@pytest.mark.long
@pytest.mark.spark
def test_idle_aircraft_equal_pandas(spark, folder, left, monkeypatch):
    monkeypatch.syspath_prepend(_FOLDER)
    with sqlstream.connect(spark) as session:
        session.sql(script("tables.sql", folder).replace("'4'", FILES_AT_A_TIME))
        query = session.sql((_FOLDER / "idle_aircraft.sql").read_text(encoding="utf-8"))
        assert isinstance(query, Query)
        frame = query.to_pandas()
    assert len(frame) > 4000
    assert_frame_equal(comparable(frame), comparable(idle_aircraft(left)), check_dtype=False)
