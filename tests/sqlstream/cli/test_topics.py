"""``sqlstream topics``: what brokers hold, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from sqlstream.cli import run
from sqlstream.testing.kafka_broker import Broker
from tests.sqlstream.connectors.test_kafka_source import Topics


def test_wrong_properties_are_a_wrong_command(capsys: pytest.CaptureFixture[str]):
    assert run(["topics", "localhost:1", "--property", "acks"]) == 2
    assert '--property "acks" is no NAME=VALUE' in capsys.readouterr().err


@pytest.fixture
def mock_brokers() -> Iterator[Producer]:
    """A producer to the brokers that librdkafka plays."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    yield producer
    producer.flush(5)


@pytest.mark.long
def test_the_last_messages_have_keys_headers_and_values(mock_brokers: Producer, capsys: pytest.CaptureFixture[str]):
    address = ",".join(f"{of.host}:{of.port}" for of in mock_brokers.list_topics(timeout=10).brokers.values())
    for number in range(3):
        mock_brokers.produce("seen", f"v{number}", key="k", partition=1, timestamp=1_500)
    mock_brokers.produce("seen", b"\xff", partition=0, headers=[("a", b"1"), ("a", None)], timestamp=1_000)
    mock_brokers.produce("seen", None, key="gone", partition=0, timestamp=2_000)
    assert mock_brokers.flush(10) == 0
    assert run(["topics", address, "seen", "--messages", "2", "--output", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    usual = {"topic": "seen", "headers": None}
    assert rows == [
        usual | {"partition": 0, "offset": 0, "timestamp": "1970-01-01T00:00:01Z", "key": None, "value": "/w==",
                 "headers": [["a", "1"], ["a", None]]},
        usual | {"partition": 0, "offset": 1, "timestamp": "1970-01-01T00:00:02Z", "key": "gone", "value": None},
        usual | {"partition": 1, "offset": 1, "timestamp": "1970-01-01T00:00:01.5Z", "key": "k", "value": "v1"},
        usual | {"partition": 1, "offset": 2, "timestamp": "1970-01-01T00:00:01.5Z", "key": "k", "value": "v2"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"), [((), "--messages needs a TOPIC"), (("a", "-g", "g"), "--messages excludes --group")]
)
def test_messages_are_those_of_topics_alone(words: Any, message: str, capsys: pytest.CaptureFixture[str]):
    assert run(["topics", "localhost:1", *words, "--messages", "1"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.spark  # the broker needs Java
def test_partitions_have_offsets_and_a_group_its_lag(kafka_broker: Broker, capsys: pytest.CaptureFixture[str]):
    topics = Topics(kafka_broker)
    topic, other = topics.create(2), topics.create()
    topics.send(topic, b"a", b"b", b"c")
    topics.eat(topic, 1)
    topics.commit("reports", topic, 2)

    def listed(*words: str) -> list[dict[str, Any]]:
        assert run(["topics", kafka_broker.address, *words, "--output", "jsonl"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    first = {"topic": topic, "partition": 0, "begin": 1, "end": 3, "messages": 2}
    second = {"topic": topic, "partition": 1, "begin": 0, "end": 0, "messages": 0}
    assert listed(topic) == [first, second]
    assert listed(topic, "--group", "reports") == [
        first | {"committed": 2, "lag": 1}, second | {"committed": None, "lag": None},
    ]  # fmt: skip
    assert {topic, other} <= {row["topic"] for row in listed()}
    assert run(["topics", kafka_broker.address, "nothing"]) == 1
    assert 'SS590: topic "nothing" does not exist' in capsys.readouterr().err
