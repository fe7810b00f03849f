"""print, blackhole, memory, rate, socket and kafka on Spark."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from sqlstream.connectors import Environment, sink_connector, source_connector
from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.connectors.memory import Memory
from sqlstream.errors import ConnectorError, UnsupportedError
from sqlstream.planner.catalog import Table
from sqlstream.udfs.bad_records import BAD

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(make_table, tmp_path):
    """Two rows, one with NULL."""
    (tmp_path / "in.csv").write_text("1,x y\n2,\n")
    return make_table("filesystem", "a INT; b STRING", path=tmp_path / "in.csv", format="csv")


def test_print_shows_rows_with_their_kind(make_table, numbers, write_all, capsys) -> None:
    write_all(numbers, make_table("print", "a INT; b STRING"))
    assert capsys.readouterr().out == "+I[1, x y]\n+I[2, null]\n"


def test_what_spark_connect_would_keep_on_its_server_is_refused(make_table, numbers, write_all, monkeypatch) -> None:
    monkeypatch.setattr("sqlstream.connectors.trying_out.is_connect", lambda _: True)
    monkeypatch.setattr("sqlstream.connectors.memory.shares_files", lambda _: False)
    with pytest.raises(UnsupportedError, match='SS346: table "t" would print on the server'):
        write_all(numbers, make_table("print", "a INT; b STRING"))
    with pytest.raises(UnsupportedError, match='SS347: table "t" is in files of this machine'):
        write_all(numbers, make_table("memory", "a INT; b STRING"))


def test_print_takes_a_name_and_standard_error(make_table, numbers, write_all, capsys) -> None:
    table = make_table("print", "a INT; b STRING", print_identifier="job 7", standard_error="true")
    write_all(numbers, table)
    actual = capsys.readouterr()
    assert (actual.out, actual.err) == ("", "job 7> +I[1, x y]\njob 7> +I[2, null]\n")


@pytest.mark.parametrize("tasks", [1, 3])
def test_as_many_tasks_write_as_the_sink_says(make_table, write_all, tmp_path, tasks: int) -> None:
    (tmp_path / "in.csv").write_text("".join(f"{n}\n" for n in range(100)))
    source = make_table("filesystem", "a INT", path=tmp_path / "in.csv", format="csv")
    folder = tmp_path / "out"
    write_all(source, make_table("filesystem", "a INT", path=folder, format="json", sink__parallelism=str(tasks)))
    files = [*folder.glob("*.json")]
    assert len(files) == tasks
    assert sum(len(file.read_text().splitlines()) for file in files) == 100


def test_blackhole_computes_every_row(spark, make_table, numbers, environment, tmp_path) -> None:
    read, sink = source_connector("filesystem").read, sink_connector("blackhole")
    failing = read(environment, numbers, ("a", "b")).selectExpr("raise_error('computed') AS a", "b")
    writer = sink.stream(environment, make_table("blackhole", "a INT; b STRING"), failing)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="computed"):
        query.awaitTermination()


# --- memory ---------------------------------------------------------------------------------------------------


def test_memory_keeps_the_rows_of_all_its_jobs(make_table, numbers, environment, write_all, read_all) -> None:
    table = make_table("memory", "a INT; b STRING")
    assert source_connector("memory").bounded(table)
    assert read_all(table, checkpoint="empty") == []
    write_all(numbers, table, replace(environment, job="first"), "1")
    write_all(numbers, table, replace(environment, job="second"), "2")
    rows = read_all(table, "b", "a", checkpoint="full")
    assert rows == [("x y", 1), (None, 2), ("x y", 1), (None, 2)]


def test_memory_keeps_kinds_and_micro_batches_once(spark, make_table, environment, read_all, tmp_path) -> None:
    table = make_table("memory", "a INT")
    write_batch = sink_connector("memory").batch_writer(environment, table)
    for number, rows in ((0, [(1, "+I")]), (1, [(1, "-U"), (2, "+U")]), (1, [(1, "-D")])):
        write_batch(spark.createDataFrame(rows, "a INT, __row_kind STRING").coalesce(1), number)
    assert read_all(table) == [(1,), (1,)]


def test_print_shows_the_kinds_of_updating_rows(spark, make_table, environment, capsys) -> None:
    rows = spark.createDataFrame([(1, "+I"), (1, "-U"), (None, "+U")], "a INT, __row_kind STRING").coalesce(1)
    sink_connector("print").batch_writer(environment, make_table("print", "a INT"))(rows, 0)
    assert capsys.readouterr().out == "+I[1]\n-U[1]\n+U[null]\n"


def test_memory_of_a_resumed_job_has_each_row_once(make_table, numbers, environment, write_all, read_all) -> None:
    table = make_table("memory", "a INT; b STRING")
    for _ in range(2):
        write_all(numbers, table, environment, "same")
    assert read_all(table) == [(1, "x y"), (2, None)]


def test_a_dropped_memory_table_forgets_its_rows(make_table, numbers, environment, write_all, read_all) -> None:
    table = make_table("memory", "a INT; b STRING")
    write_all(numbers, table)
    Memory().drop(environment.directory, table)
    assert read_all(table) == []


# --- rate -----------------------------------------------------------------------------------------------------


def test_rate_counts_and_tells_the_time(make_table, environment, tmp_path) -> None:
    table = make_table("rate", "value BIGINT; timestamp TIMESTAMP", rows_per_second=20)
    with _rows(environment, table, ("timestamp", "value"), tmp_path) as rows:
        _until(lambda: len(rows) >= 20)
    assert [value for _, value in rows][:20] == list(range(20))
    assert all(isinstance(stamp, datetime) for stamp, _ in rows)
    assert (rows[19][0] - rows[0][0]).total_seconds() == pytest.approx(0.95, abs=0.01)


def test_rate_speeds_up_over_the_ramp_up_time(make_table, environment, tmp_path) -> None:
    table = make_table("rate", "value BIGINT", rows_per_second=50, ramp_up_time="3 s")
    started = time.monotonic()
    with _rows(environment, table, ("value",), tmp_path) as rows:
        _until(lambda: len(rows) > 0)
        arrived = list(rows)
    assert 0 < len(arrived) < 50 * (time.monotonic() - started)


# --- socket ---------------------------------------------------------------------------------------------------


class _Lines(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        self.wfile.write(self.server.text.encode())
        self.server.done.wait(30)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True

    def __init__(self, text: str) -> None:
        self.text, self.done = text, threading.Event()
        super().__init__(("127.0.0.1", 0), _Lines)


@contextmanager
def _serving(text: str) -> Iterator[int]:
    """The port of a server that sends the text to whoever comes."""
    with _Server(text) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.done.set()
            server.shutdown()


@contextmanager
def _rows(environment: Environment, table: Table, columns: tuple[str, ...], tmp_path: Path) -> Iterator[list]:
    """What an endless table brings while the block runs."""
    read = source_connector(table.connector).read
    rows: list = []
    rows_read = read(environment, table, columns)
    if BAD in rows_read.columns:  # lowering parts the rows that could not be read from the others
        rows_read = rows_read.where(f"{BAD}.error IS NULL")
    writer = rows_read.select(*columns).writeStream.foreachBatch(
        lambda batch, _: rows.extend(tuple(row) for row in batch.collect())
    )
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        yield rows
    finally:
        query.stop()
    assert query.exception() is None


def _until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


_IGNORING = {"csv__ignore_parse_errors": "true"}


@pytest.mark.parametrize(
    ("text", "columns", "options", "rows"),
    [
        ("one\ntwo\n", "a STRING", {"format": "raw"}, [("one",), ("two",)]),
        ("1;x\n2;y\n", "b INT; a STRING", {"format": "csv", "csv__field_delimiter": ";"}, [("x",), ("y",)]),
        ('{"a": 1}\nbad\n{"a": 2}\n', "a INT", {"format": "json", "json__ignore_parse_errors": "true"}, [(1,), (2,)]),
        ("1\nbad\n2\n", "a INT", {"format": "csv"} | _IGNORING, [(1,), (2,)]),
    ],
)
def test_socket_reads_lines(make_table, environment, tmp_path, text: str, columns: str, options, rows) -> None:
    with _serving(text) as port:
        table = make_table("socket", columns, hostname="127.0.0.1", port=port, **options)
        with _rows(environment, table, ("a",), tmp_path) as actual:
            _until(lambda: len(actual) == 2)
    assert actual == rows


def test_a_bad_line_of_a_socket_fails_the_job(make_table, environment, tmp_path) -> None:
    with _serving("bad\n") as port:
        table = make_table("socket", "a INT; b INT", hostname="127.0.0.1", port=port, format="csv")
        read = source_connector("socket").read
        writer = read(environment, table, ("b",)).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        said = "SS402: a row cannot be read: the record is no CSV row of 2 columns: it has 1: bad"
        with pytest.raises(Exception, match=said):
            query.awaitTermination(20)


# --- kafka ----------------------------------------------------------------------------------------------------


def test_without_its_jar_kafka_says_how_to_get_it(spark, make_table, environment) -> None:
    options = {"topic": "t", "properties__bootstrap__servers": "localhost:9092", "format": "json"}
    table = make_table("kafka", "a INT", **options, kafka__client="spark")
    kind = Kafka()
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS a")
    uses = (
        lambda: kind.read(environment, table, ("a",)),
        lambda: kind.stream(environment, table, rows),
        lambda: kind.batch_writer(environment, table),
    )
    for use in uses:
        with pytest.raises(ConnectorError) as error:
            use()
        assert error.value.code == "SS509"
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{min(spark.version, '4.2.0')}"
        assert f"--packages {package}, or connect with" in str(error.value)
