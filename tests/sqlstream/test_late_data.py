"""Late rows of jobs: to a table of their own, exactly once and counted, or as the failure of the job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import JobState
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession

COUNTS = "SELECT k, COUNT(*) AS n FROM events GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
FILES = [
    [("a", 1, "00:00:01"), ("b", 2, "00:00:02")],
    [("a", 3, "00:01:01")],
    [("a", 7, "00:00:03"), ("b", 8, "00:01:03"), ("c", 9, "00:00:09")],
]


@pytest.fixture
def open_session(tmp_path: Path):
    for number, rows in enumerate(FILES):
        _write(tmp_path / "events" / str(number), rows, number)

    @contextmanager
    def opened() -> Iterator[Session]:
        with LocalSession() as session:
            session.sql(_script(tmp_path))
            yield session

    return opened


@pytest.fixture
def session(open_session):
    with open_session() as session:
        yield session


def _script(tmp_path: Path) -> str:
    return f"""
            SET 'sqlstream.engine' = 'columnar';
            SET 'pipeline.max-parallelism' = '2';
            CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
                'connector' = 'filesystem', 'path' = '{tmp_path}/events', 'format' = 'json',
                'source.max-files-per-trigger' = '1');
            CREATE TABLE counts (k STRING, n BIGINT NOT NULL) WITH (
                'connector' = 'filesystem', 'path' = '{tmp_path}/counts', 'format' = 'json');
            CREATE TABLE late (window_end TIMESTAMP, v INT) WITH (
                'connector' = 'filesystem', 'path' = '{tmp_path}/late', 'format' = 'json');
            CREATE TABLE kept (v INT, k STRING) WITH ('connector' = 'memory');
    """


def _write(path: Path, rows: list[tuple[str, int, str]], number: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"k": k, "v": v, "ts": f"2024-01-01 {ts}"}) + "\n" for k, v, ts in rows))
    os.utime(path, (number, number))  # Spark reads files in this order


@pytest.mark.spark
def test_late_rows_go_to_their_table_and_are_counted(session):
    job = session.sql(f"INSERT INTO counts {COUNTS} LATE DATA TO late")
    job.wait()
    progress = job.progress()
    assert (progress.rows_in, progress.rows_out, progress.late_rows) == (6, 4, 2)
    assert progress.late_by_operator == {0: 2}
    assert sorted(session.sql("SELECT * FROM counts").fetchall()) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]
    end = datetime(2024, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert sorted(session.sql("SELECT v, window_end FROM late").fetchall()) == [(7, end), (9, end)]

    query = session.sql(f"{COUNTS} LATE DATA TO kept")
    assert sorted(query.fetchall()) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]
    assert sorted(session.sql("SELECT * FROM kept").fetchall()) == [(7, "a"), (9, "c")]


@pytest.mark.long
@pytest.mark.spark
def test_operators_in_one_call_count_their_own_late_rows(session):
    fours = "SELECT k, COUNT(*) AS n, window_time AS wt FROM events GROUP BY k, TUMBLE(ts, INTERVAL '4' SECOND)"
    tens = f"FROM ({fours} LATE DATA ALLOW INTERVAL '55' SECOND) AS f GROUP BY k, TUMBLE(wt, INTERVAL '10' SECOND)"
    query = f"SELECT k, COALESCE(SUM(n), 0) AS n {tens}"
    told = "in the call of the operator below"
    assert told in str(session.sql(f"EXPLAIN PHYSICAL {query}").fetchall())
    session.sql("SET 'pipeline.operator-chaining.enabled' = 'false'")
    assert told not in str(session.sql(f"EXPLAIN PHYSICAL {query}").fetchall())
    session.sql("RESET 'pipeline.operator-chaining.enabled'")
    job = session.sql(f"INSERT INTO counts {query}")
    job.wait()
    assert job.progress().late_by_operator == {0: 1, 1: 1}, "the result of the row at 9 s, and the row at 3 s"
    assert sorted(session.sql("SELECT * FROM counts").fetchall()) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]


@pytest.mark.spark
def test_a_late_row_fails_the_job_and_leaves_its_checkpoint(open_session, tmp_path):
    keep = f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'; SET 'execution.end-of-input' = 'final'"
    statement = f"INSERT INTO counts {COUNTS} LATE DATA FAIL"
    with open_session() as session:
        session.sql(keep)
        job = session.sql(statement)
        with pytest.raises(SqlStreamError, match=r"SS4\d\d: .*late|SS4\d\d: .*came after") as caught:
            job.wait()
        assert job.state is JobState.FAILED
        assert "Traceback" not in str(caught.value)
        assert caught.value.diagnostic.hint is not None
    _write(tmp_path / "events" / "2", [("b", 8, "00:01:03")], 2)
    with open_session() as session:
        session.sql(keep)
        session.sql(statement).wait()
        assert sorted(session.sql("SELECT * FROM counts").fetchall()) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]


def test_a_table_that_cannot_get_the_late_rows_is_refused(session):
    session.sql("CREATE TABLE source (v INT) WITH ('connector' = 'datagen')")
    with pytest.raises(SqlStreamError, match='SS507: table "source" cannot be written'):
        session.sql(f"{COUNTS} LATE DATA TO source")
    session.sql("CREATE TABLE both (k STRING, n BIGINT) WITH ('connector' = 'memory')")
    with pytest.raises(SqlStreamError, match=r'SS\d\d\d: .*"both"'):
        session.sql(f"INSERT INTO both {COUNTS} LATE DATA TO both")


def test_updates_into_a_table_of_inserts_are_refused(session):
    with pytest.raises(SqlStreamError, match='SS510: table "counts" takes inserted rows only'):
        session.sql(f"INSERT INTO counts {COUNTS} EMIT CHANGES")
