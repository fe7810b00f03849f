"""The newest event times among the last messages of ranges, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.formats.decoder import Decoded, Decoder, Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.types import DataType
from sqlstream.udfs.event_times import EARLIEST, LATEST
from sqlstream.udfs.kafka.fetch import FetchedMessages
from sqlstream.udfs.kafka.fetched import FIELDS
from sqlstream.udfs.kafka.reader import Span
from sqlstream.udfs.kafka.records import TopicRecords
from sqlstream.udfs.kafka.times import LOOKED_AT, NewestTimes, TopicTimes

RECORDS = TopicRecords(JsonDecoder((Field("at", DataType("TIMESTAMP")),)), tolerant=True, skips_blank=True)


@dataclass(frozen=True)
class Twice(Decoder):
    """Gives each record twice, the second time without its values."""

    of: Decoder

    @property
    def schema(self) -> pa.Schema:
        return self.of.schema

    def block(self, data: pa.Buffer) -> Decoded:
        raise AssertionError

    def messages(self, values: pa.BinaryArray) -> Decoded:
        decoded = self.of.messages(values)
        both = np.repeat(np.arange(decoded.rows.num_rows), 2)
        rows = decoded.rows.take(pa.array(both, mask=np.arange(len(both)) % 2 == 1))
        return replace(decoded, rows=rows, origins=decoded.numbers[both])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """What is fetched; the second of a message is its partition and its offset in the range."""
    asked: list[list[Any]] = []

    def rows(fetched: FetchedMessages, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in (row for batch in places for row in batch.to_pylist()):
            asked.append([*place.values()])
            begin = f'{{"at": "1970-01-01 00:00:{place["partition"]}'
            values: list[bytes | None] = [f'{begin}{i}"}}'.encode() for i in (3, 5, 4)]
            values += [b"no json", None, b'{"at": null}', b'{"at": "0001-01-01 00:00:00"}'] if place["begin"] else []
            count = len(values)
            given = {
                "value": values, "topic": [place["topic"]] * count, "partition": [place["partition"]] * count,
                "offset": range(count), "timestamp": [0, 7_000_000, None, *[1] * (count - 3)],
            }  # fmt: skip
            arrays = [pa.array(given[name], FIELDS[name]) for name in fetched.columns]
            yield pa.RecordBatch.from_arrays(arrays, [*fetched.columns])

    monkeypatch.setattr(FetchedMessages, "rows", rows)
    return asked


def test_the_newest_of_the_last_messages_counts_and_none_that_cannot_be_read(asked: list[list[Any]]):
    newest = NewestTimes(TopicTimes(RECORDS, "at"), {})
    assert newest.of({("t", 1): Span(5, 7, "T"), ("t", 2): Span(0, 10 * LOOKED_AT, "T"), ("u", 1): Span(0, 2)}) == {
        ("t", 1): 15_000_000, ("t", 2): 25_000_000, ("u", 1): 15_000_000,
    }  # fmt: skip
    assert [each[:5] for each in asked] == [
        ["t", "T", 1, 5, 7], ["t", "T", 2, 9 * LOOKED_AT, 10 * LOOKED_AT], ["u", None, 1, 0, 2],
    ]  # fmt: skip
    assert newest.of({}) == {}


def test_the_time_of_messages_themselves_is_one_too(asked: list[list[Any]]):
    newest = NewestTimes(TopicTimes(None, part="timestamp"), {})
    assert newest.of({("t", 1): Span(0, 3)}) == {("t", 1): 7_000_000}
    assert len(asked) == 1


def test_a_message_of_several_rows_has_the_newest_of_their_times(asked: list[list[Any]]):
    twice = TopicTimes(TopicRecords(Twice(RECORDS.decoder), tolerant=True), "at")
    assert NewestTimes(twice, {}).of({("t", 1): Span(0, 3), ("t", 2): Span(0, 3)}) == {
        ("t", 1): 15_000_000,
        ("t", 2): 25_000_000,
    }


@pytest.mark.parametrize(
    ("unit", "number", "micros"),
    [
        (1_000_000, 5, 5_000_000),
        (1000, 5, 5000),
        (1, -5, -5),
        (1000, LATEST // 1000, LATEST // 1000 * 1000),
        (1000, LATEST // 1000 + 1, None),
        (1_000_000, EARLIEST // 1_000_000 - 1, None),
        (1_000_000, 2**62, None),
        (1000, None, None),
    ],
)
def test_numbers_are_times_in_their_unit_and_none_out_of_range(unit: int, number: int | None, micros: int | None):
    times = TopicTimes(RECORDS, "n", unit=unit)
    assert times.of(pa.array([number], pa.int64())).to_pylist() == [micros]


def test_numbers_of_few_bits_are_times_too():
    assert TopicTimes(RECORDS, "n", unit=1_000_000).of(pa.array([2_000_000_000], pa.int32()))[0].as_py() == 2 * 10**15
