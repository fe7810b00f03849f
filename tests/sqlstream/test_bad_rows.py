"""Bad rows of files: skipped and counted, or dead letters in a table beside the result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.statements.jobs import properties

pytestmark = pytest.mark.spark

CSV = """1,x,2024-01-01 00:00:01
bad,y,2024-01-01 00:00:02
3,z
4,"q",nonsense
5,w,

6,v,2024-01-01 00:00:03
"""
COUNTS = """SELECT window_start, COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
GROUP BY window_start, window_end"""
JSON = """{"id": 1, "at": "2024-01-01 00:00:01"}
no json
{"id": null, "at": "2024-01-01 00:00:02"}
{"id": 2, "at": "yesterday"}
{"id": 3, "tags": ["a", {"b": 1}], "at": "2024-01-01 00:00:04"}
{"id": 4, "tags": "none", "at": "2024-01-01 00:00:05"}
"""


@pytest.fixture
def session(spark, tmp_path: Path) -> Iterator[Session]:
    with Session(spark) as own_session:
        own_session.sql(f"""
            CREATE TABLE dead (error STRING, record STRING, source STRING, place STRING, failed_at TIMESTAMP)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/dead')""")
        yield own_session


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.rglob("part-*")) for line in path.read_text().splitlines()]


def run(session: Session, statement: str) -> Job:
    job = session.sql(statement)
    assert isinstance(job, Job)
    assert job.wait(300)
    return job


def rows_of(session: Session, query: str) -> list[Any]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return result.fetchall()


def test_bad_rows_below_a_window_are_dead_letters_beside_its_result(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(CSV)
    session.sql(f"""
        CREATE TABLE t (a INT, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
            'format' = 'csv', 'path' = '{tmp_path}/in', 'on-error' = 'dead-letter:dead')""")
    session.sql(f"""CREATE TABLE o (start TIMESTAMP, n BIGINT)
        WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/o')""")
    job = run(session, f"INSERT INTO o {COUNTS}")
    assert [row["n"] for row in written(tmp_path / "o")] == [2]
    dead = written(tmp_path / "dead")
    assert [(row["record"], row["error"]) for row in dead] == [
        ("bad,y,2024-01-01 00:00:02", 'SS402: column "a" of type INT is "bad"'),
        ("3,z", "SS402: the record is no CSV row of 3 columns: it has 2"),
        ('4,"q",nonsense', 'SS402: column "ts" of type TIMESTAMP is "nonsense"'),
        ("5,w,", 'SS401: event time "ts" of table "t" is NULL'),
    ]
    assert [(row["source"], row["place"]) for row in dead] == [("t", f"{tmp_path}/in/a.csv:{n}") for n in (2, 3, 4, 5)]
    now = datetime.now(UTC).replace(tzinfo=None)
    assert all(abs((datetime.fromisoformat(row["failed_at"]) - now).total_seconds()) < 3600 for row in dead)
    assert (job.progress().bad_rows, job.progress().rows_in, job.progress().rows_out) == ({"t": 4}, 6, 1)
    assert ('bad rows of "t"', "4") in list(properties(job.record))


def test_bad_rows_of_a_table_that_is_read_twice_count_once(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(JSON)
    session.sql(f"""
        CREATE TABLE t (id INT NOT NULL, tags ARRAY<STRING>, at STRING, ts AS TRY_CAST(at AS TIMESTAMP),
            WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/in',
            'on-error' = 'dead-letter:dead')""")
    session.sql(
        f"CREATE TABLE o (id INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/o')"
    )
    job = run(session, "INSERT INTO o SELECT id FROM t WHERE id > 1 UNION ALL SELECT -id FROM t")
    assert sorted(row["id"] for row in written(tmp_path / "o")) == [-3, -1, 3]
    assert sorted((row["record"], row["error"]) for row in written(tmp_path / "dead")) == [
        ("no json", "SS402: the record is no JSON object"),
        ('{"id": 2, "at": "yesterday"}', 'SS401: event time "ts" of table "t" is NULL'),
        (
            '{"id": 4, "tags": "none", "at": "2024-01-01 00:00:05"}',
            'SS402: column "tags" of type ARRAY<STRING> is "none"',
        ),
        (
            '{"id": null, "at": "2024-01-01 00:00:02"}',
            'SS403: column "id" of table "t" is NOT NULL and got NULL',
        ),
    ]
    assert job.progress().bad_rows == {"t": 4}


@pytest.mark.long
def test_a_query_that_only_looks_writes_no_dead_letters(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(CSV)
    session.sql(f"""
        CREATE TABLE t (id INT, s STRING, at STRING, ts AS TRY_CAST(at AS TIMESTAMP), WATERMARK FOR ts AS ts) WITH (
            'connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/in', 'on-error' = 'dead-letter:dead');
        CREATE TABLE counts (since TIMESTAMP, n BIGINT) WITH ('connector' = 'blackhole')""")
    before = rows_of(session, COUNTS)
    assert not (tmp_path / "dead").exists()
    run(session, f"INSERT INTO counts {COUNTS}")
    letters = written(tmp_path / "dead")
    assert letters
    assert rows_of(session, COUNTS) == before
    assert session.dataframe(COUNTS).isStreaming
    session.sql("SET 'execution.runtime-mode' = 'batch'")
    assert rows_of(session, "SELECT id FROM t")
    assert written(tmp_path / "dead") == letters
