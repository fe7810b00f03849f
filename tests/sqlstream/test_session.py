"""Sessions end to end on Spark: queries, inserts, functions, restarts, settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import sqlstream
from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.jobs import Job
from sqlstream.planner.catalog import RowKind
from sqlstream.query import Query
from sqlstream.results import Rows
from sqlstream.session import Session

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark) -> Iterator[Session]:
    with sqlstream.connect(spark) as own_session:
        yield own_session


def query(session: Session, text: str) -> Query:
    result = session.sql(text)
    assert isinstance(result, Query)
    return result


def job(session: Session, text: str) -> Job:
    result = session.sql(text)
    assert isinstance(result, Job)
    return result


NUMBERS = """
CREATE TABLE numbers (n INT) WITH (
    'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '5')
"""


@pytest.fixture
def trades(session: Session, tmp_path: Path) -> Session:
    """Trades of every type a file may hold, with event time."""
    (tmp_path / "trades.jsonl").write_text(
        '{"id": 1, "price": 1.50, "ts": "2024-01-31 12:00:01", "tags": ["a", null], "info": {"k": "x"}}\n'
        '{"id": 2, "price": null, "ts": "2024-01-31 12:00:09", "tags": null, "info": null}\n'
        '{"id": 3, "price": 2.25, "ts": "2024-01-31 12:00:12", "tags": [], "info": {"k": null}}\n'
    )
    session.sql(f"""
    CREATE TABLE trades (id BIGINT, price DECIMAL(10, 2), ts TIMESTAMP(3), tags ARRAY<STRING>, info STRUCT<k: STRING>,
        WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
    WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/trades.jsonl')
    """)
    return session


# --- queries --------------------------------------------------------------------------------------------------


def test_a_query_gives_rows_with_their_types(trades: Session) -> None:
    actual = query(trades, "SELECT *, price * 2 AS double FROM trades").rows()
    assert actual.columns == ("id", "price", "ts", "tags", "info", "double")
    noon = datetime(2024, 1, 31, 12, 0, tzinfo=UTC)
    assert actual.fetchall() == [
        (1, Decimal("1.50"), noon.replace(second=1), ["a", None], {"k": "x"}, Decimal("3.00")),
        (2, None, noon.replace(second=9), None, None, None),
        (3, Decimal("2.25"), noon.replace(second=12), [], {"k": None}, Decimal("4.50")),
    ]
    assert actual.to_arrow().schema.field("price").type == pa.decimal128(10, 2)
    assert str(actual.to_pandas()["ts"].dtype) == "datetime64[us, UTC]"


def test_windows_of_a_bounded_query_close_at_its_end(trades: Session) -> None:
    text = """
    SELECT window_start, COUNT(*) AS n, SUM(price) AS total
    FROM TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end
    """
    rows = sorted(query(trades, text).fetchall())
    start = datetime(2024, 1, 31, 12, 0, tzinfo=UTC)
    assert rows == [(start, 2, Decimal("1.50")), (start.replace(second=10), 1, Decimal("2.25"))]


def test_rows_are_delivered_once_and_in_pieces(session: Session, capsys) -> None:
    session.sql(NUMBERS)
    actual = query(session, "SELECT n, n AS n FROM numbers")
    assert actual.columns == ("n", "n")
    assert actual.fetchmany(2) == [(1, 1), (2, 2)]
    assert next(actual.changes()) == (RowKind.INSERT, (3, 3))
    actual.show()
    assert capsys.readouterr().out == "n | n\n--+--\n4 | 4\n5 | 5\n(2 rows)\n"
    assert actual.fetchmany(9) == []
    assert actual.fetchall() == [] and actual.to_arrow().schema.names == ["n", "n"]
    assert actual.job.state.name == "FINISHED"


def test_an_updating_query_is_read_as_the_table_that_it_amounts_to(session: Session) -> None:
    session.sql(NUMBERS)
    text = "SELECT n % 2 AS odd, COUNT(*) AS c FROM numbers GROUP BY n % 2 EMIT CHANGES"
    counted = query(session, text)
    assert counted.columns == ("op", "odd", "c") and counted.key == ("odd",)
    table = counted.table()
    assert table.columns == ("odd", "c")
    assert sorted(table) == [(0, 2), (1, 3)]
    assert query(session, "SELECT n FROM numbers WHERE n < 3").table().fetchall() == [(1,), (2,)]
    nothing = query(session, text.replace("GROUP", "WHERE n > 9 GROUP"))
    assert nothing.table().columns == ("odd", "c") and list(nothing.table()) == []


def test_an_endless_query_is_read_in_part_and_stopped(session: Session) -> None:
    session.sql("CREATE TABLE endless (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '20')")
    with query(session, "SELECT n FROM endless") as running:
        with pytest.raises(ExecutionError) as error:
            running.fetchall()
        assert error.value.code == "SS480"
        assert len(running.fetchmany(5)) == 5
        assert running.job.state.name == "RUNNING"
    assert running.job.state.name == "STOPPED"


def test_an_error_of_the_rows_reaches_the_reader(session: Session, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("1\nbad\n")
    session.sql(f"""
    CREATE TABLE bad (n INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/bad.csv')
    """)
    with pytest.raises(SqlStreamError) as error:
        query(session, "SELECT n FROM bad").fetchall()
    assert error.value.code == "SS402"
    said = f'a row in line 2 of file "{tmp_path}/bad.csv" cannot be read: column "n" of type INT is "bad"'
    assert said in str(error.value)


def test_a_missing_file_is_an_error_of_the_statement(session: Session, tmp_path: Path) -> None:
    text = f"""
    CREATE TABLE gone (n INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/gone.csv');
    SELECT n FROM gone
    """
    with pytest.raises(SqlStreamError) as error:
        session.sql(text)
    assert error.value.code == "SS508" and session.jobs == ()


def test_a_dataframe_goes_on_in_pyspark(session: Session) -> None:
    session.sql(NUMBERS)
    frame = session.dataframe("SELECT n AS `a number` FROM numbers WHERE n > 3")
    assert frame.isStreaming
    writer = frame.writeStream.format("memory").queryName("from_dataframe").trigger(availableNow=True)
    writer.start().awaitTermination()
    assert [tuple(row) for row in session.spark.table("from_dataframe").collect()] == [(4,), (5,)]


# --- inserts --------------------------------------------------------------------------------------------------


def test_inserted_rows_can_be_read_again(session: Session) -> None:
    session.sql(NUMBERS + "; CREATE TABLE kept (m BIGINT, s STRING) WITH ('connector' = 'memory')")
    for _ in range(2):
        job(session, "INSERT INTO kept SELECT n, n FROM numbers WHERE n > 4").wait()
    assert query(session, "SELECT * FROM kept").fetchall() == [(5, "5"), (5, "5")]
    assert [j.name for j in session.jobs] == ["insert_into_kept", "insert_into_kept__2", "query"]
    session.sql("DROP TABLE kept; CREATE TABLE kept (m BIGINT) WITH ('connector' = 'memory')")
    assert query(session, "SELECT * FROM kept").fetchall() == []


def test_inserts_of_a_script_wait_where_the_setting_says_so(session: Session) -> None:
    session.sql(NUMBERS + "; CREATE TABLE kept (n INT) WITH ('connector' = 'memory')")
    text = """
    SET 'table.dml-sync' = 'true'; SET 'pipeline.name' = 'nightly';
    INSERT INTO kept SELECT n FROM numbers WHERE n < 3; SELECT n FROM kept
    """
    assert query(session, text).fetchall() == [(1,), (2,)]
    assert [j.name for j in session.jobs] == ["nightly", "nightly__2"]
    assert session.jobs[0].state.name == "FINISHED"


def test_create_table_as_has_the_columns_and_rows_of_its_query(session: Session) -> None:
    session.sql(NUMBERS)
    text = "CREATE TABLE made WITH ('connector' = 'memory') AS SELECT n, n * 1.5 AS more FROM numbers WHERE n > 3"
    job(session, text).wait()
    described = session.sql("DESCRIBE made")
    assert isinstance(described, Rows)
    assert [row[:2] for row in described] == [("n", "INT"), ("more", "DECIMAL(13, 1)")]
    assert query(session, "SELECT more FROM made").fetchall() == [(Decimal("6.0"),), (Decimal("7.5"),)]
    assert isinstance(session.sql(text.replace("TABLE made", "TABLE IF NOT EXISTS made")), Rows)


def test_a_job_that_could_not_start_leaves_no_table(session: Session, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    session.sql(NUMBERS)
    with pytest.raises(SqlStreamError) as error:
        session.sql(f"""CREATE TABLE made WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}')
        AS SELECT n FROM numbers""")
    assert error.value.code == "SS508"
    assert session.workspace.catalog.relation("made") is None


def test_an_insert_goes_on_from_its_checkpoint_in_a_later_session(spark, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    script = f"""
    SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
    CREATE TABLE lines (line STRING) WITH ('connector' = 'filesystem', 'format' = 'text', 'path' = '{tmp_path}/in');
    CREATE TABLE copied (line STRING) WITH ('connector' = 'filesystem', 'format' = 'text', 'path' = '{tmp_path}/out');
    INSERT INTO copied SELECT line FROM lines
    """
    for line in ("one", "two"):
        (tmp_path / "in" / line).write_text(f"{line}\n")
        with sqlstream.connect(spark) as session:
            job(session, script).wait()
            rows = query(session, "SELECT line FROM copied").fetchall()
    assert sorted(rows) == [("one",), ("two",)]  # files are read by name, and Spark's names are random
    assert (tmp_path / "checkpoints" / "insert_into_copied").is_dir()


def test_the_same_insert_in_one_session_goes_on_once_its_job_has_ended(spark, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with sqlstream.connect(spark) as session:
        session.sql(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        CREATE TABLE lines (line STRING)
            WITH ('connector' = 'filesystem', 'format' = 'text', 'path' = '{tmp_path}/in',
                  'source.monitor-interval' = '1 s');
        CREATE TABLE copied (line STRING)
            WITH ('connector' = 'filesystem', 'format' = 'text', 'path' = '{tmp_path}/out');
        CREATE TABLE nowhere (line STRING) WITH ('connector' = 'blackhole')""")
        for line in ("one", "two"):
            (tmp_path / "in" / line).write_text(f"{line}\n")
            started = job(session, "INSERT INTO copied SELECT line FROM lines")
            with pytest.raises(SqlStreamError) as error:
                job(session, "INSERT INTO copied SELECT line FROM  lines")
            assert (error.value.code, '"insert_into_copied"' in str(error.value)) == ("SS452", True)
            started.checkpoint()
            started.stop()
        assert [j.name for j in session.jobs] == ["insert_into_copied"]
        assert sorted(query(session, "SELECT line FROM copied").fetchall()) == [("one",), ("two",)]
        for insert in ("SELECT line FROM lines", "SELECT UPPER(line) FROM lines", "SELECT line FROM lines"):
            job(session, f"INSERT INTO nowhere {insert}").stop()
        assert [j.name for j in session.jobs][-2:] == ["insert_into_nowhere__2", "insert_into_nowhere"]
        for _ in range(2):
            job(session, "EXECUTE STATEMENT SET BEGIN INSERT INTO nowhere SELECT line FROM lines; END").stop()
        assert [j.name for j in session.jobs][-2:] == ["insert_into_nowhere", "statement_set_nowhere"]


def test_the_same_endless_insert_without_a_checkpoint_is_refused_beside_itself(session: Session) -> None:
    session.sql("""CREATE TABLE ticks (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');
                   CREATE TABLE nowhere (a INT) WITH ('connector' = 'blackhole')""")
    first = job(session, "INSERT INTO nowhere SELECT a FROM ticks")
    with pytest.raises(SqlStreamError, match='job "insert_into_nowhere" runs already, and does the same'):
        session.sql("INSERT INTO nowhere  SELECT a FROM ticks")
    first.stop()
    assert job(session, "INSERT INTO nowhere SELECT a FROM ticks").name == "insert_into_nowhere"


def test_an_insert_goes_on_from_the_checkpoint_of_an_older_version_with_hyphens(spark, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one").write_text("one\n")
    script = f"""
    SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
    CREATE TABLE lines (line STRING) WITH ('connector' = 'filesystem', 'format' = 'text', 'path' = '{tmp_path}/in');
    CREATE TABLE nowhere (line STRING) WITH ('connector' = 'blackhole');
    %s INSERT INTO nowhere SELECT line FROM lines
    """
    with sqlstream.connect(spark) as session:
        job(session, script % "SET 'pipeline.name' = 'insert-into-nowhere';").wait()
    with sqlstream.connect(spark) as session:
        again = job(session, script % "")
        again.wait()
        assert (again.name, again.progress().rows_in) == ("insert-into-nowhere", 0)
        assert job(session, "INSERT INTO nowhere SELECT line FROM lines").name == "insert-into-nowhere"
        assert job(session, "INSERT INTO nowhere SELECT line || '!' FROM lines").name == "insert_into_nowhere__2"
    assert not (tmp_path / "checkpoints" / "insert_into_nowhere").exists()


def test_a_null_for_a_column_that_is_not_null_fails_the_job(trades: Session) -> None:
    trades.sql("CREATE TABLE kept (id BIGINT NOT NULL, price DECIMAL(10, 2) NOT NULL) WITH ('connector' = 'memory')")
    with pytest.raises(SqlStreamError) as error:
        job(trades, "INSERT INTO kept SELECT id, price FROM trades").wait()
    assert error.value.code == "SS403" and 'column "price" of table "kept" is NOT NULL' in str(error.value)
    job(trades, "INSERT INTO kept SELECT id, price FROM trades WHERE price IS NOT NULL").wait()
    assert [id_ for id_, _ in query(trades, "SELECT * FROM kept").fetchall()] == [1, 3]


# --- functions ------------------------------------------------------------------------------------------------


def test_registered_functions_run(session: Session) -> None:
    def shout(text: str, times: int = 1) -> str:
        return text + "!" * times

    session.register_function("shout", shout)
    session.sql(NUMBERS)
    actual = query(session, "SELECT shout(CAST(n AS STRING), n) AS s FROM numbers WHERE n < 3").fetchall()
    assert actual == [("1!",), ("2!!",)]


def test_functions_of_modules_run(session: Session, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "pricing_of_this_test.py").write_text("def fee(n: int) -> float:\n    return n / 4\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    session.sql(NUMBERS + "; CREATE FUNCTION fee AS 'pricing_of_this_test:fee' LANGUAGE PYTHON")
    assert query(session, "SELECT fee(n) AS f FROM numbers WHERE n < 3").fetchall() == [(0.25,), (0.5,)]
    session.sql("DROP FUNCTION fee")
    with pytest.raises(SqlStreamError):
        session.sql("SELECT fee(n) AS f FROM numbers")


# --- settings and the end -------------------------------------------------------------------------------------


def test_settings_hold_in_spark_while_the_session_lives(spark) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    with sqlstream.connect(spark, **{"table.local-time-zone": "Asia/Tokyo"}) as session:
        assert session.spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        session.sql("SET 'parallelism.default' = '3'; SET 'spark.sql.ansi.enabled' = 'false'")
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
        session.sql("RESET 'parallelism.default'")
        assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
        session.sql("SET 'parallelism.default' = '4'")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    assert spark.conf.get("spark.sql.session.timeZone") == before
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_what_was_not_set_in_spark_is_unset_again(spark) -> None:
    user = spark.newSession()
    user.conf.unset("spark.sql.shuffle.partitions")
    before = user.conf.get("spark.sql.shuffle.partitions", None)
    with sqlstream.connect(user, **{"parallelism.default": "7"}) as session:
        assert session.spark.conf.get("spark.sql.shuffle.partitions") == "7"
    assert user.conf.get("spark.sql.shuffle.partitions", None) == before


def test_the_time_zone_decides_how_timestamps_are_read_and_shown(trades: Session) -> None:
    trades.sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    ((ts,),) = query(trades, "SELECT ts FROM trades WHERE id = 1").fetchall()
    assert ts.isoformat() == "2024-01-31T12:00:01+09:00"


def test_what_spark_fixes_at_its_start_is_refused_later(session: Session) -> None:
    assert session.spark is not None
    with pytest.raises(SqlStreamError) as error:
        session.sql("SET 'spark.driver.memory' = '9g'")
    assert error.value.code == "SS523"
    assert dict(session.workspace.settings.spark) == {}


def test_the_checkpointing_interval_paces_the_batches(session: Session) -> None:
    session.sql("CREATE TABLE endless (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')")
    session.sql("SET 'execution.checkpointing.interval' = '1500 ms'")
    with query(session, "SELECT n FROM endless") as running:
        batches, arrivals = running.batches(), []
        for _ in range(3):
            assert next(batches).num_rows >= 100
            arrivals.append(time.monotonic())
    assert arrivals[2] - arrivals[1] == pytest.approx(1.5, abs=0.9)


def test_closing_stops_the_jobs_and_removes_the_scratch_folder(spark) -> None:
    session = sqlstream.connect(spark)
    session.sql("CREATE TABLE endless (n INT) WITH ('connector' = 'datagen'); ")
    session.sql("CREATE TABLE nowhere (n INT) WITH ('connector' = 'blackhole')")
    running = job(session, "INSERT INTO nowhere SELECT n FROM endless")
    folder = Path(running.checkpoint_path).parents[1]
    assert folder.is_dir() and running.state.name == "RUNNING"
    session.close()
    assert running.state.name == "STOPPED"
    assert not folder.exists()
    assert spark.range(3).count() == 3
