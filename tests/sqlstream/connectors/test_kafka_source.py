"""Where Kafka tables begin and end, what micro-batches plan and what tasks fetch: with a broker, and without Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from sqlstream.errors import ConnectorError
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.decoder import Field
from sqlstream.formats.registered import RegisteredAvro, header_of
from sqlstream.formats.schema_registry import Registry
from sqlstream.sources.kafka import brokers as kafka_brokers
from sqlstream.sources.kafka.offsets import Bound, TopicSettings
from sqlstream.sources.kafka.ranges import RangeStream, TopicWatermark, WholeTopics
from sqlstream.testing.kafka_broker import Broker
from sqlstream.types import DataType
from sqlstream.udfs.kafka import fetch as kafka_fetch
from sqlstream.udfs.kafka.admin import admin_of
from sqlstream.udfs.kafka.fetch import FetchedMessages
from sqlstream.udfs.kafka.records import TopicRecords
from sqlstream.udfs.kafka.samples import SizeBound
from sqlstream.udfs.kafka.times import TopicTimes
from sqlstream.udfs.lifts import lift_of
from tests.schema_registry import serving

pytestmark = pytest.mark.spark  # its broker needs Java

_numbers = count()

EARLIEST, LATEST = Bound("earliest-offset"), Bound("latest-offset")
_RECORDS = TopicRecords(CsvDecoder((Field("at", DataType("TIMESTAMP")),)), tolerant=True)
TIMES = TopicWatermark(TopicTimes(_RECORDS, "at"))


def until(holds: Callable[[], bool]) -> None:
    """Waits for what a broker does after it has answered."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Topics:
    """Makes topics, each of a name of its own, and fills them."""

    def __init__(self, broker: Broker) -> None:
        self.address = broker.address
        self.admin = admin_of(self, {"bootstrap.servers": broker.address})
        self.producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})

    def create(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"topic{next(_numbers)}"
        config = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        return name

    def send(self, topic: str, *values: bytes | None, partition: int = 0, **given: Any) -> None:
        for value in values:
            self.producer.produce(topic, value, partition=partition, **given)
        assert self.producer.flush(20) == 0

    def transaction(self, topic: str, *values: bytes, commits: bool) -> None:
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": f"id-{topic}-{next(_numbers)}"})
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(20) == 0
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        self.wait_for_end(topic)

    def wait_for_end(self, topic: str) -> None:
        """Waits until the broker has written the end of a transaction, which it does after its answer."""
        partition = TopicPartition(topic, 0)

        def ended() -> bool:
            levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            asked = [self.admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=of) for of in levels]
            stable, newest = (answers[partition].result(20).offset for answers in asked)
            return bool(stable == newest)

        until(ended)

    def commit(self, group: str, topic: str, offset: int) -> None:
        """Commits the offset of partition 0, once the group has a coordinator."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
        until(lambda: all(t.error is None for t in self._answer(asked).topic_partitions))

    def _answer(self, asked: ConsumerGroupTopicPartitions) -> Any:
        (answer,) = self.admin.alter_consumer_group_offsets([asked]).values()
        return answer.result()

    def committed(self, group: str, topic: str) -> int | None:
        """The offset of partition 0 from which the group goes on."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        (answer,) = self.admin.list_consumer_group_offsets([asked]).values()
        (place,) = answer.result().topic_partitions
        return None if place.offset < 0 else int(place.offset)

    def config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (answer,) = self.admin.describe_configs([resource]).values()
        return {name: str(entry.value) for name, entry in answer.result().items()}

    def configure(self, topic: str, **config: str) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        (answer,) = self.admin.incremental_alter_configs([resource]).values()
        answer.result()

    def eat(self, topic: str, before: int) -> None:
        """What retention does."""
        (answer,) = self.admin.delete_records([TopicPartition(topic, 0, before)]).values()
        answer.result()

    def settings(self, topic: str | None, **given: Any) -> TopicSettings:
        usual: dict[str, Any] = {
            "properties": {"bootstrap.servers": self.address}, "topics": (topic,) if topic else (), "pattern": None,
            "group": None, "start": EARLIEST, "stop": LATEST, "reset": "none", "most": None, "discovery_ms": 0,
            "skips_lost": False,
        }  # fmt: skip
        return TopicSettings(**{**usual, **given})


@pytest.fixture(scope="module")
def topics(kafka_broker: Broker) -> Iterator[Topics]:
    yield Topics(kafka_broker)
    for reader in kafka_fetch._readers.values():
        reader.consumer.close()
    kafka_fetch._readers.clear()


def fetched(settings: TopicSettings, shares: list[Any], columns: tuple[str, ...] = ("value",)) -> list[tuple[Any, ...]]:
    """The messages of planned shares, as tuples."""
    task = FetchedMessages(settings.properties, columns, settings.skips_lost)
    reader = WholeTopics(settings, 2)
    rows: list[dict[str, Any]] = []
    for share in shares:
        for batch in task.rows(reader.read(share)):
            rows += batch.to_pylist()
    return [tuple(row.values()) for row in rows]


def everything(settings: TopicSettings, columns: tuple[str, ...] = ("value",)) -> list[Any]:
    rows = fetched(settings, WholeTopics(settings, 2).partitions(), columns)
    return [row[0] for row in rows] if len(columns) == 1 else rows


class Run:
    """A stream over a topic, whose positions pass through JSON as in Spark's checkpoint."""

    def __init__(
        self, settings: TopicSettings, position: Mapping[str, Any] | None = None, *, timed: TopicWatermark | None = None
    ) -> None:
        watermarks = None if timed is None else timed.of(settings.properties)
        self.settings = settings
        self.stream = RangeStream(TopicSettings.of_json(settings.to_json()), 2, watermarks)
        self.position = dict(position) if position else self.stream.initialOffset()

    def batch(self) -> list[Any]:
        end = self.stream.latestOffset(self.position)
        shares = self.stream.partitions(self.position, end)
        self.position = end
        return [value for (value,) in fetched(self.settings, shares)]


def lifts(job: Run) -> list[int | None]:
    """How far the watermark may go behind the next micro-batch, as each of its tasks is told."""
    start = dict(job.position)
    job.position = job.stream.latestOffset(start)
    shares = job.stream.partitions(start, job.position)
    return [lift_of(job.stream.read(share)) for share in shares]


# --- where a table begins and ends ------------------------------------------------------------------------------


def test_bounds_are_those_of_flink(topics: Topics):
    topic = topics.create(2)
    topics.send(topic, b"a", b"b", b"c", timestamp=1000)
    topics.send(topic, b"d", timestamp=5000)
    topics.send(topic, b"x", b"y", partition=1, timestamp=3000)
    topics.commit("readers", topic, 3)

    def read(**given: Any) -> list[bytes]:
        return sorted(everything(topics.settings(topic, **given)))

    assert read() == [b"a", b"b", b"c", b"d", b"x", b"y"]
    assert read(start=LATEST) == []
    assert read(start=Bound("timestamp", 3000)) == [b"d", b"x", b"y"]
    assert read(start=Bound("timestamp", 9000)) == []
    assert read(stop=Bound("timestamp", 3000)) == [b"a", b"b", b"c"]
    assert read(start=Bound("specific-offsets", None, {0: 2})) == [b"c", b"d", b"x", b"y"]
    assert read(stop=Bound("specific-offsets", None, {0: 2, 1: 0})) == [b"a", b"b"]
    assert read(start=Bound("specific-offsets", None, {0: 2, 1: 2}), stop=Bound("specific-offsets", None, {0: 1})) == []
    assert read(start=Bound("group-offsets"), group="readers", reset="earliest") == [b"d", b"x", b"y"]
    assert read(stop=Bound("group-offsets"), group="readers", reset="latest") == [b"a", b"b", b"c", b"x", b"y"]
    with pytest.raises(ConnectorError, match=rf'SS593: consumer group "readers" has no offset of {topic}\[1\]'):
        read(start=Bound("group-offsets"), group="readers")


def test_topics_that_do_not_exist_and_brokers_that_do_not_answer_are_errors(topics: Topics):
    with pytest.raises(ConnectorError, match='SS590: topic "none" does not exist'):
        everything(topics.settings("none"))
    with pytest.raises(ConnectorError, match=r"SS590: options properties\.… of Kafka are wrong: No such configuration"):
        everything(topics.settings("none", properties={"bootstrap.servers": topics.address, "no.such": "1"}))


def test_messages_have_all_their_metadata(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"v", None, key=b"k", headers=[("h", b"1"), ("h", None)], timestamp=1234)
    topics.send(topic, b"")
    columns = ("key", "value", "topic", "partition", "offset", "timestampType", "headers", "leaderEpoch")
    rows = everything(topics.settings(topic), columns)
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows[0] == (b"k", b"v", topic, 0, 0, 0, headers, 0)
    assert rows[1][:2] == (b"k", None)
    assert rows[2][:2] == (None, b"")
    assert rows[2][6] is None
    (time, *_) = everything(topics.settings(topic), ("timestamp",))
    assert time.timestamp() == 1.234


# --- what is no message -----------------------------------------------------------------------------------------


def test_ends_that_are_no_messages_end(topics: Topics):
    topic = topics.create()
    topics.transaction(topic, b"a", b"b", commits=True)
    topics.transaction(topic, b"c", commits=False)
    assert everything(topics.settings(topic)) == [b"a", b"b"]
    run = Run(topics.settings(topic, stop=None))
    assert run.batch() == [b"a", b"b"]
    topics.transaction(topic, b"d", commits=False)
    assert run.batch() == []
    topics.transaction(topic, b"e", commits=True)
    assert run.batch() == [b"e"]
    dirty = {"bootstrap.servers": topics.address, "isolation.level": "read_uncommitted"}
    assert everything(topics.settings(topic, properties=dirty)) == [b"a", b"b", b"c", b"d", b"e"]


def test_an_open_transaction_is_read_once_it_is_committed(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a")
    producer = Producer({"bootstrap.servers": topics.address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"b")
    producer.flush()
    topics.send(topic, b"c")
    run = Run(topics.settings(topic, stop=None))
    assert run.batch() == [b"a"]
    assert everything(topics.settings(topic)) == [b"a"]
    producer.commit_transaction()
    topics.wait_for_end(topic)
    assert run.batch() == [b"b", b"c"]


# --- micro-batches ----------------------------------------------------------------------------------------------


def test_micro_batches_read_each_message_once_and_again_where_they_are_repeated(topics: Topics):
    topic = topics.create(3)
    run = Run(topics.settings(topic, stop=None, most=4))
    assert run.batch() == []
    for partition in range(3):
        topics.send(topic, *(b"%d%d" % (partition, n) for n in range(5)), partition=partition)
    before = run.position
    batches = [run.batch() for _ in range(5)]
    assert sorted(chain(*batches)) == [b"%d%d" % (p, n) for p in range(3) for n in range(5)]
    assert all(len(batch) <= 6 for batch in batches)
    assert batches[-1] == []
    again = Run(topics.settings(topic, stop=None, most=4), before)
    assert sorted(again.batch()) == sorted(batches[0])
    assert Run(topics.settings(topic, stop=None), run.position).batch() == []


def test_a_micro_batch_has_no_more_bytes_than_it_should_as_far_as_a_few_messages_tell(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
):
    looks: list[int] = []
    mean_of = SizeBound._mean_of

    def look(self: SizeBound, spans: Mapping[Any, Any]) -> float | None:
        looks.append(len(spans))
        return mean_of(self, spans)

    monkeypatch.setattr(SizeBound, "_mean_of", look)
    topic = topics.create(2)
    for partition in (0, 1):
        topics.send(topic, *[b"x" * 4000] * 4, partition=partition)
    run = Run(topics.settings(topic, stop=None, most_bytes=17_000))
    assert [len(run.batch()) for _ in range(3)] == [4, 4, 0]
    topics.send(topic, *[b"y" * 10] * 100)
    assert [len(run.batch()) for _ in range(2)] == [100, 0]
    topics.send(topic, *[b"z" * 20_000] * 60)  # each larger than all of a micro-batch
    assert [len(run.batch()) for _ in range(2)] == [1, 1]
    keys = Run(topics.settings(topic, start=LATEST, stop=None, most_bytes=17_000))
    topics.send(topic, *[None] * 3, key=b"k" * 8000)
    assert [len(keys.batch()) for _ in range(3)] == [2, 1, 0]
    few = Run(topics.settings(topic, start=LATEST, stop=None, most_bytes=2 << 20))
    looks.clear()
    topics.send(topic, b"a", b"b")
    assert few.batch() == [b"a", b"b"] and not looks  # whatever their size is, two may be read


def test_a_bounded_table_ends_where_it_did_when_its_job_began(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a")
    run = Run(topics.settings(topic))
    topics.send(topic, b"b")
    assert run.batch() == [b"a"]
    assert Run(topics.settings(topic), run.position).batch() == []


def test_a_run_of_what_is_there_leaves_what_comes_later(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a", b"b")
    run = Run(topics.settings(topic, stop=None, most=1))
    run.stream.prepareForTriggerAvailableNow()
    assert run.batch() == [b"a"]
    topics.send(topic, b"c")
    assert [run.batch(), run.batch()] == [[b"b"], []]
    assert Run(topics.settings(topic, stop=None), run.position).batch() == [b"c"]


def test_partitions_and_topics_that_are_new_are_read_from_their_beginning(topics: Topics):
    first = topics.create(name=f"news.{next(_numbers)}.a")
    prefix = first.removesuffix("a")
    run = Run(topics.settings(None, pattern=f"{prefix}.*", stop=None, start=LATEST))
    assert run.batch() == []
    topics.admin.create_partitions([NewPartitions(first, 2)])[first].result()
    second = topics.create(name=f"{prefix}b")
    topics.send(second, b"x", b"y", b"z")
    topics.eat(second, 1)
    topics.send(first, b"new", partition=1)
    assert sorted(run.batch()) == [b"new", b"y", b"z"]
    assert Run(topics.settings(None, pattern=f"{prefix}.*", stop=None), run.position).batch() == []


def test_offsets_of_the_group_are_committed_for_others_to_see_once_their_micro_batch_is_written(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a", b"b", b"c")
    topics.commit("seen", topics.create(), 0)
    run = Run(topics.settings(topic, stop=None, most=2, group="seen"))
    assert run.batch() == [b"a", b"b"]
    assert topics.committed("seen", topic) is None
    written = run.position
    assert run.batch() == [b"c"]  # Spark asks for it when the one before is written
    assert topics.committed("seen", topic) == 2
    run.stream.commit(written)
    assert topics.committed("seen", topic) == 2
    assert run.batch() == []
    assert topics.committed("seen", topic) == 3
    hidden = Run(topics.settings(topic, stop=None, group="hidden", commits=False))
    assert hidden.batch() == [b"a", b"b", b"c"]
    assert hidden.batch() == []
    assert topics.committed("hidden", topic) is None


def test_offsets_that_brokers_do_not_take_are_committed_later_also_of_a_silent_topic(
    topics: Topics, caplog: pytest.LogCaptureFixture
):
    topic = topics.create()
    topics.send(topic, b"a")
    member = Consumer({"bootstrap.servers": topics.address, "group.id": "taken", "enable.auto.commit": False})
    member.subscribe([topic])
    until(lambda: member.poll(0.1) is None and bool(member.assignment()))
    run = Run(topics.settings(topic, stop=None, group="taken"))
    assert run.batch() == [b"a"]
    assert run.batch() == []
    assert topics.committed("taken", topic) is None
    (said,) = [record.message for record in caplog.records if "not committed yet" in record.message]
    assert said.startswith('offsets of consumer group "taken" are not committed yet: ')
    member.close()
    assert run.batch() == []  # brokers are not asked each time
    assert topics.committed("taken", topic) is None
    run.stream._commits_from = 0
    assert run.batch() == []
    assert topics.committed("taken", topic) == 1
    run.stream.stop()
    with pytest.raises(RuntimeError, match="closed"):
        run.batch()


def test_a_topic_that_is_deleted_ends_the_job(topics: Topics, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka_brokers, "_INCOMPLETE_SECONDS", 1)
    topic = topics.create()
    topics.send(topic, b"a")
    run = Run(topics.settings(topic, stop=None, discovery_ms=60_000))
    assert run.batch() == [b"a"]
    topics.admin.delete_topics([topic])[topic].result()
    until(lambda: topic not in topics.admin.list_topics().topics)
    time.sleep(1)
    with pytest.raises(ConnectorError, match=rf"SS592: .*{topic}\[0\] does not exist any more"):
        run.batch()


# --- messages that are gone -------------------------------------------------------------------------------------


def test_messages_that_retention_has_eaten_fail_the_job_or_are_skipped(topics: Topics, caplog: Any):
    topic = topics.create()
    topics.send(topic, b"a", b"b", b"c")
    before = Run(topics.settings(topic, stop=None)).position
    topics.eat(topic, 2)
    gone = rf"{topic}\[0\] begins at offset 2 now, and was read up to 0: 2 are gone"
    with pytest.raises(ConnectorError, match=f"SS592: messages are gone before they were read: {gone}"):
        Run(topics.settings(topic, stop=None), before).batch()
    with caplog.at_level(logging.WARNING):
        assert Run(topics.settings(topic, stop=None, skips_lost=True), before).batch() == [b"c"]
    assert "2 are gone" in caplog.text


def test_messages_that_are_eaten_before_their_task_reads_them_are_gone_too(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a", b"b", b"c")
    settings = topics.settings(topic)
    shares = WholeTopics(settings, 2).partitions()
    topics.eat(topic, 2)
    with pytest.raises(ConnectorError, match=rf"SS592: .*{topic}\[0\] begins at offset 2 now, and was read up to 0"):
        fetched(settings, shares)
    assert fetched(topics.settings(topic, skips_lost=True), shares) == [(b"c",)]
    topics.eat(topic, 3)
    assert fetched(topics.settings(topic, skips_lost=True), shares) == []


def test_an_empty_share_reads_nothing(topics: Topics):
    empty = pa.RecordBatch.from_pylist([], schema=kafka_fetch.RANGES)
    assert [*FetchedMessages({}, ("value",)).rows([empty])] == []


# --- watermarks -------------------------------------------------------------------------------------------------


def test_ranges_say_how_far_the_watermark_may_go_also_after_a_restart(topics: Topics):
    topic = topics.create(2)
    settings = topics.settings(topic, stop=None)

    def send(partition: int, *seconds: int) -> None:
        topics.send(topic, *(f"1970-01-01 00:00:{s:02d}".encode() for s in seconds), partition=partition)

    job = Run(settings, timed=TIMES)
    send(0, 30, 31)
    assert lifts(job) == [None]
    assert job.position["holder"] == [topic, 1]
    send(1, 8, 4)
    assert lifts(job) == [8_000_000]
    again = Run(settings, job.position, timed=TIMES)
    assert lifts(again) == []
    send(1, *range(10, 60))
    assert lifts(again) == [31_000_000]
    assert again.position["holder"] == [topic, 0]
    assert again.position["times"] == {topic: {"0": 31_000_000, "1": 59_000_000}}


def test_times_of_a_schema_that_is_registered_later_move_the_watermark(topics: Topics):
    topic, second = topics.create(), b"\x80\x89\x7a"  # 1,000,000 in Avro
    at = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    with serving() as registry:
        decoder = RegisteredAvro((Field("at", DataType("TIMESTAMP")),), Registry((registry.url,)))
        timed = TopicWatermark(TopicTimes(TopicRecords(decoder, tolerant=True), "at"))
        job = Run(topics.settings(topic, stop=None), timed=timed)
        topics.send(topic, header_of(7) + second)
        assert lifts(job) == [None]
        registry.register("late", {"type": "record", "name": "R", "fields": [at]}, id=7)
        topics.send(topic, header_of(7) + second)
        assert lifts(job) == [1_000_000]


def test_a_partition_with_an_open_transaction_is_not_idle(topics: Topics):
    topic = topics.create(2)
    topics.send(topic, b"1970-01-01 00:00:08")
    topics.send(topic, b"1970-01-01 00:00:30", partition=1)
    job = Run(topics.settings(topic, stop=None), timed=replace(TIMES, idle_ms=1))
    assert lifts(job) == [8_000_000] * 2
    producer = Producer({"bootstrap.servers": topics.address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"1970-01-01 00:00:09", partition=0)
    producer.flush()
    time.sleep(0.1)
    assert lifts(job) == [] and job.position["lift"] == 8_000_000
    producer.commit_transaction()
    topics.wait_for_end(topic)
    assert lifts(job) == [9_000_000]
    time.sleep(0.1)
    assert lifts(job) == [30_000_000]  # both are idle


def test_a_topic_that_the_table_names_no_longer_is_left_and_gone_on_with_where_it_is_named_again(topics: Topics):
    first, second = topics.create(), topics.create()
    topics.send(first, b"a")
    topics.send(second, b"x")
    both = Run(topics.settings(first, stop=None, topics=(first, second)))
    assert sorted(both.batch()) == [b"a", b"x"]
    topics.send(first, b"b")
    topics.send(second, b"y")
    begun = time.monotonic()
    alone = Run(topics.settings(first, stop=None), both.position)
    assert alone.batch() == [b"b"]
    assert time.monotonic() - begun < 4  # an incomplete list is made again for 5 s
    again = Run(topics.settings(first, stop=None, topics=(first, second)), alone.position)
    assert again.batch() == [b"y"]
