"""Stateless queries that tasks compute over the columns of files: the same rows as through Spark's reader, the same
faults, and the number of rows that were read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.udfs.functions import scalar
from tests.depth import ALL, usually

pytestmark = pytest.mark.spark

LINES = {
    "csv": [f'{n},"é, {n % 3}",2024-01-31 12:00:{n % 60:02}' for n in range(40)],
    "json": [f'{{"n": {n}, "s": "é, {n % 3}", "at": "2024-01-31 12:00:{n % 60:02}"}}' for n in range(40)],
}
QUERY = "SELECT s AS name, at, n FROM t WHERE MOD(n, 4) = 1 AND s <> 'é, 0'"


@pytest.fixture
def session(spark: Any, tmp_path: Path) -> Any:
    with sqlstream.connect(spark) as session:
        session.sql("SET 'execution.runtime-mode' = 'streaming'")
        session.sql("CREATE TABLE nowhere (name STRING, at TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole')")
        yield session


def declare(session: Session, folder: Path, form: str, lines: list[str], more: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"1.{form}").write_text("\n".join(lines[:25]) + "\n")
    (folder / f"2.{form}").write_text("\n".join(lines[25:]) + "\n")
    session.sql(f"""CREATE TABLE t (n BIGINT NOT NULL, s STRING, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH (
        'connector' = 'filesystem', 'path' = '{folder}', 'format' = '{form}' {more})""")


@pytest.mark.parametrize("form", LINES)
def test_both_readers_give_the_same_rows_and_counts(form: str, session: Session, tmp_path: Path) -> None:
    declare(session, tmp_path / "in", form, LINES[form])
    found, read = [], []
    for reader in ("auto", "spark"):
        session.sql(f"SET 'sqlstream.file-reader' = '{reader}'")
        physical = str(session.sql(f"EXPLAIN PHYSICAL {QUERY}"))
        assert ("its tasks read and filter columns" in physical) == (reader == "auto")
        result = session.sql(QUERY)
        assert isinstance(result, Query)
        found.append(sorted(map(repr, result)))
        job = session.sql(f"INSERT INTO nowhere {QUERY}")
        assert isinstance(job, Job)
        job.wait()
        progress = job.progress()
        read.append((progress.rows_in, progress.rows_out, progress.read_by_table))
    assert found[0] == found[1]
    assert len(found[0]) == 7
    assert read == [(40, 7, {"t": 40})] * 2


@scalar(returns="STRING", vectorized=True)
def marked(number: pa.Array, text: pa.Array) -> pa.Array:
    if pc.any(pc.equal(number, 999)).as_py():
        raise ValueError("999 is none")
    return pc.binary_join_element_wise(text, number.cast(pa.string()), ":")


def longer(text: str | None, by: int) -> str | None:
    return None if text is None else text + "!" * by


@scalar(deterministic=False)
def another(number: int) -> int:
    return number


def at_once(at: datetime) -> str:
    return str(at)


BY_TASKS = (
    "SELECT marked(n, s) AS m, HOUR(at) AS h, longer(s, n) AS l, CASE WHEN n > 3 THEN marked(n, 'é') END AS c FROM t",
    "SELECT l, MAX(HOUR(at)) AS h, COUNT(*) AS c FROM (SELECT longer(s, n) AS l, at FROM t WHERE n < 9) GROUP BY l",
)
BY_SPARK = (
    "SELECT n FROM t WHERE marked(n, s) = 'é, 0:0'",
    "SELECT another(n) AS m FROM t",
    "SELECT longer('x', 1) AS m FROM t",
    "SELECT longer(s, CAST(n AS INT)) AS m FROM t",
    "SELECT at_once(at) AS m FROM t",
)


@pytest.mark.long
def test_tasks_call_functions_with_the_columns_that_they_have(session: Session, tmp_path: Path) -> None:
    declare(session, tmp_path / "in", "csv", LINES["csv"])
    session.sql("SET 'table.local-time-zone' = 'Asia/Kathmandu'")
    for function in (marked, longer, another, at_once):
        session.register_function(function.__name__, function)
    for query in BY_SPARK:
        assert "Spark lists the files" not in str(session.sql(f"EXPLAIN PHYSICAL {query}")), query
    session.sql("SET 'sqlstream.functions.on-error' = 'skip'")
    assert "Spark lists the files" not in str(session.sql(f"EXPLAIN PHYSICAL {BY_TASKS[0]}"))
    session.sql("SET 'sqlstream.functions.on-error' = 'fail'")
    for query in BY_TASKS:
        found = []
        for reader in ("auto", "spark"):
            session.sql(f"SET 'sqlstream.file-reader' = '{reader}'")
            assert ("Spark lists" in str(session.sql(f"EXPLAIN PHYSICAL {query}"))) == (reader == "auto"), query
            result = session.sql(query)
            assert isinstance(result, Query)
            found.append(sorted(map(repr, result)))
        assert found[0] == found[1]
        assert len(found[0]) >= 9


def test_tasks_give_rows_the_clock_of_their_micro_batch(session: Session, tmp_path: Path) -> None:
    declare(session, tmp_path / "in", "csv", LINES["csv"])
    path = tmp_path / "in"
    session.sql(f"""CREATE TABLE c (n BIGINT, s STRING, at TIMESTAMP(3), pt AS PROCTIME())
        WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')""")
    best = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY n DESC) AS r FROM c) AS x WHERE r <= 2"
    for query, rows, place in (("SELECT n, pt FROM c WHERE n < 30", 30, 1), (best, 6, 4)):
        assert "Spark lists the files" in str(session.sql(f"EXPLAIN PHYSICAL {query}"))
        before = datetime.now(UTC)
        result = session.sql(query)
        assert isinstance(result, Query)
        found = [row for row in result.fetchall() if row[0] != "-D"]
        times = {row[place] for row in found}
        assert len(found) == rows
        assert len(times) == 1
        assert before <= times.pop().astimezone(UTC) <= datetime.now(UTC)


def test_a_function_that_fails_in_a_task_is_named_with_its_line(session: Session, tmp_path: Path) -> None:
    declare(session, tmp_path / "in", "csv", [*LINES["csv"], "999,x,2024-01-31 12:00:00"])
    session.register_function("marked", marked)
    result = session.sql("SELECT marked(n, s) AS m FROM t")
    assert isinstance(result, Query)
    with pytest.raises(SqlStreamError, match='SS411: function "marked" failed: ValueError: 999 is none') as raised:
        result.fetchall()
    assert "test_column_queries.py" in str(raised.value)


def test_rows_of_which_nothing_is_read_are_counted(session: Session, tmp_path: Path) -> None:
    declare(session, tmp_path / "in", "json", LINES["json"])
    for query, rows in (("SELECT 'x' AS c FROM t", 40), ("SELECT DISTINCT 'x' AS c FROM t", 1)):
        result = session.sql(query)
        assert isinstance(result, Query)
        assert [row[-1] for row in result] == ["x"] * rows
    grouped = session.sql("SELECT c, COUNT(*) AS n FROM (SELECT 'x' AS c FROM t WHERE 1 = 1) GROUP BY c")
    assert isinstance(grouped, Query)
    assert [*grouped][-1][-2:] == ("x", 40)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("x,y,2024-01-31 12:00:00", 'SS402: a row in line 3 of file "{path}" cannot be read'),
        ("7,y,", 'SS401: event time "at" of table "t" is NULL in line 3 of file "{path}"'),
        (
            ",y,2024-01-31 12:00:00",
            'SS403: column "n" of table "t" is NOT NULL and got NULL in line 3 of file "{path}"',
        ),
    ],
)
def test_a_fault_ends_the_job_with_its_place(line: str, error: str, session: Session, tmp_path: Path) -> None:
    declare(session, tmp_path / "in", "csv", [*LINES["csv"][:2], line, *LINES["csv"][2:]])
    job = session.sql("INSERT INTO nowhere SELECT s, at, n FROM t")
    assert isinstance(job, Job)
    with pytest.raises(SqlStreamError) as raised:
        job.wait()
    assert error.format(path=tmp_path / "in" / "1.csv") in str(raised.value)


FAULTY = {
    "csv": [b"x,y,2024-01-31 12:00:00", b"7,y", b"9,caf\xe9,2024-01-31 12:00:00", b"1,good,", b",y,"],
    "json": [b'{"n": "x"}', b"no json", b'{"n": 9, "s": "caf\xe9"}', b'{"n": 1, "s": "good"}', b'{"s": "y"}'],
}
CHECKED = {"csv": "skip", "json": "dead-letter:dead"}
"""The format of which rows without a number or a time are bad, too."""


@pytest.mark.parametrize("option", usually(["skip", "dead-letter:dead"], "dead-letter:dead"))
def test_bad_records_are_dropped_or_dead_letters_as_where_spark_computes_the_query(
    option: str, session: Session, tmp_path: Path
) -> None:
    """Twice in one file each, with good rows before, between and after them."""
    for form in ("csv", "json") if ALL or option == "skip" else ("json",):
        lines = [line.encode() for line in LINES[form]]
        (tmp_path / form).mkdir()
        (tmp_path / form / f"1.{form}").write_bytes(b"\n".join([*lines, *FAULTY[form], *lines, *FAULTY[form], b""]))
        is_checked = CHECKED[form] == option
        more = ("n BIGINT NOT NULL", ", WATERMARK FOR at AS at") if is_checked else ("n BIGINT", "")
        session.sql(f"""CREATE TABLE {form} ({more[0]}, s STRING, at TIMESTAMP(3){more[1]}) WITH (
            'connector' = 'filesystem', 'path' = '{tmp_path}/{form}', 'format' = '{form}', 'on-error' = '{option}')""")
        results = []
        for number, by_spark in enumerate(("", " AND n + 0 = n")):
            query = f"SELECT s, at, n FROM {form} WHERE MOD(n, 4) = 1{by_spark}"
            results.append(
                [_outcome(session, tmp_path, query, f"{form}{number}", sink) for sink in ("kept", "nowhere")]
            )
            physical = str(session.sql(f"EXPLAIN PHYSICAL INSERT INTO nowhere {query}"))
            assert ("its tasks read and filter columns" in physical) == (not number)
            assert ("hand dead letters to Spark" in physical) == (not number and option != "skip")
        assert results[0] == results[1]
        ((rows, letters, counts), (_, of_none, counts_of_none)) = results[0]
        good, bad = (20, 10) if is_checked else (22, 6)
        assert (len(rows), counts) == (good, (90, good, {form: bad}))
        assert (of_none, counts_of_none) == (letters, counts)
        assert len(letters) == (0 if option == "skip" else bad)
        if letters:
            assert letters[0]["place"] == f"{tmp_path}/{form}/1.{form}:41"


def _outcome(session: Session, folder: Path, query: str, name: str, sink: str) -> tuple[Any, ...]:
    """The rows and the dead letters that the query writes, without their times, and what was counted."""
    out, dead = folder / f"{name}-{sink}", folder / f"{name}-{sink}-dead"
    session.sql(f"""
        SET 'pipeline.name' = '{out.name}';
        DROP TABLE IF EXISTS dead; DROP TABLE IF EXISTS kept;
        CREATE TABLE dead (source STRING, record BINARY, error STRING, place STRING)
            WITH ('connector' = 'filesystem', 'path' = '{dead}', 'format' = 'json');
        CREATE TABLE kept (s STRING, at TIMESTAMP(3), n BIGINT)
            WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json')""")
    job = session.sql(f"INSERT INTO {sink} {query}")
    assert isinstance(job, Job)
    job.wait()
    progress = job.progress()
    counts = (progress.rows_in, progress.rows_out, progress.bad_rows)
    letters = sorted(_rows_in(dead), key=lambda row: int(row["place"].rpartition(":")[2]))
    return sorted(map(repr, _rows_in(out))), letters, counts


def _rows_in(folder: Path) -> list[Any]:
    files = (file for file in folder.rglob("*.json") if not file.name.startswith((".", "_")))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
