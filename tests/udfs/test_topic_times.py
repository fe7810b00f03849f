"""The newest event times among the last messages of ranges, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.types import DataType
from sqlstream.udfs.kafka.fetch import FIELDS, FetchedMessages, TopicRecords
from sqlstream.udfs.kafka.times import LOOKED_AT, NewestTimes, TopicTimes

RECORDS = TopicRecords(JsonDecoder((Field("at", DataType("TIMESTAMP")),)), tolerant=True, skips_blank=True)


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
    assert newest.of({("t", 1): (5, 7), ("t", 2): (0, 10 * LOOKED_AT), ("u", 1): (0, 2)}) == {
        ("t", 1): 15_000_000, ("t", 2): 25_000_000, ("u", 1): 15_000_000,
    }  # fmt: skip
    assert [each[:4] for each in asked] == [
        ["t", 1, 5, 7], ["t", 2, 9 * LOOKED_AT, 10 * LOOKED_AT], ["u", 1, 0, 2],
    ]  # fmt: skip
    assert newest.of({}) == {}


def test_the_time_of_messages_themselves_is_one_too(asked: list[list[Any]]):
    newest = NewestTimes(TopicTimes(RECORDS, "at", "timestamp"), {})
    assert newest.of({("t", 1): (0, 3)}) == {("t", 1): 7_000_000}
    assert len(asked) == 1
