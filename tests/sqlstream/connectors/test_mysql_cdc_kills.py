"""A job over changes of MariaDB whose processes are killed with kill -9, again and again, while others write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from tests.faults.processes import kill_all
from tests.mariadb_server import PASSWORD, MariaDbServer, running_server
from tests.postgres_server import PostgresServer
from tests.postgres_server import running_server as running_postgres
from tests.sqlstream.connectors.killed_jobs import progress, start, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

STRIKES = 8
_SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}';
SET 'pipeline.name' = 'copy';
SET 'execution.checkpointing.interval' = '200 ms';
CREATE TABLE t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'mysql-cdc',
  'hostname' = '127.0.0.1', 'port' = '{port}', 'username' = 'cdc', 'password' = '{password}',
  'database-name' = 'shop', 'table-name' = 't', 'scan.incremental.snapshot.chunk.size' = '20000',
  'source.max-rows-per-trigger' = '500');
CREATE TABLE copies (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'postgres', {options},
  'table-name' = 'copies');
INSERT INTO copies SELECT id, v FROM t;
"""
_ROWS = 100_000


@pytest.fixture
def server() -> Iterator[MariaDbServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def target() -> Iterator[PostgresServer]:
    with running_postgres() as target:
        yield target


def write(server: MariaDbServer, stopped: Event) -> None:
    """Transactions of all kinds of changes until it is ``stopped``."""
    random = Random(1)
    number = 0
    with server.connected() as connection, connection.cursor() as cursor:
        while not stopped.is_set():
            one, other = random.randrange(_ROWS), _ROWS + random.randrange(1000)
            number += 1
            cursor.execute(f"UPDATE t SET v = v + 1 WHERE id BETWEEN {one} AND {one + random.randrange(300)}")
            cursor.execute(f"INSERT IGNORE INTO t VALUES ({other}, 0)")
            cursor.execute(f"UPDATE t SET id = -{number}, v = 1 WHERE id = {other} AND {number % 2}")
            cursor.execute(f"DELETE FROM t WHERE id = {one + 7}")
            if not number % 50:
                cursor.execute("FLUSH BINARY LOGS")
            time.sleep(0.05)


def test_what_is_written_is_the_table_after_kills(server: MariaDbServer, target: PostgresServer, tmp_path: Path):
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t SELECT seq, 0 FROM seq_0_to_{_ROWS - 1}"
    )
    target.execute("CREATE TABLE copies (id int PRIMARY KEY, v int)")
    options = ", ".join(f"'{key}' = '{value}'" for key, value in target.options.items())
    script = tmp_path / "copy.sql"
    script.write_text(
        _SCRIPT.format(folder=tmp_path / "checkpoint", options=options, port=server.port, password=PASSWORD)
    )
    stopped = Event()
    writer = Thread(target=write, args=(server, stopped))
    writer.start()
    try:
        for strike in range(STRIKES):
            begun, job = progress(target), start(script)
            wait_for(lambda: progress(target) > begun + (0 if strike < 3 else strike % 4), job)  # noqa: B023
            kill_all(job.pid)
            job.wait()
    finally:
        stopped.set()
        writer.join()
    job = start(script)
    try:
        wait_for(lambda: target.rows("TABLE copies ORDER BY 1") == server.rows("SELECT id, v FROM t ORDER BY 1"), job)
    finally:
        kill_all(job.pid)
        job.wait()
