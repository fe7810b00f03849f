"""How far the watermark of a Kafka table may go: partitions that are slow, idle, waiting, new or read to their end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.connectors.on_spark.kafka_times import counted_time
from sqlstream.session import Session
from sqlstream.sources.kafka.offsets import OffsetRange, Offsets, Partition, Position, ranges
from sqlstream.sources.kafka.watermarks import IdlePartitions, PartitionWatermarks

A, B, C = (Partition("t", number) for number in range(3))


class Stream:
    """A topic whose messages have the event times of ``log``, and a job that reads it in steps. Messages without a time
    are no rows, as tombstones.
    """

    def __init__(self, timeout_ms: int = 0, stop: Offsets | None = None, by_rows: str | None = None) -> None:
        self.log: dict[Partition, list[int | None]] = {A: [], B: []}
        self.now_ms = 0
        self.position = Position({A: 0, B: 0}, stop)
        self.watermarks = PartitionWatermarks(self.newest, IdlePartitions(timeout_ms, lambda: self.now_ms), by_rows)

    def newest(self, read: Collection[OffsetRange]) -> dict[Partition, int]:
        times = {r.partition: [t for t in self.log[r.partition][r.begin : r.end] if t is not None] for r in read}
        return {partition: max(of_rows) for partition, of_rows in times.items() if of_rows}

    def step(self, most: int | None = None, **sent: Sequence[int | None]) -> int | None:
        """Sends messages with these times to the partitions a, b and c, and reads a micro-batch."""
        for name, times in sent.items():
            self.log.setdefault({"a": A, "b": B, "c": C}[name], []).extend(times)
        latest = {partition: len(times) for partition, times in self.log.items()}
        begun = {p: 0 for p in latest if p not in self.position.next}
        after = self.position.advanced(latest, most, begun)
        self.position = Position.of_json(self.watermarks.timed(self.position, after, latest).to_json())
        return self.position.lift


def test_the_slowest_partition_holds_the_watermark_and_is_named():
    stream = Stream()
    assert stream.step() is None
    assert stream.step(a=[5, 9, 7]) is None  # nothing is known of b
    assert stream.position.holder == B
    assert stream.step(b=[2]) == 2
    assert stream.step(a=[20], b=[12, 4]) == 12
    assert stream.position.holder == B
    assert stream.step(b=[40]) == 20
    assert stream.position.holder == A


def test_an_idle_partition_holds_nothing_back_and_one_with_messages_waiting_is_not_idle():
    stream = Stream(timeout_ms=100)
    stream.step(a=[10], b=[1])
    stream.now_ms = 99
    assert stream.step(a=[20]) == 1
    stream.now_ms = 100
    assert stream.step() == 20
    assert stream.position.holder is None
    stream.now_ms = 150
    assert stream.step(most=2, a=[30, 31, 32, 33], b=[25, 26, 27, 28]) == 25
    stream.now_ms = 10_000
    assert stream.step(most=2) == 26  # each micro-batch reads one of both
    assert stream.step(most=2, a=[90] * 10) == 27
    stream.now_ms = 20_000
    assert stream.step() == 28
    stream.now_ms = 30_000
    assert stream.step() == 90  # all are idle


def test_a_partition_whose_messages_are_no_rows_becomes_idle():
    stream = Stream(timeout_ms=100)
    stream.step(a=[10], b=[1])
    stream.now_ms = 99
    assert stream.step(a=[20], b=[None]) == 1
    stream.now_ms = 100
    assert stream.step(b=[None, None]) == 20


def test_a_position_changes_without_messages_where_a_partition_becomes_idle_and_only_then():
    stream = Stream(timeout_ms=100)
    stream.step(a=[10], b=[1])
    before = stream.position
    stream.step()
    assert stream.position == before
    stream.now_ms = 500
    stream.step()
    assert stream.position == replace(before, lift=10, holder=None)
    assert ranges(before, stream.position) == []


def test_a_position_asks_for_a_lift_only_where_no_row_of_its_messages_says_so():
    stream = Stream(timeout_ms=100, by_rows="orders")
    stream.step(a=[10], b=[1])
    assert (stream.position.lift, stream.position.lifts) == (1, None)
    stream.now_ms = 100
    assert (stream.step(), stream.position.lifts) == (10, "orders")
    stream.step(b=[20])
    assert (stream.position.lift, stream.position.lifts) == (20, None)
    stream.now_ms = 200
    stream.step()  # another partition holds it at the same time
    assert stream.position.lifts is None
    silent = Stream(timeout_ms=100)
    silent.step(a=[10], b=[1])
    silent.now_ms = 100
    assert (silent.step(), silent.position.lifts) == (10, None)


def test_a_partition_that_never_had_a_row_is_idle_after_the_timeout_and_not_before():
    stream = Stream(timeout_ms=100)
    assert stream.step(a=[10]) is None
    stream.now_ms = 100
    assert stream.step(a=[11]) == 11
    assert Stream().step(a=[10]) is None


def test_new_partitions_join_without_taking_the_watermark_back():
    stream = Stream()
    stream.step(a=[10], b=[20])
    assert stream.step(a=[30], c=[]) == 10
    assert stream.position.holder == C
    assert stream.step(c=[5]) == 10
    assert stream.step(c=[25]) == 20


def test_partitions_read_to_the_end_of_a_bounded_table_hold_nothing():
    stream = Stream(stop={A: 3, B: 1})
    assert stream.step(most=2, a=[10, 50, 60, 70], b=[20, 21]) == 50
    assert stream.step() == 60


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 100), st.integers(1, 4)), max_size=30))
def test_no_message_in_order_of_its_partition_is_ever_late(messages: list[tuple[str, int, int]]):
    stream, clocks = Stream(), {"a": 0, "b": 0}
    for name, step, most in messages:
        clocks[name] += step
        before = stream.position
        lift = stream.step(most, **{name: [clocks[name]]})
        read = ranges(before, stream.position)
        times = [time for r in read for time in stream.log[r.partition][r.begin : r.end] if time is not None]
        assert all(before.lift is None or time >= before.lift for time in times)
        assert before.lift is None or (lift is not None and lift >= before.lift)


@pytest.mark.parametrize(
    ("expression", "counted"),
    [
        ("TO_TIMESTAMP_LTZ(ts, 3)", ("ts", 1000)),
        ("TO_TIMESTAMP_LTZ(ts, 0)", ("ts", 1_000_000)),
        ("TIMESTAMP_MICROS(ts)", ("ts", 1)),
        ("timestamp_millis(small)", ("small", 1000)),
        ("TIMESTAMP_SECONDS(exact)", None),  # may hold fractions
        ("TIMESTAMP_MILLIS(ts + 1)", None),
        ("TIMESTAMP_MILLIS(o)", None),
        ("CAST(text AS TIMESTAMP)", None),
    ],
)
def test_event_times_of_whole_numbers_are_known_by_their_unit(expression: str, counted: tuple[str, int] | None):
    session = Session()
    session.sql(
        f"CREATE TABLE t (ts BIGINT, small INT, exact DECIMAL(20, 3), text STRING, o BIGINT METADATA FROM 'offset', "
        f"at AS {expression}) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'h:1')"
    )
    (table,) = session.workspace.catalog.tables()
    assert counted_time(table, table.columns[-1]) == counted
