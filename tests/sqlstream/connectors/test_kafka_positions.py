"""Positions that others have lost: of topics that change between two runs of a job, and partitions that stay silent."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from sqlstream.errors import ConnectorError
from sqlstream.sources.kafka.offsets import Bound, Partition, Position
from sqlstream.testing.kafka_broker import Broker
from sqlstream.udfs.kafka import fetch as kafka_fetch
from sqlstream.udfs.kafka import reader as kafka_reader
from tests.sqlstream.connectors.test_kafka_source import LATEST, TIMES, Run, Topics, everything, lifts, until

pytestmark = pytest.mark.spark  # its broker needs Java

_numbers = count()


@pytest.fixture(scope="module")
def topics(kafka_broker: Broker) -> Iterator[Topics]:
    yield Topics(kafka_broker)
    _forget_readers()


def _forget_readers() -> None:
    for reader in kafka_fetch._readers.values():
        reader.consumer.close()
    kafka_fetch._readers.clear()


def made_again(topics: Topics, topic: str, *values: bytes, partitions: int = 1) -> None:
    topics.admin.delete_topics([topic])[topic].result()
    until(lambda: topic not in topics.admin.list_topics().topics)
    time.sleep(1)  # the broker gives the name away a little later
    topics.create(partitions, topic)
    topics.send(topic, *values)


def test_a_topic_that_is_made_again_between_two_runs_is_another_one(topics: Topics, caplog: Any):
    topic = topics.create()
    topics.send(topic, b"a", b"b")
    before = Run(topics.settings(topic, stop=None))
    assert before.batch() == [b"a", b"b"]
    made_again(topics, topic, b"c", b"d", b"e", b"f")  # more than were read, so that offsets alone say nothing
    message = f'SS592: messages are gone before they were read: topic "{topic}" was deleted and made again'
    with pytest.raises(ConnectorError, match=message):
        Run(topics.settings(topic, stop=None), before.position).batch()
    with caplog.at_level(logging.WARNING):
        after = Run(topics.settings(topic, stop=None, skips_lost=True), before.position)
        assert after.batch() == [b"c", b"d", b"e", b"f"]
    assert "was deleted and made again" in caplog.text
    assert Run(topics.settings(topic, stop=None), after.position).batch() == []  # which is that topic's position


def test_a_topic_that_is_made_again_while_the_job_runs_ends_it(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a")
    run = Run(topics.settings(topic, stop=None))
    assert run.batch() == [b"a"]
    made_again(topics, topic, b"b", b"c")
    with pytest.raises(ConnectorError, match=f'SS592: .*topic "{topic}" was deleted and made again'):
        run.batch()


def test_partitions_that_a_topic_lost_when_it_was_made_again_are_read_from_their_beginning(topics: Topics):
    topic = topics.create(2)
    topics.send(topic, b"a", partition=1)
    settings = topics.settings(topic, stop=None, skips_lost=True)
    run = Run(settings)
    assert run.batch() == [b"a"]
    made_again(topics, topic, b"b")
    again = Run(settings, run.position)
    assert again.batch() == [b"b"]
    topics.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    until(lambda: len(topics.admin.list_topics(topic).topics[topic].partitions) == 2)
    topics.send(topic, b"c", b"d", partition=1)
    assert Run(settings, again.position).batch() == [b"c", b"d"]


def test_positions_of_earlier_builds_that_know_no_ids_go_on(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a")
    run = Run(topics.settings(topic, stop=None))
    assert run.batch() == [b"a"]
    del run.position["ids"]
    again = Run(topics.settings(topic, stop=None), run.position)
    topics.send(topic, b"b")
    assert again.batch() == [b"b"] and list(again.position["ids"]) == [topic]


def test_a_partition_that_was_silent_until_the_stop_is_read_from_where_the_job_began(topics: Topics):
    topic = topics.create(2)
    topics.send(topic, b"old", partition=1)
    run = Run(topics.settings(topic, start=LATEST, stop=None))
    topics.send(topic, b"a")
    assert run.batch() == [b"a"]
    topics.send(topic, b"b", partition=1)  # while the job is stopped
    assert Run(topics.settings(topic, start=LATEST, stop=None), run.position).batch() == [b"b"]


def test_partitions_that_are_added_while_the_job_is_stopped_are_read_from_their_beginning(topics: Topics):
    topic = topics.create()
    run = Run(topics.settings(topic, start=LATEST, stop=None))
    topics.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    until(lambda: len(topics.admin.list_topics(topic).topics[topic].partitions) == 2)
    topics.send(topic, b"a", partition=1)
    assert Run(topics.settings(topic, start=LATEST, stop=None), run.position).batch() == [b"a"]


def test_no_partition_yet_is_no_watermark_and_the_first_one_begins_it(topics: Topics):
    prefix = f"later{next(_numbers)}."
    settings = topics.settings(None, pattern=f"{prefix}.*", stop=None)
    job = Run(settings, timed=TIMES)
    assert lifts(job) == []  # not the end of time
    topic = topics.create(name=f"{prefix}a")
    topics.send(topic, b"1970-01-01 00:00:07")
    assert lifts(job) == [7_000_000]


@pytest.mark.parametrize("transactional", [False, True])
def test_the_last_record_is_not_read_again_after_a_recovery(topics: Topics, transactional: bool):
    """Neither by a new process nor by one that has read on; behind it may be the end of its transaction."""
    topic = topics.create()
    settings = topics.settings(topic, stop=None)

    def send(*values: bytes) -> None:
        if transactional:
            topics.transaction(topic, *values, commits=True)
        else:
            topics.send(topic, *values)

    send(b"a", b"b")
    run = Run(settings)
    assert run.batch() == [b"a", b"b"]
    position = run.position
    _forget_readers()
    recovered = Run(settings, position)
    assert recovered.batch() == []
    send(b"c")
    assert recovered.batch() == [b"c"]
    assert Run(settings, position).batch() == [b"c"]
    assert Run(replace(settings, stop=LATEST), Position({Partition(topic, 0): 1}).to_json()).batch() == [b"b", b"c"]


def test_a_start_that_is_the_stop_reads_nothing_and_one_behind_the_last_message_neither(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a", b"b", timestamp=1000)
    one = Bound("specific-offsets", None, {0: 1})
    assert everything(topics.settings(topic, start=one, stop=one)) == []
    assert everything(topics.settings(topic, start=Bound("timestamp", 1000), stop=Bound("timestamp", 1000))) == []
    assert everything(topics.settings(topic, stop=Bound("timestamp", 5000))) == [b"a", b"b"]
    late = Run(topics.settings(topic, start=Bound("timestamp", 5000), stop=None))
    topics.send(topic, b"c", timestamp=2000)  # what comes later is read, whatever its time is
    assert late.batch() == [b"c"]


def test_a_stop_behind_the_end_of_a_partition_is_refused(topics: Topics):
    topic = topics.create(2)
    topics.send(topic, b"a", b"b")
    beyond = topics.settings(topic, stop=Bound("specific-offsets", None, {0: 3, 1: 0}))
    said = rf"SS504: {topic}\[0\] ends at offset 2, and the table should at 3 \('scan.bounded.mode'\)"
    with pytest.raises(ConnectorError, match=said):
        everything(beyond)
    with pytest.raises(ConnectorError, match=said):
        Run(beyond)
    assert everything(topics.settings(topic, stop=Bound("specific-offsets", None, {0: 2, 1: 0}))) == [b"a", b"b"]


def test_partitions_that_specific_offsets_of_the_stop_do_not_name_are_not_read(topics: Topics):
    """As in Flink: "If an offset for a partition is not provided it will not consume from that partition"."""
    topic = topics.create(2)
    topics.send(topic, b"a", b"b", partition=0)
    topics.send(topic, b"c", partition=1)
    stop = Bound("specific-offsets", None, {0: 1})
    assert everything(topics.settings(topic, stop=stop)) == [b"a"]
    run = Run(topics.settings(topic, stop=stop))
    topics.send(topic, b"d", partition=1)
    assert [run.batch(), run.batch()] == [[b"a"], []]
    assert run.position["next"] == {topic: {"0": 1}}
    both = topics.settings(topic, start=Bound("specific-offsets", None, {1: 0}), stop=stop)
    assert everything(both) == [b"a"]


@pytest.mark.parametrize("skips_lost", [False, True])
def test_a_start_behind_the_end_of_a_partition_is_refused(topics: Topics, skips_lost: bool):
    topic = topics.create(2)
    topics.send(topic, b"a", b"b")
    beyond = Bound("specific-offsets", None, {0: 3, 1: 0})
    said = (
        rf"SS504: {topic}\[0\] ends at offset 2, and the table should begin at 3 \('scan.startup.specific-offsets'\)"
        r"\n.*'properties.auto.offset.reset'"
    )
    for read in (everything, Run):
        with pytest.raises(ConnectorError, match=said):
            read(topics.settings(topic, start=beyond, skips_lost=skips_lost))
    at_end = Run(topics.settings(topic, start=Bound("specific-offsets", None, {0: 2}), stop=None))
    assert at_end.batch() == []
    topics.send(topic, b"c")
    assert at_end.batch() == [b"c"]


@pytest.mark.parametrize("offset", [0, 9])  # retention has taken the first, and the other never was
def test_a_start_that_is_out_of_range_is_where_the_reset_says(topics: Topics, offset: int):
    topic = topics.create()
    topics.send(topic, b"a", b"b", b"c")
    topics.eat(topic, 1)
    start = Bound("specific-offsets", None, {0: offset})
    assert everything(topics.settings(topic, start=start, reset="earliest")) == [b"b", b"c"]
    latest = Run(topics.settings(topic, start=start, stop=None, reset="latest"))
    topics.send(topic, b"d")
    assert latest.batch() == [b"d"]
    within = Bound("specific-offsets", None, {0: 2})
    assert everything(topics.settings(topic, start=within, reset="latest")) == [b"c", b"d"]


@pytest.mark.parametrize("skips_lost", [False, True])
def test_a_start_within_an_open_transaction_waits_for_its_end(topics: Topics, skips_lost: bool):
    """As who read it uncommitted has committed its offsets; nothing is gone, and nothing is read again."""
    topic = topics.create()
    topics.send(topic, b"a", b"b")
    producer = Producer({"bootstrap.servers": topics.address, "transactional.id": f"within-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    for value in (b"c", b"d", b"e"):
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    start = Bound("specific-offsets", None, {0: 4})
    run = Run(topics.settings(topic, start=start, stop=None, skips_lost=skips_lost))
    assert run.batch() == []
    producer.commit_transaction()
    topics.wait_for_end(topic)
    assert run.batch() == [b"e"]


def test_a_pattern_means_topics_of_any_name_but_kafkas_own(topics: Topics):
    topics.create(name="__heartbeat.pattern")
    topics.send("__heartbeat.pattern", b"a")
    assert everything(topics.settings(None, pattern="__(heartbeat.pattern|consumer_offsets)")) == [b"a"]


def test_the_level_of_isolation_is_read_in_any_case(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a")
    topics.transaction(topic, b"b", commits=False)
    producer = Producer({"bootstrap.servers": topics.address, "transactional.id": f"open-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"c")
    assert producer.flush(20) == 0
    given = {"bootstrap.servers": topics.address, "isolation.level": "READ_UNCOMMITTED"}
    assert everything(topics.settings(topic, properties=given)) == [b"a", b"b", b"c"]
    producer.abort_transaction()


def test_what_a_group_has_committed_out_of_range_is_where_the_reset_says(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a", b"b")
    group = f"beyond-{topic}"
    topics.commit(group, topic, 7)
    start = Bound("group-offsets")
    assert everything(topics.settings(topic, start=start, group=group, reset="earliest")) == [b"a", b"b"]
    with pytest.raises(ConnectorError, match=rf"SS592: .*{topic}\[0\] ends at offset 2 now, and was read up to 7"):
        Run(topics.settings(topic, start=start, stop=None, group=group)).batch()


@pytest.mark.parametrize(("given", "when"), [("start", "startup"), ("stop", "bounded")])
def test_offsets_of_partitions_that_do_not_exist_are_refused(topics: Topics, given: str, when: str):
    topic = topics.create(2)
    topics.send(topic, b"a")
    wrong = topics.settings(topic, **{given: Bound("specific-offsets", None, {0: 0, 7: 3, 2: 1})})
    names = rf"{topic}\[2\], {topic}\[7\]"
    said = (
        rf'SS504: partitions that "scan.{when}.specific-offsets" names do not exist: {names}\n.*has the partitions 0, 1'
    )
    for read in (everything, Run):
        with pytest.raises(ConnectorError, match=said):
            read(wrong)


def test_an_offset_that_a_broker_does_not_know_for_a_moment_is_asked_for_again(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
):
    topic = topics.create()
    topics.send(topic, b"a")
    run = Run(topics.settings(topic, stop=None))
    assert run.batch() == [b"a"]
    topics.send(topic, b"b")
    whole = AdminClient.list_offsets
    unknown: list[bool] = []

    def list_offsets(self: AdminClient, asked: Any, **given: Any) -> Any:
        answers = whole(self, asked, **given)
        if unknown:
            return answers
        unknown.append(True)
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(offset=-1))
        return dict.fromkeys(answers, answer)

    monkeypatch.setattr(AdminClient, "list_offsets", list_offsets)
    assert run.batch() == [b"b"] and unknown  # not "messages are gone", and none is read twice


@pytest.mark.parametrize("commits", [True, False])
def test_a_stop_within_an_open_transaction_is_waited_for(topics: Topics, commits: bool):
    topic = topics.create()
    topics.send(topic, b"a")
    producer = Producer({"bootstrap.servers": topics.address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"b")
    producer.flush()
    run = Run(topics.settings(topic, stop=Bound("specific-offsets", None, {0: 2})))
    run.stream.prepareForTriggerAvailableNow()
    ending = Timer(1, producer.commit_transaction if commits else producer.abort_transaction)
    ending.start()
    assert run.batch() == ([b"a", b"b"] if commits else [b"a"])
    ending.join()
    assert run.batch() == []


def test_a_transaction_that_stays_open_is_told_of(topics: Topics, monkeypatch: pytest.MonkeyPatch):
    topic = topics.create()
    producer = Producer({"bootstrap.servers": topics.address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"b")
    producer.flush()
    monkeypatch.setattr(kafka_reader, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(kafka_reader, "_OPEN_SECONDS", 1.5)
    run = Run(topics.settings(topic, stop=Bound("specific-offsets", None, {0: 1})))
    begun = time.monotonic()
    told = rf"gave nothing of {topic}\[0\] at offset 0 of 1 for . s: a transaction is open"
    with pytest.raises(ConnectorError, match=told):
        run.batch()
    assert time.monotonic() - begun > 1.5
    producer.abort_transaction()


def test_a_bounded_table_whose_end_is_an_aborted_transaction_ends_also_after_a_restart(topics: Topics):
    topic = topics.create()
    topics.send(topic, b"a")
    topics.transaction(topic, b"x", b"y", commits=False)
    run = Run(topics.settings(topic, most=1))
    assert run.batch() == [b"a"]
    again = Run(topics.settings(topic, most=1), run.position)
    rest = [again.batch() for _ in range(4)]
    assert list(filter(None, rest)) == [] and again.position["next"] == again.position["stop"]


@pytest.mark.long  # the broker looks for what it can compact every 15 s
def test_a_gap_of_a_compacted_topic_may_be_where_a_bounded_table_ends(topics: Topics):
    topic = topics.create(
        cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", segment_ms="200", max_compaction_lag_ms="1",
        min_compaction_lag_ms="0", delete_retention_ms="0",
    )  # fmt: skip
    topics.send(topic, *(b"%d" % n for n in range(10)), key=b"k")
    time.sleep(0.5)
    topics.send(topic, b"last", key=b"other")  # which begins another segment
    deadline = time.monotonic() + 60
    while everything(topics.settings(topic)) != [b"9", b"last"] and time.monotonic() < deadline:
        time.sleep(1)
        topics.send(topic, b"last", key=b"other")
    stop = Bound("specific-offsets", None, {0: 5})
    assert everything(topics.settings(topic, stop=stop)) == []
    assert everything(topics.settings(topic, start=stop, stop=Bound("specific-offsets", None, {0: 10}))) == [b"9"]
