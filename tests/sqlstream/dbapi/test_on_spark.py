"""Rows through the DB-API: finished data, streams, INSERT, cancellation, threads, pandas and polars."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from threading import Thread, Timer
from time import monotonic, sleep

import pyarrow as pa
import pytest

from sqlstream import dbapi

pytestmark = pytest.mark.spark

NUMBERS = """
CREATE TABLE numbers (n INT) WITH (
    'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '7')
"""
ENDLESS = "CREATE TABLE endless (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '20')"
SLOW = "SELECT COUNT(*) FROM range(100000000000) AS a"


@pytest.fixture(scope="module")
def connection(spark):
    with dbapi.connect(spark) as opened:
        opened.cursor().execute(
            f"{NUMBERS}; {ENDLESS}; CREATE TABLE kept (a INT, b STRING) WITH ('connector' = 'memory')"
        )
        yield opened


@pytest.fixture
def cursor(connection):
    with connection.cursor() as opened:
        yield opened


def soon(condition: Callable[[], object]) -> None:
    """Waits until it holds."""
    end = monotonic() + 60
    while not condition():
        assert monotonic() < end
        sleep(0.02)


def test_values_arrive_as_they_were_given(cursor):
    values = (
        1, -2.5, Decimal("1.50"), "it's \\ \u2028 ?", None, True, b"\0\xff", date(2024, 1, 31),
        datetime(2024, 1, 31, 12, 0, 0, 123456), timedelta(days=1, microseconds=1), [1, 2], {"k": "v"},
    )  # fmt: skip
    cursor.execute(f"SELECT {', '.join('?' for _ in values)}", values)
    assert cursor.rowcount == 1 and len(cursor.description) == len(values)
    assert cursor.fetchall() == [values]
    codes = [column[1] for column in cursor.description]
    assert codes[:4] == ["INT", "DOUBLE", "DECIMAL(3, 2)", "STRING"] and codes[-1] == "MAP<STRING, STRING>"
    assert cursor.execute("SELECT :x + :x AS twice", {"x": 21}).fetchone() == (42,)


def test_rows_of_finished_data_are_fetched_in_pieces(cursor):
    cursor.execute("SELECT n FROM numbers ORDER BY n")
    assert cursor.rowcount == 7
    assert cursor.fetchmany() == [(1,)]
    cursor.arraysize = 2
    assert cursor.fetchmany() == [(2,), (3,)]
    assert next(cursor) == (4,)
    rest = cursor.fetch_arrow_table()
    assert rest.schema.field("n").type == pa.int32() and rest.column("n").to_pylist() == [5, 6, 7]
    assert cursor.fetchall() == [] and cursor.fetchmany(3) == [] and cursor.fetchone() is None
    batches = list(cursor.execute("SELECT n FROM numbers WHERE n > 5").fetch_record_batch())
    assert sorted(value for batch in batches for value in batch.column(0).to_pylist()) == [6, 7]
    empty = cursor.execute("SELECT n FROM numbers WHERE n > 9")
    assert empty.rowcount == 0 and empty.fetch_arrow_table().schema.names == ["n"]


def test_queries_over_finished_data_are_one_query_of_spark_sql(connection, cursor):
    before = len(connection.session.jobs)
    assert len(cursor.execute("SELECT n + 1 FROM numbers").fetchall()) == 7
    assert len(connection.session.jobs) == before


def test_what_fails_while_it_runs_is_an_operational_error(cursor):
    with pytest.raises(dbapi.OperationalError) as error:
        cursor.execute("SELECT 1 / (n - n) FROM numbers")
    assert "zero" in str(error.value)


def test_rows_of_a_stream_come_until_the_cursor_is_closed(connection, cursor):
    cursor.execute("SELECT n FROM endless")
    assert cursor.rowcount == -1 and cursor.fetchone() is not None
    assert 1 <= len(cursor.fetchmany(100_000)) < 100_000
    for wants_all in (cursor.fetchall, cursor.fetch_arrow_table):
        with pytest.raises(dbapi.ProgrammingError) as error:
            wants_all()
        assert error.value.code == "SS480"
    assert cursor.fetch_record_batch().read_next_batch().num_rows
    cursor.close()
    assert connection.session.jobs[-1].state.value == "STOPPED"


def test_an_insert_that_ends_is_waited_for_and_can_be_read(cursor):
    cursor.executemany("INSERT INTO kept VALUES (?, ?)", [(1, "a"), (2, "b'"), (3, None)])
    assert (cursor.rowcount, cursor.description) == (3, None)
    assert cursor.job.state.value == "FINISHED"
    assert cursor.execute("SELECT * FROM kept ORDER BY a").fetchall() == [(1, "a"), (2, "b'"), (3, None)]
    cursor.execute("TRUNCATE TABLE kept")
    assert cursor.description is None
    assert cursor.execute("SELECT COUNT(*) FROM kept").fetchone() == (0,)


def test_an_insert_without_an_end_is_a_job_in_the_background(connection, cursor):
    cursor.execute(
        "CREATE TABLE unread (n INT) WITH ('connector' = 'blackhole'); INSERT INTO unread SELECT n FROM endless"
    )
    job = cursor.job
    assert cursor.rowcount == -1 and job.state.value == "RUNNING"
    with connection.cursor() as other:
        assert any(job.name in row for row in other.execute("SHOW JOBS"))
    cursor.close()
    assert job.state.value == "RUNNING"
    job.stop()


def test_cancel_ends_a_query_from_another_thread(connection, cursor):
    before = {run.id for run in connection.session.running}

    def cancel() -> None:
        soon(lambda: {run.id for run in connection.session.running} - before)
        cursor.cancel()

    canceller = Thread(target=cancel)
    canceller.start()
    with pytest.raises(dbapi.OperationalError) as error:
        cursor.execute(SLOW)
    canceller.join()
    assert error.value.code == "SS473"
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_cancel_ends_an_insert_and_what_waits_for_rows(connection, cursor):
    cursor.execute("SELECT n FROM endless WHERE n IS NULL")
    canceller = Timer(0.1, cursor.cancel)
    canceller.start()
    with pytest.raises(dbapi.OperationalError) as error:
        cursor.fetchone()
    canceller.join()
    assert error.value.code == "SS473"
    before = {run.id for run in connection.session.running}

    def cancel() -> None:
        soon(lambda: {run.id for run in connection.session.running} - before)
        cursor.cancel()

    thread = Thread(target=cancel)
    thread.start()
    with pytest.raises(dbapi.OperationalError):
        cursor.execute("INSERT INTO kept SELECT COUNT(*), 'x' FROM range(100000000000)")
    thread.join()
    assert cursor.execute("SELECT COUNT(*) FROM kept").fetchone() == (0,)


def test_threads_share_a_connection(connection):
    answers: dict[int, int] = {}

    def ask(number: int) -> None:
        with connection.cursor() as own:
            answers[number] = own.execute("SELECT ? * 2", [number]).fetchone()[0]

    threads = [Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: number * 2 for number in range(4)}
