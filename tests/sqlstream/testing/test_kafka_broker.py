"""The broker of tests answers, keeps its data when it is started again, and says why it does not start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sqlstream.testing.kafka_broker import Broker, BrokerError, kafka_jars, main
from tests.server_places import free_port

pytestmark = pytest.mark.spark  # it needs Java


def _sent(broker: Broker, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("letters", value)
    assert producer.flush(20) == 0


def _first(broker: Broker) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
    consumer.assign([TopicPartition("letters", 0, 0)])
    try:
        message = consumer.poll(20)
        assert message is not None
        return message.value()
    finally:
        consumer.close()


@pytest.mark.long  # its broker starts twice
def test_messages_outlive_a_broker_that_is_killed(kafka_broker: Broker, tmp_path: Path):
    broker = Broker(tmp_path / "own")
    broker.start()
    _sent(broker, b"a")
    broker.kill()
    broker.start()
    try:
        assert _first(broker) == b"a"
    finally:
        broker.stop()


def test_a_broker_that_cannot_start_says_what_java_said(kafka_broker: Broker, tmp_path: Path):
    with pytest.raises(BrokerError, match=r"process\.roles: String must be one of") as caught:
        Broker(tmp_path, properties={"process.roles": "baker"})
    assert str(tmp_path) in str(caught.value)


def test_the_command_says_how_tables_reach_it_and_ends_by_a_signal(kafka_broker: Broker):
    command = [sys.executable, "-m", "sqlstream.testing.kafka_broker", "--port", str(port := free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert "Kafka 4.3.1 runs" in lines[0]
    assert f"'properties.bootstrap.servers' = '127.0.0.1:{port}'" in lines[1]


def test_a_port_in_use_is_refused(kafka_broker: Broker, capsys: pytest.CaptureFixture[str]):
    assert main(["--port", str(kafka_broker.port)]) == 1
    assert "choose another one with --port" in capsys.readouterr().err


def test_without_a_cache_there_are_no_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BrokerError, match="XDG_CACHE_HOME may name one"):
        kafka_jars()
