"""Statement sets as jobs: one read of a table for all queries, and one epoch of all sinks, also after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import Environment
from sqlstream.connectors.connector import BatchWriter
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.jobs.lifecycle import sinks
from sqlstream.planner.catalog import Table
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession

pytestmark = pytest.mark.spark

FILES, ROWS = 2, 40

DEFINITIONS = """
CREATE TABLE events (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/events', 'format' = 'json', 'source.max-files-per-trigger' = '1');
CREATE TABLE odd (k BIGINT, ts TIMESTAMP(3)) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/odd', 'format' = 'json');
CREATE TABLE counts (k BIGINT, n BIGINT) WITH (
    'connector' = 'filesystem', 'path' = '{folder}/counts', 'format' = 'json');
SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
SET 'execution.end-of-input' = 'final';
"""

STATEMENT_SET = """
EXECUTE STATEMENT SET BEGIN
INSERT INTO odd SELECT k, ts FROM events WHERE k % 2 = 1;
INSERT INTO counts SELECT k, COUNT(*) FROM events GROUP BY k, TUMBLE(ts, INTERVAL '20' SECOND);
INSERT INTO odd SELECT -k, ts FROM events WHERE k % 5 = 0;
END
"""

KILLED = """
import os, signal, sys
from sqlstream.jobs.lifecycle import sinks
from sqlstream.testing.spark import LocalSession

checked_writer = sinks.checked_writer

def deadly(environment, table):
    write = checked_writer(environment, table)
    def killed_in_the_second_epoch(batch, number):
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        write(batch, number)
    return killed_in_the_second_epoch if table.name == "counts" else write

sinks.checked_writer = deadly
with LocalSession() as session:
    session.sql(sys.argv[1]).wait()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    for number in range(FILES):
        path = tmp_path / "events" / f"{number}.json"
        path.write_text("".join(json.dumps(_row(number, i)) + "\n" for i in range(ROWS)))
        os.utime(path, (1_700_000_000 + number,) * 2)
    return tmp_path


def _row(file: int, i: int) -> dict[str, object]:
    return {"k": i % 5, "ts": f"2024-01-01T00:{file:02d}:{i:02d}.000Z"}


def expected() -> dict[str, Counter[tuple[int, ...]]]:
    rows = [(i % 5, file, i) for file in range(FILES) for i in range(ROWS)]
    counts = Counter((k, file, i // 20) for k, file, i in rows)
    odd: Counter[tuple[int, ...]] = Counter((k,) for k, _, _ in rows if k % 2 or k == 0)
    return {"odd": odd, "counts": Counter((k, n) for (k, _, _), n in counts.items())}


def written(folder: Path) -> dict[str, Counter[tuple[int, ...]]]:
    return {"odd": _rows(folder / "odd", "k"), "counts": _rows(folder / "counts", "k", "n")}


def _rows(folder: Path, *names: str) -> Counter[tuple[int, ...]]:
    files = [path for path in folder.rglob("*.json") if not path.name.startswith((".", "_"))]
    rows = (json.loads(line) for path in files for line in path.read_text().splitlines())
    return Counter(tuple(row[name] for name in names) for row in rows)


def start(session: Session, folder: Path) -> Job:
    job = session.sql(DEFINITIONS.format(folder=folder) + STATEMENT_SET)
    assert isinstance(job, Job)
    return job


def test_a_set_is_one_job_that_reads_a_table_once_and_counts_each_tables_rows(folder: Path) -> None:
    with LocalSession() as session:
        job = start(session, folder)
        job.wait()
        progress = job.progress()
        described = session.sql("DESCRIBE JOB statement_set_odd_counts")
        assert isinstance(described, Rows)
    actual = expected()
    assert written(folder) == actual
    assert progress.rows_in == FILES * ROWS
    assert progress.rows_by_table == {name: rows.total() for name, rows in actual.items()}
    assert ("rows out to counts", str(actual["counts"].total())) in described.fetchall()
    spark = Path(job.checkpoint_path) / "spark"
    assert len(list((spark / "sources").iterdir())) == 2  # the table and its control rows


_WRITER = sinks.checked_writer


def failing_writer(environment: Environment, table: Table) -> BatchWriter:
    """Fails where ``KILLED`` kills."""
    write = _WRITER(environment, table)

    def failed_in_the_second_epoch(batch: Any, number: int) -> None:
        if number == 1:
            raise OSError("no space left")
        write(batch, number)

    return failed_in_the_second_epoch if table.name == "counts" else write


def fail(folder: Path) -> None:
    """End the job between two tables, in this process."""
    with (
        pytest.MonkeyPatch.context() as patched,
        LocalSession() as session,
        pytest.raises(SqlStreamError, match="no space left"),
    ):
        patched.setattr(sinks, "checked_writer", failing_writer)
        start(session, folder).wait()


def kill(folder: Path) -> None:
    """The same with a process of its own, which runs nothing behind that place."""
    script = DEFINITIONS.format(folder=folder) + STATEMENT_SET
    killed = subprocess.run([sys.executable, "-c", KILLED, script], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()


@pytest.mark.long
@pytest.mark.parametrize("end", [fail, pytest.param(kill, marks=pytest.mark.long)])
def test_all_tables_stand_at_one_epoch_after_an_end_between_two_of_them(
    folder: Path, end: Callable[[Path], None]
) -> None:
    end(folder)
    assert written(folder) == {"odd": expected()["odd"], "counts": Counter()}  # one table is an epoch ahead
    with LocalSession() as session:
        start(session, folder).wait()
    assert written(folder) == expected()
