"""Jobs that write into PostgreSQL: each row once, also where a batch runs again after a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from tests.postgres_server import PASSWORD, PostgresServer

pytestmark = pytest.mark.spark

COUNTS = """
    INSERT INTO counts SELECT window_start, k, COUNT(*) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)
    GROUP BY window_start, window_end, k EMIT CHANGES"""


@pytest.fixture
def server(postgres_server: PostgresServer, monkeypatch) -> Iterator[PostgresServer]:
    monkeypatch.setenv("TEST_PG_PASSWORD", PASSWORD)
    yield postgres_server
    postgres_server.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def run(spark, server, tmp_path: Path):
    """Runs the INSERT to its end in a session of its own, as a job that is started again does."""
    events = f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/events',
              'source.max-files-per-trigger' = '1')"""
    (tmp_path / "events").mkdir()

    def to_the_end(columns: str, insert: str, table: str = "counts") -> None:
        url = server.options["url"]
        sink = f"""CREATE TABLE {table} ({columns}) WITH ('connector' = 'jdbc', 'url' = 'jdbc:{url}',
            'username' = 'postgres', 'password' = '${{TEST_PG_PASSWORD}}', 'table-name' = '{table}',
            'create-table' = 'true')"""
        with sqlstream.connect(spark) as session:
            session.sql(f"{events}; {sink}")
            job = session.sql(insert)
            assert isinstance(job, Job)
            job.wait()

    return to_the_end


def write(tmp_path: Path, number: int, *lines: str) -> None:
    path = tmp_path / "events" / f"{number}.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (number, number))  # Spark reads files in this order


def forget_last_commit(checkpoint: Path) -> int:
    """What a crash leaves between the commit in the database and that of the job; the number of the batch."""
    commits = checkpoint / "spark" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    return last


def test_a_job_that_is_started_again_writes_each_row_once(run, server, tmp_path) -> None:
    columns, insert = "k STRING, v INT, ts TIMESTAMP(3)", "INSERT INTO copied SELECT k, v, ts FROM events"
    write(tmp_path, 1, "a,1,2024-01-01 00:00:01", "b,,2024-01-01 00:00:02.5")
    run(columns, insert, "copied")
    write(tmp_path, 2, "c,3,2024-01-01 00:00:03")
    run(columns, insert, "copied")
    last = forget_last_commit(tmp_path / "checkpoints" / "insert_into_copied")
    run(columns, insert, "copied")
    actual = server.rows("SELECT k, v, ts AT TIME ZONE 'UTC' = '2024-01-01 00:00:02.5' FROM copied ORDER BY k")
    assert actual == [("a", 1, False), ("b", None, True), ("c", 3, False)]
    assert server.rows("SELECT job, epoch FROM sqlstream_epochs") == [("insert_into_copied", last)]
    assert server.rows("SELECT 1 FROM pg_class WHERE relname LIKE 'sqlstream_staging%'") == []


def test_updates_replace_rows_by_key_also_when_their_batch_runs_again(run, server, tmp_path) -> None:
    columns = "start TIMESTAMP(3), k STRING, n BIGINT, PRIMARY KEY (start, k) NOT ENFORCED"
    write(tmp_path, 1, "a,1,2024-01-01 00:00:01", "b,2,2024-01-01 00:00:02", "a,1,2024-01-01 00:00:03")
    write(tmp_path, 2, "a,3,2024-01-01 00:00:04", "a,4,2024-01-01 00:00:11")
    run(columns, COUNTS)
    expected = [(1, "a", 3), (1, "b", 1), (11, "a", 1)]
    counts = "SELECT extract(second FROM start)::int + 1, k, n FROM counts ORDER BY 1, 2"
    assert server.rows(counts) == expected
    forget_last_commit(tmp_path / "checkpoints" / "insert_into_counts")
    run(columns, COUNTS)
    assert server.rows(counts) == expected


@pytest.mark.parametrize("gone", ["DROP TABLE sqlstream_epochs", "DELETE FROM sqlstream_epochs"])
def test_a_job_whose_epochs_are_gone_writes_no_row_twice(gone: str, run, server, tmp_path) -> None:
    columns, insert = "k STRING", "INSERT INTO copied SELECT k FROM events"
    write(tmp_path, 1, "a,1,2024-01-01 00:00:01")
    run(columns, insert, "copied")
    if gone.startswith("DELETE"):
        write(tmp_path, 2, "b,1,2024-01-01 00:00:01")
        run(columns, insert, "copied")
    rows = server.rows("SELECT k FROM copied ORDER BY k")
    server.execute("CREATE TABLE kept AS SELECT * FROM sqlstream_epochs", gone)
    forget_last_commit(tmp_path / "checkpoints" / "insert_into_copied")
    write(tmp_path, 3, "c,1,2024-01-01 00:00:01")
    run_again = partial(run, columns, insert, "copied")
    with pytest.raises(SqlStreamError, match=r"SS569: table .*sqlstream_epochs.* does not tell which micro-batches"):
        run_again()
    assert server.rows("SELECT k FROM copied ORDER BY k") == rows
    server.execute("DROP TABLE IF EXISTS sqlstream_epochs", "ALTER TABLE kept RENAME TO sqlstream_epochs",
                   "ALTER TABLE sqlstream_epochs ADD PRIMARY KEY (run, target)")  # fmt: skip
    run_again()
    assert server.rows("SELECT k FROM copied ORDER BY k") == [*rows, ("c",)]


def test_with_a_key_a_job_goes_on_without_its_epochs(run, server, tmp_path) -> None:
    columns, insert = "k STRING, PRIMARY KEY (k) NOT ENFORCED", "INSERT INTO copied SELECT k FROM events"
    for number, key in enumerate("ab"):
        write(tmp_path, number + 1, f"{key},1,2024-01-01 00:00:01")
        run(columns, insert, "copied")
        server.execute("DROP TABLE sqlstream_epochs")
    assert server.rows("SELECT k FROM copied ORDER BY k") == [("a",), ("b",)]


def test_without_a_checkpoint_of_its_own_a_job_writes_again(run, server, tmp_path) -> None:
    columns, insert = "k STRING", "INSERT INTO copied SELECT k FROM events"
    write(tmp_path, 1, "a,1,2024-01-01 00:00:01")
    run(columns, insert, "copied")
    (tmp_path / "checkpoints").rename(tmp_path / "old")
    run(columns, insert, "copied")
    assert server.rows("SELECT k FROM copied") == [("a",), ("a",)]


def test_a_row_that_the_database_refuses_fails_the_job_in_its_words(run, server, tmp_path) -> None:
    server.execute("CREATE TABLE copied (k TEXT CHECK (k <> 'b'))")
    write(tmp_path, 1, "a,1,2024-01-01 00:00:01", "b,1,2024-01-01 00:00:01")
    with pytest.raises(SqlStreamError, match=r'SS567: table "copied": PostgreSQL says: .* violates check') as caught:
        run("k STRING", "INSERT INTO copied SELECT k FROM events", "copied")
    assert PASSWORD not in str(caught.value)
    assert server.rows("SELECT * FROM copied") == []


def test_updates_without_a_key_are_refused(run, tmp_path) -> None:
    with pytest.raises(SqlStreamError, match='SS510: table "counts" takes inserted rows only'):
        run("start TIMESTAMP(3), k STRING, n BIGINT", COUNTS)


def test_a_stream_looks_rows_up_and_writes_what_it_found(spark, server, tmp_path) -> None:
    server.execute(
        "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT, level INT)",
        "INSERT INTO customers VALUES (1, 'Ann', 2), (2, 'Bob', 1), (4, 'Eve', 3)",
        "CREATE TABLE found (ref INT, name TEXT)",
    )
    (tmp_path / "orders").write_text("10,1\n11,2\n12,3\n13,4\n14,1\n15,\n")
    options = f"""'connector' = 'postgres', 'url' = '{server.options["url"]}', 'username' = 'postgres',
        'password' = '${{TEST_PG_PASSWORD}}'"""
    with sqlstream.connect(spark) as session:
        session.sql(f"""
            CREATE TABLE orders (ref INT, customer INT, pt AS PROCTIME())
            WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/orders');
            CREATE TABLE customers (id INT, name STRING, level INT) WITH ({options}, 'table-name' = 'customers');
            CREATE TABLE found (ref INT, name STRING) WITH ({options}, 'table-name' = 'found')""")
        insert = """INSERT INTO found SELECT o.ref, c.name FROM orders AS o
            LEFT JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c LOOKUP ASYNC (BATCH 3, CACHE 10 ROWS)
            ON c.id = o.customer AND c.level > 1"""
        assert "level > 1" in session.explain(insert)
        job = session.sql(insert)
        assert isinstance(job, Job)
        job.wait()
    expected = [(10, "Ann"), (11, None), (12, None), (13, "Eve"), (14, "Ann"), (15, None)]
    assert server.rows("SELECT * FROM found ORDER BY ref") == expected


def test_a_table_is_read_whole_by_a_query_over_finished_data(spark, server) -> None:
    server.execute(
        "CREATE TABLE people (id int, name text, born date)",
        "INSERT INTO people VALUES (1, 'Ann', '1990-01-01'), (2, 'Bob', NULL), (3, 'Cid', '2000-05-05')",
    )
    with sqlstream.connect(spark) as session:
        session.sql(
            f"""CREATE TABLE people (id INT, name STRING, born DATE) WITH ('connector' = 'postgres',
            'url' = '{server.options["url"]}', 'username' = 'postgres', 'password' = '${{TEST_PG_PASSWORD}}',
            'table-name' = 'people')"""
        )
        result = session.sql("SELECT name, YEAR(born) FROM people WHERE id <> 2 AND name > 'A' ORDER BY id DESC")
        assert isinstance(result, Query)
        assert result.fetchall() == [("Cid", 2000), ("Ann", 1990)]
        server.execute("DROP TABLE people")
        with pytest.raises(SqlStreamError, match="SS563"):
            session.sql("SELECT COUNT(*) FROM people")
