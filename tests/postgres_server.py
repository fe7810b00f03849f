"""A PostgreSQL server of the tests' own, from the package pgserver: no service and no root rights are needed.

PostgreSQL refuses to run as root; where the tests do, as in containers, it runs as the user that pgserver adds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.server_places import free_port, open_directory

USER, PASSWORD = "postgres", "hunter2"
_SLOTS_ARE_FREE_SECONDS = 60


class PostgresServer:
    """Listens on a port of 127.0.0.1 and wants a password."""

    wal_level = "logical"

    def __init__(self, directory: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pgserver asks for XDG_RUNTIME_DIR when it is imported
            from pgserver._commands import POSTGRES_BIN_PATH
            from pgserver.utils import ensure_prefix_permissions, ensure_user_exists
        self._programs = Path(POSTGRES_BIN_PATH)
        self._directory = directory
        self._data = directory / "data"
        self._user = None
        if os.geteuid() == 0:
            self._user = "pgserver"
            ensure_user_exists(self._user)
            ensure_prefix_permissions(self._programs)
            shutil.chown(directory, self._user)
        self.port = free_port()
        password = directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            "initdb", "-D", self._data, "-U", USER, "-A", "scram-sha-256", "--pwfile", password, "-E", "utf8", "-N"
        )
        self.start()

    @property
    def conninfo(self) -> dict[str, str]:
        return {"host": "127.0.0.1", "port": str(self.port), "dbname": "postgres", "user": USER, "password": PASSWORD}

    @property
    def options(self) -> dict[str, str]:
        """Those of a table."""
        return {
            "url": f"postgresql://127.0.0.1:{self.port}/postgres", "username": USER, "password": PASSWORD,
        }  # fmt: skip

    def start(self) -> None:
        settings = f"-h 127.0.0.1 -p {self.port} -k {self._directory} -c fsync=off -c max_connections=40"
        settings += f" -c wal_level={self.wal_level} -c max_wal_senders=10 -c max_replication_slots=20"
        settings += " -c max_prepared_transactions=5"
        self._run("pg_ctl", "-D", self._data, "-w", "-l", self._directory / "log", "-o", settings, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    def connected(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(make_conninfo(**self.conninfo), autocommit=True)

    def execute(self, *statements: str) -> None:
        with self.connected() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with self.connected() as connection:
            return connection.execute(query).fetchall()

    def drop_slots(self) -> None:
        """Drops all replication slots, each when it is free: the server finds out a little later that its reader has
        gone.
        """
        deadline = time.monotonic() + _SLOTS_ARE_FREE_SECONDS
        while active := self.rows("SELECT slot_name FROM pg_replication_slots WHERE active"):
            assert time.monotonic() < deadline, f"somebody still reads {active}"
            time.sleep(0.05)
        self.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")

    def _run(self, program: str, *arguments: str | Path) -> None:
        command: Sequence[str] = [str(self._programs / program), *map(str, arguments)]
        log = self._directory / "output"
        with log.open("a") as output:  # a pipe would stay open as long as the server runs
            done = subprocess.run(
                command, stdout=output, stderr=output, user=self._user, cwd=self._directory, timeout=60
            )
        if done.returncode:
            raise RuntimeError(log.read_text())


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Skips where this Python has no pgserver."""
    if find_spec("pgserver") is None:
        pytest.skip("pgserver is not made for this Python")
    with open_directory("sqlstream-pg-") as directory:
        server = PostgresServer(directory)
        try:
            yield server
        finally:
            server.stop()
