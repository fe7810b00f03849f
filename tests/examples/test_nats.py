"""NATS JetStream as tables, against Debian's server: what is acknowledged is on disk, and is a row once."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import validate
from sqlstream.connectors.receiving.spool import Spool
from sqlstream.errors import SqlStreamError
from sqlstream.udfs.spool import messages_of
from tests.server_places import free_port, is_listening
from tests.sqlstream.connectors.conftest import make_table as make_table
from tests.sqlstream.connectors.connectors_apart import EXAMPLES, register
from tests.sqlstream.connectors.received import Stream, settings_of

SERVER = shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MODULE = EXAMPLES / "brokers" / "nats" / "sqlstream_nats.py"

pytestmark = pytest.mark.skipif(SERVER is None, reason="nats-server is not installed (apt-get install nats-server)")


def asked(port: int, do: Callable[[Any], Awaitable[Any]]) -> Any:
    """What the server answers to who has the token."""
    import nats

    async def ask() -> Any:
        client = await nats.connect(f"nats://hunter2hunter2@127.0.0.1:{port}")
        try:
            return await do(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(ask())


def publish(port: int, *texts: str) -> None:
    async def do(stream: Any) -> None:
        await asyncio.gather(*(stream.publish("orders.new", t.encode(), headers={"kind": "k"}) for t in texts))

    asked(port, do)


def acknowledged(port: int) -> int:
    """All messages up to which number were acknowledged."""
    number: int = asked(port, lambda stream: stream.consumer_info("orders", "job")).ack_floor.stream_seq
    return number


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    assert SERVER is not None
    port = free_port()
    command = [
        SERVER,
        "-js",
        "-a",
        "127.0.0.1",
        "-p",
        str(port),
        "-sd",
        str(tmp_path / "nats"),
        "--auth",
        "hunter2hunter2",
    ]
    with (tmp_path / "nats.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    end = time.monotonic() + 20
    while not is_listening(port):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    asked(port, lambda stream: stream.add_stream(name="orders", subjects=["orders.>"]))
    yield port
    process.terminate()
    process.wait(20)


@pytest.fixture
def table(make_table: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    register(monkeypatch, "nats", "Nats", MODULE)
    monkeypatch.setenv("NATS_TOKEN", "hunter2hunter2")

    def make(port: int, **options: object) -> Any:
        given = {
            "url": f"nats://127.0.0.1:{port}", "subject": "orders.*", "consumer": "job", "format": "raw",
            "auth__token": "${NATS_TOKEN}", "reconnect__delay": "20 ms", "ack__timeout": "1 s",
        }  # fmt: skip
        return make_table("nats", "line STRING", **{**given, **options})

    return make


def test_messages_are_acknowledged_when_they_are_stored(table, server, tmp_path):
    publish(server, "a", "ü")
    with Stream(settings_of(table(server), tmp_path)) as stream:
        first, second = stream.messages(2)
        assert (first["value"], second["value"].decode()) == (b"a", "ü")
        assert (first["id"], first["subject"], dict(first["headers"])) == ("1", "orders.new", {"kind": "k"})
        stream.wait(lambda: acknowledged(server) == 2)
        stream.restart()
        publish(server, "c")
        assert stream.values(1) == [b"c"]
        assert "hunter2" not in repr(stream.settings)


def test_who_only_looks_takes_nothing(table, server, tmp_path):
    publish(server, "a")
    with Stream(settings_of(table(server), tmp_path / "looks", lasting=False)) as stream:
        assert stream.values(1) == [b"a"]
    with Stream(settings_of(table(server), tmp_path / "job")) as stream:
        assert stream.values(1) == [b"a"]
    with Stream(settings_of(table(server, consumer="late", scan__startup__mode="latest"), tmp_path / "late")) as stream:
        stream.plan()
        stream.wait(lambda: "late" in [c.name for c in asked(server, lambda s: s._jsm.consumers_info("orders"))])
        publish(server, "new")
        assert stream.values(1) == [b"new"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"auth__token": "wrong-wrong"},
            'SS661: nats://127.0.0.1:{port} gives table "t" no messages: nats: \'Authorization',
        ),
        ({"subject": "bids"}, 'SS661: nats://127.0.0.1:{port} gives table "t" no messages: '),
        ({"stream": "bids"}, 'SS661: nats://127.0.0.1:{port} gives table "t" no messages: '),
    ],
)
def test_what_another_attempt_would_not_change_fails(table, server, tmp_path, options, message):
    with Stream(settings_of(table(server, **options), tmp_path)) as stream, pytest.raises(SqlStreamError) as error:
        stream.values(1)
    assert message.format(port=server) in str(error.value) and "wrong-wrong" not in str(error.value)


def test_a_stream_that_was_made_again_is_read_from_its_first_message(table, server, tmp_path):
    """Whose numbers begin again."""
    publish(server, "a", "b")
    with Stream(settings_of(table(server), tmp_path)) as stream:
        assert stream.values(2) == [b"a", b"b"]
        stream.wait(lambda: acknowledged(server) == 2)
        stream.reader.stop()
        asked(server, lambda s: s.delete_stream("orders"))
        asked(server, lambda s: s.add_stream(name="orders", subjects=["orders.>"]))
        publish(server, "c")
        stream.restart()
        assert stream.values(1) == [b"c"]


def test_a_consumer_that_acknowledges_by_itself_is_refused(table, server, tmp_path):
    """What it has given would be lost with the process."""
    from nats.js.api import AckPolicy, ConsumerConfig

    publish(server, "a")
    config = ConsumerConfig(durable_name="mine", ack_policy=AckPolicy.NONE)
    asked(server, lambda s: s.add_consumer("orders", config))
    settings = settings_of(table(server, consumer="mine"), tmp_path)
    with (
        Stream(settings) as stream,
        pytest.raises(SqlStreamError, match=r"SS661: .* for acknowledged \(ack_policy none"),
    ):
        stream.values(1)


def test_wrong_options_are_told(table):
    def told(**options: object) -> str:
        return "\n".join(d.render() for d in validate(table(4222, **options), {}))

    assert told() == ""
    assert 'SS504: option "consumer" of table "t" has ".", which no name of a consumer has' in told(consumer="a.b")
    assert 'SS503: options "auth.username" and "auth.password" need each other' in told(auth__username="me")
    assert 'SS502: connector "nats" has no option "topic"' in told(topic="x")


def test_what_was_stored_and_not_acknowledged_is_no_row_again(table, server, tmp_path, monkeypatch):
    from nats.aio.msg import Msg
    from nats.errors import TimeoutError as NoAnswer

    acknowledge, failures = Msg.ack_sync, iter(range(3))

    async def fail_first(self: Any, timeout: float = 1.0) -> Any:
        if next(failures, None) is not None:
            raise NoAnswer
        return await acknowledge(self, timeout)

    monkeypatch.setattr(Msg, "ack_sync", fail_first)
    publish(server, "a", "b", "c")
    with Stream(settings_of(table(server, ack__timeout="200 ms"), tmp_path)) as stream:
        assert stream.values(3) == [b"a", b"b", b"c"]
        stream.wait(lambda: acknowledged(server) == 3)
        publish(server, "d")
        assert stream.values(1) == [b"d"]


_JOB = """
import pickle, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from sqlstream.connectors.receiving.receiver import Receiving
from sqlstream.connectors.receiving.spool import Spool
receiver = pickle.loads(bytes.fromhex(sys.argv[3]))
receiving = Receiving(receiver, Spool(Path(sys.argv[2]), 2000), 1 << 30)
while receiving.error is None:
    time.sleep(0.05)
print(receiving.error, file=sys.stderr)
"""


@pytest.mark.long
def test_each_message_is_stored_once_when_the_process_is_killed(table, server, tmp_path):
    receiver = pickle.dumps(settings_of(table(server), tmp_path).receiver).hex()
    folder = tmp_path / "received" / "t"
    command = [sys.executable, "-c", _JOB, str(MODULE.parent), str(folder), receiver]

    def stored() -> int:
        return sum(path.stat().st_size for path in folder.glob("[!.]*.messages"))

    for run in range(3):
        process = subprocess.Popen(command)
        end, before = time.monotonic() + 120, stored()
        for n in range(10):
            publish(server, *(str(n) for n in range(run * 1000 + n * 100, run * 1000 + n * 100 + 100)))
        while stored() < before + 20_000:
            assert time.monotonic() < end
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
    with Stream(settings_of(table(server), tmp_path, remembered=2000)) as stream:
        stream.plan()
        stream.wait(lambda: acknowledged(server) == 3000, 120)
    spool = Spool(folder)
    values = [int(v) for b in messages_of(spool.ranges(0, spool.end), ("value",)) for v in b.column(0).to_pylist()]
    spool.close()
    assert sorted(values) == list(range(3000))
