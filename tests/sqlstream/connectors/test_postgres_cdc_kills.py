"""A job over changes of a table whose processes are killed with kill -9, again and again, while others write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from tests.faults.processes import kill_all
from tests.postgres_server import PostgresServer, running_server
from tests.sqlstream.connectors.killed_jobs import progress, start, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

STRIKES = 20
_SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}';
SET 'pipeline.name' = 'copy';
SET 'execution.checkpointing.interval' = '200 ms';
CREATE TABLE t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'postgres-cdc', {options},
  'table-name' = 't', 'slot.name' = 'copy', 'scan.incremental.snapshot.chunk.size' = '20000',
  'source.max-rows-per-trigger' = '5000');
CREATE TABLE copies (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'postgres', {options},
  'table-name' = 'copies');
INSERT INTO copies SELECT id, v FROM t;
"""
_ROWS = 100_000


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


def write(server: PostgresServer, stopped: Event) -> None:
    """Transactions of all kinds of changes until it is ``stopped``."""
    random = Random(1)
    while not stopped.is_set():
        one, other = random.randrange(_ROWS), _ROWS + random.randrange(1000)
        server.execute(
            f"UPDATE t SET v = v + 1 WHERE id BETWEEN {one} AND {one + random.randrange(300)}",
            f"INSERT INTO t VALUES ({other}, 0) ON CONFLICT (id) DO UPDATE SET id = -t.id - {one} * 2000, v = 1",
            f"DELETE FROM t WHERE id = {one + 7}",
        )
        time.sleep(0.05)


def test_what_is_written_is_the_table_after_twenty_kills(server: PostgresServer, tmp_path: Path):
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE TABLE copies (LIKE t INCLUDING ALL)",
        f"INSERT INTO t SELECT i, 0 FROM generate_series(0, {_ROWS - 1}) i",
    )  # fmt: skip
    options = ", ".join(f"'{key}' = '{value}'" for key, value in server.options.items())
    script = tmp_path / "copy.sql"
    script.write_text(_SCRIPT.format(folder=tmp_path / "checkpoint", options=options))
    stopped = Event()
    writer = Thread(target=write, args=(server, stopped))
    writer.start()
    try:
        for strike in range(STRIKES):
            begun, job = progress(server), start(script)
            wait_for(lambda: progress(server) > begun + (0 if strike < 3 else strike % 4), job)  # noqa: B023
            kill_all(job.pid)
            job.wait()
    finally:
        stopped.set()
        writer.join()
    job = start(script)
    try:
        wait_for(lambda: server.rows("TABLE copies ORDER BY 1") == server.rows("TABLE t ORDER BY 1"), job)
    finally:
        kill_all(job.pid)
        job.wait()
