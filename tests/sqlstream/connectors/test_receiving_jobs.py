"""Jobs over messages that are received: nothing is lost and nothing doubled where they stop and go on."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.session import Session
from tests.server_places import free_port
from tests.sqlstream.connectors.test_sse import Events
from tests.sqlstream.connectors.test_websocket import Sockets, says
from tests.web_server import serving

pytestmark = pytest.mark.spark

TOKEN = "hunter2hunter2"


@pytest.fixture
def session(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("HOOK_TOKEN", TOKEN)
    with sqlstream.connect(spark) as session:
        session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'jobs'}'; SET 'pipeline.name' = 'copy'")
        session.sql(
            "CREATE TABLE copy (id BIGINT, name STRING, sent STRING) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'copy'}', 'format' = 'json')"
        )
        yield session


def start(session: Session, statement: str) -> Job:
    job = session.sql(statement)
    assert isinstance(job, Job)
    return job


def ids(folder: Path) -> set[int]:
    """What has come to the sink, among it what a micro-batch has written that is repeated."""
    files = [path for path in (folder / "copy").rglob("*.json") if path.name[0] not in "._"]
    return {json.loads(line)["id"] for path in files for line in path.read_text().split("\n") if line.endswith("}")}


def wait(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def send(port: int, body: bytes, key: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers = {"Authorization": f"Bearer {TOKEN}", **({"Idempotency-Key": key} if key else {})}
        connection.request("POST", "/orders", body, headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.long
def test_messages_are_rows_once_where_a_job_goes_on_and_where_another_has_its_savepoint(session, tmp_path):
    """A job with a source of each kind, which is stopped, started again, and started from its savepoint."""
    hook = free_port()
    events = Events([[b'id: a\nevent: add\ndata: {"id": 11,\ndata: "name": "x"}\n\n', b'id: b\ndata: {"id": 12}\n\n']])
    sockets = Sockets(says('{"id": 21}', '{"id": 22}'))
    with serving(events) as sse, serving(sockets) as websocket:
        session.sql(
            "CREATE TABLE orders (id BIGINT, name STRING, sent STRING METADATA FROM 'request-id') WITH ("
            f"'connector' = 'webhook', 'port' = '{hook}', 'path' = '/orders', 'auth.token' = '${{HOOK_TOKEN}}', "
            "'format' = 'json', 'split' = 'lines', 'on-error' = 'skip');"
            "CREATE TABLE events (id BIGINT, name STRING, kind STRING METADATA FROM 'event-type') WITH ("
            f"'connector' = 'sse', 'url' = 'http://127.0.0.1:{sse}/', 'format' = 'json', 'reconnect.delay' = '10 ms');"
            "CREATE TABLE stream (id BIGINT, received TIMESTAMP METADATA FROM 'received-at') WITH ("
            f"'connector' = 'websocket', 'url' = 'ws://127.0.0.1:{websocket}/', 'format' = 'json', "
            "'reconnect.delay' = '10 ms')"
        )
        statement = (
            "INSERT INTO copy SELECT id, name, sent FROM orders UNION ALL SELECT id, name, kind FROM events "
            "UNION ALL SELECT id, CAST(received > TIMESTAMP '2020-01-01 00:00:00' AS STRING), 'socket' FROM stream"
        )
        job = start(session, statement)
        wait(lambda: send(hook, b'{"id": 1, "name": "\xc3\xbc\xe2\x80\xa8"}\n{"id": 2}\nno json', "k1") == 200)
        assert send(hook, b'{"id": 1}', "k1") == 200  # sent again
        wait(lambda: ids(tmp_path) == {1, 2, 11, 12, 21, 22})
        job.stop()
        before = len(events.asked)
        events.scripts.append([b'id: c\ndata: {"id": 13}\n\n'])
        sockets.scripts.append(says('{"id": 23}'))
        job = start(session, statement)
        wait(lambda: send(hook, b'{"id": 3}', "k3") == 200)
        assert send(hook, b'{"id": 1}', "k1") == 200
        wait(lambda: ids(tmp_path) >= {3, 13, 23})
        savepoint = job.stop(savepoint=str(tmp_path / "savepoint"))
        assert events.ids[before] == "b" and events.ids[-1] == "c"
        assert send(hook, b'{"id": 9}') == 0
        session.sql(f"SET 'execution.state-recovery.path' = '{savepoint}'; SET 'pipeline.name' = 'other'")
        job = start(session, statement)
        wait(lambda: send(hook, b'{"id": 3}', "k3") == 200 and send(hook, b'{"id": 4}') == 200)
        wait(lambda: 4 in ids(tmp_path))
        job.stop(savepoint=str(tmp_path / "last"))  # behind the micro-batch, whose file may be there before its commit
    assert sorted(tuple(row.values()) for row in session.sql("SELECT * FROM copy").to_arrow().to_pylist()) == [
        (1, "ü\u2028", "k1"), (2, None, "k1"), (3, None, "k3"), (4, None, None),
        (11, "x", "add"), (12, None, "message"), (13, None, "message"),
        (21, "true", "socket"), (22, "true", "socket"), (23, "true", "socket"),
    ]  # fmt: skip
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)


def test_a_query_that_is_looked_at_shows_what_senders_keep(session):
    port = free_port()
    session.sql(
        "CREATE TABLE orders (id BIGINT) WITH ("
        f"'connector' = 'webhook', 'port' = '{port}', 'path' = '/orders', 'auth.token' = '${{HOOK_TOKEN}}', "
        "'format' = 'json')"
    )
    with session.sql("SELECT id FROM orders") as query:
        assert isinstance(query, Query)
        wait(lambda: send(port, b'{"id": 1}', "k1") == 503)
        assert query.fetchone() == (1,)


def test_changes_that_a_websocket_sends_are_changes_of_a_table(session):
    change = '{{"before": {}, "after": {}, "op": "{}"}}'.format
    sockets = Sockets(
        says(change("null", '{"id": 1, "n": 5}', "c"), change("null", '{"id": 2, "n": 7}', "c")),
        says(change('{"id": 1, "n": 5}', "null", "d"), change("null", '{"id": 3, "n": 1}', "c")),
    )
    with serving(sockets) as port:
        session.sql(
            "CREATE TABLE numbers (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ("
            f"'connector' = 'websocket', 'url' = 'ws://127.0.0.1:{port}/', 'format' = 'debezium-json', "
            "'reconnect.delay' = '10 ms');"
            "CREATE TABLE totals (total BIGINT, PRIMARY KEY (total) NOT ENFORCED) WITH ('connector' = 'memory')"
        )
        job = start(session, "INSERT INTO totals SELECT SUM(n) FROM numbers")

        def totals() -> list[tuple[Any, ...]]:
            return [tuple(row.values()) for row in session.sql("SELECT * FROM totals").to_arrow().to_pylist()]

        wait(lambda: totals() == [(8,)])
        job.stop()
