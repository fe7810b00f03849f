"""Aggregates without GROUP BY have a result without rows, also where a query over finished data runs as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sqlstream
from sqlstream.batch.run import BatchRun
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import usually

pytestmark = pytest.mark.spark

OF_WINDOWS = "SELECT k, v, window_start FROM TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
"""Rows of a clause that Spark SQL lacks, so that a query of them is a stream."""
OF_BATCH = "SELECT k, v, CAST(NULL AS TIMESTAMP_NTZ) AS window_start FROM clicks"
AGGREGATES = """
    COUNT(*) AS a, COUNT(v) AS b, SUM(v) AS c, MIN(k) AS d, AVG(v) AS e, COUNT(DISTINCT k) AS f, STDDEV(v) AS g,
    ARRAY_AGG(v ORDER BY v, k) AS h, ARRAY_AGG(k ORDER BY v DESC) AS i, SORT_ARRAY(COLLECT_LIST(v)) AS j,
    COLLECT(v) AS l, JSON_ARRAYAGG(k ORDER BY k) AS m, LISTAGG(k, '-') WITHIN GROUP (ORDER BY v DESC) AS n,
    MAX(v) * 2 + COUNT(*) AS o, SUM(v) FILTER (WHERE v > 1) AS p, COUNT(*) FILTER (WHERE k = 'a') AS q,
    FIRST_VALUE(v IGNORE NULLS ORDER BY v) AS r
"""


@pytest.fixture(scope="module")
def session(spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("clicks")
    (folder / "clicks.csv").write_text("a,1,2024-01-01 00:00:01\nb,2,2024-01-01 00:00:02\na,,2024-01-01 00:02:00\n")
    with sqlstream.connect(spark) as own_session:
        own_session.sql(f"""
        CREATE TABLE clicks (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}/clicks.csv')
        """)
        yield own_session


def rows(session: Session, text: str, *, batch: bool) -> list[tuple[Any, ...]]:
    result = session.sql(text)
    assert isinstance(result, Query) and isinstance(result.job, BatchRun) == batch, text
    return result.fetchall()


@pytest.mark.parametrize("condition", usually(["v > 99", "TRUE"], "v > 99"))
def test_they_are_those_of_a_batch(session, condition):
    query = f"SELECT {AGGREGATES} FROM ({{}}) WHERE {condition}"
    wanted = rows(session, query.format(OF_BATCH), batch=True)
    *_, (_, *last) = rows(session, query.format(OF_WINDOWS), batch=False)
    assert [tuple(last)] == wanted


def test_groups_and_having_have_none(session):
    text = f"SELECT {{}} FROM ({OF_WINDOWS}) WHERE v > 99 {{}}"
    assert rows(session, text.format("COUNT(*)", "GROUP BY k"), batch=False) == []
    assert rows(session, text.format("COUNT(*)", "HAVING COUNT(*) > 0"), batch=False) == []


def test_explain_shows_the_plan_that_runs(session):
    shown = str(session.sql(f"EXPLAIN SELECT COUNT(*) FROM ({OF_WINDOWS})").fetchall())
    assert "COUNT(*) FILTER(WHERE counts)" in shown and "Scan(one row: row)" in shown


def test_a_job_that_may_go_on_waits_for_rows(session):
    plan = "EXPLAIN INSERT INTO counts SELECT COUNT(*) AS n FROM clicks"
    session.sql("CREATE TABLE counts (n BIGINT) WITH ('connector' = 'blackhole')")
    assert "Union" not in str(session.sql(plan).fetchall())
