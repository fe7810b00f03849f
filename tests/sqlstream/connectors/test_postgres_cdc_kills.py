"""A job over changes of PostgreSQL whose processes are killed with kill -9, again and again, while others write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.postgres_server import PostgresServer, running_server
from tests.sqlstream.connectors.killed_jobs import JOBS, ROWS, finish, strike, writing, written_script

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


def transact(server: PostgresServer, random: Random, seconds: float) -> None:
    """All kinds of changes, some of them in transactions that overlap others."""
    one, other, key = random.randrange(ROWS), ROWS + random.randrange(1000), -random.randrange(1 << 30)
    if seconds:
        statements = [
            f"INSERT INTO t VALUES ({key}, 0) ON CONFLICT DO NOTHING", f"SELECT pg_sleep({seconds})",
            f"UPDATE t SET v = v + 1 WHERE id = {key}",
        ]  # fmt: skip
    else:
        statements = [
            "SELECT pg_advisory_xact_lock(1)",
            f"UPDATE t SET v = v + 1 WHERE id BETWEEN {one} AND {one + random.randrange(300)}",
            f"INSERT INTO t VALUES ({other}, 0) ON CONFLICT (id) DO UPDATE SET id = {key}, v = t.v + 1",
            f"DELETE FROM t WHERE id = {one + 7}",
        ]
    server.execute("; ".join(("BEGIN", *statements, "COMMIT")))


@pytest.mark.parametrize("number", range(JOBS))
def test_what_is_written_is_the_table_after_kills(server: PostgresServer, tmp_path: Path, number: int):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE TABLE copies (LIKE t INCLUDING ALL)",
        f"INSERT INTO t SELECT i, 0 FROM generate_series(0, {ROWS - 1}) i",
    )  # fmt: skip
    source = {"connector": "postgres-cdc", "slot.name": "copy", **server.options}
    script = written_script(tmp_path, source, server.options)
    with writing(lambda random, seconds: transact(server, random, seconds)):
        strike(script, server, number)
    finish(script, lambda: server.rows("TABLE copies ORDER BY 1") == server.rows("TABLE t ORDER BY 1"))
