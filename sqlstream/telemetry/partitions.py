"""What a job has read of each partition of Kafka's topics, from the offsets in Spark's reports of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream.sources.kafka.offsets import Partition, Position, ranges
from sqlstream.udfs.texts import json_of


@dataclass(frozen=True)
class PartitionTotals:
    """What is known of a partition. ``rows``: the messages that epochs of this run have read, by their offsets.
    ``offset``: the one that the next epoch reads first. ``pending``: the messages from there to the end of the
    partition, as of when the last epoch was planned; None where the source does not report its end.
    """

    rows: int = 0
    offset: int = 0
    pending: int | None = None


PartitionsTotals = Mapping[Partition, PartitionTotals]


def with_partitions(totals: PartitionsTotals, report: Mapping[str, Any]) -> dict[Partition, PartitionTotals]:
    """The totals with one more epoch. A topic that two sources read is read twice, and its rows count twice."""
    after = dict(totals)
    for start, end, latest in _positions(report):
        read = {r.partition: r.end - r.begin for r in ranges(start, end) if r.partition in {**start.next, **end.begun}}
        for partition, offset in end.next.items():
            pending = max(0, latest[partition] - offset) if partition in latest else None
            rows = after.get(partition, PartitionTotals()).rows + read.get(partition, 0)
            after[partition] = PartitionTotals(rows, offset, pending)
    return after


def _positions(report: Mapping[str, Any]) -> Iterator[tuple[Position, Position, Mapping[Partition, int]]]:
    """Begin, end and what there was, of each source that is a topic of Kafka."""
    for source in report.get("sources", ()):
        end = position_of(source.get("endOffset"))
        if end is not None:
            latest = position_of(source.get("latestOffset"))
            start = position_of(source.get("startOffset"))
            yield start or Position({}), end, {} if latest is None else latest.next


def position_of(offset: Any) -> Position | None:
    """The position in topics that an offset of Spark's report is; None for offsets of other sources. Spark gives it as
    a value or as its text; that of Spark's own connector has only the offsets.
    """
    try:
        value = json_of(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if _is_by_partition(value.get("next")):
        return Position.of_json(value)
    return Position.of_json({"next": value}) if _is_by_partition(value) else None


def _is_by_partition(offsets: Any) -> bool:
    """Whether a value is ``{"topic": {"0": 12}}``."""
    return (
        isinstance(offsets, dict)
        and bool(offsets)
        and all(
            isinstance(numbers, dict) and all(n.isdecimal() and type(o) is int for n, o in numbers.items())
            for numbers in offsets.values()
        )
    )
