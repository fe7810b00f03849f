"""Every source against a server that refuses, hangs, closes or answers garbage: what users see, and no row is lost.

``python -m tests.sqlstream.test_lookup_faults`` prints it as a table. Servers that are started again in the middle are
in ``tests/udfs/lookup/sources``.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.decoder import Field
from sqlstream.types import INT, STRING
from sqlstream.udfs.files.text import TextFormat
from sqlstream.udfs.functions import describe
from sqlstream.udfs.lookup import operator
from sqlstream.udfs.lookup.asking import Worker
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep
from sqlstream.udfs.lookup.options import LookupOptions, OnError, OnTimeout, Retry
from sqlstream.udfs.lookup.source import LookupSource, Request
from sqlstream.udfs.lookup.sources.files import FileSource
from sqlstream.udfs.lookup.sources.function import function_source
from sqlstream.udfs.lookup.sources.postgres import PostgresSource
from sqlstream.udfs.lookup.sources.redis import RedisServer, RedisSource
from sqlstream.udfs.lookup.sources.scalars import parse_template
from sqlstream.udfs.lookup.sources.sql_text import StoredColumn
from tests.udfs.lookup.sources.test_http import source as http_source

REQUEST = Request((("k", INT),), (("v", STRING),))
ROWS = 12


async def odd(k: int) -> str:
    if k % 2:
        raise ConnectionError("no route to host")
    return f"item {k}"


def of_http(port: int) -> LookupSource:
    return http_source(f"http://127.0.0.1:{port}/{{k}}", "k INT; v STRING", "k")


def of_redis(port: int) -> LookupSource:
    server = RedisServer(f"127.0.0.1:{port}", f"redis://127.0.0.1:{port}/0", timeout_ms=60_000)
    return RedisSource("items", REQUEST, server, parse_template("item:{k}"), "hash")


def of_postgres(port: int) -> LookupSource:
    stored = (("k", StoredColumn(INT, "k", "integer")), ("v", StoredColumn(STRING, "v", "text")))
    connection = (("host", "127.0.0.1"), ("port", str(port)), ("dbname", "d"), ("user", "u"), ("connect_timeout", "60"))
    return PostgresSource("items", connection, ("items",), REQUEST, stored)


SOURCES: dict[str, Callable[[int], LookupSource]] = {"http": of_http, "redis": of_redis, "postgres": of_postgres}


@contextmanager
def listening(fault: str) -> Iterator[int]:
    """The port of a server with a fault: refuses, hangs, closes, garbage."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        port: int = listener.getsockname()[1]
        if fault == "refuses":
            listener.close()
            yield port
            return
        opened: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the test is over
                    return
                opened.append(connection)
                if fault == "garbage":
                    connection.recv(65_536)
                    connection.sendall(b"\x07?!garbage\r\n\r\n")
                if fault != "hangs":
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield port
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in opened:
            connection.close()


@contextmanager
def own_worker() -> Iterator[None]:
    """A worker whose clients are closed in the end."""
    worker = Worker()
    try:
        with mock.patch.object(operator, "worker", lambda: worker):
            yield
    finally:
        worker.close()


def looked_up(source: LookupSource, **options: Any) -> list[dict[str, Any]]:
    """The rows that come out, without the row of metrics."""
    step = LookupStep(0, source, ("k",), "answers", LookupOptions(**options), error="error")
    rows = pa.record_batch({"k": pa.array(range(ROWS), pa.int32())})
    with own_worker():
        emitted_rows = [row for part in LookupRows((step,)).rows(iter([rows])) for row in part.to_pylist()]
    return emitted_rows[:-1]


def failure(source: LookupSource, **options: Any) -> str:
    with pytest.raises(ExecutionError) as caught:
        looked_up(source, **options)
    return str(caught.value)


@pytest.mark.parametrize("fault", ["refuses", "closes", "garbage"])
@pytest.mark.parametrize("source", SOURCES)
def test_rows_of_a_failing_server_come_out_with_what_went_wrong(source, fault):
    with listening(fault) as port:
        answers = looked_up(SOURCES[source](port), on_error=OnError.TO, retries=(Retry(1, 1),))
    assert [row["k"] for row in answers] == list(range(ROWS))
    assert all(row["answers"] is None and row["error"] for row in answers)


@pytest.mark.parametrize("source", SOURCES)
def test_rows_of_a_server_that_hangs_come_out_when_their_time_is_up(source):
    with listening("hangs") as port:
        answers = looked_up(SOURCES[source](port), on_timeout=OnTimeout.NULL, timeout_ms=100)
    assert [(row["k"], row["answers"], row["error"]) for row in answers] == [(k, [], None) for k in range(ROWS)]


@pytest.mark.parametrize("source", SOURCES)
def test_a_fault_ends_the_job_with_source_key_and_advice(source):
    with listening("refuses") as port:
        text = failure(SOURCES[source](port), capacity=1)
    name = "planes" if source == "http" else "items"
    assert text.startswith(f'SS432: the lookup in "{name}" for k = 0 failed: ')
    assert "HINT: RETRY ON ERROR tries again; ON ERROR NULL answers nothing" in text
    with listening("hangs") as port:
        text = failure(SOURCES[source](port), capacity=1, timeout_ms=50)
    assert f'the lookup in "{name}" for k = 0 got no answer in 50 ms' in text


def test_rows_that_a_function_fails_for_come_out_beside_the_others():
    source = function_source(describe("odd", odd, "m:odd"), odd, Request((("k", INT),), (("odd", STRING),)))
    answers = looked_up(source, on_error=OnError.TO)
    assert [row["k"] for row in answers] == list(range(ROWS))
    for row in answers:
        expected = (
            (None, "ConnectionError: no route to host") if row["k"] % 2 else ([{"odd": f"item {row['k']}"}], None)
        )
        assert (row["answers"], row["error"]) == expected


def test_rows_come_out_where_a_file_cannot_be_read(tmp_path):
    (tmp_path / "items.csv").write_text("1,a\nx,b\n")
    columns = (("k", INT), ("v", STRING))
    fields = tuple(Field(name, kind) for name, kind in columns)
    source = FileSource("items", REQUEST, str(tmp_path / "items.csv"), TextFormat(CsvDecoder(fields)), columns)
    answers = looked_up(source, on_error=OnError.TO)
    assert [row["k"] for row in answers] == list(range(ROWS))
    assert all('column "k" of type INT is "x"' in row["error"] for row in answers)


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("source", "server", "rows in", "rows out", "answered", "what the user sees", title="Faults")
    for name, make in SOURCES.items():
        for fault in ("refuses", "hangs", "closes", "garbage"):
            with listening(fault) as port:
                answers = looked_up(make(port), on_error=OnError.TO, on_timeout=OnTimeout.NULL, timeout_ms=500)
            seen = answers[0]["error"] or "TIMEOUT: answered as where nothing was found (ON TIMEOUT NULL)"
            answered = sum(bool(row["answers"]) for row in answers)
            table.add_row(name, fault, str(ROWS), str(len(answers)), str(answered), seen)
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
