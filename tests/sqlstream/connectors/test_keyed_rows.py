"""Rows of ``memory`` tables by PRIMARY KEY: changes, batches that run again, versions; and a job that updates them."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors.on_spark.keyed_rows import add_version, newest, with_changes
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.udfs.kernel import ROW_KIND


class Batch:
    """What ``add_version`` asks of a micro-batch."""

    def __init__(self, *changes: tuple[Any, ...], kinds: bool = True) -> None:
        ids, values, told = zip(*changes, strict=True) if changes else ((), (), ())
        columns = {"id": pa.array(ids, pa.int32()), "v": pa.array(values, pa.string())}
        self._rows = pa.table(columns | ({ROW_KIND: pa.array(told, pa.string())} if kinds else {}))

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._rows


def rows(folder: Path) -> list[tuple[Any, ...]]:
    version = newest(folder)
    assert version is not None
    emitted_rows = (tuple(row.values()) for row in pq.read_table(version / "rows.parquet").to_pylist())
    return sorted(emitted_rows, key=str)


def replaced(folder: Path, run: str, number: int, *changes: tuple[Any, ...], kinds: bool = True) -> None:
    batch: Any = Batch(*changes, kinds=kinds)
    add_version(folder, ("id",), run, batch, number)


def test_the_last_change_of_a_key_counts(tmp_path: Path) -> None:
    replaced(tmp_path, "r", 0, (1, "a", "+I"), (2, "b", "+I"), (1, "a", "-U"), (1, "c", "+U"), (None, "n", "+I"))
    assert rows(tmp_path) == [(1, "c"), (2, "b"), (None, "n")]
    replaced(tmp_path, "r", 1, (2, None, "-D"), (3, "d", "+I"), (3, "d", "-U"), (None, "m", "+U"))
    assert rows(tmp_path) == [(1, "c"), (None, "m")]


def test_rows_that_are_only_added_replace_each_other_too(tmp_path: Path) -> None:
    replaced(tmp_path, "r", 0, (1, "a", "+I"), (1, "b", "+I"), kinds=False)
    assert rows(tmp_path) == [(1, "b")]


def test_a_batch_that_runs_again_changes_nothing(tmp_path: Path) -> None:
    """Not even where another job has changed its rows since, whose numbers are its own."""
    replaced(tmp_path, "r", 0, (1, "a", "+I"))
    replaced(tmp_path, "other", 0, (1, "b", "+U"))
    replaced(tmp_path, "r", 0, (1, "a", "+I"))
    assert rows(tmp_path) == [(1, "b")]


def test_versions_that_were_just_found_stay(tmp_path: Path) -> None:
    for number in range(3):
        replaced(tmp_path, "r", number, (number, "a", "+I"))
    kept = sorted(path.name for path in (tmp_path / "versions").iterdir())
    assert kept == ["0", "1", "2"]
    for name in kept:
        os.utime(tmp_path / "versions" / name, (0, 0))
    replaced(tmp_path, "r", 3, (3, "a", "+I"))
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["2", "3"]
    assert rows(tmp_path) == [(0, "a"), (1, "a"), (2, "a"), (3, "a")]


def test_keys_may_be_of_several_columns_and_any_plain_type() -> None:
    keys = [("a", pa.decimal128(5, 2), Decimal("1.50")), ("b", pa.timestamp("us", "UTC"), 0), ("c", pa.binary(), b"x")]
    columns = {name: pa.array([value, value], kind) for name, kind, value in keys}
    actual = with_changes(None, pa.table(columns | {"v": [[1], [2]]}), ("a", "b", "c"))
    assert actual["v"].to_pylist() == [[2]]


@pytest.mark.spark
def test_a_job_updates_a_table_that_queries_read(spark, tmp_path: Path) -> None:
    lines = ['{"op": "c", "after": {"id": 1, "v": "a"}}', '{"op": "c", "after": {"id": 2, "v": "a"}}']
    lines.append('{"op": "u", "before": {"id": 2, "v": "a"}, "after": {"id": 2, "v": "b"}}')
    (tmp_path / "changes.json").write_text("\n".join(lines))
    with Session(spark) as session:
        session.sql(f"""CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'filesystem',
            'format' = 'debezium-json', 'path' = '{tmp_path}/changes.json')""")
        session.sql("CREATE TABLE o (v STRING PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'memory')")
        job = session.sql("INSERT INTO o SELECT v, COUNT(*) FROM t GROUP BY v")
        assert isinstance(job, Job)
        assert job.wait(300)
        result = session.sql("SELECT v, n FROM o")
        assert isinstance(result, Query)
        assert sorted(tuple(row) for row in result) == [("a", 1), ("b", 1)]
