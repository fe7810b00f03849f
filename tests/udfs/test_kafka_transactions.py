"""Requests of transactions that brokers do not answer at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sqlstream.udfs.kafka.transactions import patiently


def failing_once(*error: Any) -> Callable[[float], str]:
    errors = [KafkaException(KafkaError(*error))]

    def ask(wait: float) -> str:
        if errors:
            raise errors.pop()
        return f"within {wait:.0f} s"

    return ask


@pytest.mark.parametrize(
    "error",
    [(KafkaError.NOT_COORDINATOR,), (KafkaError.COORDINATOR_NOT_AVAILABLE,), (KafkaError._TIMED_OUT, "", False, True)],
)
def test_a_coordinator_that_is_elected_is_asked_again(error):
    assert patiently(failing_once(*error), 9) == "within 9 s"


def test_other_errors_are_not_repeated():
    with pytest.raises(KafkaException):
        patiently(failing_once(KafkaError.TOPIC_AUTHORIZATION_FAILED), 9)
    with pytest.raises(KafkaException):  # the transaction must be aborted, whoever is the coordinator
        patiently(failing_once(KafkaError.NOT_COORDINATOR, "", False, False, True), 9)


def test_a_client_is_served_while_it_waits_so_that_it_renews_its_token():
    served: list[str] = []
    ask = failing_once(KafkaError._TIMED_OUT)
    assert patiently(ask, 60, lambda: served.append("served")) == "within 5 s"
    assert len(served) == 2
    with pytest.raises(KafkaException):  # a request that must not be repeated
        patiently(failing_once(KafkaError._TIMED_OUT), 60)


def test_what_lasts_too_long_is_given_up():
    def ask(wait: float) -> str:
        raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))

    with pytest.raises(KafkaException):
        patiently(ask, 0.1)
