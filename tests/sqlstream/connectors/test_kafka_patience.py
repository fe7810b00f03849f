"""What is asked again while a broker that was killed starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sqlstream.errors import ConnectorError
from sqlstream.sources.kafka import brokers as kafka_brokers
from sqlstream.sources.kafka.brokers import Brokers
from sqlstream.sources.kafka.groups import ConsumerGroup
from sqlstream.sources.kafka.offsets import Bound, Partition, TopicSettings
from sqlstream.testing.kafka_broker import Broker, running_broker
from sqlstream.udfs.kafka import admin
from tests.sqlstream.connectors.test_kafka_source import Run, Topics

SETTINGS = TopicSettings(
    {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, ("t",), None, None, Bound("earliest-offset"), None,
    "none", None, 0, False,
)  # fmt: skip


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE])
def test_what_passes_when_leaders_are_elected_is_asked_again(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_brokers, "_AGAIN_SECONDS", 0.1)
    answers: Iterator[KafkaException | int] = iter([KafkaException(KafkaError(code)), 7])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    with closing(Brokers(SETTINGS)) as brokers:
        assert brokers._patiently(ask) == 7


@pytest.mark.spark  # the broker needs Java
@pytest.mark.long
def test_a_job_goes_on_with_a_broker_that_starts_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """Its client knows the leaders of before, whom the broker does not take for its own any more."""
    with running_broker(tmp_path) as broker:
        topics = Topics(broker)
        topic = topics.create(2)
        run = Run(topics.settings(topic, stop=None, discovery_ms=60_000))
        topics.send(topic, b"a")
        assert run.batch() == [b"a"]
        for end in (broker.kill, broker.stop):
            end()
            start = Timer(2, broker.start)
            start.start()
            assert run.batch() == []
            start.join()
            topics.send(topic, b"b", partition=1)
            assert run.batch() == [b"b"]
        run.stream.stop()


def test_what_does_not_pass_is_an_error_at_once() -> None:
    def ask() -> int:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    with closing(Brokers(SETTINGS)) as brokers, pytest.raises(ConnectorError, match=r"SS590: .*authorization failed"):
        brokers._patiently(ask)


class Listing:
    """A client whose lists of topics are some after the other, each from topics to the numbers of their partitions; the
    last one is repeated.
    """

    def __init__(self, *lists: dict[str, list[int]]) -> None:
        self.lists = list(lists)
        self.asked = 0

    def poll(self, _timeout: float) -> int:
        return 0

    def list_topics(self, timeout: float) -> Any:
        self.asked += 1
        listed = self.lists[min(self.asked, len(self.lists)) - 1]
        topics = {name: SimpleNamespace(partitions=dict.fromkeys(numbers)) for name, numbers in listed.items()}
        return SimpleNamespace(topics=topics)

    def describe_topics(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}


def listed(
    monkeypatch: pytest.MonkeyPatch, known: set[Partition], listing: Listing, settings: TopicSettings = SETTINGS
) -> list[int]:
    """The numbers of the partitions of the topic t, as a job finds them that knows some."""
    monkeypatch.setattr(kafka_brokers, "_INCOMPLETE_SECONDS", 1.2)
    brokers = Brokers(settings)
    real, brokers._admin = brokers._admin, listing  # type: ignore[assignment]
    admin.close(real)
    found = brokers._partitions(known)
    assert brokers._partitions(known) == found
    return [number for _, number in found]


def test_an_incomplete_list_of_partitions_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {Partition("t", number) for number in range(2)}
    assert listed(monkeypatch, known, Listing({"t": [0]}, {}, {"t": [0, 1]})) == [0, 1]
    assert listed(monkeypatch, set(), Listing({"t": [1]}, {"t": [0, 1]})) == [0, 1]  # numbers begin with 0


def test_a_topic_that_is_named_twice_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = Listing({"t": [0, 1]})
    assert listed(monkeypatch, set(), listing, replace(SETTINGS, topics=("t", "t"))) == [0, 1]
    assert listing.asked == 2


def test_a_partition_that_is_gone_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Listing({"t": [0]})
    assert listed(monkeypatch, {Partition("t", 0), Partition("t", 1)}, gone) == [0]
    assert 3 <= gone.asked <= 5  # for 1.2 s, and once more


def test_a_commit_of_a_group_whose_brokers_are_away_is_given_up_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kafka_brokers, "_COMMIT_SECONDS", 0.3)
    with closing(Brokers(replace(SETTINGS, group="g"))) as brokers:
        assert not brokers.commit({Partition("t", 0): 7})
        assert brokers.commit({})
    with closing(Brokers(SETTINGS)) as brokers:
        assert brokers.commit({Partition("t", 0): 7})  # of no group
    (said,) = [record.message for record in caplog.records if "not committed yet" in record.message]
    assert said == 'offsets of consumer group "g" are not committed yet: Local: Timed out'


def test_the_answer_to_an_earlier_commit_is_none_to_a_later_one() -> None:
    group = ConsumerGroup(SETTINGS.properties, "g", 5)
    real, place = group._consumer, Partition("t", 0)
    answers = iter([(None, 7), (KafkaError(KafkaError.UNKNOWN_MEMBER_ID), 9)])

    def poll(_seconds: float) -> None:
        error, offset = next(answers)
        group._hear(error, [TopicPartition(*place, offset)])

    group._consumer = SimpleNamespace(commit=lambda **_: None, poll=poll)  # type: ignore[assignment]
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        group.commit({place: 9})
    real.close()
