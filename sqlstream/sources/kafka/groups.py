"""The offsets of consumer groups: what a group has committed, and commits in its name."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlstream.sources.kafka.offsets import Offsets, Partition
from sqlstream.udfs.kafka.clients import consumer_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, TopicPartition

_POLL_SECONDS = 0.005
_MEMBERSHIP = ("session.timeout", "heartbeat.")
"""Properties of members of groups, of which this is none."""


class ConsumerGroup:
    """A consumer group, by a consumer that reads nothing.

    An AdminClient could do the same. But librdkafka (up to 2.16) ends the process by an assertion if the coordinator of
    a group goes away while an AdminClient waits for its answer (librdkafka's issues 3663 and 4605). ``seconds``: how
    long a commit may take, and how long ``close`` waits for one that nobody has answered.
    """

    def __init__(self, properties: Mapping[str, str], group: str, seconds: float) -> None:
        self._answers: list[tuple[KafkaError | None, Offsets]] = []
        self._seconds = seconds
        given = {name: value for name, value in properties.items() if not name.startswith(_MEMBERSHIP)}
        waits_ms = int(seconds * 1000)
        times = {"session.timeout.ms": waits_ms, "heartbeat.interval.ms": waits_ms // 3}
        self._consumer = consumer_of(given, group, on_commit=self._hear, **times)

    def committed(self, partitions: Collection[Partition], seconds: float) -> dict[Partition, int]:
        """What the group has committed; less than 0 for partitions of which it has nothing. Raises KafkaException."""
        from confluent_kafka import TopicPartition  # an optional package

        self._consumer.poll(0)
        found = self._consumer.committed([TopicPartition(*p) for p in partitions], timeout=seconds)
        _require_good(found)
        return _offsets_of(found)

    def commit(self, offsets: Offsets) -> None:
        """Commits offsets. Raises KafkaException where brokers do not take them in time."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition  # an optional package

        self._answers.clear()
        self._consumer.commit(offsets=[TopicPartition(*p, offset) for p, offset in offsets.items()], asynchronous=True)
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            self._consumer.poll(_POLL_SECONDS)
            for error, answered in self._answers:
                if answered == dict(offsets):  # else of an earlier commit that nobody waits for any more
                    if error is not None:
                        raise KafkaException(error)
                    return
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _hear(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        first = next((t.error for t in partitions if t.error is not None), None)
        self._answers.append((error or first, _offsets_of(partitions)))

    def close(self) -> None:
        self._consumer.close()


def _require_good(partitions: Sequence[TopicPartition]) -> None:
    from confluent_kafka import KafkaException  # an optional package

    for error in (t.error for t in partitions if t.error is not None):
        raise KafkaException(error)


def _offsets_of(partitions: Sequence[TopicPartition]) -> dict[Partition, int]:
    return {Partition(t.topic, t.partition): t.offset for t in partitions}
