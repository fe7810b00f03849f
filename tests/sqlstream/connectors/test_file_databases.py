"""Lookups in files of DuckDB and SQLite, through their connectors: the same questions to both."""

from __future__ import annotations

import asyncio
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.connectors import Environment, lookup_connector, validate
from sqlstream.connectors.file_databases import file_as_of
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.source import Comparison, Request

HERE: Any = None  # in place of a Spark session, which nobody asks
BOTH = pytest.mark.parametrize("system", ["duckdb", "sqlite"])

CREATE = """CREATE TABLE "100%" (id BIGINT, "Name" VARCHAR, sure BOOLEAN, level DECIMAL(10, 2), born DATE,
    seen TIMESTAMP, raw BLOB, ratio DOUBLE)"""
ROWS = """INSERT INTO "100%" VALUES (1, 'Ann', true, 1.50, '2001-02-03', '2024-01-01 02:00:00', {blob}, 0.5),
    (2, 'Bob', NULL, NULL, NULL, NULL, NULL, NULL), (2, 'Bea', false, 2, '2002-01-01', NULL, NULL, 1e300)"""
COLUMNS = {
    "id": "BIGINT", "name": "STRING", "sure": "BOOLEAN", "level": "DECIMAL(10, 2)", "born": "DATE",
    "seen": "TIMESTAMP", "raw": "BINARY", "ratio": "DOUBLE",
}  # fmt: skip


@pytest.fixture
def make_file(tmp_path):
    def make(system: str, *statements: str) -> Path:
        path: Path = tmp_path / f"data.{system}"
        opened: Any = duckdb.connect(str(path)) if system == "duckdb" else sqlite3.connect(path)
        with closing(opened) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()
        return path

    return make


@pytest.fixture
def customers(make_file):
    def make(system: str) -> Table:
        blob = "'\\x00\\xFF'::BLOB" if system == "duckdb" else "x'00ff'"
        return table(system, make_file(system, CREATE, ROWS.format(blob=blob)), COLUMNS)

    return make


def table(system: str, path: Path, columns: dict[str, str], **options: str) -> Table:
    given = {"path": str(path), "table-name": '"100%"', **{k.replace("__", "."): v for k, v in options.items()}}
    return Table("t", tuple(Column(n, parse_type(t)) for n, t in columns.items()), system, tuple(given.items()))


def source(of: Table, keys: str, columns: str, *filters: Comparison):
    types = {c.name: c.type for c in of.columns}

    def typed(names: str):
        return tuple((name, types[name]) for name in names.split(",") if name)

    make = lookup_connector(of.connector).lookup
    return make(Environment(HERE, Path()), of, Request(typed(keys), typed(columns), filters))


def ask(asked, *keys):
    async def run():
        client = await asked.open()
        try:
            return await client.ask(keys)
        finally:
            await client.close()

    return asyncio.run(run())


def error_of(action, *arguments) -> str:
    with pytest.raises(SqlStreamError) as caught:
        action(*arguments)
    return str(caught.value)


@BOTH
def test_answers_come_per_key_in_the_order_of_the_keys(system, customers) -> None:
    answers = ask(source(customers(system), "id", "name,id"), (2,), (9,), (1,))
    assert [sorted(rows) for rows in answers] == [[("Bea", 2), ("Bob", 2)], [], [("Ann", 1)]]


@BOTH
def test_values_have_the_declared_types(system, customers) -> None:
    ((answers,),) = ask(source(customers(system), "name", ",".join(COLUMNS)), ("Ann",))
    seen = datetime(2024, 1, 1, 2, tzinfo=UTC)
    assert answers == (1, "Ann", True, Decimal("1.50"), date(2001, 2, 3), seen, b"\x00\xff", 0.5)


@BOTH
@pytest.mark.parametrize(
    ("columns", "key", "names"),
    [
        ("id,name", (2, "Bea"), ["Bea"]),
        ("name", ("ann",), []),
        ("sure", (True,), ["Ann"]),
        ("level", (Decimal("1.50"),), ["Ann"]),
        ("born", (date(2001, 2, 3),), ["Ann"]),
        ("raw", (b"\x00\xff",), ["Ann"]),
        ("ratio", (0.5,), ["Ann"]),
    ],
)
def test_keys_of_many_types(system, customers, columns, key, names) -> None:
    assert ask(source(customers(system), columns, "name"), key) == [[(name,) for name in names]]


@BOTH
@pytest.mark.parametrize(
    ("comparison", "names"),
    [
        (Comparison("name", ">", "Ann"), ["Bea", "Bob"]),
        (Comparison("name", "IN", ("Bob", "Zoe")), ["Bob"]),
        (Comparison("sure", "IS NULL"), ["Bob"]),
        (Comparison("sure", "=", True), ["Ann"]),
        (Comparison("born", "<=", date(2001, 12, 31)), ["Ann"]),
        (Comparison("level", ">", Decimal("1.5")), ["Bea"]),
        (Comparison("ratio", "<>", 0.5), ["Bea"]),
    ],
)
def test_filters_are_checked_in_the_database(system, customers, comparison, names) -> None:
    answers = ask(source(customers(system), "id", "name", comparison), (1,), (2,))
    assert sorted(name for rows in answers for (name,) in rows) == names


@BOTH
def test_many_keys_and_many_requests(system, make_file) -> None:
    values = ", ".join(f"({i}, 'n{i}')" for i in range(5000))
    path = make_file(system, "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR)", f"INSERT INTO t VALUES {values}")
    asked = source(table(system, path, {"id": "INT", "name": "STRING"}, **{"table-name": "main.t"}), "id", "name")
    assert ask(asked, *((i,) for i in range(4999, -3, -1)))[:2] == [[("n4999",)], [("n4998",)]]

    async def run():
        client = await asked.open()
        answers = await asyncio.gather(*(client.ask([(i,)]) for i in range(40)))
        await client.close()
        return answers

    assert asyncio.run(run()) == [[[(f"n{i}",)]] for i in range(40)]


def test_duckdb_reads_zones_lists_and_uuids(make_file) -> None:
    path = make_file(
        "duckdb",
        'CREATE TABLE "100%" (seen TIMESTAMPTZ, tags VARCHAR[], numbers INTEGER[], id UUID)',
        """INSERT INTO "100%" VALUES ('2024-01-01 02:00:00+02', ['a', NULL], [1, 2],
           'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')""",
    )
    columns = {"seen": "TIMESTAMP", "tags": "ARRAY<STRING>", "numbers": "ARRAY<INT>", "id": "STRING"}
    of = table("duckdb", path, columns)
    row = (["a", None], [1, 2], "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    assert ask(source(of, "seen", "tags,numbers,id"), (datetime(2024, 1, 1, tzinfo=UTC),)) == [[row]]
    assert ask(source(of, "id", "seen"), (row[2].upper(),), ("no uuid",)) == [[(datetime(2024, 1, 1, tzinfo=UTC),)], []]


def test_sqlite_values_that_are_not_of_the_declared_type_fail_their_keys(make_file) -> None:
    path = make_file("sqlite", 'CREATE TABLE "100%" (id, v)', """INSERT INTO "100%" VALUES (1, 'x'), (2, 0.1)""")
    for kind in ("INT", "BOOLEAN", "DATE", "TIMESTAMP", "DOUBLE", "BINARY", "DECIMAL(5, 2)"):
        asked = source(table("sqlite", path, {"id": "INT", "v": kind}), "id", "v")
        with pytest.raises(Exception, match=f"'x' is no {kind}".replace("(", r"\(").replace(")", r"\)")):
            ask(asked, (1,))
    assert ask(source(table("sqlite", path, {"id": "INT", "v": "DECIMAL(5, 2)"}), "id", "v"), (2,)) == [
        [(Decimal("0.10"),)]
    ]


@BOTH
def test_sources_travel_and_are_equal_by_what_they_ask(system, customers) -> None:
    of = customers(system)
    one = source(of, "id", "name")
    assert pickle.loads(pickle.dumps(one)) == one and hash(one) == hash(source(of, "id", "name"))
    assert one != source(of, "id", "born")


# --- faults -----------------------------------------------------------------------------------------------------


@BOTH
def test_what_is_wrong_is_told_at_the_start_of_a_job(system, customers, tmp_path) -> None:
    of = customers(system)
    path = Path(of.option("path") or "")
    missing = error_of(source, table(system, tmp_path / "no", COLUMNS), "id", "name")
    assert missing.startswith(f'SS566: file "{tmp_path / "no"}" of table "t" does not exist')
    (tmp_path / "junk").write_text("no database at all" * 1000)
    assert error_of(source, table(system, tmp_path / "junk", COLUMNS), "id", "name").startswith("SS566")
    text = error_of(source, table(system, path, COLUMNS, **{"table-name": "100"}), "id", "name")
    assert text.startswith('SS563: table "100" of table "t" does not exist') and "100%" in text
    text = error_of(source, table(system, path, {"id": "BIGINT", "nam": "STRING"}), "id", "nam")
    assert text.startswith('SS564: column "nam" of table "t" does not exist in the database')


def test_types_that_do_not_fit_are_refused(customers, monkeypatch) -> None:
    of = customers("duckdb")
    path = Path(of.option("path") or "")
    text = error_of(source, table("duckdb", path, {"id": "INT", "level": "DECIMAL(10, 1)"}), "id", "level")
    assert 'SS564: column "id" of table "t" is INT, but BIGINT in the database' in text
    assert 'SS564: column "level" of table "t" is DECIMAL(10, 1), but DECIMAL(10,2) in the database' in text
    (wrong,) = validate(table("sqlite", path, {"a": "ARRAY<INT>"}), {})
    assert (wrong.code, wrong.hint is not None) == ("SS505", True)
    (wrong,) = validate(table("duckdb", path, {"a": "ARRAY<TIMESTAMP>"}), {})
    assert wrong.code == "SS505"
    text = error_of(source, customers("sqlite"), "seen", "name")
    assert text.startswith('SS568: column "seen" of type TIMESTAMP cannot be a key of table "t"')
    monkeypatch.setattr("sqlstream.connectors.file_databases.find_spec", lambda _: None)
    assert "pip install 'sqlstream[duckdb]'" in error_of(source, of, "id", "name")


def test_a_file_that_is_written_to_is_told(customers) -> None:
    of = customers("duckdb")
    script = (
        f"import duckdb, time; c = duckdb.connect({of.option('path')!r}); print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            text = error_of(source, of, "id", "name")
        finally:
            writer.kill()
    assert text.startswith("SS566") and "does no process write to it?" in text


@BOTH
def test_keys_and_paths_that_no_system_takes_are_errors_of_ours(system, customers, monkeypatch) -> None:
    with pytest.raises(ConnectorError, match='SS585: key "name" of table "t" is no Unicode text'):
        ask(source(customers(system), "name", "id"), ("\ud800",))
    for path in (f"/tmp/{'x' * 300}", "/tmp/\ud800"):
        (wrong,) = validate(table(system, Path(path), COLUMNS), {})
        assert wrong.code == "SS504"
    monkeypatch.setenv("FILE", "x" * 300)
    text = error_of(source, table(system, Path("${FILE}"), COLUMNS), "id", "name")
    assert text.startswith("SS566") and len(text) < 400


@BOTH
def test_another_file_in_its_place_is_another_source(make_file, tmp_path: Path, system: str) -> None:
    create = "CREATE TABLE t (id INTEGER, v INTEGER)"
    path = make_file(system, create, "INSERT INTO t VALUES (1, 1)")
    declared = {"id": "INT", "v": "INT"}
    first = source(table(system, path, declared, **{"table-name": "t"}), "id", "v")
    assert source(table(system, path, declared, **{"table-name": "t"}), "id", "v") == first
    assert file_as_of(str(tmp_path / "none")) == ""
    kept = path.with_name("kept")
    path.rename(kept)
    path.write_bytes(kept.read_bytes())
    assert source(table(system, path, declared, **{"table-name": "t"}), "id", "v") != first
