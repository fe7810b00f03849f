"""A MariaDB server of the tests' own, from Debian's package mariadb-server, which writes a binary log of rows."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.server_places import free_port, open_directory

PASSWORD = "hunter2"
_PROGRAMS = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"


class MariaDbServer:
    """Listens on a port of 127.0.0.1, and has the database ``shop``. ``settings``: more words of its command line."""

    usual: tuple[str, ...] = (
        "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL", "--log-bin=log",
        "--server-id=1", "--log-slave-updates", "--max-allowed-packet=64M",
        "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-buffer-pool-size=32M", "--skip-name-resolve",
    )  # fmt: skip

    def __init__(self, directory: Path, *settings: str) -> None:
        self._directory, self._settings = directory, settings
        self.data = directory / "data"
        self.user = "mysql" if os.geteuid() == 0 else None
        if self.user is not None:
            shutil.chown(directory, self.user)
        self.port = free_port()
        self.install()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.execute(
            f"CREATE USER 'cdc'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'", "GRANT ALL ON *.* TO 'cdc'@'127.0.0.1'",
            "CREATE DATABASE shop CHARACTER SET utf8mb4", user="root", password="", database="",
        )  # fmt: skip

    @classmethod
    @contextmanager
    def running(cls, *settings: str) -> Iterator[Self]:
        """Skips where the server or PyMySQL lacks."""
        pytest.importorskip("pymysql", reason="the package PyMySQL is not installed")
        cls.require()
        with open_directory("sqlstream-mysql-") as directory:
            server = cls(directory, *settings)
            try:
                yield server
            finally:
                server.stop()

    @staticmethod
    def require() -> None:
        """Skips the test where the server is not installed."""
        _program("mariadbd")

    def install(self) -> None:
        """Makes the folder of the data."""
        words = [_program("mariadb-install-db"), "--no-defaults", f"--datadir={self.data}", "--skip-test-db"]
        words += ["--auth-root-authentication-method=normal", *self._as_user()]
        subprocess.run(words, check=True, capture_output=True, timeout=60)

    def program(self) -> list[str]:
        """The server's command, without what its clients see."""
        return [_program("mariadbd"), "--no-defaults", f"--datadir={self.data}", *self._as_user()]

    def _as_user(self) -> list[str]:
        return [f"--user={self.user}"] * (self.user is not None)

    def start(self) -> None:
        command = [*self.program(), f"--port={self.port}", "--bind-address=127.0.0.1"]
        command += [f"--socket={self._directory}/socket", *self.usual, *self._settings]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self._directory / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """As a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def connected(self, user: str = "cdc", password: str = PASSWORD, database: str = "shop") -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=user, password=password, database=database or None,
            charset="utf8mb4", autocommit=True, init_command="SET time_zone = '+00:00', sql_mode = ''",
        )  # fmt: skip

    def execute(self, *statements: str, **account: str) -> None:
        with self.connected(**account) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def files(self) -> list[Path]:
        """Those of the binary log."""
        return sorted(self.data.glob("log.[0-9]*"))


def _program(name: str) -> str:
    found = shutil.which(name, path=_PROGRAMS)
    if found is None:
        pytest.skip(f"{name} is not there: apt-get install mariadb-server")
    return found


running_server = MariaDbServer.running
