"""Jobs over changes of PostgreSQL's tables: with their checkpoints, into tables that are upserted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job
from sqlstream.session import Session
from tests.postgres_server import PASSWORD, PostgresServer

pytestmark = pytest.mark.spark


@pytest.fixture
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres_server
    for (name,) in postgres_server.rows("SELECT slot_name FROM pg_replication_slots"):
        postgres_server.execute(f"SELECT pg_drop_replication_slot('{name}')")
    for (name,) in postgres_server.rows("SELECT quote_ident(pubname) FROM pg_publication"):
        postgres_server.execute(f"DROP PUBLICATION {name}")
    postgres_server.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def session(spark: Any, server: PostgresServer) -> Iterator[Session]:
    with sqlstream.connect(spark) as session:
        yield session


def declare(session: Session, server: PostgresServer, name: str, columns: str, connector: str, **options: str) -> None:
    given = {"connector": connector, **server.options, "table-name": name} | {
        key.replace("__", ".").replace("_", "-"): value for key, value in options.items()
    }
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({pairs})")


def test_a_job_keeps_a_copy_of_what_a_query_gives(session: Session, server: PostgresServer, tmp_path: Path):
    server.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(10, 2))",
        "INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5), (3, 'ann', 2.5)",
        "CREATE TABLE totals (customer text PRIMARY KEY, orders bigint, amount numeric(20, 2))",
    )
    key = "PRIMARY KEY (id) NOT ENFORCED"
    declare(session, server, "orders", f"id INT, customer STRING, amount DECIMAL(10, 2), {key}", "postgres-cdc",
            slot__name="orders")  # fmt: skip
    declare(session, server, "totals", "customer STRING, orders BIGINT, amount DECIMAL(20, 2), "
            "PRIMARY KEY (customer) NOT ENFORCED", "postgres")  # fmt: skip
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'totals'")

    def run() -> list[tuple[object, ...]]:
        query = "SELECT customer, COUNT(*) AS orders, SUM(amount) AS amount FROM orders GROUP BY customer"
        job = session.sql(f"INSERT INTO totals {query}")
        assert isinstance(job, Job)
        job.stop(drain=True)
        return [(c, n, str(a)) for c, n, a in server.rows("TABLE totals ORDER BY 1")]

    assert run() == [("ann", 2, "12.50"), ("bob", 1, "5.00")]
    server.execute(
        "UPDATE orders SET amount = 20 WHERE id = 1", "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 4, customer = 'cid' WHERE id = 3",
    )  # fmt: skip
    assert run() == [("ann", 1, "20.00"), ("cid", 1, "2.50")]
    session.sql("SET 'pipeline.name' = 'both'")
    totals = "SELECT customer, COUNT(*) AS orders, SUM(amount) AS amount FROM orders WHERE {} GROUP BY customer"
    server.execute("TRUNCATE totals", "CREATE TABLE ids (id int PRIMARY KEY, customer text)")
    declare(session, server, "ids", f"id INT, customer STRING, {key}", "postgres")
    job = session.sql(
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO totals {totals.format('id > 0')}; "
        "INSERT INTO ids SELECT o.id, p.customer FROM orders AS o JOIN orders AS p ON o.id = p.id; END"
    )
    assert isinstance(job, Job)
    job.stop(drain=True)
    assert server.rows("SELECT customer FROM totals ORDER BY 1") == [("ann",), ("cid",)]
    assert server.rows("TABLE ids ORDER BY 1") == [(1, "ann"), (4, "cid")]
    assert server.rows("SELECT slot_name FROM pg_replication_slots ORDER BY 1") == [
        ("orders",),
        ("orders_2",),
        ("orders_3",),
    ]
    plan = session.dataframe("SELECT id FROM orders")._jdf.queryExecution().toString()
    assert "sqlstream_postgres_changes" in plan
    assert PASSWORD not in plan
