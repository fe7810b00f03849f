"""Streams of changes whose processes are killed with kill -9 while others write, far more often than jobs can be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.mariadb_server import PASSWORD, MariaDbServer
from tests.mariadb_server import running_server as running_mariadb
from tests.postgres_server import PostgresServer, running_server
from tests.sqlstream.connectors import test_mysql_cdc_kills, test_postgres_cdc_kills
from tests.sqlstream.connectors.change_streams import declared_table
from tests.sqlstream.connectors.killed_jobs import ROWS, STRIKES, writing
from tests.sqlstream.connectors.struck_streams import finish, rows_of, strike

pytestmark = pytest.mark.long

_OPTIONS = {
    "table-name": "t", "scan.incremental.snapshot.chunk.size": "7000", "source.max-rows-per-trigger": "1000",
    "heartbeat.interval": "200 ms",
}  # fmt: skip


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def mariadb() -> Iterator[MariaDbServer]:
    with running_mariadb() as server:
        yield server


@pytest.mark.parametrize("streaming", ["buffered", "immediate"])
def test_changes_of_postgres_are_those_of_the_table(postgres: PostgresServer, tmp_path: Path, streaming: str):
    postgres.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        f"INSERT INTO t SELECT i, 0 FROM generate_series(0, {ROWS - 1}) i",
        f"ALTER ROLE postgres SET debug_logical_replication_streaming = {streaming}",
    )  # fmt: skip
    table = declared_table("postgres-cdc", {**_OPTIONS, **postgres.options, "slot.name": "t"}, "id INT; v INT")
    with writing(partial(test_postgres_cdc_kills.transact, postgres)):
        strike(table, tmp_path, STRIKES)
    finish(tmp_path, lambda: rows_of(tmp_path) == postgres.rows("TABLE t ORDER BY 1"))


def test_changes_of_mariadb_are_those_of_the_table(mariadb: MariaDbServer, tmp_path: Path):
    mariadb.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t SELECT seq, 0 FROM seq_0_to_{ROWS - 1}"
    )
    where = {
        "hostname": "127.0.0.1", "port": str(mariadb.port), "username": "cdc", "password": PASSWORD,
        "database-name": "shop", "server-id": "5400",
    }  # fmt: skip
    table = declared_table("mysql-cdc", {**_OPTIONS, **where}, "id INT; v INT")
    with writing(partial(test_mysql_cdc_kills.transact, mariadb)):
        strike(table, tmp_path, STRIKES)
    finish(tmp_path, lambda: rows_of(tmp_path) == mariadb.rows("SELECT id, v FROM t ORDER BY 1"))
