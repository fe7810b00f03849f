"""What a reader of topics keeps between micro-batches: messages fetched ahead, of which topic, and how many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from sqlstream.errors import ConnectorError
from sqlstream.udfs.kafka import reader as kafka_reader
from sqlstream.udfs.kafka.clients import consumer_of
from sqlstream.udfs.kafka.fetched import Slot
from sqlstream.udfs.kafka.objects import ObjectConsumer
from sqlstream.udfs.kafka.reader import Reader, Span

Given = tuple[int, int, bytes]
"""A message: partition, offset and value."""


class Listed:
    """A consumer that gives messages as they are listed, each list at once, and notes what it is told."""

    def __init__(self, *batches: Sequence[Given]) -> None:
        self.batches = [[message(*given) for given in batch] for batch in batches]
        self.assigned: list[list[tuple[int, int]]] = []
        self.left: list[list[int]] = []
        self.bounds: list[tuple[int, int] | int | None] = []
        self.told = -1001

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.assigned.append([(place.partition, place.offset) for place in places])

    def incremental_unassign(self, places: Iterable[TopicPartition]) -> None:
        self.left.append([place.partition for place in places])

    def get_watermark_offsets(
        self, place: TopicPartition, timeout: float = 0, cached: bool = False
    ) -> tuple[int, int] | None:
        if cached:
            return 0, self.told
        answer = self.bounds.pop(0)
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    def consume(self, most: int, wait: float) -> list[Message]:
        return self.batches.pop(0) if wait else []


def message(partition: int, offset: int, value: bytes) -> Message:
    return Message(topic="t", partition=partition, offset=offset, value=value)


def read(reader: Reader, **spans: Span) -> list[bytes | None]:
    """The values of the messages of ranges, which are named by p and the number of the partition."""
    ranges: dict[Slot, Span] = {("t", int(name[1:])): span for name, span in spans.items()}
    return [value for given in reader.read(ranges, False) for value in given.columns["value"].to_pylist()]


def reader_of(*batches: Sequence[Given]) -> tuple[Reader, Listed]:
    consumer = Listed(*batches)
    return Reader(ObjectConsumer(consumer, ("value",))), consumer  # type: ignore[arg-type]


FOUR = [(0, n, b"old%d" % n) for n in range(4)]


def test_messages_that_were_fetched_ahead_are_given_to_the_next_micro_batch():
    reader, consumer = reader_of(FOUR)
    assert read(reader, p0=Span(0, 2, "one")) == [b"old0", b"old1"]
    assert read(reader, p0=Span(2, 4, "one")) == [b"old2", b"old3"]
    assert consumer.assigned == [[(0, 0)]]


@pytest.mark.parametrize("other", ["two", None])
def test_messages_of_a_topic_that_was_made_again_are_not_those_fetched_ahead_of_the_old_one(other: str | None):
    reader, consumer = reader_of(FOUR, [(0, 2, b"new2"), (0, 3, b"new3")])
    assert read(reader, p0=Span(0, 2, "one")) == [b"old0", b"old1"]
    assert read(reader, p0=Span(2, 4, other)) == [b"new2", b"new3"]
    assert consumer.assigned == [[(0, 0)], [(0, 2)]]


def test_a_partition_that_is_waited_for_does_not_let_the_others_fill_the_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka_reader, "_MOST_BYTES_AHEAD", 10)
    reader, consumer = reader_of(
        FOUR, [(0, 4, b"more"), (0, 5, b"more")], [(0, 6, b"late")], [(1, 0, b"other")], [(0, 2, b"again")],
    )  # fmt: skip
    assert read(reader, p0=Span(0, 2), p1=Span(0, 1)) == [b"old0", b"old1", b"other"]
    assert consumer.left == [[0]]
    assert read(reader, p0=Span(2, 3)) == [b"again"]
    assert consumer.assigned == [[(0, 0), (1, 0)], [(0, 2)]]
    assert consumer.batches == []


def test_a_partition_that_goes_on_alone_is_not_fetched_again_because_another_was_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka_reader, "_MOST_AHEAD", 2)
    reader, consumer = reader_of(FOUR, [(1, 0, b"a")], [(1, 1, b"b")])
    assert read(reader, p0=Span(0, 2), p1=Span(0, 1)) == [b"old0", b"old1", b"a"]
    assert read(reader, p1=Span(1, 2)) == [b"b"]
    assert (len(consumer.assigned), consumer.left) == (1, [[0]])


END = Message(topic="t", partition=0, offset=2, error=KafkaError(KafkaError._PARTITION_EOF))


def test_an_answer_without_offsets_is_no_loss_of_messages(monkeypatch: pytest.MonkeyPatch):
    """What librdkafka says while a leader is elected."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    reader, consumer = reader_of()
    consumer.batches = [[END], [message(0, 2, b"late")]]
    consumer.bounds = [(-1001, -1001), KafkaError._UNKNOWN_PARTITION, None, (0, 3)]
    assert read(reader, p0=Span(2, 3)) == [b"late"]
    assert consumer.bounds == []


def test_a_partition_that_is_shorter_than_it_was_has_lost_messages(monkeypatch: pytest.MonkeyPatch):
    reader, consumer = reader_of()
    consumer.batches, consumer.bounds = [[END], [END]], [(0, 2), KafkaError.UNKNOWN_TOPIC_OR_PART]
    with pytest.raises(ConnectorError, match=r"SS592: .* t\[0\] ends at offset 2 now, not at 3"):
        read(reader, p0=Span(2, 3))
    with pytest.raises(ConnectorError, match=r"SS590: Kafka does not say what t\[0\] holds: .+"):
        read(reader, p0=Span(2, 3))


def test_messages_of_a_transaction_that_has_not_ended_are_not_lost():
    reader, consumer = reader_of()
    consumer.batches, consumer.bounds, consumer.told = [[END], [message(0, 2, b"late")]], [(0, 2)], 3
    assert read(reader, p0=Span(2, 3)) == [b"late"]


def test_a_login_that_fails_names_no_partition():
    reader, consumer = reader_of()
    refused = Message(topic=None, partition=-1, error=KafkaError(KafkaError._AUTHENTICATION, "Authentication failure"))
    of_partition = Message(
        topic="t", partition=0, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Not allowed")
    )
    consumer.batches = [[refused], [of_partition]]
    with pytest.raises(ConnectorError, match=r"^SS590: Kafka gives no messages: Authentication failure"):
        read(reader, p0=Span(2, 3))
    with pytest.raises(ConnectorError, match=r"^SS590: Kafka gives no messages of t\[0\]: Not allowed"):
        read(reader, p0=Span(2, 3))


@pytest.mark.parametrize(("given", "waits"), [({}, "10"), ({"fetch.queue.backoff.ms": "70"}, "70")])
def test_librdkafka_does_not_wait_a_second_where_messages_lie_ready(monkeypatch, given, waits):
    configurations: list[dict[str, object]] = []

    class Noted(Listed):
        def __init__(self, configuration: dict[str, object], logger: object) -> None:
            super().__init__()
            configurations.append(configuration)

        def poll(self, seconds: float) -> None:
            """Says nothing."""

    monkeypatch.setattr("confluent_kafka.Consumer", Noted)
    consumer_of({"bootstrap.servers": "here:1", **given})
    assert configurations[0]["fetch.queue.backoff.ms"] == waits
