"""Catalogs in folders: what is written, what other processes write, and files that are damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.results import Rows
from sqlstream.session import Session

ORDERS = (
    "CREATE TABLE orders (id BIGINT, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json')"
)
STREAM = "SET 'execution.runtime-mode' = 'streaming'"


def opened(folder: Path) -> Session:
    session = sqlstream.connect()
    session.sql(f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{folder}'); USE CATALOG shop")
    return session


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "definitions"


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with opened(folder) as own_session:
        yield own_session


def rows(session: Session, text: str) -> list[tuple]:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return result.fetchall()


def error(session: Session, text: str) -> str:
    with pytest.raises(SqlStreamError) as caught:
        session.sql(text)
    return str(caught.value)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_definitions_are_readable_files_one_per_object(session: Session, folder: Path) -> None:
    session.sql(
        f"CREATE DATABASE sales COMMENT 'what is sold'; USE sales; {ORDERS}; "
        "CREATE VIEW big AS SELECT * FROM orders WHERE amount > 5; "
        "CREATE FUNCTION shout AS 'sqlstream.grammar.quoting:quote_name' LANGUAGE PYTHON"
    )
    assert files(folder) == ["sales.sql", "sales/big.sql", "sales/functions/shout.sql", "sales/orders.sql"]
    assert (folder / "sales.sql").read_text() == "CREATE DATABASE sales COMMENT 'what is sold';\n"
    assert (folder / "sales/orders.sql").read_text() == (
        "CREATE TABLE orders (\n  id BIGINT,\n  amount INT,\n  ts TIMESTAMP(3),\n  WATERMARK FOR ts AS ts\n) WITH (\n"
        "  'connector' = 'filesystem',\n  'path' = '/data/orders',\n  'format' = 'json'\n);\n"
    )
    assert (folder / "sales/big.sql").read_text() == (
        "CREATE VIEW big AS\nSELECT\n  *\nFROM orders\nWHERE\n  amount > 5;\n"
    )


def test_another_session_finds_them(session: Session, folder: Path) -> None:
    session.sql(f"CREATE DATABASE sales; USE sales; {ORDERS}; CREATE VIEW big AS SELECT id FROM orders")
    with opened(folder) as other:
        assert rows(other, "SHOW TABLES FROM sales") == [("big",), ("orders",)]
        assert rows(other, "SHOW VIEWS FROM sales") == [("big",)]
        plan = other.explain("SELECT b.id FROM sales.big AS b")
        assert "shop.sales.orders" in plan  # the view's own database is where its names are looked for


def test_what_another_process_changes_is_seen(session: Session, folder: Path) -> None:
    session.sql(ORDERS)
    assert "amount" in str(rows(session, "DESCRIBE orders"))
    file = folder / "default/orders.sql"
    file.write_text(file.read_text().replace("amount INT", "price DECIMAL(10, 2)"))
    assert rows(session, "SHOW COLUMNS FROM orders LIKE 'p%'")[0][:2] == ("price", "DECIMAL(10, 2)")
    (folder / "default/more.sql").write_text("CREATE TABLE more (a INT) WITH ('connector' = 'print');")
    assert rows(session, "SHOW TABLES") == [("more",), ("orders",)]
    file.unlink()
    assert error(session, "SELECT * FROM orders").startswith("SS202")


def test_views_above_a_changed_one_are_made_anew(session: Session, folder: Path) -> None:
    session.sql(
        f"{STREAM}; {ORDERS}; CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 5; "
        "CREATE VIEW pairs AS SELECT a.id FROM big AS a JOIN big AS b ON a.id = b.id; "
        "CREATE VIEW default_catalog.default_database.outer_view AS SELECT id FROM pairs"
    )
    query = "SELECT id FROM default_catalog.default_database.outer_view"
    assert session.explain(query).count("amount > 5") == 2
    file = folder / "default/big.sql"
    file.write_text(file.read_text().replace("amount > 5", "amount > 77"))
    assert session.explain(query).count("amount > 77") == 2
    session.sql("CREATE TEMPORARY TABLE orders (id BIGINT, amount INT) WITH ('connector' = 'datagen')")
    assert "orders: id, amount where" in session.explain(query)
    session.sql("DROP TEMPORARY TABLE orders; ALTER TABLE orders RENAME amount TO price")
    assert 'SS201: column "amount" does not exist' in error(session, f"EXPLAIN {query}")
    file.write_text("CREATE VIEW big AS")
    assert error(session, f"EXPLAIN {query}").startswith(f'SS537: file "{file}" of a catalog is damaged')


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        (
            "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts MEASURES A.amount AS a, LAST(B.ts) AS b "
            "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{1,3}?) WITHIN INTERVAL '1' HOUR DEFINE B AS B.amount > 5)",
            "pattern A B{1,3}? within 1 h",
        ),
        ("SELECT * FROM orders PIVOT (SUM(amount) FOR id IN (1 AS a, 2 AS b))", "GroupAggregate(keys ts"),
        ("SELECT * FROM orders UNPIVOT (x FOR n IN (id, amount))", "STACK(2"),
        ("SELECT * FROM TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR)", "TUMBLE"),
        ("SELECT id FROM orders WHERE amount > ANY (1, 2) AND id = ANY (SELECT id FROM orders)", "LEFT SEMI"),
    ],
)
def test_views_of_all_clauses_are_read_back(session: Session, folder: Path, query: str, operator: str) -> None:
    session.sql(f"{STREAM}; CREATE DATABASE sales; USE sales; {ORDERS}; CREATE VIEW v AS {query}")
    with opened(folder) as other:
        other.sql(STREAM)
        plan = other.explain("SELECT * FROM sales.v")
    assert operator in plan
    assert plan == session.explain(query)


def test_a_damaged_file_is_an_error_only_where_it_is_used_or_listed(session: Session, folder: Path) -> None:
    session.sql(ORDERS)
    file = folder / "default/broken.sql"
    file.write_text("CREATE TABLE broken (a INT WITH ('connector' = 'print');")
    session.explain("SELECT id FROM orders")
    for text in ("SELECT * FROM broken", "SHOW TABLES", "DESCRIBE broken"):
        told = error(session, text)
        assert told.startswith(f'SS537: file "{file}" of a catalog is damaged: "(" is never closed'), told
        assert "LINE 1: CREATE TABLE broken" in told
    session.sql("DROP TABLE broken")
    assert rows(session, "SHOW TABLES") == [("orders",)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it holds 0 statements instead of one"),
        ("SELECT 1;", "it holds no CREATE TABLE or CREATE VIEW"),
        ("CREATE TABLE x (a INT) WITH ('connector' = 'print');", 'it defines "x"'),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'prin');", 'connector "prin" does not exist'),
        ("CREATE TABLE t WITH ('connector' = 'print') AS SELECT 1 AS a;", "CREATE TABLE has AS or LIKE"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(session: Session, folder: Path, text: str, reason: str) -> None:
    file = folder / "default/t.sql"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert error(session, "DESCRIBE t").splitlines()[0] == f'SS537: file "{file}" of a catalog is damaged: {reason}'


def test_checks_write_nothing(session: Session, folder: Path) -> None:
    assert session.check(f"CREATE DATABASE d; USE d; {ORDERS}; SELECT id FROM orders; DROP DATABASE `default`") != ()
    assert not folder.exists()
    other = folder.with_name("other")
    text = (
        f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{other}'); USE CATALOG c; {ORDERS}; SELECT id FROM orders"
    )
    assert session.check(text) == ()
    assert not other.exists()


def test_secrets_are_written_as_references_only(session: Session, folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "geheim")
    table = (
        "CREATE TABLE customers (id BIGINT) WITH ('connector' = 'postgres', 'url' = 'postgresql://db/shop', "
        "'table-name' = 'customers', 'password' = '{}')"
    )
    told = error(session, table.format("geheim"))
    assert told.startswith('SS533: option "password" of table "customers" holds a secret')
    assert "geheim" not in told
    assert [d.code for d in session.check(table.format("geheim"))] == ["SS533"]
    session.sql(table.format("${SHOP_PASSWORD}"))
    text = (folder / "default/customers.sql").read_text()
    assert "'${SHOP_PASSWORD}'" in text and "geheim" not in text


def test_names_ignore_case_and_lead_out_of_no_folder(session: Session, folder: Path) -> None:
    session.sql("CREATE TABLE `a/../../b` (a INT) WITH ('connector' = 'print')")
    assert files(folder) == ["default/a%2F..%2F..%2Fb.sql"]
    session.sql("CREATE TABLE Orders (a INT) WITH ('connector' = 'print')")
    assert error(session, "CREATE TABLE ORDERS (a INT) WITH ('connector' = 'print')").startswith("SS224")
    assert rows(session, "DESCRIBE ORDERS")[0][0] == "a"
    assert rows(session, "SHOW TABLES") == [("Orders",), ("a/../../b",)]


def test_a_view_made_elsewhere_names_its_tables_in_full(session: Session, folder: Path) -> None:
    session.sql(f"CREATE DATABASE other; {ORDERS}; CREATE VIEW other.v AS SELECT o.id FROM orders AS o")
    assert "`shop`.`default`.orders AS o" in (folder / "other/v.sql").read_text()
    with opened(folder) as another:
        assert "shop.default.orders" in another.explain("SELECT * FROM other.v")


def test_temporary_objects_stay_in_the_session(session: Session, folder: Path) -> None:
    session.sql("CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'print')")
    assert rows(session, "SHOW TABLES") == [("t",)]
    assert files(folder) == []
    session.sql("CREATE TABLE t (b INT) WITH ('connector' = 'print')")
    assert rows(session, "DESCRIBE t")[0][0] == "a"  # the temporary one is in front
    session.sql("DROP TEMPORARY TABLE t")
    assert rows(session, "DESCRIBE t")[0][0] == "b"


def test_altered_definitions_are_written(session: Session, folder: Path) -> None:
    session.sql(f"{ORDERS}; ALTER TABLE orders ADD note STRING AFTER id; ALTER TABLE orders RENAME TO sales")
    assert files(folder) == ["default/sales.sql"]
    assert "CREATE TABLE sales (\n  id BIGINT,\n  note STRING,\n" in (folder / "default/sales.sql").read_text()


def test_databases_are_dropped_with_their_folders(session: Session, folder: Path) -> None:
    session.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT) WITH ('connector' = 'print')")
    assert error(session, "DROP DATABASE d").startswith('SS247: database "d" is not empty: it has "t"')
    session.sql("DROP DATABASE d CASCADE")
    assert files(folder) == [] and rows(session, "SHOW DATABASES") == [("default",)]


def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with opened(tmp_path / "file/below") as session:
        assert error(session, "CREATE TABLE t (a INT) WITH ('connector' = 'print')").startswith("SS534")


def _command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    run = [sys.executable, "-m", "sqlstream", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def test_definitions_survive_their_process(tmp_path: Path) -> None:
    """One shell defines; a second one, check and explain use what is there, until it is damaged."""
    (tmp_path / "sqlstream.toml").write_text(
        'catalog = "shop"\n[variables]\ndata = "/data"\n[catalogs.shop]\ntype = "file"\npath = "definitions"\n'
    )
    (tmp_path / "below").mkdir()
    define = (
        "CREATE TABLE orders (id BIGINT, amount INT) "
        "WITH ('connector' = 'filesystem', 'path' = '${data}/orders', 'format' = 'json')"
    )
    (tmp_path / "define.sql").write_text(define)
    assert _command(tmp_path, "run", "define.sql").returncode == 0
    file = tmp_path / "definitions/default/orders.sql"
    assert "'path' = '${data}/orders'" in file.read_text()
    again = _command(tmp_path / "below", "check", "-e", "SELECT id FROM orders; SELECT nope FROM orders")
    assert (
        again.returncode == 1 and 'SS201: column "nope" does not exist' in again.stderr and "1 mistake" in again.stderr
    )
    described = _command(tmp_path / "below", "run", "-e", "SHOW CREATE TABLE orders; DESCRIBE EXTENDED orders")
    assert "'path' = '${data}/orders'" in described.stdout and "/data/orders |" in described.stdout
    file.write_text(file.read_text().replace("amount INT", "nope INT"))
    assert _command(tmp_path, "check", "-e", "SELECT nope FROM orders").returncode == 0
    file.write_text("CREATE TABLE")
    damaged = _command(tmp_path, "check", "-e", "SELECT nope FROM orders")
    assert damaged.returncode == 1 and f'file "{file}" of a catalog is damaged' in damaged.stderr
    assert _command(tmp_path, "check", "-e", "SHOW CATALOGS").returncode == 0
