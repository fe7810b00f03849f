"""Directories that hold the rows of a table by PRIMARY KEY: changes, batches that run again, crashes; and jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sqlstream.connectors.files.tables import ROWS
from sqlstream.connectors.on_spark.keyed_rows import epochs_of, is_foreign, replace_file
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.sqlstream.connectors.test_keyed_rows import Batch


def rows(folder: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in pq.read_table(folder).to_pylist())


def replaced(folder: Path, run: str, number: int, *changes: tuple[Any, ...], kinds: bool = True) -> None:
    batch: Any = Batch(*changes, kinds=kinds)
    replace_file(folder, ("id",), run, batch, number)


def test_the_directory_is_the_table(tmp_path: Path) -> None:
    replaced(tmp_path, "r", 0, (1, "a", "+I"), (2, "b", "+I"), (1, "a", "-U"), (1, "c", "+U"))
    assert rows(tmp_path) == [(1, "c"), (2, "b")]
    replaced(tmp_path, "r", 1, (2, None, "-D"), (3, "d", "+I"))
    replaced(tmp_path, "r", 2)
    assert rows(tmp_path) == [(1, "c"), (3, "d")]
    assert [path.name for path in tmp_path.iterdir() if path.name[0] not in "_."] == [ROWS]


def test_a_table_without_rows_is_one_too(tmp_path: Path) -> None:
    replaced(tmp_path, "r", 0, (1, "a", "+I"))
    replaced(tmp_path, "r", 1, (1, "a", "-D"))
    assert rows(tmp_path) == []


def test_a_batch_that_runs_again_changes_nothing(tmp_path: Path) -> None:
    """Not even where another job has changed its rows since, whose numbers are its own."""
    replaced(tmp_path, "r", 0, (1, "a", "+I"))
    replaced(tmp_path, "other", 0, (1, "b", "+U"), kinds=False)
    replaced(tmp_path, "r", 0, (1, "a", "+I"))
    assert rows(tmp_path) == [(1, "b")]
    assert epochs_of(tmp_path) == {"r": 0, "other": 0}


def test_after_a_crash_the_table_is_that_of_a_whole_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(tmp_path, "r", 0, (1, "a", "+I"))

    def crash(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", crash)
        with pytest.raises(OSError, match="no space"):
            replaced(tmp_path, "r", 1, (1, "b", "+U"))
    assert rows(tmp_path) == [(1, "a")]
    replaced(tmp_path, "r", 1, (1, "b", "+U"))
    assert rows(tmp_path) == [(1, "b")]


def test_files_of_others_are_told(tmp_path: Path) -> None:
    assert not is_foreign(tmp_path)
    replaced(tmp_path, "r", 0, (1, "a", "+I"))
    assert not is_foreign(tmp_path)
    (tmp_path / "part-0.parquet").write_bytes((tmp_path / ROWS).read_bytes())
    assert is_foreign(tmp_path)
    (tmp_path / "part-0.parquet").unlink()
    pq.write_table(pq.read_table(tmp_path / ROWS).replace_schema_metadata(), tmp_path / ROWS)
    assert is_foreign(tmp_path)


SOURCE = """CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'debezium-json',
    'path' = '{0}/in')"""
COUNTS = """CREATE TABLE o (v STRING, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) WITH ('connector' = 'filesystem',
    'format' = 'parquet', 'path' = '{0}/out')"""
INSERT = "INSERT INTO o SELECT v, COUNT(*) FROM t GROUP BY v"


def write_changes(folder: Path, name: str, *changes: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("\n".join(changes))


def run(session: Session, *scripts: str) -> None:
    for script in scripts[:-1]:
        session.sql(script)
    job = session.sql(scripts[-1])
    assert isinstance(job, Job)
    assert job.wait(300)


@pytest.mark.spark
def test_a_job_keeps_the_counts_of_now_and_goes_on(spark: Any, tmp_path: Path) -> None:
    scripts = [text.format(tmp_path) for text in (SOURCE, COUNTS, INSERT)]
    checkpoints = f"SET 'execution.checkpointing.dir' = '{tmp_path}/jobs'"
    old, new = '{"id": 2, "v": "a"}', '{"id": 2, "v": "b"}'
    write_changes(tmp_path, "1.json", '{"op": "c", "after": {"id": 1, "v": "a"}}', f'{{"op": "c", "after": {old}}}')
    with Session(spark) as session:
        run(session, checkpoints, "SET 'pipeline.name' = 'counts'", *scripts)
    assert rows(tmp_path / "out") == [("a", 2)]
    write_changes(tmp_path, "2.json", f'{{"op": "u", "before": {old}, "after": {new}}}')
    with Session(spark) as session:
        run(session, checkpoints, "SET 'pipeline.name' = 'counts'", *scripts)
        assert rows(tmp_path / "out") == [("a", 1), ("b", 1)]
        found = session.sql("SELECT v, n FROM o ORDER BY v")
        assert isinstance(found, Query)
        assert [tuple(row) for row in found] == [("a", 1), ("b", 1)]
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect())) == [("a", 1), ("b", 1)]


@pytest.mark.spark
def test_files_of_others_are_left_alone(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    write_changes(tmp_path, "1.json", '{"op": "c", "after": {"id": 1, "v": "a"}}')
    with Session(spark) as session:
        session.sql(SOURCE.format(tmp_path))
        session.sql(COUNTS.format(tmp_path))
        with pytest.raises(SqlStreamError, match=r"SS508: .* is not an empty directory"):
            session.sql(INSERT)
