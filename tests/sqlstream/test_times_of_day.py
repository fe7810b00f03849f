"""Values of type TIME: literals, casts, functions, keys, and columns of files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import time
from pathlib import Path

import pytest

from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession

pytestmark = pytest.mark.spark

TEN, LATE = time(10, 11, 12), time(23, 0, 0, 500_000)


@pytest.fixture
def session(spark, tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "in").mkdir()
    records = [(1, "10:11:12"), (2, "23:00:00.5"), (3, "10:11:12")]
    (tmp_path / "in/a.json").write_text("".join(f'{{"id": {n}, "at": "{text}"}}\n' for n, text in records))
    with LocalSession() as own_session:
        own_session.sql(
            "CREATE TABLE t (id INT, at TIME) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'json')"
        )
        yield own_session


def rows(session: Session, text: str, mode: str) -> list[tuple[object, ...]]:
    session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
    result = session.sql(text)
    assert isinstance(result, Query)
    return sorted(result.fetchall())


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_times_are_compared_computed_and_grouped(session: Session, mode: str) -> None:
    text = (
        "SELECT TIME '10:11:12', CAST('23:00:00.5' AS TIME), CAST(TIME '10:11:12' AS STRING), "
        "LOCALTIME <= TIME '23:59:59.999999', CURRENT_TIME IS NULL, "
        "(TIME '2:55:00', INTERVAL '1' HOUR) OVERLAPS (TIME '3:30:00', INTERVAL '2' HOUR)"
    )
    assert rows(session, text, mode) == [(TEN, LATE, "10:11:12", True, False, True)]
    early = "SELECT id, at - INTERVAL '1' HOUR, EXTRACT(HOUR FROM at) FROM t WHERE at < TIME '12:00:00'"
    assert rows(session, early, mode) == [(1, time(9, 11, 12), 10), (3, time(9, 11, 12), 10)]
    counted = [row[-2:] for row in rows(session, "SELECT at, COUNT(*) FROM t GROUP BY at", mode)]
    assert sorted(counted) == [(TEN, 2), (LATE, 1)]


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_files_hold_times(session: Session, tmp_path: Path, format_: str) -> None:
    session.sql(
        "CREATE TABLE out (at TIME, n BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = '{format_}')"
    )
    job = session.sql("INSERT INTO out SELECT at, id FROM t")
    assert isinstance(job, Job) and job.wait()
    assert rows(session, "SELECT * FROM out WHERE at > TIME '11:00:00'", "streaming") == [(LATE, 2)]
