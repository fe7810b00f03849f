"""Upgrades of jobs that run: a query goes on with the state of another one, and comes back where it fails."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.history import last_committed
from sqlstream.jobs.records.record import read_record

pytestmark = pytest.mark.spark

SCRIPT = """SET 'execution.checkpointing.dir' = 'jobs';
SET 'pipeline.name' = 'totals';
SET 'spark.sql.shuffle.partitions' = '1';
CREATE TABLE bids (k STRING, v INT, pt AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'in',
  'format' = 'json', 'source.monitor-interval' = '200 ms');
CREATE TABLE totals (k STRING, total BIGINT, tag STRING)
WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
{more}
INSERT INTO totals SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY pt ROWS UNBOUNDED PRECEDING) AS total, {tag} AS tag
FROM bids {where};
"""
WAIT_S = 120.0


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder with a running job, which has read one file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("in").mkdir()
    rows("a", ("x", 1), ("y", 2))
    Path("job.sql").write_text(script())
    with Path("old.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "sqlstream", "run", "job.sql"], stdout=log, stderr=log)
    try:
        wait_for(lambda: epoch() >= 0)
        yield tmp_path
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        end_of_job()


def script(tag="'old'", where="", more="") -> str:
    return SCRIPT.format(tag=tag, where=where, more=more)


def written() -> list[tuple[str, int, str]]:
    """The rows of the sink, sorted."""
    lines = [line for path in Path("out").glob("*.json") for line in path.read_text().splitlines()]
    return sorted((row["k"], row["total"], row["tag"]) for row in map(json.loads, lines))


def rows(name: str, *written: tuple[str, int]) -> None:
    hidden = Path(f".{name}.json")
    hidden.write_text("".join(json.dumps({"k": k, "v": v}) + "\n" for k, v in written))
    hidden.rename(f"in/{name}.json")


def job():
    return read_record(LocalStorage(Path("jobs/totals").absolute()))


def wait_for(condition) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, Path("old.log").read_text()
        time.sleep(0.2)


def epoch() -> int:
    number = last_committed(LocalStorage(Path("jobs/totals").absolute()))
    return -1 if number is None else number


def end_of_job() -> None:
    record = job()
    if record is not None and record.is_running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.life.process.pid, signal.SIGTERM)
        end = time.monotonic() + 60
        while (now := job()) is not None and now.is_running and time.monotonic() < end:
            time.sleep(0.2)


def upgrade(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sqlstream", "upgrade", "new.sql", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_new_query_goes_on_with_the_state_and_its_process_outlives_the_command(folder):
    Path("new.sql").write_text(script("'new'", "WHERE v > 0"))
    rows("b", ("x", 10), ("x", -5))
    wait_for(lambda: epoch() >= 1)
    rows("c", ("y", 100), ("y", -7))  # read by whichever runs when the file is listed
    done = upgrade("--epochs", "0")
    assert done.returncode == 0, done.stderr
    assert "  carries over  " in done.stdout and 'job "totals" stopped, savepoint: ' in done.stderr
    rows("d", ("x", 1000), ("x", -1))
    wait_for(lambda: ("x", 1006, "new") in written())
    assert [row for row in written() if row[0] == "x"] == [
        ("x", 1, "old"), ("x", 6, "old"), ("x", 11, "old"), ("x", 1006, "new"),
    ]  # fmt: skip
    assert job().is_running


@pytest.mark.long
def test_a_query_that_fails_gives_way_to_the_former_one_and_no_row_is_lost_or_written_twice(folder):
    function = "CREATE FUNCTION fails(k STRING) RETURNS STRING LANGUAGE PYTHON AS $$ raise ValueError('not today') $$;"
    Path("new.sql").write_text(script("fails(k)", more=function))
    rows("b", ("x", 10))
    wait_for(lambda: epoch() >= 1)
    Path("more.sh").write_text("until [ -d jobs/savepoints ]; do sleep 0.2; done; mv .c.json in/c.json\n")
    Path(".c.json").write_text('{"k": "x", "v": 100}\n')
    with subprocess.Popen(["sh", "more.sh"]):
        done = upgrade("--epochs", "1", "--previous", "job.sql")
    assert done.returncode == 3, done.stderr
    assert 'SS479: the upgrade of "totals" has failed' in done.stderr
    assert "HINT: The former scripts run again, behind the last complete epoch." in done.stderr
    rows("d", ("x", 1000))
    wait_for(lambda: ("x", 1111, "old") in written())
    assert written() == [("x", 1, "old"), ("x", 11, "old"), ("x", 111, "old"), ("x", 1111, "old"), ("y", 2, "old")]
