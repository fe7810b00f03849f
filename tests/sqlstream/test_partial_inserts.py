"""INSERT of some columns into a table that replaces rows: a warning, a refusal, or the others keep their values."""

from __future__ import annotations

import pytest

from sqlstream import Session
from sqlstream.errors import SqlStreamError, SqlStreamWarning
from sqlstream.grammar import parse_script
from sqlstream.planner.nodes import Insert
from sqlstream.plans import plan_of
from sqlstream.statements.checking import checked_script

KEY = "PRIMARY KEY (k) NOT ENFORCED"
TABLES = f"""
CREATE TABLE s (k INT, a INT) WITH ('connector' = 'test');
CREATE TABLE stored (k INT, a INT, b INT, {KEY}) WITH ('connector' = 'postgres', 'table-name' = 't',
    'url' = 'postgresql://localhost/d');
CREATE TABLE created (k INT, a INT, b INT, {KEY}) WITH ('connector' = 'postgres', 'table-name' = 't',
    'url' = 'postgresql://localhost/d', 'create-table' = 'true');
CREATE TABLE held (k INT, a INT, b INT, {KEY}) WITH ('connector' = 'memory');
CREATE TABLE parts (k INT, a INT, p INT, {KEY}) WITH ('connector' = 'memory');
CREATE TABLE logged (k INT, a INT, b INT) WITH ('connector' = 'print');
"""
PARTIAL = "INSERT INTO {} (k, a) SELECT k, a FROM s"


@pytest.fixture
def session() -> Session:
    session = Session()
    session.sql(TABLES)
    return session


def warned(session: Session, text: str) -> list[str]:
    checked = checked_script(text, session.workspace)
    assert not checked.mistakes
    return [warning.render() for warning in checked.warnings]


def test_columns_that_are_overwritten_with_null_are_named(session: Session) -> None:
    (warning,) = warned(session, PARTIAL.format("held"))
    assert warning == (
        'WARNING SS668: INSERT replaces rows of table "held" by key and overwrites the other columns with NULL: "b"\n'
        "LINE 1: INSERT INTO held (k, a) SELECT k, a FROM s\n"
        "                    ^^^^\n"
        "HINT: Name them, or SET 'sqlstream.partial-insert' = 'keep' where the table can keep them."
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"EXPLAIN {PARTIAL.format('held')}", 1),
        (f"EXECUTE STATEMENT SET BEGIN {PARTIAL.format('held')}; {PARTIAL.format('stored')}; END", 2),
        (PARTIAL.format("logged"), 0),  # rows are added
        ("INSERT INTO held (k, b, a) SELECT k, a, a FROM s", 0),
        ("INSERT INTO held SELECT k, a, a FROM s", 0),
        ("SET 'sqlstream.partial-insert' = 'keep'; " + PARTIAL.format("stored"), 0),
    ],
)
def test_where_rows_are_replaced_and_columns_are_not_named(session: Session, text: str, count: int) -> None:
    assert len(warned(session, text)) == count


def test_the_warning_comes_with_the_statement(session: Session) -> None:
    with pytest.warns(SqlStreamWarning, match="SS668: INSERT replaces rows"):
        session.sql(f"EXPLAIN {PARTIAL.format('held')}")


def test_columns_that_are_kept_are_not_written(session: Session) -> None:
    session.sql("SET 'sqlstream.partial-insert' = 'keep'")
    (statement,) = parse_script(PARTIAL.format("stored"))
    plan = plan_of(statement, session.workspace)  # type: ignore[arg-type]
    assert isinstance(plan, Insert)
    assert [column.name for column in plan.table.physical_columns] == ["k", "a"]
    assert [field.name for field in plan.input.schema] == ["k", "a"]
    assert "Insert(stored: k, a)" in plan.describe()


@pytest.mark.parametrize("table", ["held", "created"])
def test_what_replaces_whole_rows_keeps_none(session: Session, table: str) -> None:
    session.sql("SET 'sqlstream.partial-insert' = 'keep'")
    (mistake,) = session.check(PARTIAL.format(table))
    assert mistake.code == "SS668"
    assert "replaces whole rows and keeps no columns" in mistake.message
    assert mistake.hint == ("Name all columns, or write to jdbc or postgres, to a table that is there in the database.")


def test_an_insert_of_some_columns_is_refused_where_a_setting_says_so(session: Session) -> None:
    session.sql("SET 'sqlstream.partial-insert' = 'error'")
    (mistake,) = session.check(PARTIAL.format("held"))
    assert mistake.code == "SS668"
    assert session.check(PARTIAL.format("logged")) == ()
    with pytest.raises(SqlStreamError, match="SS668"):
        session.sql(f"EXPLAIN {PARTIAL.format('stored')}")
