"""``'sqlstream.functions.on-error'``: rows for which a scalar function raises an exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.results import Query
from sqlstream.session import Session

SETTING = "SET 'sqlstream.functions.on-error' = 'dead-letter:dead'"
DEAD = "CREATE TABLE dead (error STRING, record STRING, source STRING, place STRING) WITH ('connector' = 'memory')"


def half(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd")
    return value // 2


def rows(session: Session, text: str) -> list[Any]:
    query = session.sql(text)
    assert isinstance(query, Query)
    return query.fetchall()


@pytest.mark.spark
def test_rows_for_which_a_function_fails_are_dead_letters_and_the_others_go_on(spark, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps({"a": a}) + "\n" for a in (4, 3, 8, 6)))
    with Session(spark) as session:
        session.register_function("half", half)
        session.sql(f"{DEAD}; {SETTING}")
        session.sql(f"""
            CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/in');
            CREATE TABLE o (a INT, h INT) WITH ('connector' = 'memory')""")
        job = session.sql("INSERT INTO o SELECT a, half(half(a)) FROM t WHERE half(a) > 1")
        assert isinstance(job, Job)
        assert job.wait(300)
        assert sorted(rows(session, "SELECT a, h FROM o")) == [(4, 1), (8, 2)]
        dead = sorted(rows(session, "SELECT record, error, source, place FROM dead"))
    assert [row[:3] for row in dead] == [
        ('{"value":3}', 'SS411: function "half" failed: ValueError: 3 is odd', "half"),
        ('{"value":3}', 'SS411: function "half" failed: ValueError: 3 is odd', "half"),
    ]
    assert all(f"{Path(__file__).name}:" in row[3] and row[3].endswith(" in half") for row in dead)
    assert job.progress().bad_rows == {"half": 2}


def session_with(*statements: str) -> Session:
    session = Session()
    session.register_function("half", half)
    for statement in ("CREATE TABLE t (a INT, pt AS PROCTIME()) WITH ('connector' = 'test')", DEAD, *statements):
        session.sql(statement)
    return session


def test_only_queries_that_call_functions_write_dead_letters() -> None:
    session = session_with(SETTING)
    assert "dead" not in session.explain("SELECT a FROM t")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(half(a)) AS s FROM t GROUP BY TUMBLE(pt, INTERVAL '1' MINUTE)",
        "SELECT window_start, SUM(half(a)) AS s FROM TUMBLE(TABLE t, DESCRIPTOR(pt), INTERVAL '1' MINUTE) "
        "GROUP BY window_start, window_end",
    ],
)
def test_calls_that_the_setting_does_not_reach_are_refused(query: str) -> None:
    assert session_with().explain(query)
    with pytest.raises(SqlStreamError) as error:
        session_with(SETTING).explain(query)
    assert error.value.diagnostic.message == (
        'setting "sqlstream.functions.on-error" does not reach function "half" here'
    )


def test_the_table_of_dead_letters_must_be_there() -> None:
    with pytest.raises(SqlStreamError, match='SS240: table "gone" for the bad rows of Python functions does not exist'):
        session_with("SET 'sqlstream.functions.on-error' = 'dead-letter:gone'").explain("SELECT half(a) FROM t")
