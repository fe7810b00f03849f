"""The exchange reads Parquet files itself where it can, and with the same results as Spark."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlstream
from sqlstream.errors import ExecutionError
from sqlstream.jobs import Job
from sqlstream.udfs.files.splits import SHARE
from tests.depth import usually

pytestmark = pytest.mark.spark

ROWS = 30_000
TABLE = """
CREATE TABLE bids (auction BIGINT, channel STRING, price DOUBLE, at TIMESTAMP, day DATE,
    WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet', 'source.max-files-per-trigger' = '2',
    'parquet.missing-columns' = 'null')
"""
READ_BY_EXCHANGE = [
    "SELECT auction, COUNT(*), SUM(price) AS total FROM bids GROUP BY auction, TUMBLE(at, INTERVAL '2' SECOND)",
    "SELECT channel AS c, MAX(at) AS newest, MIN(day) FROM bids GROUP BY channel, SESSION(at, INTERVAL '0.05' SECOND)",
    "SELECT channel, COLLECT_LIST(price) AS prices FROM bids GROUP BY channel COUNT WINDOW (700 ROWS)",
    "SELECT c, COUNT(x) AS n FROM (SELECT channel AS c, price AS x, at AS t FROM bids) AS b"
    " GROUP BY c, HOP(t, INTERVAL '1' SECOND, INTERVAL '2' SECOND)",
    "SELECT COUNT(*), MAX(price) AS dearest FROM bids GROUP BY TUMBLE(at, INTERVAL '1' SECOND)",
    "SELECT auction, channel, LAST_VALUE(price) AS p FROM bids GROUP BY auction, channel GLOBAL WINDOW"
    " TRIGGER EVERY 10 ROWS",
]
READ_BY_SPARK = [
    "SELECT auction, COUNT(*) FROM bids WHERE price > 10 GROUP BY auction, TUMBLE(at, INTERVAL '2' SECOND)",
    "SELECT auction, SUM(price * 2) AS s FROM bids GROUP BY auction, TUMBLE(at, INTERVAL '2' SECOND)",
    "SELECT price, COUNT(*) FROM bids GROUP BY price, TUMBLE(at, INTERVAL '2' SECOND)",
    "SELECT auction, price FROM bids WHERE price > 99",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of many row groups, one of them with names in capitals and without a day."""
    path = tmp_path_factory.mktemp("bids") / "all of 100 %20+ü"
    path.mkdir()
    random = np.random.default_rng(7)
    for number in range(3):
        elapsed = np.arange(number * ROWS, (number + 1) * ROWS) * 300
        at = 1_700_000_000_000_000 + elapsed - random.integers(0, 10**6, ROWS)
        table = pa.table({
            "auction": random.integers(0, 20, ROWS),
            "channel": [(None, "web", "shop", "é")[i] for i in random.integers(0, 4, ROWS)],
            "price": random.integers(0, 10_000, ROWS) / 100,
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "day": pa.array(np.arange(ROWS) % 9, pa.int32()).cast(pa.date32()),
        })  # fmt: skip
        if number == 1:
            table = table.drop_columns(["day"]).rename_columns(["AUCTION", "CHANNEL", "PRICE", "AT"])
        pq.write_table(table, path / f"{number}.parquet", row_group_size=7_000)
        os.utime(path / f"{number}.parquet", (number, number))
    return path


@pytest.fixture
def session(spark, folder):
    with sqlstream.connect(spark) as session:
        session.sql(TABLE.format(path=folder))
        yield session


def is_read_by_exchange(session, query):
    return SHARE in session.dataframe(query)._jdf.queryExecution().analyzed().toString()


@pytest.mark.parametrize("query", READ_BY_EXCHANGE)
def test_the_exchange_reads_columns_that_are_no_expressions(query, session):
    assert is_read_by_exchange(session, query)
    session.sql("SET 'sqlstream.file-reader' = 'spark'")
    assert not is_read_by_exchange(session, query)


@pytest.mark.parametrize("query", READ_BY_SPARK)
def test_spark_reads_what_expressions_need(query, session):
    assert not is_read_by_exchange(session, query)


@pytest.mark.parametrize("query", [*READ_BY_EXCHANGE[::2], *READ_BY_SPARK])
def test_explain_physical_names_the_reader_that_runs(query, session):
    spark_plan = str(session.sql(f"EXPLAIN SPARK {query}"))
    printed = str(session.sql(f"EXPLAIN PHYSICAL {query}"))
    by_exchange = SHARE in spark_plan
    assert by_exchange == (query in READ_BY_EXCHANGE)
    assert ("Spark lists the files, the exchange above reads their columns" in printed) == by_exchange
    assert ('stream of connector "filesystem"' in printed) != by_exchange
    assert ("projection" in printed.split(", kernel ")[-1]) <= (not by_exchange)
    # Rows unite with control rows, and part from them, where no exchange tells the watermark of its blobs.
    assert ("union with the control rows" in printed) == ("__live" in spark_plan)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ("k BIGINT, v BIGINT", {"format": "orc"}),
        ("k BIGINT, v BIGINT", {"partition-by": "k"}),
        ("k BIGINT, v STRING METADATA FROM 'file.name'", {}),
        ("k BIGINT, v ARRAY<INT>", {}),
    ],
)
def test_spark_reads_what_only_spark_can(columns, options, session, folder, tmp_path):
    missing = {"parquet.missing-columns": "null"} if "format" not in options else {}
    path = tmp_path if options.keys() & {"format", "partition-by"} else folder
    if "partition-by" in options:
        shutil.copytree(folder, tmp_path / "k=1")
    given = {"connector": "filesystem", "path": str(path), "format": "parquet"} | missing | options
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE TABLE t ({columns}) WITH ({listed})")
    query = "SELECT k, COUNT(v) AS n FROM t GROUP BY k COUNT WINDOW (10 ROWS)"
    assert not is_read_by_exchange(session, query)


@pytest.mark.parametrize("query", usually(READ_BY_EXCHANGE, READ_BY_EXCHANGE[2]))
def test_both_readers_find_the_same(query, session):
    collected = {}
    for reader in ("auto", "spark"):
        session.sql(f"SET 'sqlstream.file-reader' = '{reader}'")
        collected[reader] = sorted(map(repr, session.sql(query)))
    assert collected["auto"] == collected["spark"]
    assert collected["auto"]


@pytest.mark.long
def test_tasks_share_the_rows_of_a_micro_batch_which_progress_counts(session, folder):
    session.sql("SET 'parallelism.default' = '3'")
    session.sql("CREATE TABLE totals (auction BIGINT, n BIGINT) WITH ('connector' = 'memory')")
    job = session.sql(f"INSERT INTO totals {READ_BY_EXCHANGE[0].replace(', SUM(price) AS total', '')}")
    job.wait()
    assert job.progress().rows_in == 3 * ROWS
    assert sum(n for (n,) in session.sql("SELECT n FROM totals")) == 3 * ROWS


def test_a_checkpoint_may_be_gone_on_from_with_other_shares(spark, folder, tmp_path):
    """Of files that are larger, in more tasks, and of a directory that is watched no more."""
    script = f"""
    SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
    SET 'execution.end-of-input' = 'final';
    CREATE TABLE totals (auction BIGINT, n BIGINT)
        WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/out');
    """
    query = READ_BY_EXCHANGE[0].replace(", SUM(price) AS total", "")
    watching = TABLE.replace("'null')", "'null', 'source.monitor-interval' = '100 ms')")
    (tmp_path / "in").mkdir()
    for number, (table, tasks) in enumerate([(watching, 3), (TABLE, 2)]):
        shutil.copy(folder / f"{2 * number}.parquet", tmp_path / "in")
        with sqlstream.connect(spark, **{"parallelism.default": str(tasks)}) as session:
            session.sql(script + table.format(path=tmp_path / "in"))
            job = session.sql(f"INSERT INTO totals {query}")
            assert isinstance(job, Job)
            if table is watching:
                job.checkpoint()
                job.stop()
            job.wait()
    assert pq.read_table(tmp_path / "out")["n"].to_pylist()
    assert sum(pq.read_table(tmp_path / "out")["n"].to_pylist()) == 2 * ROWS


def test_a_null_time_stops_the_job_as_it_does_where_spark_reads(session, folder, tmp_path):
    table = pa.table({"auction": [1, 2], "at": pa.array([0, None], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "1.parquet")
    session.sql(TABLE.format(path=tmp_path).replace("TABLE bids", "TABLE empty"))
    with pytest.raises(ExecutionError, match='SS401: event time "at" of table "empty" is NULL'):
        session.sql("SELECT auction, COUNT(*) FROM empty GROUP BY auction, TUMBLE(at, INTERVAL '2' SECOND)").fetchall()
