"""kill -9 of jobs that write Delta and Iceberg tables while another writer commits to the same tables."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from tests.faults.processes import kill_all

pytestmark = [pytest.mark.spark, pytest.mark.long]

STRIKES, JOBS = 20, 4
"""Strikes in all, and the jobs that get them."""
_FILES, _OF_FILE, _KEYS = 4 * STRIKES // JOBS, 200, 50
_COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])

_JOB = """
SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
SET 'pipeline.name' = 'copies';
CREATE TABLE events (id BIGINT NOT NULL, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/events',
    'format' = 'json', 'source.monitor-interval' = '1 s', 'source.max-files-per-trigger' = '1');
CREATE TABLE copies (id BIGINT NOT NULL, v BIGINT) WITH ({copies});
CREATE TABLE sums (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ({sums});
EXECUTE STATEMENT SET BEGIN
    INSERT INTO copies SELECT id, v FROM events;
    INSERT INTO sums SELECT id, SUM(v) FROM events GROUP BY id;
END;
"""


class Delta:
    """Two tables, ``copies`` and ``sums``, as the library sees them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("copies", "sums"):
            deltalake().DeltaTable.create(folder / name, _COLUMNS)

    def options(self, name: str) -> dict[str, str]:
        return {"connector": "delta", "path": str(self.folder / name)}

    def append(self, name: str, rows: pa.Table) -> None:
        """Commits rows as another writer does: again after conflicts with the job, whose merges the library takes for
        such of its appends, too.
        """
        while True:
            with suppress(deltalake().exceptions.CommitFailedError):
                deltalake().write_deltalake(self.folder / name, rows, mode="append")
                return

    def rows(self, name: str) -> list[tuple[int, int]]:
        return of(deltalake().DeltaTable(self.folder / name).to_pyarrow_table())


class Iceberg:
    """The same tables of a catalog in a file."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")
        pyiceberg = pytest.importorskip("pyiceberg.catalog", reason="the package pyiceberg is not installed")
        warehouse = f"file://{folder}"
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": warehouse}
        self.catalog = pyiceberg.load_catalog("default", **self.properties)
        self.catalog.create_namespace("db")
        for name in ("copies", "sums"):
            self.catalog.create_table(f"db.{name}", _COLUMNS)

    def options(self, name: str) -> dict[str, str]:
        given = {f"catalog.{key}": value for key, value in self.properties.items()}
        return {"connector": "iceberg", "table-name": f"db.{name}", **given}

    def append(self, name: str, rows: pa.Table) -> None:
        """Commits rows as another writer does: again after conflicts with the job."""
        from pyiceberg.exceptions import CommitFailedException

        while True:
            with suppress(CommitFailedException):
                self.catalog.load_table(f"db.{name}").append(rows)
                return

    def rows(self, name: str) -> list[tuple[int, int]]:
        return of(self.catalog.load_table(f"db.{name}").scan().to_arrow())


Lake = Delta | Iceberg


def deltalake() -> Any:
    return pytest.importorskip("deltalake", reason="the package deltalake is not installed")


def of(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


@contextmanager
def another_writer(lake: Lake) -> Iterator[list[tuple[int, int]]]:
    """Commits a row of its own to each table again and again. The rows are complete when the context ends."""
    own: list[tuple[int, int]] = []
    stopped = Event()

    def write() -> None:
        while not stopped.is_set():
            row = (-1 - len(own), len(own))
            for name in ("copies", "sums"):
                lake.append(name, pa.Table.from_pylist([{"id": row[0], "v": row[1]}], _COLUMNS))
            own.append(row)
            stopped.wait(1)

    writer = Thread(target=write)
    writer.start()
    try:
        yield own
    finally:
        stopped.set()
        writer.join()


@pytest.mark.parametrize("number", range(JOBS))
@pytest.mark.parametrize("kind", [Delta, Iceberg])
def test_tables_are_whole_after_kills_while_another_writer_commits(tmp_path: Path, kind: type[Lake], number: int):
    events = written_events(tmp_path / "events")
    lake = kind(tmp_path)
    texts = {n: ", ".join(f"'{k}' = '{v}'" for k, v in lake.options(n).items()) for n in ("copies", "sums")}
    script = tmp_path / "job.sql"
    script.write_text(_JOB.format(folder=tmp_path, **texts))
    chance = random.Random(number)
    with another_writer(lake) as own:
        for _ in range(STRIKES // JOBS):
            before, job = epochs(tmp_path), start(script)
            wait_for(lambda: epochs(tmp_path) > min(before, _FILES - 1), job, script)  # noqa: B023
            time.sleep(chance.random())
            kill_all(job.pid)
            job.wait()
            copied = [row for row in lake.rows("copies") if row[0] >= 0]
            assert len(copied) % _OF_FILE == 0, "part of a micro-batch is committed"
            assert not Counter(copied) - Counter(events), "rows are committed twice"
        job = start(script)
        wait_for(lambda: complete(lake), job, script)
        kill_all(job.pid)
        job.wait()
    assert lake.rows("copies") == sorted(events + own)
    assert lake.rows("sums") == sorted(sums(events) + own)


def written_events(folder: Path) -> list[tuple[int, int]]:
    """Writes files whose order is that of their times."""
    chance = random.Random(1)
    folder.mkdir()
    events = []
    for number in range(_FILES):
        rows = [(chance.randrange(_KEYS), number * _OF_FILE + n) for n in range(_OF_FILE)]
        path = folder / f"{number:04}.json"
        path.write_text("".join(json.dumps({"id": key, "v": value}) + "\n" for key, value in rows))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        events += rows
    return events


def sums(events: list[tuple[int, int]]) -> list[tuple[int, int]]:
    totals: Counter[int] = Counter()
    for key, value in events:
        totals[key] += value
    return list(totals.items())


def complete(lake: Lake) -> bool:
    """True where both tables have all that the job writes."""
    copied = [row for row in lake.rows("copies") if row[0] >= 0]
    summed = sum(value for key, value in lake.rows("sums") if key >= 0)
    return len(copied) == _FILES * _OF_FILE and summed == sum(value for _, value in copied)


def epochs(folder: Path) -> int:
    return len(list((folder / "checkpoints").glob("*/spark/commits/[0-9]*")))


def start(script: Path) -> subprocess.Popen[bytes]:
    with script.with_suffix(".log").open("ab") as log:
        command = [sys.executable, "-m", "sqlstream", "run", str(script), "--master", "local[2]"]
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def wait_for(holds: Any, job: subprocess.Popen[bytes], script: Path) -> None:
    deadline = time.monotonic() + 600
    while not holds():
        alive = job.poll() is None and time.monotonic() < deadline
        assert alive, script.with_suffix(".log").read_text()[-3000:]
        time.sleep(0.1)
