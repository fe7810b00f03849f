"""Event times that are computed: a row without one is bad, and is named as it was read, with its file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import usually

pytestmark = pytest.mark.spark

COLUMNS = ("id", "at", "v")
ROWS = [(1, "2024-01-31 12:00:00", 1), (5, "31/01/2024", 4), (6, None, 5), (7, "2024-01-31 12:00:03", 6)]
TEXTS = {
    "csv": '1,"2024-01-31 12:00:00",1\n\n5, 31/01/2024,4\r\n6,,5\n7,2024-01-31 12:00:03,6\n',
    "json": '{"id":1,"at":"2024-01-31 12:00:00","v":1}\n\n{"id": 5, "at": "31/01/2024", "v": 4, "more": [1]}\n'
    '{"v": 5, "id": 6}\n{"id":7,"at":"2024-01-31 12:00:03","v":6}',
}
RECORDS = {
    "csv": ["5, 31/01/2024,4", "6,,5"],
    "json": ['{"id": 5, "at": "31/01/2024", "v": 4, "more": [1]}', '{"v": 5, "id": 6}'],
    "parquet": ['{"id":5,"at":"31/01/2024","v":4}', '{"id":6,"at":null,"v":5}'],
}
USUAL = usually(["json", "csv", "parquet"], "json")
WINDOW = (
    "SELECT COUNT(*) AS id FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY window_start, window_end"
)
NULL_TIME = 'SS401: event time "ts" of table "t" is NULL'


@pytest.fixture
def session(spark) -> Iterator[Session]:
    with Session(spark) as own_session:
        yield own_session


def write(folder: Path, form: str) -> Path:
    folder.mkdir()
    path = folder / f"ü 1.{form}"
    if form == "parquet":
        pq.write_table(pa.table([*map(list, zip(*ROWS, strict=True))], names=[*COLUMNS]), path)
    else:
        path.write_text(TEXTS[form], newline="")
    return path


def declare(session: Session, folder: Path, form: str, more: str = "") -> None:
    session.sql(f"""CREATE TABLE t (id BIGINT, at STRING, v BIGINT, ts AS TRY_CAST(at AS TIMESTAMP),
        WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = '{form}'{more})""")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    result = session.sql(query)
    assert isinstance(result, Query)
    return sorted(result.fetchall(), key=repr)


def run(session: Session, insert: str) -> Job:
    """Runs an INSERT to its end."""
    job = session.sql(insert)
    assert isinstance(job, Job)
    assert job.wait(200)
    return job


def written(folder: Path) -> list[int]:
    return sorted(json.loads(line)["id"] for file in folder.rglob("part-*") for line in file.read_text().splitlines())


@pytest.mark.parametrize("form", USUAL)
def test_a_row_without_a_time_is_a_dead_letter_whatever_the_query_reads(
    form: str, session: Session, tmp_path: Path
) -> None:
    path = write(tmp_path / "in", form)
    declare(session, tmp_path / "in", form, ", 'on-error' = 'dead-letter:dead'")
    for number, (query, result) in enumerate({"SELECT id FROM t": [1, 7], WINDOW: [2]}.items()):
        session.sql(f"""DROP TABLE IF EXISTS dead; DROP TABLE IF EXISTS o;
            CREATE TABLE dead (record STRING, error STRING, place STRING) WITH ('connector' = 'memory');
            CREATE TABLE o (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
                'path' = '{tmp_path}/out{number}')""")
        job = run(session, f"INSERT INTO o {query}")
        assert written(tmp_path / f"out{number}") == result
        lines = (": row 2", ": row 3") if form == "parquet" else (":3", ":4")
        letters = zip(RECORDS[form], [NULL_TIME] * 2, (f"{path}{line}" for line in lines), strict=True)
        assert rows(session, "SELECT record, error, place FROM dead") == sorted(letters)
        assert job.progress().bad_rows == {"t": 2}


def parsed(text: str | None) -> datetime | None:
    return None if text is None or "/" in text else datetime.fromisoformat(f"{text}+00:00")


def test_a_time_of_a_python_function_is_checked_likewise(session: Session, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "json")
    session.register_function("parsed", parsed)
    session.sql(f"""CREATE TABLE t (id BIGINT, at STRING, v BIGINT, ts AS parsed(at), WATERMARK FOR ts AS ts) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'json', 'on-error' = 'dead-letter:dead');
        CREATE TABLE dead (record STRING, place STRING) WITH ('connector' = 'memory');
        CREATE TABLE o (id BIGINT) WITH ('connector' = 'memory')""")
    run(session, "INSERT INTO o SELECT id FROM t")
    assert rows(session, "SELECT id FROM o") == [(1,), (7,)]
    assert rows(session, "SELECT record, place FROM dead") == sorted(
        zip(RECORDS["json"], (f"{path}:3", f"{path}:4"), strict=True)
    )


@pytest.mark.parametrize("form", USUAL)
def test_without_on_error_the_job_fails_and_names_the_row(form: str, session: Session, tmp_path: Path) -> None:
    path = write(tmp_path / "in", form)
    declare(session, tmp_path / "in", form)
    place = "a row" if form == "parquet" else "line 3"
    assert rows(session, "SELECT id FROM t") == [(1,), (5,), (6,), (7,)]
    queries = {"streaming": (WINDOW, "SELECT id, ts FROM t"), "batch": (WINDOW, "SELECT id FROM t WHERE ts > '2024'")}
    for mode, (window, plain) in queries.items():
        session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
        for query in (window, plain):
            with pytest.raises(SqlStreamError) as error:
                rows(session, query)
            assert f'{NULL_TIME} in {place} of file "{path}"' in str(error.value), (mode, query)
            assert "31/01/2024" in str(error.value)


@pytest.mark.long
@pytest.mark.parametrize("form", usually(["json", "csv", "parquet"], "parquet"))
def test_a_stored_time_that_is_null_is_named_likewise(form: str, session: Session, tmp_path: Path) -> None:
    write(tmp_path / "in", form)
    session.sql(f"""CREATE TABLE t (id BIGINT, at STRING, v BIGINT) WITH ('connector' = 'filesystem',
        'path' = '{tmp_path}/in', 'format' = '{form}');
        CREATE TABLE times (id BIGINT, ts TIMESTAMP) WITH ('connector' = 'filesystem', 'format' = '{form}',
        'path' = '{tmp_path}/times')""")
    run(session, "INSERT INTO times SELECT id, TRY_CAST(at AS TIMESTAMP) FROM t")
    session.sql(f"""DROP TABLE t; CREATE TABLE t (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (
        'connector' = 'filesystem', 'path' = '{tmp_path}/times', 'format' = '{form}')""")
    (times,) = (tmp_path / "times").glob("part-*")
    place = {"csv": "line 2", "json": "line 2", "parquet": "row 2"}[form]
    for mode, query in (("streaming", WINDOW), ("streaming", "SELECT ts FROM t"), ("batch", WINDOW)):
        session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
        with pytest.raises(SqlStreamError) as error:
            rows(session, query)
        where = "a row" if form == "parquet" and query != WINDOW else place
        assert f'{NULL_TIME} in {where} of file "{times}"' in str(error.value), (mode, query)


def failing(text: str | None) -> datetime | None:
    if text is not None and "/" in text:
        raise ValueError(f"{text} is no time")
    return None if text is None else datetime.fromisoformat(f"{text}+00:00")


FAILED = 'SS411: function "failing" failed: ValueError: 31/01/2024 is no time'


@pytest.mark.long
@pytest.mark.parametrize("form", USUAL)
def test_a_time_of_a_python_function_that_is_null_or_fails_names_the_row(
    form: str, session: Session, tmp_path: Path
) -> None:
    path = write(tmp_path / "in", form)
    place = "a row" if form == "parquet" else "line 3"
    for name, function, said in (("parsed", parsed, NULL_TIME), ("failing", failing, FAILED)):
        session.register_function(name, function)
        session.sql(f"""DROP TABLE IF EXISTS t; CREATE TABLE t (id BIGINT, at STRING, v BIGINT, ts AS {name}(at),
            WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = '{form}')""")
        for mode, query in (("streaming", WINDOW), ("streaming", "SELECT id, ts FROM t"), ("batch", WINDOW)):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            with pytest.raises(SqlStreamError) as error:
                rows(session, query)
            assert f'{said} in {place} of file "{path}"' in str(error.value), (name, mode, query)
            assert ("test_computed_times.py:" in str(error.value)) == (name == "failing")


def test_a_time_of_a_python_function_that_fails_is_a_dead_letter(session: Session, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "csv")
    session.register_function("failing", failing)
    session.sql(f"""CREATE TABLE t (id BIGINT, at STRING, v BIGINT, ts AS failing(at), WATERMARK FOR ts AS ts) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'csv', 'on-error' = 'dead-letter:dead');
        CREATE TABLE dead (record STRING, error STRING, place STRING) WITH ('connector' = 'memory');
        CREATE TABLE o (id BIGINT) WITH ('connector' = 'memory')""")
    run(session, f"INSERT INTO o {WINDOW}")
    assert rows(session, "SELECT id FROM o") == [(2,)]
    letters = zip(RECORDS["csv"], (FAILED, NULL_TIME), (f"{path}:3", f"{path}:4"), strict=True)
    assert rows(session, "SELECT record, error, place FROM dead") == sorted(letters)


def test_a_time_of_a_python_function_is_computed_once(session: Session, tmp_path: Path) -> None:
    write(tmp_path / "in", "csv")
    (tmp_path / "calls").mkdir()
    calls = tmp_path / "calls" / "all"

    def noted(text: str | None) -> datetime | None:
        with calls.open("a") as file:
            file.write(f"{text}\n")
        return None if text is None else datetime(2024, 1, 31, 12)

    session.register_function("noted", noted)
    for on_error in ("", ", 'on-error' = 'skip'"):
        session.sql(f"""DROP TABLE IF EXISTS t; CREATE TABLE t (id BIGINT, at STRING, v BIGINT,
            ts AS COALESCE(noted(at), TIMESTAMP '2024-01-31 12:00:00'), WATERMARK FOR ts AS ts) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'csv'{on_error})""")
        for mode, query in (("streaming", WINDOW), ("streaming", "SELECT id, ts FROM t"), ("batch", WINDOW)):
            calls.unlink(missing_ok=True)
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            rows(session, query)
            assert len(calls.read_text().splitlines()) == len(ROWS), (on_error, mode, query)


OWN = "SELECT COUNT(*) AS id FROM t WATERMARK own DELAY OF INTERVAL '0' SECONDS GROUP BY TUMBLE(own, INTERVAL '1' HOUR)"


@pytest.mark.long
@pytest.mark.parametrize("form", USUAL)
def test_rows_without_the_time_of_a_querys_own_watermark_are_named(form: str, session: Session, tmp_path: Path) -> None:
    path = write(tmp_path / "in", form)
    session.register_function("failing", failing)
    null = NULL_TIME.replace('"ts"', '"own"')
    for time, said in {"TRY_CAST(at AS TIMESTAMP)": null, "failing(at)": FAILED}.items():
        table = f"""CREATE TABLE t (id BIGINT, at STRING, v BIGINT, own AS {time}) WITH ('connector' = 'filesystem',
            'path' = '{tmp_path}/in', 'format' = '{form}'"""
        session.sql(f"""DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS dead; DROP TABLE IF EXISTS o;
            {table}, 'on-error' = 'dead-letter:dead');
            CREATE TABLE dead (record STRING, error STRING, place STRING) WITH ('connector' = 'memory');
            CREATE TABLE o (id BIGINT) WITH ('connector' = 'memory')""")
        run(session, f"INSERT INTO o {OWN}")
        assert rows(session, "SELECT id FROM o") == [(2,)]
        lines = (": row 2", ": row 3") if form == "parquet" else (":3", ":4")
        letters = zip(RECORDS[form], (said, null), (f"{path}{line}" for line in lines), strict=True)
        assert rows(session, "SELECT record, error, place FROM dead") == sorted(letters)
        session.sql(f"DROP TABLE t; {table})")
        with pytest.raises(SqlStreamError) as error:
            rows(session, OWN)
        place = "a row" if form == "parquet" else "line 3"
        assert f'{said} in {place} of file "{path}"' in str(error.value), time
