"""Jobs with records: asked by another process, refused a checkpoint in use, paced, given up, removed at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs import Job, JobState, recorded_jobs
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.history import read_epochs
from sqlstream.jobs.records.record import read_record
from sqlstream.results import Rows
from sqlstream.session import Session, connect

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE ticks (value BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '100');
CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE TABLE nowhere (value BIGINT) WITH ('connector' = 'blackhole');
SET 'pipeline.name' = 'j';
"""


@pytest.fixture
def session(spark, tmp_path) -> Iterator[Session]:
    with connect(spark, **{"execution.checkpointing.dir": str(tmp_path)}) as own_session:
        own_session.sql(TABLES)
        yield own_session


def started(session: Session, select: str, **settings: str) -> Job:
    """``settings`` by what stands behind ``execution.checkpointing.``, with underscores."""
    for key, value in settings.items():
        session.sql(f"SET 'execution.checkpointing.{key.replace('_', '-')}' = '{value}'")
    job = session.sql(f"INSERT INTO nowhere {select}")
    assert isinstance(job, Job)
    return job


def until(condition) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def asked(*arguments: str) -> str:
    """What another process prints."""
    command = [sys.executable, "-m", "sqlstream", "jobs", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_another_process_sees_a_job_completes_its_epoch_and_stops_it(spark, session: Session, tmp_path) -> None:
    job = started(session, "SELECT value FROM ticks", interval="1 h")
    until(lambda: job.progress().batches)
    directory = str(tmp_path)
    (listed,) = map(json.loads, asked("list", "--dir", directory, "--output", "jsonl").splitlines())
    assert (listed["job id"], listed["job name"], listed["status"]) == (job.id, "j", "RUNNING")
    before = job.progress()
    epoch = int(asked("checkpoint", "j", "--dir", directory))
    assert epoch > before.last_batch
    until(lambda: job.progress().rows_in > before.rows_in)
    shown = session.sql("SHOW CHECKPOINTS FOR JOB j")
    assert isinstance(shown, Rows)
    newest = shown.fetchall()[0]
    assert (newest[:2], newest[7]) == (("j", str(epoch)), "yes")
    with connect(spark, **{"execution.checkpointing.dir": directory, "pipeline.name": "j"}) as other:
        other.sql(TABLES)
        with pytest.raises(ExecutionError) as error:
            other.sql("INSERT INTO nowhere SELECT value FROM ticks")
        assert error.value.code == "SS452"
        described = other.sql("DESCRIBE JOB j")
        assert isinstance(described, Rows)
        assert dict(described.fetchall())["status"] == "RUNNING"
    asked("stop", "j", "--dir", directory)
    assert job.wait(60)
    assert job.state is JobState.STOPPED
    (recorded,) = recorded_jobs(directory)
    assert recorded.record == job.record.__class__(**{**vars(job.record), "life": recorded.record.life})
    assert (recorded.record.status, recorded.record.description.sql) == (
        "STOPPED",
        "INSERT INTO nowhere SELECT value FROM ticks",
    )


def test_epochs_keep_their_pause_and_are_retained_until_the_job_is_stopped(session: Session) -> None:
    job = started(
        session,
        "SELECT value FROM ticks",
        min_pause="700 ms",
        externalized_checkpoint_retention="DELETE_ON_CANCELLATION",
    )
    until(lambda: job.progress().batches >= 5)
    assert job.checkpoint() is not None
    storage = LocalStorage(Path(job.checkpoint_path))
    epochs = list(read_epochs(storage).values())
    starts = [epoch.time - epoch.duration_ms / 1000 for epoch in epochs]
    pauses = [start - epoch.time for start, epoch in zip(starts[1:5], epochs, strict=False)]
    assert min(pauses) >= 0.7
    job.stop()
    record = read_record(storage)
    assert record is not None
    assert (record.status, record.life.kept) == ("STOPPED", False)
    assert {path.name for path in storage.root.iterdir()} <= {"job.json", "epochs.json", "requests", "replies", ".lock"}


@pytest.mark.long
def test_a_job_that_keeps_few_epochs_goes_on_however_often_it_is_started(spark, tmp_path) -> None:
    """Spark's log of a file source has a compact entry for each tenth. Where Spark finds the second of them alone, it
    takes twenty for the distance, and ten again at the next start, when the entry for the fiftieth is missing."""
    folder = tmp_path / "in"
    folder.mkdir()
    files = (
        f"CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json', "
        "'source.monitor-interval' = '10 ms', 'source.max-files-per-trigger' = '1')"
    )
    settings = {"execution.checkpointing.dir": str(tmp_path), "spark.sql.streaming.fileSource.log.cleanupDelay": "0"}
    written = 0
    for count in (24, 54, 56):
        for number in range(written, count):
            (folder / f"{number:02}.json").write_text(json.dumps({"id": number}))
        with connect(spark, **settings) as session:
            session.sql(f"{TABLES} {files}")
            job = started(session, "SELECT id FROM files", num_retained="2")
            until(lambda read=count - written, job=job: job.progress().rows_in == read or job.wait(0))
            job.stop()
        written = count
    retained = [line for line in job.checkpoints() if line.retained]
    assert 10 <= len(retained) <= 12, "ten, and what Spark has not yet removed"


def test_an_epoch_that_takes_too_long_is_begun_again_as_often_as_that_is_tolerated(session: Session) -> None:
    def slow(value: int) -> int:
        time.sleep(4)
        return value

    session.register_function("slow", slow)
    job = started(session, "SELECT slow(id) FROM numbers", timeout="1500 ms", tolerable_failed_checkpoints="1")
    with pytest.raises(ExecutionError) as error:
        job.wait(120)
    assert error.value.code == "SS450"
    assert error.value.diagnostic.message == "an epoch took longer than 1.5 seconds, 2 times in a row"
    record = read_record(LocalStorage(Path(job.checkpoint_path)))
    assert record is not None
    assert (record.status, record.error) == ("FAILED", ("SS450", error.value.diagnostic.message))


def test_a_finished_job_leaves_its_record_alone_where_nothing_is_to_be_retained(session: Session) -> None:
    job = started(session, "SELECT id FROM numbers", externalized_checkpoint_retention="NO_EXTERNALIZED_CHECKPOINTS")
    assert job.wait(60)
    assert not (Path(job.checkpoint_path) / "spark").exists()
    shown = session.sql("DESCRIBE JOB j")
    assert isinstance(shown, Rows)
    described = dict(shown.fetchall())
    assert (described["status"], described["checkpoint"]) == ("FINISHED", f"{job.checkpoint_path} (deleted)")


@pytest.mark.parametrize(("name", "code"), [("sales", "SS414"), ("..", "SS504"), (".", "SS504"), ("../x", "SS504")])
def test_files_of_others_stay_where_a_job_is_to_retain_nothing(session: Session, tmp_path, name, code) -> None:
    theirs = tmp_path / "sales/2024.csv"
    theirs.parent.mkdir()
    theirs.write_text("1,2")
    with pytest.raises(SqlStreamError) as error:
        session.sql(f"SET 'pipeline.name' = '{name}'")
        started(session, "SELECT id FROM numbers", externalized_checkpoint_retention="NO_EXTERNALIZED_CHECKPOINTS")
    assert error.value.code == code
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["sales", "sales/2024.csv"]
