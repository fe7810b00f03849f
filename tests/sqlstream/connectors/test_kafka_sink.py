"""Messages that tasks send to a broker, and transactions of epochs: without Spark."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from sqlstream.connectors.kafka.sink import NewTopic, require_topic
from sqlstream.errors import ConnectorError
from sqlstream.testing.kafka_broker import Broker
from sqlstream.udfs.kafka import produce as kafka_produce
from sqlstream.udfs.kafka.produce import Destination, SentMessages, producer_of
from sqlstream.udfs.kafka.transactions import Epoch, EpochTransaction, Transactions
from tests.sqlstream.connectors.test_kafka_source import Topics

pytestmark = pytest.mark.spark  # its broker needs Java

_groups = count()


@pytest.fixture(scope="module")
def topics(kafka_broker: Broker) -> Iterator[Topics]:
    yield Topics(kafka_broker)
    for sender in kafka_produce._senders.values():
        sender.close()
    kafka_produce._senders.clear()


def destination(topics: Topics, topic: str, partitioner: str = "default", **properties: str) -> Destination:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return Destination({"bootstrap.servers": topics.address, **given}, topic, partitioner)


def batch(values: Sequence[bytes | None], **columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary()), **columns})


def keyed(*pairs: tuple[str | None, str | None]) -> pa.RecordBatch:
    keys, values = zip(*pairs, strict=True)
    return batch([v and v.encode() for v in values], key=pa.array([k and k.encode() for k in keys], pa.binary()))


def sent(work: SentMessages | EpochTransaction, *batches: pa.RecordBatch, task: int = 0) -> int:
    return sum(out.column(0)[0].as_py() for out in work.rows(batches, task))


def messages(topics: Topics, topic: str) -> list[Message]:
    """All messages of a topic that are committed, by partition."""
    consumer = Consumer({
        "bootstrap.servers": topics.address, "group.id": f"sink-reader{next(_groups)}", "enable.partition.eof": True,
        "isolation.level": "read_committed",
    })  # fmt: skip
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Message] = []
    ended = 0
    while ended < len(partitions):
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
    consumer.close()
    return sorted(found, key=lambda m: (m.partition(), m.offset()))


def values(topics: Topics, topic: str) -> list[str]:
    return [(m.value() or b"").decode() for m in messages(topics, topic)]


# --- what is sent -----------------------------------------------------------------------------------------------


def test_keys_are_placed_as_by_java_and_messages_have_all_their_parts(topics: Topics):
    """The hashes are those of Kafka's own test of Utils.murmur2."""
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    topic = topics.create(7)
    headers = pa.array([[("a", b"1"), ("b", None)], None, [], None], pa.map_(pa.string(), pa.binary()))
    times = pa.array([5000, None, 7000, 8000], pa.int64())
    key = pa.array([name.encode() for name in hashes], pa.binary())
    assert (
        sent(
            SentMessages(destination(topics, topic)),
            batch([b"x", None, b"", b"y"], key=key, time=times, headers=headers),
        )
        == 4
    )
    by_key = {(m.key() or b"").decode(): m for m in messages(topics, topic)}
    assert {k: m.partition() for k, m in by_key.items()} == {k: (h & 0x7FFFFFFF) % 7 for k, h in hashes.items()}
    assert by_key["21"].headers() == [("a", b"1"), ("b", None)]
    assert [by_key[k].value() for k in hashes] == [b"x", None, b"", b"y"]
    assert by_key["21"].timestamp() == (1, 5000) and by_key["foobar"].timestamp()[1] > 10**12
    assert by_key["abc"].headers() is None


def test_messages_without_a_key_and_with_an_empty_one_arrive_as_they_are(topics: Topics):
    topic = topics.create()
    sent(SentMessages(destination(topics, topic)), keyed((None, "a"), ("", "b")), batch([b"c"]))
    assert [(m.key(), m.value()) for m in messages(topics, topic)] == [(None, b"a"), (b"", b"b"), (None, b"c")]


def test_partitioners_are_those_of_flink(topics: Topics):
    topic = topics.create(3)
    for task in range(4):
        sent(SentMessages(destination(topics, topic, "fixed")), keyed(*[("k", str(task))] * 5), task=task)
    assert {(m.value(), m.partition()) for m in messages(topics, topic)} == {
        (b"0", 0), (b"1", 1), (b"2", 2), (b"3", 0),
    }  # fmt: skip
    topic = topics.create(3)
    for _ in range(2):
        sent(SentMessages(destination(topics, topic, "round-robin")), keyed(*[("k", "v")] * 4))
    counts = [m.partition() for m in messages(topics, topic)]
    assert [counts.count(p) for p in range(3)] in ([3, 3, 2], [3, 2, 3], [2, 3, 3])


def test_a_full_queue_loses_nothing_and_keeps_the_order_of_keys(topics: Topics):
    topic = topics.create(3)
    small = destination(topics, topic, queue_buffering_max_messages="100")
    rows = [(f"k{n % 10}", str(n)) for n in range(20_000)]
    assert sent(SentMessages(small), keyed(*rows[:15_000]), keyed(*rows[15_000:])) == 20_000
    of_key: dict[bytes, list[int]] = {}
    for message in messages(topics, topic):
        of_key.setdefault(message.key() or b"", []).append(int(message.value() or b""))
    assert sorted(n for numbers in of_key.values() for n in numbers) == list(range(20_000))
    assert all(numbers == sorted(numbers) for numbers in of_key.values())


def test_one_message_that_brokers_refuse_fails_the_epoch_and_the_next_attempt_begins_clean(topics: Topics):
    topic = topics.create(max_message_bytes="1000")
    work = SentMessages(destination(topics, topic))
    with pytest.raises(ConnectorError, match=rf'SS595: Kafka does not take a message of topic "{topic}": .*too large'):
        sent(work, batch([b"a", b"x" * 5000]))
    assert sent(work, batch([b"a", b"b"])) == 2
    assert values(topics, topic)[-2:] == ["a", "b"]


def test_a_message_too_large_for_the_client_fails_the_epoch(topics: Topics):
    topic = topics.create()
    work = SentMessages(destination(topics, topic, message_max_bytes="2000"))
    with pytest.raises(ConnectorError, match=r"SS595: .*too large"):
        sent(work, batch([b"x" * 5000]))


def test_without_a_guarantee_an_epoch_goes_on_and_the_log_has_what_is_missing(
    topics: Topics, caplog: pytest.LogCaptureFixture
):
    topic = topics.create(max_message_bytes="1000")
    with caplog.at_level(logging.WARNING, "sqlstream.kafka"):
        assert sent(SentMessages(destination(topics, topic), waits=False), batch([b"x" * 5000, b"a"])) == 2
    assert f"topic {topic}: " in caplog.text and "messages refused" in caplog.text


def test_properties_of_consumers_are_none_of_producers_and_wrong_ones_are_told(topics: Topics):
    topic = topics.create()
    both = destination(topics, topic, isolation_level="read_committed", fetch_min_bytes="1", compression_type="zstd")
    assert sent(SentMessages(both), batch([b"a" * 100])) == 1
    with pytest.raises(ConnectorError, match=r"SS590: options properties.… of Kafka are wrong: .*compression.codec"):
        producer_of({"bootstrap.servers": topics.address, "compression.type": "best"})


def test_a_job_creates_its_topic_on_request_only(topics: Topics):
    properties = {"bootstrap.servers": topics.address}
    with pytest.raises(ConnectorError) as error:
        require_topic(properties, "made", None)
    assert str(error.value) == (
        'SS590: topic "made" does not exist\n'
        "HINT: Create it, correct the option \"topic\", or let the job create it: 'topic.create' = 'true'."
    )
    creation = NewTopic(3, None, (("cleanup.policy", "compact"),))
    for _ in range(2):
        require_topic(properties, "made", creation)
    require_topic(properties, "made", None)
    assert len(topics.admin.list_topics("made").topics["made"].partitions) == 3
    with pytest.raises(ConnectorError, match=r'SS679: Kafka does not create topic "many": .*[Rr]eplication factor'):
        require_topic(properties, "many", NewTopic(1, 5, ()))
    with pytest.raises(ConnectorError, match=r'SS679: Kafka does not create topic "odd": '):
        require_topic(properties, "odd", NewTopic(1, 1, (("cleanup.policy", "never"),)))


# --- transactions -------------------------------------------------------------------------------------------------


def transaction(topics: Topics, topic: str, number: int, run: str = "run", **given: Any) -> EpochTransaction:
    return EpochTransaction(destination(topics, topic), f"id-{topic}", Epoch(number, run, f"job of {run}", **given))


def test_an_epoch_that_runs_again_is_written_once_and_empty_ones_count(topics: Topics):
    topic = topics.create(2)
    for number, run_before in enumerate([[b"a", b"b"], [], [b"c"]]):
        for first in (True, False):
            sent(transaction(topics, topic, number, first=first), *([batch(run_before)] if run_before else []))
    assert sorted(values(topics, topic)) == ["a", "b", "c"]
    sent(transaction(topics, topic, 0, "other", first=True), batch([b"d"]))
    assert sorted(values(topics, topic)) == ["a", "b", "c", "d"]


def test_what_fails_in_an_epoch_is_never_seen(topics: Topics):
    topic = topics.create(max_message_bytes="1000")

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch([b"lost"] * 100)
        raise RuntimeError("a task fails")

    sent(transaction(topics, topic, 0, first=True), batch([b"a"]))
    with pytest.raises(RuntimeError, match="a task fails"):
        list(transaction(topics, topic, 1).rows(broken()))
    with pytest.raises(ConnectorError, match=r"SS595: .*too large"):
        sent(transaction(topics, topic, 1), batch([b"lost", b"x" * 5000]))
    sent(transaction(topics, topic, 1), batch([b"b"]))
    assert values(topics, topic) == ["a", "b"]


def test_a_job_whose_transactional_id_another_one_uses_ends(topics: Topics):
    topic = topics.create()
    sent(transaction(topics, topic, 0, "old", first=True), batch([b"a"]))

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield batch([b"never"])
        sent(transaction(topics, topic, 0, "new", first=True), batch([b"b"]))
        yield batch([b"never"])

    with pytest.raises(
        ConnectorError, match=rf'SS596: another producer has taken over the transactional id "id-{topic}"'
    ):
        list(transaction(topics, topic, 1, "old").rows(overtaken()))
    with pytest.raises(ConnectorError, match=rf'SS596: job "job of new" has taken over .* "id-{topic}"'):
        sent(transaction(topics, topic, 1, "old"), batch([b"never"]))
    assert values(topics, topic) == ["a", "b"]


def test_a_time_out_of_transactions_that_brokers_do_not_allow_is_told(topics: Topics):
    topic = topics.create()
    patient = destination(topics, topic, transaction_timeout_ms="3600000")
    said = r"SS590: Kafka does not allow 'properties\.transaction\.timeout\.ms' = '3600000'"
    with pytest.raises(ConnectorError, match=said):
        sent(EpochTransaction(patient, f"id-{topic}", Epoch(0, "run", "job", first=True)), batch([b"a"]))


@pytest.mark.long  # brokers look for such transactions every 10 s
def test_a_transaction_that_brokers_end_because_it_is_open_for_too_long_is_no_other_writer(topics: Topics):
    topic = topics.create()
    slow = destination(topics, topic, transaction_timeout_ms="1000")
    work = EpochTransaction(slow, f"id-{topic}", Epoch(0, "run", "job", first=True))

    def late() -> Iterator[pa.RecordBatch]:
        yield batch([b"lost"])
        time.sleep(13)
        yield batch([b"lost"])

    with pytest.raises(ConnectorError, match=rf'SS590: Kafka has ended a transaction of topic "{topic}" that was open'):
        list(work.rows(late()))
    assert sent(transaction(topics, topic, 0, first=True, in_doubt=False), batch([b"a"])) == 1
    assert values(topics, topic) == ["a"]


@pytest.mark.parametrize("fenced", [False, True], ids=["commits before it is fenced", "commits once it is fenced"])
def test_the_last_epoch_is_looked_up_after_the_old_writer_is_fenced(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, fenced: bool
):
    """An old writer that commits after the new one has looked writes the epoch twice."""
    topic = topics.create()
    epoch = transaction(topics, topic, 1, first=True, in_doubt=True)
    sent(transaction(topics, topic, 0, first=True), batch([b"a"]))
    old, take_over = Transactions(destination(topics, topic), epoch.transactional_id), Transactions.take_over
    old.take_over()
    old._producer.begin_transaction()
    old._send([batch([b"b"])], 0)
    old._mark(epoch.epoch)

    def late(new: Transactions) -> None:
        if fenced:
            take_over(new)
            with pytest.raises(ConnectorError, match="SS596"):
                old._commit()
        else:
            old._commit()
            take_over(new)

    monkeypatch.setattr(Transactions, "take_over", late)
    assert sent(epoch, batch([b"b"])) == 1
    assert values(topics, topic) == ["a", "b"]
    old.close()


def test_a_task_that_spark_runs_twice_sends_its_rows_once(topics: Topics):
    topic = topics.create()

    def slow() -> Iterator[pa.RecordBatch]:
        yield batch([b"a"])
        sent(transaction(topics, topic, 0, first=True), batch([b"a"]))  # the other attempt, which is faster

    with pytest.raises(ConnectorError, match="SS596"):
        list(transaction(topics, topic, 0, first=True).rows(slow()))
    assert sent(transaction(topics, topic, 0, first=True), batch([b"a"])) == 1
    assert values(topics, topic) == ["a"]


def test_an_epoch_that_kafka_has_forgotten_is_not_guessed(topics: Topics):
    topic = topics.create()
    sent(transaction(topics, topic, 0, "another", first=True), batch([b"a"]))
    with pytest.raises(ConnectorError, match=rf'SS678: .* whether micro-batch 5 of the job is in topic "{topic}"'):
        sent(transaction(topics, topic, 5, first=True, in_doubt=True), batch([b"b"]))
    sent(transaction(topics, topic, 5, first=True), batch([b"b"]))
    assert values(topics, topic) == ["a", "b"]


def test_an_epoch_that_kafka_forgets_while_the_job_waits_for_messages_does_not_end_it(topics: Topics):
    """The offsets of a group are removed after ``offsets.retention.minutes``, also while its job runs."""
    topic = topics.create()
    sent(transaction(topics, topic, 0, first=True), batch([b"a"]))
    topics.admin.delete_consumer_groups([f"id-{topic}"])[f"id-{topic}"].result(20)
    for _ in range(2):
        sent(transaction(topics, topic, 1), batch([b"b"]))
    assert values(topics, topic) == ["a", "b"]


_KILLED = """
import os, signal, sys
import pyarrow as pa
from sqlstream.udfs.kafka.produce import Destination
from sqlstream.udfs.kafka.transactions import Epoch, EpochTransaction, Transactions
address, topic, step, when = sys.argv[1:]
original = getattr(Transactions, step)
def killed(self, *given):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(Transactions, step, killed)
batch = pa.record_batch({"value": pa.array([b"c", b"d"])})
work = EpochTransaction(Destination({"bootstrap.servers": address}, topic), f"id-{topic}", Epoch(1, "run", "job"))
list(work.rows([batch]))
"""


@pytest.mark.parametrize(
    ("step", "when"),
    [
        ("_send", "after"),
        ("_commit", "after"),
        *(pytest.param(*step, marks=pytest.mark.long) for step in (("marker", "before"), ("_mark", "after"))),
        pytest.param("close", "before", marks=pytest.mark.long),
    ],
)
def test_an_epoch_is_whole_wherever_its_process_is_killed(topics: Topics, step: str, when: str):
    topic = topics.create(2)
    sent(transaction(topics, topic, 0, first=True), batch([b"a", b"b"]))
    done = subprocess.run([sys.executable, "-c", _KILLED, topics.address, topic, step, when], check=False)
    assert done.returncode == -9
    committed = step in ("_commit", "close")
    if committed:
        assert sorted(values(topics, topic)) == ["a", "b", "c", "d"]
    sent(transaction(topics, topic, 1, first=True, in_doubt=True), batch([b"c", b"d"]))  # it runs again
    assert sorted(values(topics, topic)) == ["a", "b", "c", "d"]
    sent(transaction(topics, topic, 2), batch([b"e"]))
    assert sorted(values(topics, topic)) == ["a", "b", "c", "d", "e"]
