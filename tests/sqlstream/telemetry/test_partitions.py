"""What a job has read of the partitions of topics, from offsets of Spark's own connector for Kafka and of ours."""

from __future__ import annotations

import json

import pytest

from sqlstream.sources.kafka.offsets import Partition, Position
from sqlstream.telemetry.partitions import PartitionTotals, position_of, with_partitions


def report(start, end, latest=None):
    return {"sources": [{"startOffset": start, "endOffset": end, "latestOffset": latest}]}


def test_rows_are_the_distance_of_offsets_and_what_is_left_waits():
    first = with_partitions({}, report({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, {"t": {"0": 12, "1": 7}}))
    assert first == {Partition("t", 0): PartitionTotals(4, 9, 3), Partition("t", 1): PartitionTotals(0, 7, 0)}
    second = with_partitions(first, report({"t": {"0": 9, "1": 7}}, {"t": {"0": 12, "1": 8}}))
    assert second == {Partition("t", 0): PartitionTotals(7, 12), Partition("t", 1): PartitionTotals(1, 8)}


def test_a_position_says_where_partitions_begin_that_are_new():
    zero, one, other = Partition("t", 0), Partition("t", 1), Partition("u", 0)
    start = Position({zero: 100})
    end = Position({zero: 110, one: 44, other: 3}, begun={one: 40}, ids={"t": "xyz"}, lift=5)
    latest = json.dumps(Position({zero: 110, one: 50, other: 3}).to_json())
    totals = with_partitions({}, report(json.dumps(start.to_json()), end.to_json(), latest))
    assert totals[zero] == PartitionTotals(10, 110, 0)
    assert totals[one] == PartitionTotals(4, 44, 6)
    assert totals[other] == PartitionTotals(0, 3, 0), "where it began is not known"


def test_the_first_epoch_counts_what_it_has_begun():
    zero = Partition("t", 0)
    end = Position({zero: 110}, begun={zero: 100}).to_json()
    assert with_partitions({}, report(None, end)) == {zero: PartitionTotals(10, 110)}
    assert with_partitions({}, report(None, {"t": {"0": 110}})) == {zero: PartitionTotals(0, 110)}


@pytest.mark.parametrize(
    "offset", [None, "", "12", 12, {}, {"logOffset": 3}, {"a": {"b": 1}}, {"a": {"0": "x"}}, {"next": 3}, "no json", []]
)
def test_offsets_of_other_sources_are_no_positions(offset):
    assert position_of(offset) is None
    assert with_partitions({}, report(None, offset)) == {}


def test_a_topic_may_be_called_next():
    assert position_of({"next": {"0": 7}}) == Position({Partition("next", 0): 7})
