"""A job over changes of MariaDB whose processes are killed with kill -9, again and again, while others write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.mariadb_server import PASSWORD, MariaDbServer
from tests.mariadb_server import running_server as running_mariadb
from tests.postgres_server import PostgresServer, running_server
from tests.sqlstream.connectors.killed_jobs import JOBS, ROWS, finish, strike, writing, written_script

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def server() -> Iterator[MariaDbServer]:
    with running_mariadb() as server:
        yield server


@pytest.fixture
def target() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


def transact(server: MariaDbServer, random: Random, seconds: float) -> None:
    """All kinds of changes, some of them in transactions that overlap others, some in a new file of the log."""
    one, other, key = random.randrange(ROWS), ROWS + random.randrange(1000), -random.randrange(1 << 30)
    if seconds:
        server.execute(
            "BEGIN", f"INSERT IGNORE INTO t VALUES ({key}, 0)", f"DO SLEEP({seconds})",
            f"UPDATE t SET v = v + 1 WHERE id = {key}", "COMMIT",
        )  # fmt: skip
        return
    server.execute(
        "DO GET_LOCK('writer', 10)", "BEGIN",
        f"UPDATE t SET v = v + 1 WHERE id BETWEEN {one} AND {one + random.randrange(300)}",
        f"INSERT INTO t VALUES ({other}, 0) ON DUPLICATE KEY UPDATE id = {key}, v = v + 1",
        f"DELETE FROM t WHERE id = {one + 7}", "COMMIT", *["FLUSH BINARY LOGS"] * (random.random() < 0.02),
    )  # fmt: skip


@pytest.mark.parametrize("number", range(JOBS))
def test_what_is_written_is_the_table_after_kills(
    server: MariaDbServer, target: PostgresServer, tmp_path: Path, number: int
):
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t SELECT seq, 0 FROM seq_0_to_{ROWS - 1}"
    )
    target.execute("CREATE TABLE copies (id int PRIMARY KEY, v int)")
    source = {
        "connector": "mysql-cdc", "hostname": "127.0.0.1", "port": str(server.port), "username": "cdc",
        "password": PASSWORD, "database-name": "shop", "server-id": "5400",
    }  # fmt: skip
    script = written_script(tmp_path, source, target.options)
    with writing(lambda random, seconds: transact(server, random, seconds)):
        strike(script, target, number)
    finish(script, lambda: target.rows("TABLE copies ORDER BY 1") == server.rows("SELECT id, v FROM t ORDER BY 1"))
