"""RabbitMQ as tables, against Debian's server: what is acknowledged is on disk, and what has a name is a row once.

The server takes some seconds to start, so all of it is one long test.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import validate
from sqlstream.errors import ConnectorError, SqlStreamError
from tests.server_places import free_port, is_listening
from tests.sqlstream.connectors.conftest import make_table as make_table
from tests.sqlstream.connectors.connectors_apart import EXAMPLES, register
from tests.sqlstream.connectors.received import Stream, settings_of

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
MODULE = EXAMPLES / "brokers" / "rabbitmq" / "sqlstream_rabbitmq.py"

needs_server = pytest.mark.skipif(
    not SERVER.exists(), reason="rabbitmq-server is not installed (apt-get install rabbitmq-server)"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    port, epmd = free_port(), free_port()
    environment = {
        **os.environ, "HOME": str(tmp_path), "ERL_EPMD_PORT": str(epmd), "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"test{port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port), "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(tmp_path / "mnesia"), "RABBITMQ_LOG_BASE": str(tmp_path / "logs"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(tmp_path / "plugins"), "RABBITMQ_PID_FILE": str(tmp_path / "pid"),
    }  # fmt: skip
    (tmp_path / "plugins").write_text("[].\n")
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen([SERVER], stdout=log, stderr=log, env=environment)
    end = time.monotonic() + 90
    while not is_listening(port):
        assert process.poll() is None and time.monotonic() < end, (tmp_path / "server.log").read_text()
        time.sleep(0.1)
    yield port
    process.terminate()
    process.wait(60)
    subprocess.run(["epmd", "-port", str(epmd), "-kill"], check=False, capture_output=True)


@pytest.fixture
def table(make_table: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    register(monkeypatch, "rabbitmq", "RabbitMq", MODULE)
    monkeypatch.setenv("QUEUES", "guest:guest")

    def make(port: int, **options: object) -> Any:
        given = {
            "url": f"amqp://${{QUEUES}}@127.0.0.1:{port}/", "queue": "orders", "format": "raw",
            "reconnect__delay": "20 ms", "declare": "true",
        }  # fmt: skip
        return make_table("rabbitmq", "line STRING", **{**given, **options})

    return make


def asked(port: int, do: Callable[[Any], Awaitable[Any]]) -> Any:
    import aio_pika

    async def ask() -> Any:
        async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/") as connection:
            return await do(await connection.channel())

    return asyncio.run(ask())


def publish(port: int, **texts: str) -> None:
    """Sends messages with their names."""
    import aio_pika

    async def do(channel: Any) -> None:
        for name, text in texts.items():
            sent = aio_pika.Message(text.encode(), message_id=name, headers={"kind": "k"})
            await channel.default_exchange.publish(sent, "orders")

    asked(port, do)


def left(port: int) -> int:
    """How many messages wait in the queue."""

    async def do(channel: Any) -> int:
        queue = await channel.declare_queue("orders", passive=True)
        return int(queue.declaration_result.message_count)

    number: int = asked(port, do)
    return number


@needs_server
@pytest.mark.long
def test_messages_are_acknowledged_when_they_are_stored_and_named_ones_are_rows_once(
    table, server, tmp_path, monkeypatch
):
    from aio_pika.message import IncomingMessage

    with Stream(settings_of(table(server), tmp_path)) as stream:
        stream.plan()
        stream.wait(lambda: not asked(server, lambda c: _is_missing(c)), 20)
        publish(server, m1="a", m2="ü")
        first, second = stream.messages(2)
        assert (first["value"], second["value"].decode(), first["id"], first["subject"]) == (b"a", "ü", "m1", "orders")
        assert dict(first["headers"]) == {"kind": "k"} and "guest:guest" not in repr(stream.settings)
        acknowledge, failures = IncomingMessage.ack, iter(range(1))

        async def fail_first(self: Any, multiple: bool = False) -> Any:
            if next(failures, None) is not None:
                raise ConnectionError("gone")
            return await acknowledge(self, multiple)

        monkeypatch.setattr(IncomingMessage, "ack", fail_first)
        publish(server, m3="c")
        assert stream.values(1) == [b"c"]
        publish(server, m4="d")
        assert stream.values(1) == [b"d"]
        stream.restart()
        stream.plan()
    publish(server, m5="e")
    with Stream(settings_of(table(server), tmp_path / "looks", lasting=False)) as looks:
        assert looks.values(1) == [b"e"]
    with Stream(settings_of(table(server), tmp_path)) as stream:
        assert stream.values(5) == [b"a", "ü".encode(), b"c", b"d", b"e"]
        time.sleep(0.2)
    assert left(server) == 0
    wrong: dict[str, dict[str, object]] = {
        "no queue": {"queue": "none", "declare": "false"},
        "no user": {"url": f"amqp://guest:wrong-wrong@127.0.0.1:{server}/"},
    }
    for name, options in wrong.items():
        with Stream(settings_of(table(server, **options), tmp_path / name)) as stream:
            message = f'SS661: amqp://127.0.0.1:{server}/ gives table "t" no messages: '
            with pytest.raises(SqlStreamError) as error:
                stream.values(1)
            assert "SS661" in str(error.value) and "wrong-wrong" not in str(error.value), message


async def _is_missing(channel: Any) -> bool:
    from aiormq.exceptions import ChannelNotFoundEntity

    try:
        await channel.declare_queue("orders", passive=True)
    except ChannelNotFoundEntity:
        return True
    return False


def test_wrong_options_are_told(table):
    def told(**options: object) -> str:
        return "\n".join(d.render() for d in validate(table(5672, **options), {}))

    assert told() == ""
    assert 'SS504: option "url" of table "t" is no address of RabbitMQ' in told(url="http://h")
    kind = __import__("sqlstream.connectors").connectors.find_connector("rabbitmq")
    with pytest.raises(ConnectorError, match='SS669: table "t" is read twice, and a queue gives each message once'):
        kind.receiver(table(5672), kind.resolved_values(table(5672)), 1)
