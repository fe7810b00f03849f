"""What statements do to rows: INSERT … PARTITION and OVERWRITE, TRUNCATE, tables that are replaced, renamed and made of
queries, and Spark's own tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark, tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales/a.json").write_text('{"id": 1, "amount": 5}\n{"id": 2, "amount": 7}\n')
    with LocalSession({"table.dml-sync": "true"}) as own_session:
        own_session.sql(
            "CREATE TABLE sales (id BIGINT, amount INT) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/sales', 'format' = 'json'); "
            "CREATE TABLE days (id BIGINT, day STRING, amount INT) PARTITIONED BY (day) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/days', 'format' = 'parquet')"
        )
        yield own_session


def done(session: Session, text: str) -> None:
    result = session.sql(text)
    if isinstance(result, Job):
        assert result.wait()


def rows(session: Session, text: str) -> list[tuple]:
    result = session.sql(text)
    assert not isinstance(result, Job)
    return sorted(result.fetchall()) if isinstance(result, Query) else result.fetchall()


def test_a_partition_of_insert_is_a_column_of_its_rows(session: Session) -> None:
    done(session, "INSERT INTO days PARTITION (day = 'mon day') SELECT id, amount FROM sales")
    assert rows(session, "SELECT * FROM days") == [(1, "mon day", 5), (2, "mon day", 7)]
    assert rows(session, "SHOW PARTITIONS days") == [("day=mon%20day",)] or rows(session, "SHOW PARTITIONS days") == [
        ("day=mon day",)
    ]
    assert len(rows(session, "SHOW PARTITIONS days PARTITION (day = 'mon day')")) == 1
    assert rows(session, "SHOW PARTITIONS days PARTITION (day = 'tue')") == []


def test_rows_go_with_a_dropped_partition_but_for_those_that_a_job_counts(session: Session, tmp_path: Path) -> None:
    session.sql("ALTER TABLE days ADD PARTITION (day = 'a:b')")
    done(session, "INSERT INTO days SELECT id, IF(id = 1, 'a:b', 'tue'), amount FROM sales")
    session.sql("ALTER TABLE days ADD PARTITION (day = 'wed'); ALTER TABLE days DROP PARTITION (day = 'wed')")
    with pytest.raises(SqlStreamError, match=r"SS434.*holds files that a job counts"):
        session.sql("ALTER TABLE days DROP PARTITION (day = 'a:b')")
    done(session, "INSERT OVERWRITE days PARTITION (day = 'a:b') SELECT id, amount FROM sales WHERE FALSE")
    assert rows(session, "SELECT * FROM days") == [(2, "tue", 7)]
    for log in (tmp_path / "days/_spark_metadata").iterdir():
        log.unlink()
    (tmp_path / "days/_spark_metadata").rmdir()
    session.sql("ALTER TABLE days DROP PARTITION (day = 'tue')")
    assert rows(session, "SELECT COUNT(*) FROM days") == [(0,)]


def test_a_partition_goes_with_columns_and_set_operations(session: Session) -> None:
    text = "INSERT INTO days PARTITION (day = 'x') (amount, id) SELECT amount, id FROM sales UNION ALL SELECT 9, 3"
    done(session, text)
    assert rows(session, "SELECT id, day, amount FROM days") == [(1, "x", 5), (2, "x", 7), (3, "x", 9)]


def test_overwritten_rows_are_gone_even_where_the_query_reads_them(session: Session) -> None:
    done(session, "INSERT INTO days SELECT id, 'a', amount FROM sales")
    done(session, "INSERT OVERWRITE days SELECT id + 10, day, SUM(amount) FROM days WHERE id = 2 GROUP BY id, day")
    assert rows(session, "SELECT * FROM days") == [(12, "a", 7)]
    done(session, "TRUNCATE TABLE days")
    assert rows(session, "SELECT * FROM days") == []
    done(session, "INSERT INTO days SELECT id, 'b', amount FROM sales")
    assert len(rows(session, "SELECT * FROM days")) == 2


def test_an_overwritten_partition_leaves_the_others(session: Session) -> None:
    both = "SELECT id, 'a', amount FROM sales UNION ALL SELECT id, 'b 1', amount FROM sales"
    done(session, "INSERT OVERWRITE days PARTITION (day = 'b 1') SELECT id, amount FROM sales")
    assert len(rows(session, "SELECT id FROM days")) == 2
    done(session, f"INSERT OVERWRITE days {both}")
    done(session, "INSERT OVERWRITE days PARTITION (day = 'b 1') SELECT id + 10, amount FROM days WHERE id = 1")
    assert rows(session, "SELECT id, day FROM days") == [(1, "a"), (2, "a"), (11, "b 1"), (11, "b 1")]
    done(session, "INSERT OVERWRITE days PARTITION (day = 'c') VALUES (5, 6)")
    assert rows(session, "SELECT id, day FROM days WHERE day <> 'a'") == [(5, "c"), (11, "b 1"), (11, "b 1")]


def test_what_is_thrown_away_may_have_partitions_and_be_emptied(session: Session) -> None:
    session.sql(
        "CREATE TABLE nowhere (id BIGINT, day STRING, amount INT) PARTITIONED BY (day) WITH ('connector' = 'blackhole')"
    )
    done(session, "INSERT INTO nowhere PARTITION (day = 'a') (id) SELECT id FROM sales")
    done(session, "INSERT OVERWRITE nowhere SELECT 1, 'b', 2")
    done(session, "TRUNCATE TABLE nowhere")


def test_rows_in_memory_are_renamed_replaced_and_truncated_with_their_table(session: Session) -> None:
    done(session, "CREATE TABLE kept WITH ('connector' = 'memory') AS SELECT id FROM sales")
    done(session, "ALTER TABLE kept RENAME TO moved")
    assert rows(session, "SELECT id FROM moved") == [(1,), (2,)]
    done(session, "INSERT OVERWRITE moved SELECT 5")
    assert rows(session, "SELECT id FROM moved") == [(5,)]
    done(session, "CREATE OR REPLACE TABLE moved WITH ('connector' = 'memory') AS SELECT amount, id FROM sales")
    assert rows(session, "SELECT * FROM moved") == [(5, 1), (7, 2)]
    done(session, "TRUNCATE TABLE moved")
    assert rows(session, "SELECT * FROM moved") == []


def test_created_as_with_columns_fills_those_of_the_query(session: Session) -> None:
    done(
        session,
        "CREATE TABLE t (note STRING, amount DOUBLE, twice AS amount * 2) WITH ('connector' = 'memory') "
        "AS SELECT id, amount FROM sales",
    )
    assert rows(session, "SELECT * FROM t WHERE id = 2") == [(None, 7.0, 14.0, 2)]
    done(session, "CREATE TABLE u (amount, id) WITH ('connector' = 'memory') AS SELECT id, amount FROM sales")
    assert rows(session, "SELECT * FROM u") == [(5, 1), (7, 2)]


def test_batches_and_streams_read_views_of_other_databases(session: Session) -> None:
    done(
        session,
        "CREATE CATALOG c WITH ('type' = 'memory'); CREATE DATABASE c.d; CREATE VIEW big AS SELECT * FROM sales "
        "WHERE amount > 5; CREATE VIEW c.d.v AS SELECT id FROM big; USE c.d; CREATE TABLE sales (x INT) "
        "WITH ('connector' = 'memory')",
    )
    assert rows(session, "SELECT id FROM v") == [(2,)]
    assert rows(session, "SELECT COUNT(*) FROM v") == [(1,)]
    done(session, "INSERT INTO sales SELECT CAST(COUNT(*) AS INT) FROM v")
    assert rows(session, "SELECT x FROM sales") == [(1,)]


def test_tables_of_spark_are_read_and_written(session: Session) -> None:
    session.spark.sql("CREATE DATABASE IF NOT EXISTS shown")
    session.spark.sql("CREATE TABLE shown.st (id BIGINT, amount INT) USING parquet")
    try:
        session.spark.sql("INSERT INTO shown.st VALUES (5, 6)")
        session.sql("CREATE CATALOG own WITH ('type' = 'spark', 'default-database' = 'shown'); USE CATALOG own")
        assert rows(session, "SHOW TABLES") == [("st",)]
        assert rows(session, "SELECT * FROM st") == [(5, 6)]
        done(session, "INSERT INTO st SELECT id, amount FROM default_catalog.default_database.sales")
        assert rows(session, "SELECT COUNT(*), SUM(amount) FROM own.shown.st") == [(3, 18)]
        assert [tuple(r) for r in session.spark.table("shown.st").orderBy("id").collect()] == [(1, 5), (2, 7), (5, 6)]
    finally:
        session.spark.sql("DROP DATABASE shown CASCADE")


def test_tables_of_a_database_are_read_as_finished_data(session: Session, tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "shop.duckdb")) as database:
        database.execute("CREATE TABLE items AS SELECT 2 AS id, 'two' AS name")
    session.sql(f"CREATE CATALOG duck WITH ('type' = 'duckdb', 'path' = '{tmp_path}/shop.duckdb')")
    assert rows(session, "SELECT s.id, i.name FROM sales AS s JOIN duck.main.items AS i ON i.id = s.id") == [(2, "two")]
