"""Rows into Redis and to HTTP servers: by the writers of workers, and by jobs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import sqlstream
from sqlstream.connectors import on_spark, sink_connector
from sqlstream.connectors.http import HttpWriter
from sqlstream.connectors.redis import RedisWriter
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.jobs import Job
from sqlstream.planner.catalog import Table
from sqlstream.query import Query
from sqlstream.secrets import Secrets
from tests.redis_server import RedisServer

_ENVIRONMENT: Any = SimpleNamespace(job="job 1", spark=SimpleNamespace(conf={"spark.sql.session.timeZone": "UTC"}))
_COLUMNS = "k INT; name STRING; price DECIMAL(10, 2); at TIMESTAMP; tags ARRAY<STRING>"
_AT = datetime(2024, 1, 31, 12, 30, tzinfo=UTC)
_ROW = (1, "é", Decimal("1.50"), _AT, ["a"])


def batch_of(table: Table, *rows: tuple[object, ...], kinds: str = "") -> pa.RecordBatch:
    """``kinds``: those of the rows, with blanks; none for rows that are only added."""
    columns = table.physical_columns
    arrays = [pa.array([row[i] for row in rows], c.type.to_arrow()) for i, c in enumerate(columns)]
    names = [c.name for c in columns]
    if kinds:
        arrays, names = [*arrays, pa.array(kinds.split())], [*names, "__row_kind"]
    return pa.RecordBatch.from_arrays(arrays, names)


def writer_of(table: Table, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the connector sends to the workers."""
    sent: list[Any] = []

    def send(batch: object, writer: Any, secrets: Secrets, together: Sequence[str] = ()) -> None:
        sent.append((writer, together))

    monkeypatch.setattr(on_spark.rows, "write_in_workers", send)
    sink_connector(table.connector).batch_writer(_ENVIRONMENT, table)(SimpleNamespace(), 7)  # type: ignore[arg-type]
    ((writer, together),) = sent
    assert together == (writer.key.names if isinstance(writer, RedisWriter) else ())
    return writer


# --- redis ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def store(server) -> Iterator[Any]:
    with server.client() as client:
        client.flushall()
        yield client


def test_hashes_hold_all_columns(make_table, server, store, monkeypatch):
    table = make_table("redis", _COLUMNS, url=server.url, key="t:{k}")
    writer = writer_of(table, monkeypatch)
    for _ in range(2):  # the same rows again change nothing
        writer.write(0, [batch_of(table, _ROW, (2, None, None, None, None))])
    assert store.hgetall("t:1") == {
        b"k": b"1", b"name": "é".encode(), b"price": b"1.50", b"at": b"2024-01-31T12:30:00Z", b"tags": b'["a"]',
    }  # fmt: skip
    assert store.hgetall("t:2") == {b"k": b"2"}
    writer.write(0, [batch_of(table, (1, None, None, None, None))])
    assert store.hgetall("t:1") == {b"k": b"1"}
    assert store.ttl("t:1") == -1


def test_documents_and_strings_are_set(make_table, server, store, monkeypatch):
    table = make_table("redis", _COLUMNS, url=server.url, key="j:{k}", data_type="json", ttl="1 h")
    writer_of(table, monkeypatch).write(0, [batch_of(table, _ROW)])
    document = {"k": 1, "name": "é", "price": 1.5, "at": "2024-01-31T12:30:00Z", "tags": ["a"]}
    assert json.loads(store.get("j:1")) == document
    assert 3_500_000 < store.pttl("j:1") <= 3_600_000
    strings = make_table("redis", "k INT; v BINARY", url=server.url, key="s:{k}", data_type="string")
    writer_of(strings, monkeypatch).write(0, [batch_of(strings, (1, b"\xff"), (2, b"x")), batch_of(strings, (2, None))])
    assert store.keys("s:*") == [b"s:1"]
    assert store.get("s:1") == b"\xff"


def test_hashes_vanish_after_their_ttl(make_table, server, store, monkeypatch):
    table = make_table("redis", "k INT; v INT", url=server.url, key="t:{k}", ttl="1 h")
    writer_of(table, monkeypatch).write(0, [batch_of(table, (1, 1))])
    assert 3_500_000 < store.pttl("t:1") <= 3_600_000


@pytest.mark.parametrize("batch_rows", [1, 2, 500])
def test_the_last_change_of_a_key_stays(make_table, server, store, monkeypatch, batch_rows):
    table = make_table("redis", "k INT; v INT", url=server.url, key="t:{k}", sink__batch_rows=batch_rows)
    writer = writer_of(table, monkeypatch)
    rows = [(1, 1), (2, 1), (1, 1), (1, 2), (2, 1), (3, 1), (3, 1), (3, 2)]
    writer.write(0, [batch_of(table, *rows, kinds="+I +I -U +U -D +I -D +I")])
    assert {key: store.hget(key, "v") for key in store.scan_iter()} == {b"t:1": b"2", b"t:3": b"2"}


def test_rows_without_a_key_are_refused(make_table, server, monkeypatch):
    table = make_table("redis", "k INT; v INT", url=server.url, key="t:{k}")
    with pytest.raises(ConnectorError, match='SS578: column "k" of table "t" is NULL, and its Redis key is made of it'):
        writer_of(table, monkeypatch).write(0, [batch_of(table, (None, 1))])


def test_keys_of_another_type_fail_the_write(make_table, server, store, monkeypatch):
    store.lpush("t:1", "x")
    table = make_table("redis", "k INT; v INT", url=server.url, key="t:{k}")
    with pytest.raises(ConnectorError, match=r'SS572: .* refuses what table "t" asks for key "t:1": .*WRONGTYPE'):
        writer_of(table, monkeypatch).write(0, [batch_of(table, (1, 1))])


def test_a_server_that_is_gone_fails_the_write(make_table, tmp_path, monkeypatch):
    missing = RedisServer(tmp_path)
    table = make_table("redis", "k INT; v INT", url=missing.url, key="t:{k}")
    text = rf'SS571: table "t" cannot reach Redis at 127.0.0.1:{missing.port} for key "t:1" and 1 more'
    with pytest.raises(ConnectorError, match=text):
        writer_of(table, monkeypatch).write(0, [batch_of(table, (1, 1), (2, 1))])


# --- http -----------------------------------------------------------------------------------------------------


@dataclass
class Received:
    """``statuses``: what the server answers, the last one for ever; 0 hangs up."""

    address: str = ""
    statuses: list[int] = field(default_factory=lambda: [200])
    requests: list[tuple[str, str, str, Any]] = field(default_factory=list)

    def status(self) -> int:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    @property
    def keys(self) -> list[str]:
        return [key for _, _, key, _ in self.requests]

    @property
    def bodies(self) -> list[Any]:
        return [body for _, _, _, body in self.requests]


@contextmanager
def receiving(*statuses: int) -> Iterator[Received]:
    received = Received(statuses=list(statuses or (200,)))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            received.requests.append((self.command, self.path, self.headers["Idempotency-Key"], text))
            status = received.status()
            if status == 0:
                return
            self.send_response(status)
            self.send_header("Content-Length", "4")
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b"no\n!")

        do_PUT = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        received.address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield received
        finally:
            server.shutdown()


def http_writer(
    make_table, received: Received, monkeypatch, path: str = "/", columns: str = _COLUMNS, **options: Any
) -> tuple[Table, HttpWriter]:
    quick = {"sink__retry__delay": "1 ms"} | options
    table = make_table("http", columns, url=received.address + path, **quick)
    writer = writer_of(table, monkeypatch)
    assert isinstance(writer, HttpWriter)
    return table, writer


def test_each_row_is_a_request(make_table, monkeypatch):
    with receiving() as received:
        options: dict[str, Any] = {"sink__method": "PUT", "auth__token": "t"}
        table, writer = http_writer(make_table, received, monkeypatch, "/rows/{name}", **options)
        writer.write(3, [batch_of(table, _ROW, (2, "b/c", None, None, None))])
    assert [request[:2] for request in received.requests] == [("PUT", "/rows/%C3%A9"), ("PUT", "/rows/b%2Fc")]
    row = {"k": 1, "name": "é", "price": 1.5, "at": "2024-01-31T12:30:00Z", "tags": ["a"]}
    nulls = {"k": 2, "name": "b/c", "price": None, "at": None, "tags": None}
    assert [json.loads(body) for body in received.bodies] == [row, nulls]
    assert [key.rpartition("-")[0] for key in received.keys] == ["job%201-7-3-0", "job%201-7-3-1"]


def test_many_rows_are_an_array_or_lines(make_table, monkeypatch):
    columns = "k INT; v STRING"
    rows = [(k, "x") for k in range(5)]
    for body, parse in (("array", json.loads), ("lines", lambda text: [json.loads(line) for line in text.split("\n")])):
        with receiving() as received:
            options: dict[str, Any] = {"sink__body": body, "sink__batch_rows": 2}
            table, writer = http_writer(make_table, received, monkeypatch, columns=columns, **options)
            writer.write(0, [batch_of(table, *rows)])
        sent = [parse(text) for text in received.bodies]
        assert [len(rows) for rows in sent] == [2, 2, 1]
        assert [row["k"] for rows in sent for row in rows] == [0, 1, 2, 3, 4]


def test_repeats_have_the_same_key_and_other_rows_another(make_table, monkeypatch):
    with receiving() as received:
        table, writer = http_writer(make_table, received, monkeypatch, columns="k INT")
        for rows in ([(1,), (1,)], [(1,), (1,)], [(2,), (1,)]):
            writer.write(0, [batch_of(table, *rows)])
    keys = received.keys
    assert keys[:2] == keys[2:4]
    assert len(set(keys)) == 3
    assert keys[5] == keys[1]


@pytest.mark.parametrize("statuses", [(503, 0, 429, 200), (500, 500, 500, 201)])
def test_requests_are_tried_again_with_their_key(make_table, monkeypatch, statuses):
    with receiving(*statuses) as received:
        table, writer = http_writer(make_table, received, monkeypatch, columns="k INT")
        writer.write(0, [batch_of(table, (1,))])
    assert len(received.requests) == 4
    assert len(set(received.keys)) == 1


@pytest.mark.parametrize(
    ("statuses", "options", "tried", "cause"),
    [
        ((500,), {}, 4, "in 4 attempts: status 500: no !"),
        ((500,), {"sink__retries": 0}, 1, "in one attempt: status 500: no !"),
        ((400,), {}, 1, "in one attempt: status 400: no !"),
        ((400,), {"sink__retry__status": "400"}, 4, "in 4 attempts: status 400: no !"),
        ((302,), {}, 1, "in one attempt: status 302: no !"),
        ((0,), {"sink__retries": 1}, 2, "in 2 attempts: Server disconnected"),
    ],
)
def test_what_cannot_be_sent_fails_the_write(make_table, monkeypatch, statuses, options, tried, cause):
    with receiving(*statuses) as received:
        table, writer = http_writer(make_table, received, monkeypatch, columns="k INT", **options)
        with pytest.raises(ConnectorError) as error:
            writer.write(0, [batch_of(table, (1,), (2,))])
    assert len(received.requests) == tried
    assert str(error.value).startswith(
        'SS579: table "t" could not send 1 row of micro-batch 7 (Idempotency-Key job%201'
    )
    assert cause in str(error.value)


def test_delays_double_up_to_the_longest(make_table, monkeypatch):
    given = {"sink__retry__delay": "1 s", "sink__retry__max_delay": "5 s"}
    _, writer = http_writer(make_table, Received("http://h"), monkeypatch, **given)
    assert [writer.retry.delay(n) for n in (1, 2, 3, 4, 1000)] == [1, 2, 4, 5, 5]
    _, writer = http_writer(make_table, Received("http://h"), monkeypatch, sink__retry__strategy="fixed", **given)
    assert [writer.retry.delay(n) for n in (1, 1000)] == [1, 1]


def test_several_requests_may_be_under_way(make_table, monkeypatch):
    with receiving() as received:
        table, writer = http_writer(make_table, received, monkeypatch, columns="k INT", sink__requests=4)
        writer.write(0, [batch_of(table, *((k,) for k in range(30)))])
    assert sorted(json.loads(body)["k"] for body in received.bodies) == list(range(30))
    with receiving(400) as received:
        table, writer = http_writer(make_table, received, monkeypatch, columns="k INT", sink__requests=4)
        with pytest.raises(ConnectorError, match="SS579"):
            writer.write(0, [batch_of(table, *((k,) for k in range(30)))])
    assert len(received.requests) <= 8


def test_writers_tell_no_secret(make_table, monkeypatch):
    monkeypatch.setenv("TOKEN", "hunter2")
    _, writer = http_writer(make_table, Received("http://h"), monkeypatch, "/?t=${TOKEN}", auth__token="${TOKEN}")
    assert dict(writer.server.private)["Authorization"] == "Bearer hunter2"
    assert "hunter2" not in repr(writer)
    assert "hunter2" not in repr(replace(writer, batch=8))


# --- jobs -----------------------------------------------------------------------------------------------------

_BIDS = """
    CREATE TABLE bids (k INT, price INT, pt AS PROCTIME())
    WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')"""


def _bids(folder: Path, count: int) -> str:
    folder.mkdir()
    (folder / "1.csv").write_text("".join(f"{n % 10},{n}\n" for n in range(count)), encoding="utf-8")
    return _BIDS.format(folder)


@pytest.mark.spark
def test_a_job_writes_to_redis_by_key_and_another_looks_rows_up_there(spark, server, store, tmp_path):
    with sqlstream.connect(spark) as session:
        session.sql(_bids(tmp_path / "bids", 1000))
        session.sql(f"""
            CREATE TABLE prices (k INT, price INT, PRIMARY KEY (k) NOT ENFORCED)
            WITH ('connector' = 'redis', 'url' = '{server.url}', 'sink.batch-rows' = '7')""")
        _run(session, "INSERT INTO prices SELECT k, price FROM bids")
        joined = session.sql("""
            SELECT b.price, p.price AS last FROM bids AS b JOIN prices FOR SYSTEM_TIME AS OF b.pt AS p
            LOOKUP ASYNC (CAPACITY 4, BATCH 10) ON p.k = b.k WHERE b.price < 20""")
        assert isinstance(joined, Query)
        assert list(joined) == [(price, 990 + price % 10) for price in range(20)]
    assert {key: int(store.hget(key, "price")) for key in store.scan_iter()} == {
        f"prices:{k}".encode(): 990 + k for k in range(10)
    }


@pytest.mark.spark
def test_a_job_that_cannot_send_fails_and_goes_on_from_its_checkpoint(spark, tmp_path):
    bids = _bids(tmp_path / "bids", 30)
    with receiving(400) as received:
        with pytest.raises(SqlStreamError) as error:
            _send(spark, received, bids, tmp_path)
        assert 'SS579: table "out" could not send 10 rows of micro-batch ' in str(error.value)
        assert "in one attempt: status 400: no !" in str(error.value)
        failed = received.keys[0]
        received.statuses[:] = [200]
        received.requests.clear()
        _send(spark, received, bids, tmp_path)
    sent = [row for body in received.bodies for row in json.loads(body)]
    assert [row["price"] for row in sent] == list(range(30))
    assert failed == received.keys[0]


def _send(spark: Any, received: Received, bids: str, folder: Path) -> None:
    with sqlstream.connect(spark) as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{folder / 'checkpoints'}'")
        session.sql(bids)
        session.sql(f"""
            CREATE TABLE out (k INT, price INT) WITH ('connector' = 'http', 'url' = '{received.address}/rows',
            'sink.body' = 'array', 'sink.batch-rows' = '10')""")
        _run(session, "INSERT INTO out SELECT k, price FROM bids")


def _run(session: sqlstream.Session, sql: str) -> None:
    job = session.sql(sql)
    assert isinstance(job, Job)
    job.wait()
