"""What is asked again while a broker that was killed starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import KafkaError, KafkaException

from sqlstream.connectors.kafka.brokers import Brokers
from sqlstream.connectors.kafka.offsets import Bound, TopicSettings
from sqlstream.errors import ConnectorError

SETTINGS = TopicSettings(
    {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, ("t",), None, None, Bound("earliest-offset"), None,
    "none", None, 0, False,
)  # fmt: skip


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE])
def test_what_passes_when_leaders_are_elected_is_asked_again(code: int) -> None:
    answers: Iterator[KafkaException | int] = iter([KafkaException(KafkaError(code)), 7])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    with closing(Brokers(SETTINGS)) as brokers:
        assert brokers._patiently(ask) == 7


def test_what_does_not_pass_is_an_error_at_once() -> None:
    def ask() -> int:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    with closing(Brokers(SETTINGS)) as brokers, pytest.raises(ConnectorError, match=r"SS590: .*authorization failed"):
        brokers._patiently(ask)
