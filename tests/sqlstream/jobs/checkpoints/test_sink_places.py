"""The places where a job has written, over its starts; and sinks and checkpoints that are gone, end to end."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import Environment
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_script
from sqlstream.jobs import Job
from sqlstream.jobs.checkpoints.own_files import SINKS_FILE, require_sinks_intact
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.plans import plan_of
from sqlstream.session import Session
from sqlstream.udfs.files.sink_log import begin_after

NO_SPARK: Any = None


def started(storage: LocalStorage, out: Path, after: int | None, *, resumed: bool = True) -> dict[str, Any]:
    """What is known of the places after another start, which writes to ``out``."""
    session = Session()
    session.sql(f"""
        CREATE TABLE s (v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
        CREATE TABLE t (v INT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json')""")
    (statement,) = parse_script("INSERT INTO t SELECT v FROM s")
    plan: Any = plan_of(statement, session.workspace)  # type: ignore[arg-type]
    environment = Environment(NO_SPARK, storage.root, resumed=resumed, after=after)
    require_sinks_intact(environment, plan, storage)
    if after is not None:
        begin_after(out, after)  # as the sink does when it starts
    document: dict[str, Any] = json.loads(storage.read(SINKS_FILE) or "{}")
    return {key.rpartition("/")[2]: (stay["since"], stay["until"]) for key, stay in document.items()}


def test_a_job_may_go_elsewhere_and_come_back(tmp_path: Path) -> None:
    storage, a, b = LocalStorage(tmp_path / "job"), tmp_path / "a", tmp_path / "b"
    assert started(storage, a, None, resumed=False) == {"a": (-1, None)}
    begin_after(a, 4)
    assert started(storage, a, 4) == {"a": (-1, None)}
    begin_after(a, 7)
    assert started(storage, b, 7) == {"a": (-1, 7), "b": (7, None)}
    begin_after(b, 25)
    assert started(storage, a, 25) == {"a": (-1, None), "b": (7, 25)}


def test_a_place_where_another_job_has_written_is_refused_at_each_start(tmp_path: Path) -> None:
    storage, theirs = LocalStorage(tmp_path / "job"), tmp_path / "theirs"
    started(storage, tmp_path / "a", None, resumed=False)
    begin_after(theirs, 9)
    for _ in range(2):
        with pytest.raises(SqlStreamError, match="SS508"):
            started(storage, theirs, 4)


def test_the_log_of_a_job_that_began_before_places_were_told_is_taken(tmp_path: Path) -> None:
    storage, a = LocalStorage(tmp_path / "job"), tmp_path / "a"
    begin_after(a, 4)
    assert started(storage, a, 4) == {"a": (4, None)}


@pytest.mark.parametrize("text", ["", "[]", '{"a": {"since": 1, "x": 2}}', '{"a": 7}'])
def test_places_that_cannot_be_read_are_damaged(tmp_path: Path, text: str) -> None:
    storage = LocalStorage(tmp_path / "job")
    storage.write(SINKS_FILE, text)
    with pytest.raises(SqlStreamError, match=r"SS459: file .*/sinks.json"):
        started(storage, tmp_path / "a", 4)


@pytest.mark.spark
def test_what_is_gone_of_a_jobs_table_or_checkpoint_is_told_and_all_rows_stay(spark, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    out, job = tmp_path / "out", tmp_path / "jobs/j"

    def run(value: int) -> None:
        (tmp_path / f"in/{value}.json").write_text(f'{{"v": {value}}}')
        with Session(spark) as session:
            session.sql(f"""
                SET 'execution.checkpointing.dir' = '{tmp_path}/jobs'; SET 'pipeline.name' = 'j';
                SET 'table.dml-sync' = 'true';
                CREATE TABLE s (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'json');
                CREATE TABLE t (v INT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json');
                INSERT INTO t SELECT v FROM s""")

    def rows() -> set[int]:
        return {row.v for row in spark.read.schema("v INT").json(str(out)).collect()}

    def refused(gone: Path, code: str, named: str) -> None:
        kept = tmp_path / "kept"
        gone.rename(kept)
        for _ in range(2):
            with pytest.raises(SqlStreamError) as error:
                run(2)
            assert error.value.code == code
            assert named in error.value.diagnostic.message
        if gone.is_dir():
            shutil.rmtree(gone)
        kept.rename(gone)

    run(1)
    refused(out / "_spark_metadata", "SS420", "_spark_metadata")
    refused(out, "SS420", "_spark_metadata")
    refused(job / "spark", "SS459", "spark/metadata")
    refused(job / "spark/offsets", "SS459", "spark/offsets")
    refused(job / "run.txt", "SS459", "run.txt")
    refused(job / "layout.json", "SS459", "layout.json")
    run(3)
    assert rows() == {1, 2, 3}


@pytest.mark.spark
def test_a_running_job_whose_log_goes_fails_before_more_rows_come(spark, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Session(spark) as session:
        job = session.sql(f"""
            SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.attempts' = '9';
            CREATE TABLE s (value BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '10');
            CREATE TABLE t (value BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json');
            INSERT INTO t SELECT value FROM s""")
        assert isinstance(job, Job)
        end = time.monotonic() + 60
        while job.progress().batches < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
        (out / "_spark_metadata").rename(tmp_path / "kept")
        with pytest.raises(SqlStreamError, match=r"SS420: .*_spark_metadata") as error:
            job.wait(60)
        assert "another, empty directory" in (error.value.diagnostic.hint or "")
