"""Jobs that copy a table into PostgreSQL, in processes that tests kill."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.postgres_server import PostgresServer


def start(script: Path) -> subprocess.Popen[bytes]:
    with script.with_suffix(".log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "sqlstream", "run", str(script)], stdout=log, stderr=log)


def progress(target: PostgresServer) -> int:
    """The last micro-batch that is stored."""
    if target.rows("SELECT to_regclass('sqlstream_epochs')") == [(None,)]:
        return -1
    ((epoch,),) = target.rows("SELECT coalesce(max(epoch), -1) FROM sqlstream_epochs")
    assert isinstance(epoch, int)
    return epoch


def wait_for(holds: Callable[[], bool], job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert job.poll() is None, "the job has ended"
        assert time.monotonic() < deadline
        time.sleep(0.3)
