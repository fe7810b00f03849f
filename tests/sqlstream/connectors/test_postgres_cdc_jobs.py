"""Jobs over changes of PostgreSQL's tables: with their checkpoints, into tables that are upserted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.session import Session
from tests.postgres_server import PASSWORD, PostgresServer
from tests.sqlstream.connectors.jobs_of_tables import named

pytestmark = pytest.mark.spark


@pytest.fixture
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres_server
    postgres_server.drop_slots()
    for (name,) in postgres_server.rows("SELECT quote_ident(pubname) FROM pg_publication"):
        postgres_server.execute(f"DROP PUBLICATION {name}")
    postgres_server.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def session(spark: Any, server: PostgresServer) -> Iterator[Session]:
    with sqlstream.connect(spark) as session:
        yield session


def declare(session: Session, server: PostgresServer, name: str, columns: str, connector: str, **options: str) -> None:
    given = {"connector": connector, **server.options, "table-name": name} | named(options)
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({pairs})")


@pytest.fixture
def orders(session: Session, server: PostgresServer, tmp_path: Path) -> Session:
    """A table of changes, and tables for totals of it and for a copy."""
    server.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(10, 2))",
        "INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5), (3, 'ann', 2.5)",
        "CREATE TABLE totals (customer text PRIMARY KEY, orders bigint, amount numeric(20, 2))",
        "CREATE TABLE ids (id int PRIMARY KEY, customer text)",
    )
    key = "PRIMARY KEY (id) NOT ENFORCED"
    declare(session, server, "orders", f"id INT, customer STRING, amount DECIMAL(10, 2), {key}", "postgres-cdc",
            slot__name="orders")  # fmt: skip
    declare(session, server, "totals", "customer STRING, orders BIGINT, amount DECIMAL(20, 2), "
            "PRIMARY KEY (customer) NOT ENFORCED", "postgres")  # fmt: skip
    declare(session, server, "ids", f"id INT, customer STRING, {key}", "postgres")
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'totals'")
    return session


_TOTALS = "INSERT INTO totals SELECT customer, COUNT(*), SUM(amount) FROM orders GROUP BY customer"


def run(session: Session, statement: str) -> None:
    job = session.sql(statement)
    assert isinstance(job, Job)
    job.stop(drain=True)


def totals(server: PostgresServer) -> list[tuple[object, ...]]:
    return [(customer, n, str(amount)) for customer, n, amount in server.rows("TABLE totals ORDER BY 1")]


@pytest.mark.long
def test_a_job_keeps_a_copy_of_what_a_query_gives(orders: Session, server: PostgresServer):
    run(orders, _TOTALS)
    assert totals(server) == [("ann", 2, "12.50"), ("bob", 1, "5.00")]
    server.execute(
        "UPDATE orders SET amount = 20 WHERE id = 1", "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 4, customer = 'cid' WHERE id = 3",
        "DO $$ BEGIN FOR i IN 5..1004 LOOP INSERT INTO orders VALUES (i, 'dan', 1); COMMIT; END LOOP; END $$",
    )  # fmt: skip
    run(orders, _TOTALS)
    assert totals(server) == [("ann", 1, "20.00"), ("cid", 1, "2.50"), ("dan", 1000, "1000.00")]
    plan = orders.dataframe("SELECT id FROM orders")._jdf.queryExecution().toString()
    assert "sqlstream_database_changes" in plan
    assert PASSWORD not in plan


@pytest.mark.long
def test_a_job_whose_slot_is_gone_says_so(orders: Session, server: PostgresServer):
    run(orders, _TOTALS)
    server.drop_slots()
    with pytest.raises(SqlStreamError, match='SS621: slot "orders" is gone, and with it the changes behind '):
        run(orders, _TOTALS)


@pytest.mark.long
def test_a_job_that_reads_several_tables_of_a_slot_has_a_slot_for_each(orders: Session, server: PostgresServer):
    declare(orders, server, "again", "id INT, customer STRING, PRIMARY KEY (id) NOT ENFORCED", "postgres-cdc",
            table_name="orders", slot__name="orders")  # fmt: skip
    copy = "INSERT INTO ids SELECT o.id, p.customer FROM again AS o JOIN again AS p ON o.id = p.id"
    run(orders, f"EXECUTE STATEMENT SET BEGIN {_TOTALS}; {copy}; END")
    assert totals(server) == [("ann", 2, "12.50"), ("bob", 1, "5.00")]
    assert server.rows("TABLE ids ORDER BY 1") == [(1, "ann"), (2, "bob"), (3, "ann")]
    slots = server.rows("SELECT slot_name FROM pg_replication_slots ORDER BY 1")
    assert slots == [("orders",), ("orders_2",)]
