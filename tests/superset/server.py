"""Superset without a screen: its own database in a folder, and gunicorn on a port of this machine."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.server_places import free_port
from tests.superset.environment import Environment

USER = "admin"
_START_S = 600.0
_STOP_S = 60.0


class SupersetServer:
    """``home`` is a folder of its own."""

    def __init__(self, environment: Environment, home: Path) -> None:
        self.password = secrets.token_urlsafe(16)
        self._bin = environment.folder / "bin"
        self._home = home
        self._port = free_port()
        config = home / "superset_config.py"
        config.write_text(f'SECRET_KEY = "{secrets.token_urlsafe(42)}"\n', encoding="utf-8")
        self._variables = os.environ | {
            "SUPERSET_HOME": str(home),
            "SUPERSET_CONFIG_PATH": str(config),
            "FLASK_APP": "superset.app:create_app()",
            "PYTHONPATH": "",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def log(self) -> Path:
        return self._home / "log"

    def prepare(self) -> None:
        """The tables of its own database, and a user who may do anything."""
        self._run("db", "upgrade")
        named = ["--username", USER, "--password", self.password, "--email", "admin@example.org"]
        self._run("fab", "create-admin", *named, "--firstname", "A", "--lastname", "B")
        self._run("init")

    @contextmanager
    def running(self, paths: Iterable[Path] = ()) -> Iterator[None]:
        """``paths``: what stands before Superset's own packages."""
        command = [
            str(self._bin / "gunicorn"), "--bind", f"127.0.0.1:{self._port}", "--workers", "1", "--threads", "8",
            "--worker-class", "gthread", "--timeout", "600", "superset.app:create_app()",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            variables = self._variables | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
            process = subprocess.Popen(
                command, env=variables, cwd=self._home, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait(process)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _run(self, *arguments: str) -> None:
        with self.log.open("ab") as log:
            command = [str(self._bin / "superset"), *arguments]
            subprocess.run(command, env=self._variables, cwd=self._home, stdout=log, stderr=log, check=True)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _START_S
        while time.monotonic() < end and process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=60):
                return
            time.sleep(0.5)
        raise RuntimeError(f"Superset does not start:\n{self.log.read_text(encoding='utf-8')[-3000:]}")
