"""A job over changes of MariaDB's tables: with its checkpoint, into a table of PostgreSQL that is upserted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job
from sqlstream.session import Session
from tests.mariadb_server import PASSWORD, MariaDbServer, running_server
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def target(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres_server
    postgres_server.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def session(spark: Any) -> Iterator[Session]:
    with sqlstream.connect(spark) as session:
        yield session


def run(session: Session, statement: str) -> None:
    job = session.sql(statement)
    assert isinstance(job, Job)
    job.stop(drain=True)


def options(server: MariaDbServer, table: str, **more: str) -> str:
    given = {
        "connector": "mysql-cdc", "hostname": "127.0.0.1", "port": str(server.port), "username": "cdc",
        "password": PASSWORD, "database-name": "shop", "table-name": table, **more,
    }  # fmt: skip
    return ", ".join(f"'{key}' = '{value}'" for key, value in given.items())


def test_a_job_keeps_a_copy_of_what_a_query_gives(
    session: Session, server: MariaDbServer, target: PostgresServer, tmp_path: Path
):
    """Of two tables, each with a reader of its own."""
    server.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(10, 2))",
        "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 1, 10), (2, 2, 5), (3, 1, 2.5)",
        "INSERT INTO customers VALUES (1, 'ann'), (2, 'bob')",
    )
    target.execute("CREATE TABLE totals (name text PRIMARY KEY, orders bigint, amount numeric(20, 2))")
    ids = {"server-id": "5400-5401"}
    sink = ", ".join(f"'{key}' = '{value}'" for key, value in target.options.items())
    session.sql(f"""
        CREATE TABLE orders (id INT, customer INT, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
        WITH ({options(server, "orders", **ids)});
        CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
        WITH ({options(server, "customers", **ids)});
        CREATE TABLE totals (name STRING, orders BIGINT, amount DECIMAL(20, 2), PRIMARY KEY (name) NOT ENFORCED)
        WITH ('connector' = 'postgres', {sink}, 'table-name' = 'totals');
        SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'totals'""")
    totals = (
        "INSERT INTO totals SELECT name, COUNT(*), SUM(amount) FROM orders JOIN customers ON customer = customers.id "
        "GROUP BY name"
    )

    def found() -> list[tuple[object, ...]]:
        return [(name, n, str(amount)) for name, n, amount in target.rows("TABLE totals ORDER BY 1")]

    run(session, totals)
    assert found() == [("ann", 2, "12.50"), ("bob", 1, "5.00")]
    server.execute(
        "UPDATE orders SET amount = 20 WHERE id = 1", "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 4, customer = 3 WHERE id = 3", "INSERT INTO customers VALUES (3, 'cid')",
    )  # fmt: skip
    run(session, totals)
    assert found() == [("ann", 1, "20.00"), ("cid", 1, "2.50")]
    plan = session.dataframe("SELECT id FROM orders")._jdf.queryExecution().toString()
    assert "sqlstream_database_changes" in plan
    assert PASSWORD not in plan
