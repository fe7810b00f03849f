"""What Flink's scripts write, run: OPTIONS hints, plans in files, lengths and NOT NULL of sinks, casts to lengths."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlstream.errors import BindError, SqlStreamError
from sqlstream.query import Query
from sqlstream.results import Rows
from sqlstream.session import Session

pytestmark = pytest.mark.spark

SOURCE = "(id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{path}')"


@pytest.fixture
def session(spark, tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "rows.csv").write_text("1,abcdef\n2,x\n3,\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "rows.csv").write_text("7,other\n")
    with Session(spark) as own_session:
        own_session.sql("SET 'table.dml-sync' = 'true'")
        own_session.sql(f"CREATE TABLE t {SOURCE.format(path=tmp_path / 'a')}")
        yield own_session


def rows(session: Session, query: str, *args: Any) -> list[tuple[Any, ...]]:
    result = session.sql(query, *args)
    assert isinstance(result, Query)
    return sorted(result.fetchall())


def sink(session: Session, name: str, columns: str) -> None:
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'memory')")


@pytest.mark.parametrize("mode", [pytest.param("auto", marks=pytest.mark.long), "streaming", "batch"])
def test_a_hint_gives_a_table_other_options(session, tmp_path: Path, mode: str):
    session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
    hint = f"/*+ OPTIONS('path' = '{tmp_path / 'b'}') */"
    assert [row[-2:] for row in rows(session, f"SELECT id, name FROM t {hint} AS x WHERE x.id > 0")] == [(7, "other")]
    both = f"SELECT a.id, b.id FROM t AS a JOIN t {hint} AS b ON a.id < b.id"
    assert [row[-2:] for row in rows(session, both)] == [(1, 7), (2, 7), (3, 7)]


def test_a_hint_on_a_join_goes_to_spark(session):
    session.sql("SET 'execution.runtime-mode' = 'batch'")
    query = "SELECT /*+ NEST_LOOP(a), MULTI_JOIN(a, b) */ a.id FROM t AS a JOIN t AS b ON a.id = b.id"
    assert rows(session, query) == [(1,), (2,), (3,)]
    plan = session.sql(f"EXPLAIN PHYSICAL {query}")
    assert isinstance(plan, Rows) and "Join" in str(plan.fetchall())


def test_table_is_a_query_and_parameters_have_values(session):
    assert [row[-2] for row in rows(session, "TABLE t")] == [1, 2, 3]
    assert [row[-1] for row in rows(session, "SELECT id FROM t WHERE name = ? OR id = ?", ["x", 1])] == [1, 2]
    assert [
        row[-1] for row in rows(session, "SELECT :word || name FROM t WHERE id = :id", {"word": "it's ", "id": 2})
    ] == ["it's x"]


def test_casts_cut_and_fill(session):
    query = "SELECT CAST('abcdef' AS VARCHAR(3)), CAST('a' AS CHAR(3)), CAST(12345 AS VARCHAR(2)), U&'\\0041'"
    assert [row[-4:] for row in rows(session, query)] == [("abc", "a  ", "12", "A")]


def test_a_plan_holds_what_it_was_compiled_with(session, tmp_path: Path):
    plan = tmp_path / "plans" / "p.json"
    sink(session, "s", "id BIGINT, name STRING")
    session.sql("CREATE VIEW v AS SELECT id, UPPER(name) AS name FROM t WHERE id < 3")
    session.sql(f"COMPILE PLAN '{plan}' FOR INSERT INTO s SELECT * FROM v")
    document = json.loads(plan.read_text())
    assert document["version"] == 1 and len(document["definitions"]) == 3
    with pytest.raises(BindError, match="SS371"):
        session.sql(f"COMPILE PLAN '{plan}' FOR INSERT INTO s SELECT * FROM t")
    session.sql(f"COMPILE PLAN '{plan}' IF NOT EXISTS FOR INSERT INTO s SELECT * FROM t")
    session.sql("DROP VIEW v; CREATE VIEW v AS SELECT 99 AS id, 'no' AS name")
    session.sql(f"EXECUTE PLAN '{plan}'")
    assert [row[-2:] for row in rows(session, "SELECT * FROM s")] == [(1, "ABCDEF"), (2, "X")]
    explained = session.sql(f"EXPLAIN PLAN FOR '{plan}'")
    assert isinstance(explained, Rows) and "Insert(s" in explained.fetchall()[0][0]


@pytest.mark.parametrize("text", ["{", "{}", '{"version": 99, "statement": "", "definitions": [], "settings": {}}'])
def test_what_is_no_plan_is_refused(session, tmp_path: Path, text: str):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(BindError, match="SS372"):
        session.sql(f"EXECUTE PLAN '{tmp_path / 'p.json'}'")
    with pytest.raises(BindError, match="SS372"):
        session.sql(f"EXECUTE PLAN '{tmp_path / 'absent.json'}'")


def test_lengths_are_enforced_as_the_setting_says(session):
    for number, (mode, expected) in enumerate((("IGNORE", ["abcdef", "x"]), ("TRIM_PAD", ["ab", "x "]))):
        session.sql(f"SET 'table.exec.sink.type-length-enforcer' = '{mode}'")
        sink(session, f"s{number}", "id BIGINT, name CHAR(2)")
        session.sql(f"INSERT INTO s{number} SELECT id, name FROM t WHERE id < 3")
        assert [row[-1] for row in rows(session, f"SELECT id, name FROM s{number}")] == expected
    session.sql("SET 'table.exec.sink.type-length-enforcer' = 'ERROR'")
    sink(session, "s2", "id BIGINT, name VARCHAR(2)")
    with pytest.raises(SqlStreamError, match="VARCHAR"):
        session.sql("INSERT INTO s2 SELECT id, name FROM t")


def test_rows_without_a_value_are_dropped_as_the_setting_says(session):
    session.sql("SET 'table.exec.sink.not-null-enforcer' = 'DROP'")
    sink(session, "s", "id BIGINT, name STRING NOT NULL")
    session.sql("INSERT INTO s SELECT id, NULLIF(name, 'x') FROM t WHERE id < 3")
    assert [row[-2:] for row in rows(session, "SELECT id, name FROM s")] == [(1, "abcdef")]


def test_nothing_inside_an_array_may_be_null(session, tmp_path: Path):
    (tmp_path / "c.json").write_text('{"a": [1, null]}\n')
    path = f"'connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path / 'c.json'}'"
    session.sql(f"CREATE TABLE c (a ARRAY<INT NOT NULL>) WITH ({path})")
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    with warnings.catch_warnings(), pytest.raises(SqlStreamError, match=r"a\[\]"):
        rows(session, "SELECT a FROM c")
