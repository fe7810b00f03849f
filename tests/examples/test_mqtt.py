"""MQTT as tables, against Debian's mosquitto: what is acknowledged is on disk, and is a row once."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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

SERVER = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MODULE = EXAMPLES / "brokers" / "mqtt" / "sqlstream_mqtt.py"

pytestmark = pytest.mark.skipif(SERVER is None, reason="mosquitto is not installed (apt-get install mosquitto)")


def publish(port: int, *texts: str, topic: str = "orders/new", **properties: str) -> None:
    """Sends messages, each of which the broker has acknowledged when this returns."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.username_pw_set("me", "hunter2hunter2")
    given = Properties(PacketTypes.PUBLISH)
    if properties:
        given.UserProperty = list(properties.items())
    client.connect("127.0.0.1", port)
    client.loop_start()
    for sent in [client.publish(topic, text, qos=1, properties=given) for text in texts]:
        sent.wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    assert SERVER is not None
    port, passwords = free_port(), tmp_path / "passwords"
    passwords.write_text("me:hunter2hunter2\n")
    subprocess.run(["mosquitto_passwd", "-U", passwords], check=True, capture_output=True)
    (tmp_path / "mosquitto.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {passwords}\nuser root\n"
        "max_queued_messages 0\nlog_type all\n"
    )
    with (tmp_path / "mosquitto.log").open("wb") as log:
        process = subprocess.Popen([SERVER, "-c", tmp_path / "mosquitto.conf"], stdout=log, stderr=log)
    end = time.monotonic() + 20
    while not is_listening(port):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    yield port
    process.terminate()
    process.wait(20)


@pytest.fixture
def table(make_table: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    register(monkeypatch, "mqtt", "Mqtt", MODULE)
    monkeypatch.setenv("MQTT_PASSWORD", "hunter2hunter2")

    def make(port: int, **options: object) -> Any:
        given = {
            "url": f"mqtt://127.0.0.1:{port}", "topics": "orders/+, bids/#", "client_id": "job", "format": "raw",
            "auth__username": "me", "auth__password": "${MQTT_PASSWORD}", "reconnect__delay": "20 ms",
        }  # fmt: skip
        return make_table("mqtt", "line STRING", **{**given, **options})

    return make


def subscribed(folder: Path, stream: Stream, times: int = 1) -> None:
    """Waits until the session of the job is there for so many times."""
    stream.plan()
    stream.wait(lambda: (folder / "mosquitto.log").read_text().count("Sending SUBACK to job") >= times)


def test_a_session_keeps_what_comes_while_the_job_does_not_run(table, server, tmp_path):
    with Stream(settings_of(table(server), tmp_path)) as stream:
        subscribed(tmp_path, stream)
        stream.reader.stop()
        publish(server, "ü", "b", topic="bids/a/b", kind="k")
        stream.restart()
        first, second = stream.messages(2)
        assert (first["value"].decode(), second["value"], first["subject"]) == ("ü", b"b", "bids/a/b")
        assert dict(first["headers"]) == {"kind": "k"}
        assert "hunter2" not in repr(stream.settings)
    with Stream(settings_of(table(server), tmp_path / "looks", lasting=False)) as looks:
        looks.plan()
        looks.wait(lambda: "Sending SUBACK to sqlstream-" in (tmp_path / "mosquitto.log").read_text())
        publish(server, "c")
        assert looks.values(1) == [b"c"]
    with Stream(settings_of(table(server), tmp_path)) as stream:
        assert stream.values(3) == ["ü".encode(), b"b", b"c"]


def test_who_only_looks_takes_nothing_of_a_group(table, server, tmp_path):
    source = table(server, topics="$share/all/orders/+")
    with (
        Stream(settings_of(source, tmp_path)) as stream,
        Stream(settings_of(source, tmp_path / "looks", lasting=False)) as looks,
    ):
        subscribed(tmp_path, stream)
        looks.plan()
        looks.wait(lambda: "Sending SUBACK to sqlstream-" in (tmp_path / "mosquitto.log").read_text())
        publish(server, *"abcdef")
        assert stream.values(6) == looks.values(6) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_what_was_stored_and_not_acknowledged_is_no_row_again(table, server, tmp_path, monkeypatch):
    from paho.mqtt.client import Client

    acknowledged: list[int] = []
    acknowledge = Client.ack

    def fail_first(self: Client, mid: int, qos: int) -> Any:
        acknowledged.append(mid)
        if len(acknowledged) == 1:
            raise ConnectionError("gone")
        return acknowledge(self, mid, qos)

    monkeypatch.setattr(Client, "ack", fail_first)
    with Stream(settings_of(table(server), tmp_path)) as stream:
        subscribed(tmp_path, stream)
        publish(server, "a")
        assert stream.values(1) == [b"a"]
        subscribed(tmp_path, stream, 2)
        stream.wait(lambda: len(acknowledged) == 2)
        publish(server, "b")
        assert stream.values(1) == [b"b"]
    assert acknowledged[0] == acknowledged[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"auth__password": "wrong-wrong"},
            'SS661: mqtt://127.0.0.1:{port} gives table "t" no messages: Not authorized',
        ),
        ({"topics": "a/#/b", "reconnect__timeout": "1 ms"}, "SS660"),
    ],
)
def test_what_another_attempt_would_not_change_fails(table, server, tmp_path, options, message):
    with Stream(settings_of(table(server, **options), tmp_path)) as stream, pytest.raises(SqlStreamError) as error:
        stream.values(1)
    assert message.format(port=server) in str(error.value) and "wrong-wrong" not in str(error.value)


def test_wrong_options_are_told(table):
    def told(**options: object) -> str:
        return "\n".join(d.render() for d in validate(table(1883, **options), {}))

    assert told() == ""
    assert 'SS504: option "url" of table "t" is no address of MQTT' in told(url="http://h")
    assert 'SS504: value "2" of option "qos" is not accepted' in told(qos=2)


_JOB = """
import pickle, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from sqlstream.connectors.receiving.receiver import Receiving
from sqlstream.connectors.receiving.spool import Spool
receiver = pickle.loads(bytes.fromhex(sys.argv[3]))
receiving = Receiving(receiver, Spool(Path(sys.argv[2]), 10000), 1 << 30)
while receiving.error is None:
    time.sleep(0.05)
print(receiving.error, file=sys.stderr)
"""


@pytest.mark.long
def test_each_message_is_stored_once_when_the_process_is_killed(table, server, tmp_path):
    settings = settings_of(table(server), tmp_path)
    folder = tmp_path / "received" / "t"
    command = [sys.executable, "-c", _JOB, str(MODULE.parent), str(folder), pickle.dumps(settings.receiver).hex()]

    def stored() -> int:
        return sum(path.stat().st_size for path in folder.glob("[!.]*.messages"))

    with Stream(settings) as stream:  # makes the session
        subscribed(tmp_path, stream)
    for run in range(3):
        process = subprocess.Popen(command)
        end, before = time.monotonic() + 120, stored()
        publish(server, *(str(n) for n in range(run * 1000, run * 1000 + 1000)))
        while stored() < before + 20_000:
            assert time.monotonic() < end
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
    publish(server, "3000")
    with Stream(settings) as stream:
        stream.plan()
        assert stream.reader._spool is not None
        spool_in_use = stream.reader._spool
        stream.wait(lambda: spool_in_use.end >= 3001, 120)
    spool = Spool(folder)
    values = [int(v) for b in messages_of(spool.ranges(0, spool.end), ("value",)) for v in b.column(0).to_pylist()]
    spool.close()
    assert sorted(values) == list(range(3001))
