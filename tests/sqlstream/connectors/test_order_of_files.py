"""Rows of files arrive in the order of the files, whichever partition of a micro-batch reads them."""

from __future__ import annotations

import os

import pytest

import sqlstream
from sqlstream.query import Query

pytestmark = pytest.mark.spark

NAMES = ("b.csv", "a.csv", "sub/a.csv", "c.csv")
LINES = (3, 40, 1, 11)
OF_ONE_SECOND, APART = (2, 2, 2, 1), (3, 2, 4, 1)
IN_ORDER = ("c.csv", "a.csv", "b.csv", "sub/a.csv")


@pytest.fixture
def folder(tmp_path):
    """Files of different sizes; each line has the name of its file and its number."""
    for name, lines in zip(NAMES, LINES, strict=True):
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"k,{name} {i},{'x' * 10 * lines}\n" for i in range(lines)))
    return tmp_path / "files"


@pytest.mark.parametrize(
    ("partition_bytes", "seconds"), [("128m", OF_ONE_SECOND), ("2000b", OF_ONE_SECOND), ("2000b", APART), ("1k", APART)]
)
def test_count_windows_hold_rows_in_the_order_of_files(partition_bytes, seconds, spark, folder):
    for name, modified in zip(NAMES, seconds, strict=True):
        os.utime(folder / name, (modified, modified))
    lines = dict(zip(NAMES, LINES, strict=True))
    expected = [f"{name} {i}" for name in IN_ORDER for i in range(lines[name])]
    spark.conf.set("spark.sql.files.maxPartitionBytes", partition_bytes)
    try:
        with sqlstream.connect(spark) as session:
            session.sql(
                "CREATE TABLE t (k STRING, v STRING, filler STRING)"
                f" WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')"
            )
            query = session.sql("SELECT k, COLLECT_LIST(v) AS vs FROM t WHERE k <> '' GROUP BY k COUNT WINDOW (5 ROWS)")
            assert isinstance(query, Query)
            collected = [row[1] for row in query]
            batches = query.job.progress().batches
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [v for vs in collected for v in vs] == expected
    assert batches <= 2
