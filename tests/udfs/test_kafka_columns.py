"""Messages as columns, of both consumers of librdkafka: by its own functions, and by objects of confluent-kafka."""

from __future__ import annotations

import gc
import logging
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from sqlstream.errors import ConnectorError
from sqlstream.udfs.kafka import fetch, librdkafka
from sqlstream.udfs.kafka.clients import consumer_of, consumer_settings
from sqlstream.udfs.kafka.fetched import FIELDS, PLACES, Fetched, FetchingConsumer, Notice, Slot
from sqlstream.udfs.kafka.objects import ObjectConsumer
from sqlstream.udfs.kafka.reader import Reader, Span

EVERY = tuple(name for name in FIELDS if name not in PLACES)
SLOTS: dict[Slot, int] = {("t", 0): 0, ("t", 1): 1, ("u", 0): 2}
LONG = bytes(range(256)) * 1000


class Mock:
    """librdkafka's broker of tests, which lives within a producer, and what was sent to it."""

    def __init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "linger.ms": 20})
        self.producer.list_topics("t")
        self.producer.list_topics("u")
        (broker,) = self.producer.list_topics().brokers.values()
        self.properties = {"bootstrap.servers": f"{broker.host}:{broker.port}", "fetch.wait.max.ms": "10"}

    def send(self, topic: str, value: bytes | None, partition: int = 0, **given: Any) -> None:
        self.producer.produce(topic, value, partition=partition, **given)

    def flush(self) -> None:
        assert self.producer.flush(20) == 0


@pytest.fixture(scope="module")
def mock() -> Mock:
    mock = Mock()
    values = [b"short", None, b"", b"longer than twelve bytes", LONG, b"last"]
    for number in range(60):
        headers: Any = [("a", b"x"), ("b", None), ("a", b"")] if number % 3 == 0 else None
        key = (None, b"", b"k%d" % number)[number % 3]
        topic, partition = [*SLOTS][number % 3]
        mock.send(topic, values[number % 6], partition, key=key, headers=headers, timestamp=1_000 + number)
    mock.flush()
    return mock


def by_functions(properties: dict[str, str], fields: tuple[str, ...] = EVERY) -> librdkafka.ColumnConsumer:
    library = librdkafka.library()
    assert library is not None  # tests run with a wheel, which has one
    return librdkafka.ColumnConsumer(library, consumer_settings(properties), fields)


def by_objects(properties: dict[str, str], fields: tuple[str, ...] = EVERY) -> ObjectConsumer:
    return ObjectConsumer(consumer_of(properties), fields)


MADE: tuple[Callable[..., FetchingConsumer], ...] = (by_functions, by_objects)


@pytest.fixture(params=MADE)
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., FetchingConsumer]]:
    made: list[FetchingConsumer] = []

    def make(*given: Any) -> FetchingConsumer:
        made.append(request.param(*given))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def whole(consumer: FetchingConsumer, slots: dict[Slot, int] = SLOTS) -> list[Fetched]:
    """What comes until all partitions have said that they end."""
    consumer.assign((slot, 0) for slot in slots)
    come: list[Fetched] = []
    while sum(len(fetched.notices) for fetched in come) < len(slots):
        come.append(consumer.fetch(slots, 1.0))
    return come


def rows(come: list[Fetched]) -> list[tuple[Any, ...]]:
    tuples: list[tuple[Any, ...]] = []
    for fetched in come:
        columns = (column.to_pylist() for column in fetched.columns.values())
        tuples += zip(fetched.index.tolist(), fetched.offsets.tolist(), *columns, strict=True)
    return sorted(tuples, key=lambda row: row[:2])


def test_both_consumers_give_the_same_of_every_field(mock: Mock):
    found: dict[Any, list[tuple[Any, ...]]] = {}
    others: dict[Any, list[Notice]] = {}
    for make in MADE:
        consumer = make(mock.properties)
        come = whole(consumer)
        found[make], others[make] = rows(come), sorted(notice for fetched in come for notice in fetched.notices)
        assert all(column.type == FIELDS[name] for each in come for name, column in each.columns.items())
        consumer.close()
    first, second = found.values()
    assert first == second
    assert others[by_functions] == others[by_objects]
    assert [(n.code, n.slot, n.offset) for n in others[by_functions]] == [
        (KafkaError._PARTITION_EOF, slot, 20) for slot in SLOTS
    ]
    assert len(first) == 60
    named = [dict(zip(("index", "offset", *EVERY), row, strict=True)) for row in first]
    assert {row["value"] for row in named if row["index"] == 1} == {None, LONG}
    assert {row["key"] for row in named if row["index"] == 1} == {b""}
    assert named[0]["headers"] == [{"key": "a", "value": b"x"}, {"key": "b", "value": None}, {"key": "a", "value": b""}]
    assert named[20]["headers"] is None
    assert [row["timestamp"].timestamp() for row in named[:2]] == [1.0, 1.003]


def test_only_the_fields_that_are_asked_for_are_made(mock: Mock, make: Callable[..., FetchingConsumer]):
    come = whole(make(mock.properties, ("key",)))
    assert {name for fetched in come for name in fetched.columns} == {"key"}
    assert len(rows(come)) == 60
    assert len(rows(whole(make(mock.properties, ())))) == 60


def test_what_is_added_and_left_is_fetched_and_is_not(mock: Mock, make: Callable[..., FetchingConsumer]):
    consumer = make(mock.properties, ("value",))
    whole(consumer)
    assert consumer.bounds(("t", 1), 5) == (0, 20)
    consumer.leave([("t", 0), ("u", 0)])
    consumer.add(("t", 0), 18)
    fetched = consumer.fetch(SLOTS, 5)
    assert rows([fetched]) == [(0, 18, b"short"), (0, 19, b"longer than twelve bytes")]
    with pytest.raises(KafkaException, match="_CONFLICT"):
        consumer.add(("t", 0), 1)


def test_a_consumer_that_is_closed_can_do_nothing(mock: Mock, make: Callable[..., FetchingConsumer]):
    consumer = make(mock.properties)
    consumer.close()
    consumer.close()
    for use in (
        lambda: consumer.fetch(SLOTS, 0),
        lambda: consumer.assign([(("t", 0), 0)]),
        lambda: consumer.bounds(("t", 0), 1),
    ):
        with pytest.raises(RuntimeError, match=r"(?i)consumer (is )?closed"):
            use()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"no.such": "1"}, 'No such configuration property: "no.such"'),
        ({"fetch.wait.max.ms": "x"}, 'Invalid value for configuration property "fetch.wait.max.ms"'),
        ({"session.timeout.ms": "10", "heartbeat.interval.ms": "20", "max.poll.interval.ms": "1"}, "Failed to create"),
    ],
)
def test_wrong_properties_are_said_in_the_same_words(given: dict[str, str], reason: str):
    said = []
    for make in (fetch._consumer_for, lambda properties, fields: consumer_of(properties)):
        with pytest.raises(ConnectorError, match=r"SS590: options properties\.… of Kafka are wrong") as caught:
            make({"bootstrap.servers": "here:1", **given}, ())
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert reason in said[0]


def test_librdkafka_speaks_to_the_same_log(make: Callable[..., FetchingConsumer], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "sqlstream.kafka")
    consumer = make({"bootstrap.servers": "127.0.0.1:1", "debug": "conf", "client.id": "me"}, ())
    consumer.assign([(("t", 0), 0)])
    for _ in range(20):
        consumer.fetch({("t", 0): 0}, 0.05)
    levels = {record.levelname for record in caplog.records if "[me#consumer-" in record.getMessage()}
    assert levels == {"DEBUG", "ERROR"}  # what is configured, and that nobody answers
    assert not [r for r in caplog.records if r.getMessage().startswith("ERROR")]  # said once, and not twice


# --- memory ---------------------------------------------------------------------------------------------------------


def test_each_message_that_is_taken_is_given_back_once(mock: Mock, monkeypatch: pytest.MonkeyPatch):
    consumer = by_functions(mock.properties, ("value",))
    library, taken, given_back = librdkafka.library(), 0, list[int]()
    assert library is not None
    take, destroy = library.consume_batch_queue, library.message_destroy

    def counted(*arguments: Any) -> int:
        nonlocal taken
        count = int(take(*arguments))
        taken += count
        return count

    def noted(pointer: int) -> None:
        given_back.append(pointer)
        destroy(pointer)

    monkeypatch.setattr(library, "consume_batch_queue", counted)
    monkeypatch.setattr(library, "message_destroy", noted)
    come = whole(consumer)
    assert taken == len(given_back) == 60 + len(SLOTS)

    def fails(*_: Any) -> pa.Array:
        raise MemoryError

    monkeypatch.setitem(librdkafka._COLUMNS, "value", fails)
    with pytest.raises(MemoryError):
        whole(consumer)
    assert taken == len(given_back) > 60 + len(SLOTS)
    assert len(rows(come)) == 60
    consumer.close()


def test_columns_outlive_their_consumer_and_its_messages(mock: Mock):
    consumer = by_functions(mock.properties, ("key", "value"))
    come = whole(consumer)
    before = [(bytes(k or b""), v) for *_, k, v in rows(come)]
    consumer.close()
    del consumer
    gc.collect()
    again = whole(by_functions(mock.properties, ("key", "value")))
    assert [(bytes(k or b""), v) for *_, k, v in rows(come)] == before
    assert rows(again) == rows(come)
    for fetched in come:
        for column in fetched.columns.values():
            column.validate(full=True)


@pytest.mark.parametrize("views", [False, True])  # whether Arrow has them
@pytest.mark.parametrize("sizes", [(0, 1, 12, 13, 900), (13, 14, 900), (0,), (None, 13, 5), (None,)])
def test_values_are_copied_wherever_they_lie(
    sizes: tuple[int | None, ...], views: bool, monkeypatch: pytest.MonkeyPatch
):
    """Buffers of any order and distance, with NULLs and empty values among them."""
    if not views:
        monkeypatch.setattr(librdkafka, "_has_views", lambda: False)
    monkeypatch.setattr(librdkafka, "_REGION", 12)
    random = np.random.default_rng(3)
    memory = [np.frombuffer(random.bytes(9000), np.uint8) for _ in range(4)]
    messages = np.zeros(400, librdkafka._MESSAGE)
    expected: list[bytes | None] = []
    for message in messages:
        source, begin, size = memory[random.integers(4)], int(random.integers(8000)), sizes[random.integers(len(sizes))]
        if size is None:
            expected.append(None)
            continue
        message["payload"], message["len"] = source.ctypes.data + begin, size
        expected.append(source[begin : begin + size].tobytes())
    library = librdkafka.library()
    assert library is not None
    column = librdkafka._COLUMNS["value"]
    for piece in (slice(None), slice(0, 0), slice(0, 1), slice(5, 6)):
        made = column(library, messages[piece], np.zeros(0, np.uintp))
        made.validate(full=True)
        assert made.type == FIELDS["value"]
        assert made.to_pylist() == expected[piece]


def test_memory_does_not_grow_with_what_is_fetched():
    mock, count = Mock(), 4000
    for number in range(count):
        mock.send("t", b"%01000d" % number)
    mock.flush()
    consumer = by_functions(mock.properties, ("value",))
    sizes = []
    for _ in range(40):  # of 4 MB each
        reader = Reader(consumer)  # which begins again
        assert sum(len(fetched) for fetched in reader.read({("t", 0): Span(0, count)}, False)) == count
        sizes.append(_peak_mb())
    assert sizes[-1] - sizes[9] < 40
    consumer.close()


def _peak_mb() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit >> 20


# --- which consumer -------------------------------------------------------------------------------------------------


def test_objects_are_read_where_functions_cannot_be_called(mock: Mock, monkeypatch: pytest.MonkeyPatch):
    def kind(**more: str) -> type:
        consumer = fetch._consumer_for({**mock.properties, **more}, ("value",))
        consumer.close()
        return type(consumer)

    assert kind() is librdkafka.ColumnConsumer
    monkeypatch.setattr(fetch, "consumer_of", lambda properties: consumer_of(mock.properties))
    assert kind(**{"plugin.library.paths": "monitoring-interceptor"}) is ObjectConsumer
    assert kind(**{"sasl.oauthbearer.token.function": "a.module:token"}) is ObjectConsumer
    for change in (
        ("_OLDEST", 0x7FFFFFFF),
        ("_QUICK", {"no_such_function": (None,)}),
    ):
        librdkafka.library.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(librdkafka, *change)
            assert kind() is ObjectConsumer
    librdkafka.library.cache_clear()
    assert kind() is librdkafka.ColumnConsumer
