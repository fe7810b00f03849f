"""``sqlstream topics``: what brokers hold, as rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sqlstream.cli import run
from sqlstream.testing.kafka_broker import Broker
from tests.sqlstream.connectors.test_kafka_source import Topics


def test_wrong_properties_are_a_wrong_command(capsys: pytest.CaptureFixture[str]):
    assert run(["topics", "localhost:1", "--property", "acks"]) == 2
    assert '--property "acks" is no NAME=VALUE' in capsys.readouterr().err


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
