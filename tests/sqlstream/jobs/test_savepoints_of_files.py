"""Jobs that read files go on from their checkpoints and from savepoints with each file once, however many there are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors.on_spark import file_source
from sqlstream.jobs import Job
from sqlstream.session import Session

pytestmark = pytest.mark.spark

STATEMENTS = {
    "a union": "INSERT INTO o SELECT id FROM a UNION ALL SELECT id FROM b",
    "a statement set": "EXECUTE STATEMENT SET BEGIN INSERT INTO other SELECT id FROM a; "
    "INSERT INTO o SELECT id FROM a UNION ALL SELECT id FROM b; END",
}


def put(folder: Path, *ids: int) -> None:
    """Each in a file of its own."""
    folder.mkdir(exist_ok=True)
    for id in ids:  # noqa: A001
        hidden = folder / f".{id}"
        pq.write_table(pa.table({"id": pa.array([id], pa.int64())}), hidden)
        os.utime(hidden, (id + 1, id + 1))
        hidden.rename(folder / f"{id}.parquet")


@contextmanager
def taking(
    spark: Any, folder: Path, statement: str, checkpoint: str, savepoint: str | None = None, watched: bool = True
) -> Iterator[Job]:
    """A job that writes into ``out-CHECKPOINT``."""
    options = "'connector' = 'filesystem', 'format' = 'parquet', 'source.max-files-per-trigger' = '1'"
    options += ", 'source.monitor-interval' = '50 ms'" if watched else ""
    with Session(spark) as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{folder}/{checkpoint}'; SET 'pipeline.name' = 'taking'")
        if savepoint is not None:
            session.sql(f"SET 'execution.state-recovery.path' = '{savepoint}'")
        session.sql(f"""
            CREATE TABLE a (id BIGINT) WITH ({options}, 'path' = '{folder}/a');
            CREATE TABLE b (id BIGINT) WITH ({options}, 'path' = '{folder}/b');
            CREATE TABLE other (id BIGINT) WITH ('connector' = 'blackhole');
            CREATE TABLE o (id BIGINT)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/out-{checkpoint}')""")
        job = session.sql(statement)
        assert isinstance(job, Job)
        yield job
        job.stop()


def written(folder: Path) -> list[int]:
    return sorted(json.loads(line)["id"] for path in folder.rglob("part-*") for line in path.read_text().splitlines())


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_table_with_more_micro_batches_than_the_one_before_it_goes_on(
    statement: str, spark: Any, tmp_path: Path
) -> None:
    put(tmp_path / "a", 1)
    put(tmp_path / "b", 10, 11, 12)
    with taking(spark, tmp_path, STATEMENTS[statement], "first") as job:
        job.checkpoint()
        while len(written(tmp_path / "out-first")) < 4:
            job.checkpoint()
        savepoint = job.savepoint(f"{tmp_path}/savepoint")
        put(tmp_path / "b", 13)
        job.checkpoint()
    assert written(tmp_path / "out-first") == [1, 10, 11, 12, 13]
    put(tmp_path / "a", 2)
    with taking(spark, tmp_path, STATEMENTS[statement], "first") as job:
        while len(written(tmp_path / "out-first")) < 6:
            job.checkpoint()
    assert written(tmp_path / "out-first") == [1, 2, 10, 11, 12, 13]
    with taking(spark, tmp_path, STATEMENTS[statement], "second", savepoint) as job:
        while len(written(tmp_path / "out-second")) < 2:
            job.checkpoint()
    assert written(tmp_path / "out-second") == [2, 13]


def test_files_may_become_more_than_are_known_at_the_start(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From so many on, each is looked into when it is read; that is no other source to the checkpoint."""
    monkeypatch.setattr(file_source, "MOST_FILES", 2)
    put(tmp_path / "a", 1, 2)
    put(tmp_path / "b", 10)
    for more in ((), (3, 4)):
        put(tmp_path / "a", *more)
        with taking(spark, tmp_path, STATEMENTS["a union"], "first", watched=False) as job:
            job.wait(300)
    assert written(tmp_path / "out-first") == [1, 2, 3, 4, 10]
