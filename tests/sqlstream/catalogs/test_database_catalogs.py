"""Catalogs over databases that are there: their schemas, tables, types and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.results import Rows
from sqlstream.session import Session


def rows(session: Session, text: str) -> list[tuple]:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return result.fetchall()


def error(session: Session, text: str) -> str:
    with pytest.raises(SqlStreamError) as caught:
        session.sql(text)
    return str(caught.value)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(
            "CREATE TABLE items (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, price DECIMAL(10, 2), made TIMESTAMP, "
            "code UUID, tags VARCHAR[])"
        )
        database.execute("""CREATE SCHEMA old; CREATE TABLE old."Odd.Name" (x INTEGER)""")
    with sqlstream.connect() as own_session:
        own_session.sql(f"CREATE CATALOG duck WITH ('type' = 'duckdb', 'path' = '{path}'); USE CATALOG duck")
        yield own_session


def test_schemas_are_databases_and_tables_have_their_columns(session: Session) -> None:
    assert rows(session, "SHOW DATABASES") == [("main",), ("old",)]
    assert rows(session, "SHOW TABLES") == [("items",)]
    assert [row[:4] for row in rows(session, "DESCRIBE items")] == [
        ("id", "BIGINT", "FALSE", "PRI(id)"),
        ("name", "STRING", "FALSE", None),
        ("price", "DECIMAL(10, 2)", "TRUE", None),
        ("made", "TIMESTAMP", "TRUE", None),
        ("code", "STRING", "TRUE", None),
        ("tags", "ARRAY<STRING>", "TRUE", None),
    ]
    assert rows(session, "DESCRIBE old.`Odd.Name`")[0][:2] == ("x", "INT")
    assert """'table-name' = 'old."Odd.Name"'""" in rows(session, "SHOW CREATE TABLE old.`Odd.Name`")[0][0]


def test_they_are_looked_up_and_copied_by_like(session: Session) -> None:
    session.sql(
        "CREATE TEMPORARY TABLE o (id BIGINT, pt AS PROCTIME()) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '1'); USE CATALOG default_catalog; "
        "CREATE TABLE copy (extra INT) WITH ('connector' = 'print') LIKE duck.main.items (EXCLUDING OPTIONS)"
    )
    plan = session.explain(
        "SELECT o.id, i.name FROM duck.main.o AS o JOIN duck.main.items FOR SYSTEM_TIME AS OF o.pt AS i ON i.id = o.id"
    )
    assert "Lookup" in plan and "duck.main.items" in plan
    assert rows(session, "SHOW COLUMNS FROM copy")[-1][:2] == ("extra", "INT")


def test_nothing_is_created_in_them(session: Session) -> None:
    assert error(session, "CREATE TABLE t (a INT) WITH ('connector' = 'print')").startswith("SS246")
    assert error(session, "DROP TABLE items").startswith("SS246")
    assert error(session, "CREATE DATABASE d").startswith("SS246")
    assert error(session, "ALTER TABLE items ADD a INT").startswith("SS246")
    assert error(session, "SELECT * FROM itms").startswith("SS202")


def test_a_file_that_is_not_there_says_so_when_it_is_used(tmp_path: Path) -> None:
    with sqlstream.connect() as session:
        session.sql(f"CREATE CATALOG gone WITH ('type' = 'duckdb', 'path' = '{tmp_path}/none')")
        assert error(session, "SHOW TABLES FROM gone.main").startswith("SS566")


def test_tables_of_postgres_have_their_types_and_keys(postgres_server, monkeypatch) -> None:
    postgres_server.execute(
        "DROP SCHEMA IF EXISTS shown CASCADE",
        "CREATE SCHEMA shown",
        "CREATE TABLE shown.orders (id bigint, line int, price numeric(10,2), at timestamptz NOT NULL, "
        "body jsonb, tags text[], PRIMARY KEY (id, line))",
    )
    given = postgres_server.options
    url = f"jdbc:{given['url']}"
    monkeypatch.setenv("PG_PASSWORD", given["password"])
    with sqlstream.connect() as session:
        session.sql(
            f"CREATE CATALOG pg WITH ('type' = 'jdbc', 'url' = '{url}', 'username' = '{given['username']}', "
            "'password' = '${PG_PASSWORD}')"
        )
        assert ("shown",) in rows(session, "SHOW DATABASES FROM pg")
        assert rows(session, "SHOW TABLES FROM pg.shown") == [("orders",)]
        assert [row[:4] for row in rows(session, "DESCRIBE pg.shown.orders")] == [
            ("id", "BIGINT", "FALSE", "PRI(id, line)"),
            ("line", "INT", "FALSE", "PRI(id, line)"),
            ("price", "DECIMAL(10, 2)", "TRUE", None),
            ("at", "TIMESTAMP", "FALSE", None),
            ("body", "STRING", "TRUE", None),
            ("tags", "ARRAY<STRING>", "TRUE", None),
        ]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", 'SS536: catalog "c" has no type'),
        ("WITH ('type' = 'hive')", 'SS536: there is no type "hive" of catalogs'),
        ("WITH ('type' = 'file')", 'SS536: catalogs of the type "file" need the option "path"'),
        ("WITH ('type' = 'file', 'path' = 'x', 'colour' = 'red')", 'SS536: catalogs of the type "file" have no option'),
        ("WITH ('type' = 'jdbc')", 'SS536: catalogs of the type "jdbc" need the option "url"'),
    ],
)
def test_wrong_options_of_catalogs_are_told(options: str, code: str) -> None:
    with sqlstream.connect() as session:
        assert error(session, f"CREATE CATALOG c {options}").startswith(code)
