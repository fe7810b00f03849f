"""A served view as a process, rows that come into its files, and what psycopg sees of it meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import psycopg

SHOPS = 50

SCRIPT = """
CREATE TABLE sales (shop INT NOT NULL, id BIGINT, file INT) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/sales', 'format' = 'parquet', 'source.monitor-interval' = '100 ms');

-- each file has as many rows of each shop, so in a whole epoch all shops have as many
CREATE MATERIALIZED VIEW totals AS
SELECT shop, COUNT(*) AS n, SUM(id) AS ids, MAX(file) AS newest FROM sales GROUP BY shop;
"""
COPIES = "CREATE MATERIALIZED VIEW copies AS SELECT id FROM sales;"


@contextmanager
def place() -> Iterator[Path]:
    """A directory that vanishes at the end, which all users may enter: as root PostgreSQL is another user."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-views-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "sales").mkdir()
        yield folder


class Server:
    """``sqlstream serve`` on the views of a folder."""

    def __init__(self, folder: Path, script: str, cores: int = 2) -> None:
        self.folder = folder
        (folder / "views.sql").write_text(script.format(folder=folder), encoding="utf-8")
        self._command = [
            sys.executable, "-m", "sqlstream", "serve", str(folder / "views.sql"), "--port", "0", "--master",
            f"local[{cores}]", "--set", f"sqlstream.views.dir={folder / 'state'}", "--set", "parallelism.default=1",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "out").open("wb") as out, (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=log, start_new_session=True)

    def url(self) -> str:
        """The address of the tables, once it has printed it."""
        return self._printed(0)

    def page(self) -> str:
        """That of the page."""
        return self._printed(1)

    def _printed(self, line: int) -> str:
        while len(lines := (self.folder / "out").read_text(encoding="utf-8").splitlines()) <= line:
            self._require_running()
            time.sleep(0.05)
        return lines[line]

    def kill(self) -> None:
        """With -9, Java too. PostgreSQL is a process of its own."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """In order; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(120)
        self.kill()
        return -1

    def _require_running(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text(encoding="utf-8"))


def is_there(url: str, table: str) -> bool:
    """Whether the server has the table of a view."""
    import psycopg

    with suppress(psycopg.OperationalError), psycopg.connect(url) as connection:
        return connection.execute("SELECT to_regclass(%s)", [table]).fetchone() != (None,)
    return False


class Writer:
    """Puts ``rate`` rows a second into files, one each ``every_s``, until stopped. ``arrived``: when each one came."""

    def __init__(self, folder: Path, rate: int, every_s: float) -> None:
        self._folder, self._every_s = folder, every_s
        self.rows_per_file = max(1, round(rate * every_s / SHOPS)) * SHOPS
        self.arrived: dict[int, float] = {}
        self._stopped = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def rows(self) -> int:
        return len(self.arrived) * self.rows_per_file

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        for number in range(1_000_000):
            if self._stopped.wait(max(0.0, due - time.monotonic())):
                return
            due += self._every_s
            self._put(number)

    def _put(self, number: int) -> None:
        first = number * self.rows_per_file
        ids = range(first, first + self.rows_per_file)
        table = pa.table({
            "shop": pa.array([i % SHOPS for i in ids], pa.int32()),
            "id": pa.array(ids, pa.int64()),
            "file": pa.array([number] * self.rows_per_file, pa.int32()),
        })  # fmt: skip
        pq.write_table(table, self._folder / "next")
        (self._folder / "next").rename(self._folder / "sales" / f"{number:06}.parquet")
        self.arrived[number] = time.monotonic()


@dataclass
class Seen:
    """``visible``: when the rows of a file were there first. ``epochs``: how often the table was another one,
    ``broken`` how often it was that of no whole epoch."""

    visible: dict[int, float] = field(default_factory=dict)
    epochs: set[int] = field(default_factory=set)
    reads: int = 0
    broken: int = 0


class Watcher(ABC):
    """Looks at the view again and again, on a thread of its own, until stopped."""

    def __init__(self, url: str, pause_s: float = 0.02) -> None:
        self._url, self._pause_s = url, pause_s
        self._stopped = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Until ``_stopped``, ``_pause_s`` between two looks."""


class Reader(Watcher):
    """Reads the view through psycopg, as a dashboard does."""

    def __init__(self, url: str) -> None:
        self.seen = Seen()
        super().__init__(url)

    def _run(self) -> None:
        import psycopg

        while not self._stopped.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, connect_timeout=10) as connection:
                    self._read(connection)
            except psycopg.Error:  # there is no table yet, or no server
                self._stopped.wait(0.1)

    def _read(self, connection: psycopg.Connection[Any]) -> None:
        query = "SELECT COUNT(*), MIN(n), MAX(n), MIN(newest), MAX(newest) FROM totals"
        while not self._stopped.wait(self._pause_s):
            row = connection.execute(query).fetchone()
            assert row is not None
            now = time.monotonic()
            shops, least, most, first, newest = row
            self.seen.reads += 1
            if not shops:
                continue
            if shops != SHOPS or least != most or first != newest:
                self.seen.broken += 1
                continue
            self.seen.epochs.add(least)
            for number in range(max(self.seen.visible, default=-1) + 1, newest + 1):
                self.seen.visible[number] = now
