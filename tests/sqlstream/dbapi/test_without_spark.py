"""What of the DB-API needs no rows: module, exceptions, types, parameters, definitions."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

import sqlstream
from sqlstream import dbapi
from sqlstream.dbapi.cursor import described, statements_for
from sqlstream.dbapi.exceptions import raised_as
from sqlstream.errors import SqlStreamError
from sqlstream.types import parse_type


@pytest.fixture
def cursor() -> Iterator[Any]:
    with dbapi.connect() as connection:
        yield connection.cursor()


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert all(hasattr(dbapi, name) for name in dbapi.__all__)
    assert dbapi.Date(2024, 1, 2) == date(2024, 1, 2)
    assert dbapi.Timestamp(2024, 1, 2, 3, 4, 5) == datetime(2024, 1, 2, 3, 4, 5)
    assert dbapi.TimestampFromTicks(0).date() == dbapi.DateFromTicks(0)
    assert dbapi.Binary(b"x") == b"x"


def test_importing_it_loads_no_spark_no_pandas_and_no_sqlalchemy():
    script = "import sqlstream.dbapi, sys; print(*{'pyspark', 'pandas', 'sqlalchemy', 'IPython'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.split() == []


@pytest.mark.parametrize("text", ["SELEC 1", "SELECT nothing FROM nowhere", "SELECT ? + ?"])
def test_what_is_wrong_with_a_statement_is_a_programming_error(cursor, text):
    with pytest.raises(dbapi.ProgrammingError, match=r"^SS\d{3}: ") as error:
        cursor.execute(text, [1] if "?" in text else None)
    assert error.value.code == error.value.diagnostics[0].code
    assert isinstance(error.value.__cause__, SqlStreamError)


def test_exceptions_keep_code_and_hint_also_when_they_are_pickled(cursor):
    cursor.execute("CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen')")
    with pytest.raises(dbapi.ProgrammingError) as error:
        cursor.execute("DESCRIBE number")
    copied = pickle.loads(pickle.dumps(error.value))
    assert type(copied) is dbapi.ProgrammingError and str(copied) == str(error.value)
    assert (copied.code, copied.hint) == ("SS202", 'Did you mean "numbers"?')


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("SS101", dbapi.ProgrammingError),
        ("SS201", dbapi.ProgrammingError),
        ("SS301", dbapi.NotSupportedError),
        ("SS400", dbapi.OperationalError),
        ("SS401", dbapi.DataError),
        ("SS403", dbapi.IntegrityError),
        ("SS464", dbapi.InternalError),
        ("SS481", dbapi.InterfaceError),
        ("SS501", dbapi.OperationalError),
    ],
)
def test_each_kind_of_error_has_its_exception(code, kind):
    from sqlstream.errors import Diagnostic

    assert type(raised_as(SqlStreamError.of([Diagnostic(code, "wrong")]))) is kind


def test_columns_are_described_with_types_that_equal_the_type_objects():
    assert described("a", parse_type("DECIMAL(10, 2)")) == ("a", "DECIMAL(10, 2)", None, None, 10, 2, None)
    pairs = [("DECIMAL(10, 2)", dbapi.NUMBER), ("ARRAY<INT>", dbapi.STRING), ("TIMESTAMP_NTZ", dbapi.DATETIME),
             ("BINARY", dbapi.BINARY)]  # fmt: skip
    for ddl, kind in pairs:
        code = described("a", parse_type(ddl))[1]
        assert code == kind
        assert code != dbapi.ROWID
        assert hash(kind) == hash(kind)


def test_definitions_give_no_rows_and_show_gives_some(cursor):
    assert cursor.execute("CREATE TABLE t (a INT) WITH ('connector' = 'memory')") is cursor
    assert (cursor.description, cursor.rowcount) == (None, -1)
    with pytest.raises(dbapi.ProgrammingError) as error:
        cursor.fetchone()
    assert error.value.code == "SS279"
    cursor.execute("SHOW TABLES")
    description: Any = cursor.description
    assert [column[:2] for column in description] == [("table name", "STRING")]
    assert cursor.rowcount == 1
    assert cursor.fetchall() == [("t",)] and cursor.fetchone() is None
    cursor.execute("SHOW CREATE TABLE t")
    assert cursor.fetchone()[0].startswith("CREATE TABLE t")
    cursor.execute("DESCRIBE t")
    assert cursor.fetch_arrow_table().column("name").to_pylist() == ["a"]
    assert cursor.execute("EXPLAIN SELECT a FROM t").fetchone()[0].startswith("batch: ")


def test_what_a_setting_says_beside_its_ok_is_a_message(cursor):
    cursor.execute("SET 'table.dml-sync' = 'true'")
    assert cursor.messages == []
    cursor.execute("SET 'client.timeout' = '1 min'")
    ((kind, text),) = cursor.messages
    assert kind is dbapi.Warning and text


def test_a_script_gives_the_result_of_its_last_statement(cursor):
    cursor.execute("CREATE DATABASE d; CREATE TABLE d.t (a INT) WITH ('connector' = 'memory'); SHOW TABLES FROM d")
    assert cursor.fetchall() == [("t",)]


def test_what_is_closed_says_so():
    connection = dbapi.connect()
    cursor = connection.cursor()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError) as error:
        cursor.execute("SHOW TABLES")
    assert error.value.code == "SS472"
    other = connection.cursor()
    connection.close()
    connection.close()
    for call in (connection.cursor, connection.commit, connection.rollback, other.fetchone):
        with pytest.raises(dbapi.InterfaceError):
            call()
    with pytest.raises(dbapi.InterfaceError):
        other.execute("SHOW TABLES")


def test_a_connection_has_no_transactions():
    with dbapi.connect() as connection:
        assert connection.autocommit
        connection.commit()
        with pytest.raises(dbapi.NotSupportedError) as error:
            connection.rollback()
        assert error.value.code == "SS387"


def test_a_connection_over_a_session_leaves_it_open():
    with sqlstream.connect() as session:
        session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'memory')")
        with dbapi.connect(session=session) as connection:
            assert connection.cursor().execute("SHOW TABLES").fetchall() == [("t",)]
        assert session.sql("SHOW TABLES").fetchall() == [("t",)]  # type: ignore[union-attr]


def test_settings_and_projects_hold(tmp_path):
    (tmp_path / "sqlstream.toml").write_text(
        '[settings]\n"table.local-time-zone" = "UTC"\n'
        '[profiles.test.settings]\n"table.local-time-zone" = "Asia/Tokyo"\n'
    )
    for profile, zone in ((None, "UTC"), ("test", "Asia/Tokyo")):
        with dbapi.connect(project=tmp_path, profile=profile, settings={"parallelism.default": "3"}) as connection:
            settings = connection.session.workspace.settings
            assert (settings["table.local-time-zone"], settings["parallelism.default"]) == (zone, 3)
    with pytest.raises(dbapi.OperationalError) as error:
        dbapi.connect(settings={"no.such.setting": "1"})
    assert error.value.code == "SS521"


# --- parameters -----------------------------------------------------------------------------------------------


def test_values_are_lists_or_dictionaries(cursor):
    for wrong in ("a", b"a", 1, {1}):
        with pytest.raises(dbapi.ProgrammingError) as error:
            cursor.execute("SHOW TABLES", wrong)
        assert error.value.code == "SS259"


def test_rows_of_one_insert_become_one_statement():
    rows = [(1, "a'b"), (Decimal("2.5"), None)]
    text, parameters, count = next(statements_for("INSERT INTO t (a, b) VALUES (?, upper(?));", rows))
    assert text == "INSERT INTO t (a, b) VALUES (1, upper('a''b')), (2.5, upper(NULL));"
    assert (parameters, count) == (None, 2)
    named = statements_for("INSERT INTO t VALUES (:x, :x)", [{"x": 1}, {"x": 2}])
    assert [text for text, _, _ in named] == ["INSERT INTO t VALUES (1, 1), (2, 2)"]
    many = statements_for("INSERT INTO t VALUES (?)", ((n,) for n in range(2500)))
    assert [count for _, _, count in many] == [1000, 1000, 500]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t SELECT ? + 1",
        "INSERT INTO t VALUES (?), (?)",
        "INSERT INTO t VALUES (?) -- one\n; INSERT INTO u VALUES (1)",
        "SELECT * FROM (VALUES (?))",
        "INSERT INTO t VALUES (?",
    ],
)
def test_other_statements_are_run_row_by_row(text):
    assert list(statements_for(text, [(1,), (2,)])) == [(text, (1,), 1), (text, (2,), 1)]


def test_a_wrong_number_of_values_is_told_of_the_whole_statement():
    with pytest.raises(SqlStreamError, match=r"SS345.*\nLINE 1: INSERT INTO t VALUES"):
        list(statements_for("INSERT INTO t VALUES (?, ?)", [(1, 2), (1,)]))


def test_executemany_refuses_statements_with_rows(cursor):
    with pytest.raises(dbapi.ProgrammingError) as error:
        cursor.executemany("SHOW TABLES", [(), ()])
    assert error.value.code == "SS279"
