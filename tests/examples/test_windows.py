"""The queries of ``examples/windows`` over the whole year equal pandas, row by row."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import sqlstream
from examples.flights.demo import script
from sqlstream.planner.catalog import RowKind
from sqlstream.query import Query
from tests.depth import usually
from tests.examples import windows_in_pandas
from tests.examples.frames import comparable
from tests.examples.replay import FILES_AT_A_TIME

pytestmark = pytest.mark.spark

_QUERIES = Path("examples/windows")


@pytest.fixture(scope="module")
def session(spark, folder):
    with sqlstream.connect(spark) as session:
        session.sql(script("tables.sql", folder).replace("'4'", FILES_AT_A_TIME))
        yield session


def run(session: sqlstream.Session, name: str) -> Query:
    query = session.sql((_QUERIES / f"{name}.sql").read_text(encoding="utf-8"))
    assert isinstance(query, Query)
    return query


@pytest.mark.parametrize(
    "name", usually(["last_100_departures", "delay_alerts", "last_20_departures"], "last_100_departures")
)
def test_query_equals_pandas(name, session, left):
    frame = run(session, name).to_pandas()
    if "carriers" in frame:
        frame["carriers"] = frame.carriers.map(" ".join)
    assert_frame_equal(comparable(frame), comparable(getattr(windows_in_pandas, name)(left)), check_dtype=False)


@pytest.mark.long
def test_results_of_each_hour_withdraw_one_another(session, left):
    query = run(session, "hourly_delays")
    panes: set[str] = set()
    standing: dict[object, tuple[object, ...]] = {}
    for kind, (start, *rest, pane) in query.changes():
        if kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE):
            assert standing.pop(start) == (*rest, pane)
        else:
            assert start not in standing
            standing[start] = (*rest, pane)
            panes.add(pane)
    rows = [(start, *values[:-1]) for start, values in standing.items()]
    frame = pd.DataFrame(rows, columns=["window_start", "departures", "mean_delay"])
    assert panes >= {"EARLY", "ON_TIME"}
    assert_frame_equal(comparable(frame), comparable(windows_in_pandas.hourly_delays(left)), check_dtype=False)
