"""CREATE FUNCTION with a body of SQL or Python, SHOW FUNCTIONS and DESCRIBE FUNCTION."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.paths import importable
from sqlstream.query import Query
from sqlstream.results import Rows
from sqlstream.session import Session

FUNCTIONS = """
CREATE FUNCTION inc(n INT, by INT DEFAULT 1) RETURNS BIGINT RETURN n + by;
CREATE FUNCTION twice(n INT) RETURN inc(n, n);
CREATE FUNCTION shout(text STRING) RETURNS STRING LANGUAGE PYTHON NOT DETERMINISTIC AS $$ return text.upper(); $$;
"""


@pytest.fixture
def session() -> Session:
    made = sqlstream.connect()
    made.sql(FUNCTIONS)
    return made


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    result = session.sql(text)
    assert isinstance(result, Rows | Query)
    return [tuple(row) for row in result.fetchall()]


def test_they_are_shown(session: Session) -> None:
    assert rows(session, "SHOW USER FUNCTIONS") == [
        ("inc", "sql", "user", "n INT, by INT", "BIGINT", "n + by"),
        ("shout", "scalar", "user", "text STRING", "STRING", " return text.upper(); "),
        ("twice", "sql", "user", "n INT", "BIGINT", "inc(n, n)"),
    ]


def test_they_are_described(session: Session) -> None:
    assert ("argument", "by INT DEFAULT 1") in rows(session, "DESC FUNCTION EXTENDED INC")
    assert ("deterministic", "FALSE") in rows(session, "DESCRIBE FUNCTION shout")
    assert rows(session, "DESCRIBE FUNCTION json_value") == [
        ("function name", "json_value"), ("kind", "scalar"), ("origin", "built-in")
    ]  # fmt: skip
    with pytest.raises(SqlStreamError, match="SS203"):
        session.sql("DESCRIBE FUNCTION nothing")


def test_extended_says_more_of_them(session: Session) -> None:
    told = rows(session, "DESCRIBE FUNCTION EXTENDED inc")
    assert told[:-2] == rows(session, "DESCRIBE FUNCTION inc")
    assert told[-2:] == [("language", "SQL"), ("signature", "inc(n INT, by INT DEFAULT 1) RETURNS BIGINT")]
    upper = dict(rows(session, "DESCRIBE FUNCTION EXTENDED upper"))
    assert (upper["arguments"], upper["deterministic"]) == ("1 argument", "TRUE")
    assert upper["usage"].startswith("Converts a string expression to upper case")
    assert dict(rows(session, "DESCRIBE FUNCTION EXTENDED split_index"))["class"].endswith("by Flink's name")
    assert dict(rows(session, "DESCRIBE FUNCTION EXTENDED rand"))["deterministic"] == "FALSE"


def test_extended_says_what_a_function_says_of_itself(session: Session, tmp_path: Path) -> None:
    (tmp_path / "documented.py").write_text('def one(x: int) -> int:\n    """Always one."""\n    return 1\n')
    with importable(tmp_path):
        session.sql("CREATE FUNCTION one AS 'documented:one' LANGUAGE PYTHON")
        assert ("usage", "Always one.") in rows(session, "DESCRIBE FUNCTION EXTENDED one")


@pytest.mark.spark
def test_results_are_cut_to_their_length(spark: SparkSession) -> None:
    with sqlstream.connect(spark) as session:
        session.sql("CREATE FUNCTION short(t STRING) RETURNS VARCHAR(3) RETURN t || 'x'")
        session.sql("CREATE FUNCTION code(t STRING) RETURNS CHAR(4) LANGUAGE PYTHON AS $$ return t.upper() $$")
        assert ("returns", "VARCHAR(3)") in rows(session, "DESCRIBE FUNCTION short")
        assert rows(session, "SELECT short('abcdef'), short(t => 'a'), code('abcdef'), code('a')") == [
            ("abc", "ax", "ABCD", "A   ")
        ]


def test_a_function_gets_another_implementation_where_there_is_one(session: Session, tmp_path: Path) -> None:
    code = "def one(x: int) -> int:\n    return 1\n\n\ndef two(x: int) -> int:\n    return 2\n"
    (tmp_path / "altered.py").write_text(code)
    with importable(tmp_path):
        session.sql("CREATE FUNCTION number AS 'altered:one' LANGUAGE PYTHON")
        session.sql("ALTER FUNCTION number AS 'altered:two' LANGUAGE PYTHON")
        assert [row[-1] for row in rows(session, "SHOW USER FUNCTIONS") if row[0] == "number"] == ["altered:two"]
        session.sql("ALTER FUNCTION IF EXISTS nothing AS 'altered:two'")
        with pytest.raises(SqlStreamError, match="SS203"):
            session.sql("ALTER FUNCTION nothing AS 'altered:two'")
        session.sql("CREATE TEMPORARY SYSTEM FUNCTION here AS 'altered:one'")
        session.sql("ALTER TEMPORARY SYSTEM FUNCTION here AS 'altered:two'; DROP TEMPORARY SYSTEM FUNCTION here")


def targets(session: Session) -> list[tuple[Any, Any]]:
    return [(row[0], row[-1]) for row in rows(session, "SHOW USER FUNCTIONS")]


def test_paths_may_be_dotted_as_in_flink_where_the_language_is_said(session: Session, tmp_path: Path) -> None:
    (tmp_path / "dotted_names").mkdir()
    code = "def one() -> int:\n    return 1\n\ndef two() -> int:\n    return 2\n"
    (tmp_path / "dotted_names" / "numbers_of.py").write_text(code)
    with importable(tmp_path):
        session.sql("CREATE FUNCTION dotted AS 'dotted_names.numbers_of.one' LANGUAGE PYTHON")
        assert ("dotted", "dotted_names.numbers_of:one") in targets(session)
        session.sql("ALTER FUNCTION dotted AS 'dotted_names.numbers_of.two' LANGUAGE python")
        assert ("dotted", "dotted_names.numbers_of:two") in targets(session)
        for statement in ("CREATE OR REPLACE FUNCTION", "ALTER FUNCTION"):
            with pytest.raises(SqlStreamError, match=r'SS352: "dotted_names\.numbers_of\.one" names a class of Java'):
                session.sql(f"{statement} dotted AS 'dotted_names.numbers_of.one'")
        with pytest.raises(SqlStreamError, match="SS55"):
            session.sql("CREATE FUNCTION missing AS 'dotted_names.numbers_of.three' LANGUAGE PYTHON")


def test_they_are_replaced_and_dropped(session: Session) -> None:
    session.sql("CREATE FUNCTION IF NOT EXISTS inc(n INT) RETURNS INT RETURN n")
    assert ("inc", "sql", "user", "n INT, by INT", "BIGINT", "n + by") in rows(session, "SHOW USER FUNCTIONS")
    session.sql("CREATE OR REPLACE FUNCTION inc(n INT, by INT) RETURNS INT RETURN n - by")
    assert ("inc", "sql", "user", "n INT, by INT", "INT", "n - by") in rows(session, "SHOW USER FUNCTIONS")
    session.sql("DROP FUNCTION inc")
    with pytest.raises(SqlStreamError, match='SS203: function "inc" does not exist'):
        session.explain("SELECT twice(1)")


def test_a_function_of_the_users_goes_before_one_of_flinks(session: Session) -> None:
    session.sql("CREATE FUNCTION week(n INT) RETURNS STRING RETURN CONCAT('w', n)")
    session.sql("CREATE TABLE t (n INT) WITH ('connector' = 'test')")
    assert "CONCAT('w'," in session.explain("SELECT week(n) FROM t")


def test_a_compiled_plan_holds_them_and_those_that_they_call(session: Session, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    session.sql("CREATE TABLE t (n INT, s STRING) WITH ('connector' = 'test')")
    session.sql(f"COMPILE PLAN '{plan}' FOR INSERT INTO t (n, s) SELECT CAST(twice(n) AS INT), shout(s) FROM t")
    definitions = json.loads(plan.read_text())["definitions"]
    assert [text.split()[2] for text in definitions] == ["t", "inc", "twice", "shout"]
    session.sql("DROP FUNCTION twice; DROP FUNCTION shout")
    session.sql("CREATE OR REPLACE FUNCTION inc(n INT) RETURNS INT RETURN n - 1")
    explained = "\n".join(line for (line,) in rows(session, f"EXPLAIN PLAN FOR '{plan}'"))
    assert " + " in explained and "- 1" not in explained, explained


@pytest.mark.spark
def test_they_run_over_finished_data(spark: SparkSession) -> None:
    with sqlstream.connect(spark) as connected:
        connected.sql(FUNCTIONS)
        query = "SELECT inc(x), inc(by => 5, n => x), twice(x), shout('a') FROM (VALUES (1), (2)) AS t(x) ORDER BY 1"
        assert rows(connected, query) == [(2, 6, 2, "A"), (3, 7, 4, "A")]
