"""Jobs that copy a table into PostgreSQL, in processes that tests kill while others write the table."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread

from tests.faults.processes import kill_all
from tests.postgres_server import PostgresServer

STRIKES, JOBS = 20, 4
"""Strikes in all, and the jobs that get them: four jobs copy the rows that are there while they are killed."""
ROWS = 100_000
_WRITERS = 2

_SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}';
SET 'pipeline.name' = 'copy';
SET 'execution.checkpointing.interval' = '200 ms';
CREATE TABLE t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ({source}, 'table-name' = 't',
  'scan.incremental.snapshot.chunk.size' = '20000', 'source.max-rows-per-trigger' = '5000');
CREATE TABLE copies (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'postgres', {target},
  'table-name' = 'copies');
INSERT INTO copies SELECT id, v FROM t;
"""

Transact = Callable[[Random, float], None]
"""Changes the table in one transaction, which stays open for some seconds."""


def written_script(folder: Path, source: dict[str, str], target: dict[str, str]) -> Path:
    """The script of a job that copies table ``t`` of a source, with options as given."""
    listed = [", ".join(f"'{key}' = '{value}'" for key, value in options.items()) for options in (source, target)]
    script = folder / "copy.sql"
    script.write_text(_SCRIPT.format(folder=folder / "checkpoint", source=listed[0], target=listed[1]))
    return script


@contextmanager
def writing(transact: Transact) -> Iterator[None]:
    """Two writers commit transactions that overlap, until the block ends. Raises what a writer fails with."""
    stopped, errors = Event(), list[Exception]()

    def write(seed: int) -> None:
        random = Random(seed)
        try:
            while not stopped.wait(0.05):
                transact(random, random.choice((0, 0, 0.3)))
        except Exception as error:
            errors.append(error)

    writers = [Thread(target=write, args=(seed,)) for seed in range(_WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
    if errors:
        raise errors[0]


def strike(script: Path, target: PostgresServer, job_number: int) -> None:
    """Starts one of the jobs again and again, and kills it with kill -9: some times as soon as it has stored a
    micro-batch, at others after one to three more, and not always at the same moment of one.
    """
    random = Random(job_number)
    for number in range(STRIKES // JOBS):
        begun, job = progress(target), start(script)
        more = 0 if number < 3 else (number + job_number) % 4
        wait_for(lambda: progress(target) > begun + more, job)  # noqa: B023
        time.sleep(random.random() / 2)
        kill_all(job.pid)
        job.wait()


def finish(script: Path, holds: Callable[[], bool]) -> None:
    """Lets the job run until a condition holds."""
    job = start(script)
    try:
        wait_for(holds, job)
    finally:
        kill_all(job.pid)
        job.wait()


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
