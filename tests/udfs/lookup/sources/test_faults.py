"""Servers that fail, hang and go away, under the operator: every row comes out once, answered or with its error."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.udfs.lookup import operator
from sqlstream.udfs.lookup.asking import Worker
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep
from sqlstream.udfs.lookup.options import LookupOptions, OnError, OnTimeout, Order, Retry
from tests.redis_server import RedisServer
from tests.udfs.lookup.sources.test_http import source as http_source
from tests.udfs.lookup.sources.test_redis import source as redis_source

_KINDS = ("found", "recovers", "fails", "misses", "garbage", "hangs up", "breaks off", "hangs", "no number")


@pytest.fixture(autouse=True)
def _worker(monkeypatch) -> Iterator[None]:
    """A worker of the test's own, whose clients are closed with it."""
    worker = Worker()
    monkeypatch.setattr(operator, "worker", lambda: worker)
    yield
    worker.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of 5, the default, TCP would let the sixth try again after seconds


@pytest.fixture
def faulty() -> Iterator[str]:
    """The address of a server that does with /n what _KINDS says of n."""
    asked: Counter[int] = Counter()
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            n = int(self.path[1:])
            asked[n] += 1
            kind = _KINDS[n % len(_KINDS)]
            if kind == "hangs":
                closing.wait(30)
            if kind in ("hangs", "hangs up"):
                self.close_connection = True
                return
            failing = kind == "fails" or (kind == "recovers" and asked[n] == 1)
            text = {"garbage": "<html>", "no number": '{"v": "many"}'}.get(kind, f'{{"v": {n * 10}}}')
            self.send_response(500 if failing else 404 if kind == "misses" else 200)
            self.send_header("Content-Length", str(len(text) + (100 if kind == "breaks off" else 0)))
            self.end_headers()
            self.wfile.write(text.encode())
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            return

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        closing.set()
        server.shutdown()


def looked_up(source: Any, rows: Iterator[pa.RecordBatch], **options: Any) -> list[dict[str, Any]]:
    """The rows that come out, without the row of metrics."""
    step = LookupStep(0, source, ("k",), "answers", LookupOptions(**options), error="error")
    parts = [row for part in LookupRows((step,)).rows(rows) for row in part.to_pylist()]
    return parts[:-1]


def batch(*keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int32())})


_ERRORS = {
    "fails": "SS575: ",
    "garbage": "SS576: ",
    "hangs up": "SS574: ",
    "breaks off": "SS574: ",
    "no number": "SS573: ",
}


@pytest.mark.parametrize("order", Order)
def test_every_row_comes_out_once_whatever_the_server_does(faulty, order):
    source = http_source(f"{faulty}/{{k}}", "k INT; v INT", "k")
    keys = [n % 18 for n in range(200)]
    options = {"on_error": OnError.TO, "on_timeout": OnTimeout.NULL, "timeout_ms": 2_000, "order": order}
    retry = (Retry(2, 1, on_miss=False),)
    answers = looked_up(source, iter([batch(*keys)]), capacity=40, retries=retry, **options)
    assert sorted(row["k"] for row in answers) == sorted(keys)
    if order is Order.ORDERED:
        assert [row["k"] for row in answers] == keys
    for row in answers:
        kind = _KINDS[row["k"] % len(_KINDS)]
        if kind in ("found", "recovers"):
            assert (row["answers"], row["error"]) == ([{"k": row["k"], "v": row["k"] * 10}], None)
        elif kind in ("misses", "hangs"):
            assert (row["answers"], row["error"]) == ([], None)
        else:
            assert row["answers"] is None
            assert row["error"].startswith(_ERRORS[kind])
            assert '"planes" ' in row["error"] and f"key (k = {row['k']})" in row["error"]


def test_a_failed_lookup_over_http_tells_all_that_is_known(faulty):
    source = http_source(f"{faulty}/{{k}}", "k INT; v INT", "k")
    with pytest.raises(ExecutionError) as error:
        looked_up(source, iter([batch(2)]))
    text = str(error.value)
    assert text.startswith('SS432: the lookup in "planes" for ')
    assert f'failed: SS575: {faulty}/{{k}} answered table "planes" with status 500 for key (k = 2): {{"v": 20}}' in text
    assert "RETRY ON ERROR asks again" in text


@pytest.mark.parametrize("data_type", ["hash", "string"])
def test_rows_outlive_a_restart_of_redis(tmp_path, data_type):
    options: dict[str, Any] = {"on_error": OnError.TO, "capacity": 5, "batch": 5, "batch_within_ms": 1}
    with RedisServer(tmp_path) as server:
        with server.client() as client:
            for k in range(10):
                client.hset(f"a:{k}", "v", k) if data_type == "hash" else client.set(f"a:{k}", k)
        source = redis_source(server, "a:{k}", "k INT", "v INT", data_type)
        before = looked_up(source, iter([batch(*range(12))]), **options)
        server.stop()
        without = looked_up(source, iter([batch(*range(12))]), **options)
        server.start()
        after = looked_up(source, iter([batch(*range(12))]), **options)
    answers = [[{"v": k}] if k < 10 else [] for k in range(12)]
    assert [row["answers"] for row in before] == [row["answers"] for row in after] == answers
    assert [(row["k"], row["answers"]) for row in without] == [(k, None) for k in range(12)]
    cause = f'SS571: table "airlines" cannot reach Redis at 127.0.0.1:{server.port} for key'
    assert all(row["error"].startswith(cause) for row in without)


def test_rows_under_way_when_redis_is_restarted_come_out_once(tmp_path):
    with RedisServer(tmp_path) as server:
        with server.client() as client:
            client.mset({f"a:{k}": k for k in range(2_000)})
        restart = threading.Thread(target=server.restart)

        def rows() -> Iterator[pa.RecordBatch]:
            for start in range(0, 2_000, 100):
                yield batch(*range(start, start + 100))
                if start == 500:
                    restart.start()

        source = redis_source(server, "a:{k}", "k INT", "v INT", "string")
        answers = looked_up(source, rows(), on_error=OnError.TO, capacity=10)
        restart.join()
    assert [row["k"] for row in answers] == list(range(2_000))
    for row in answers:
        assert row["answers"] == [{"v": row["k"]}] if row["error"] is None else row["answers"] is None


def test_retries_wait_for_redis_to_come_back(tmp_path):
    with RedisServer(tmp_path) as server:
        with server.client() as client:
            client.hset("a:1", "v", 7)
        server.stop()
        again = threading.Timer(0.2, server.start)

        def rows() -> Iterator[pa.RecordBatch]:
            again.start()
            yield batch(1, 1, 1)

        source = redis_source(server, "a:{k}", "k INT", "v INT")
        answers = looked_up(source, rows(), retries=(Retry(1000, 10),), timeout_ms=30_000)
        again.join()
    assert [row["answers"] for row in answers] == [[{"v": 7}]] * 3
