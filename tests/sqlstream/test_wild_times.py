"""Rows of any time in jobs, on both engines: other rows are emitted, and they are emitted, late or bad rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession

pytestmark = pytest.mark.spark

DAY = 86_400_000_000
NOON = 1_704_110_400_000_000  # 2024-01-01 12:00:00
OLD = -62_135_596_800_000_000 - 9 * 3_600_000_000  # 0001-01-01 00:00:00 in Tokyo
FUTURE = 253_402_300_800_000_000 + DAY  # of the year 10000
BEYOND = (2**63 - 1, -(2**63))
KEYS = 300


@pytest.fixture
def session():
    with LocalSession() as session:
        yield session


def counted(session: Session, folder: Path, times: dict[str, int], engine: str, on_error: str) -> tuple[Job, dict]:
    """The job that counts rows by key, and what it has found; KEYS keys of one ordinary row beside the ``times``."""
    (folder / "in").mkdir()
    ordinary = {f"k{number}": NOON + number * 1_000_000 for number in range(KEYS)}
    lines = [json.dumps({"k": k, "us": us}) for k, us in {**times, **ordinary}.items()]
    (folder / "in" / "a.json").write_text("\n".join(lines) + "\n")
    session.sql(f"SET 'sqlstream.engine' = '{engine}'")
    session.sql(
        f"""CREATE TABLE t (k STRING, us BIGINT, ts AS TIMESTAMP_MICROS(us),
            WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) WITH ('connector' = 'filesystem', 'format' = 'json',
            'path' = '{folder}/in', 'on-error' = '{on_error}')"""
    )
    query = session.sql(
        "SELECT k, COUNT(*), CAST(window_start AS STRING) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE) "
        "GROUP BY k, window_start, window_end"
    )
    assert isinstance(query, Query) and isinstance(query.job, Job)
    return query.job, {k: (count, start) for k, count, start in query.fetchall()}


@pytest.mark.parametrize("engine", ["columnar", "native"])
def test_rows_of_any_time_take_no_others_with_them(session, tmp_path, engine):
    times = {"old": OLD, "future": FUTURE, "bad": BEYOND[0], "worse": BEYOND[1]}
    job, actual = counted(session, tmp_path, times, engine, "skip")
    assert sum(count for key, (count, _) in actual.items() if key.startswith("k")) == KEYS
    assert actual["future"] == (1, "+10000-01-02 00:00:00")
    assert actual.get("old") == ((1, "0000-12-31 15:00:00") if engine == "columnar" else None)
    progress = job.progress()
    assert progress.late_rows == (engine == "native"), "Spark's own clock starts at the year 1"
    assert progress.bad_rows == {"t": 2}


def test_a_time_that_nobody_can_compute_with_fails_the_job_with_its_place(session, tmp_path):
    message = 'SS430: event time "ts" of table "t" is 9223372036854775807 microseconds after 1970, outside of the years'
    with pytest.raises(ExecutionError, match=message) as error:
        counted(session, tmp_path, {"bad": BEYOND[0]}, "columnar", "fail")
    assert "'on-error'" in str(error.value)
