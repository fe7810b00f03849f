"""Messages of topics as the columns that exchanges and queries without state take, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import Message

from sqlstream.errors import ExecutionError
from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.files.records import RequiredValue
from sqlstream.udfs.files.splits import FromFile
from sqlstream.udfs.kafka.fetch import RANGES, FetchedMessages
from sqlstream.udfs.kafka.objects import COLUMNS
from sqlstream.udfs.kafka.records import TopicRecords
from sqlstream.udfs.kafka.rows import TopicFormat, TopicRows
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.messages import BAD_TYPE

INSTANT = pa.timestamp("us", "UTC")
READ = {"n": FromFile("n", pa.int64()), "at": FromFile("at", INSTANT, micros=True, event_time="time at")}


@dataclass(frozen=True)
class Fetched:
    """Messages of partition 3 of topic t, which begin at offset 7."""

    values: tuple[bytes | None, ...]
    columns: tuple[str, ...] = ("value", "topic", "partition", "offset")

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = len(self.values)
        numbers = [pa.repeat(pa.scalar(3, pa.int32()), count), pa.array(range(7, 7 + count), pa.int64())]
        arrays = [pa.array(self.values, pa.binary()), pa.array(["t"] * count), *numbers]
        yield pa.RecordBatch.from_arrays(arrays, [*self.columns])


def read(
    columns: dict[str, FromFile],
    *values: bytes | None,
    tolerant: bool = False,
    more: dict[str, pa.DataType] | None = None,
    **given: Any,
) -> list[dict[str, Any]]:
    decoder = JsonDecoder((Field("n", DataType("BIGINT")), Field("at", DataType("TIMESTAMP"))))
    records = TopicRecords(decoder, tolerant, skips_blank=True)
    form = TopicFormat(cast(FetchedMessages, Fetched(values)), records, given.pop("metadata", {}))
    kinds = {name: pa.int64() if column.micros else column.type for name, column in columns.items()}
    reader = TopicRows(pa.schema({**kinds, **(more or {})}), columns, form, **given)
    ranges = RANGES.append(pa.field(CLOCK, pa.int64()))
    places = pa.RecordBatch.from_pylist([dict.fromkeys(ranges.names) | {CLOCK: 99}], ranges)
    return [row for batch in reader.rows([places]) for row in batch.to_pylist()]


def test_columns_are_those_of_values_of_messages_and_of_the_task():
    given = read(
        {"n": READ["n"], "at": READ["at"], "o": FromFile("o", pa.int64())},
        b'{"n": 1, "at": "1970-01-01 00:00:01"}', None, b" ", b'{"at": "1970-01-01 00:00:02"}',
        more={CLOCK: pa.int64(), KEY_HASH: pa.int64()}, metadata={"o": "offset"},
    )  # fmt: skip
    assert given == [
        {"n": 1, "at": 1_000_000, "o": 7, CLOCK: 99, KEY_HASH: 0},
        {"n": None, "at": 2_000_000, "o": 10, CLOCK: 99, KEY_HASH: 0},
    ]


def test_what_a_message_must_not_be_is_said_with_its_place():
    good = b'{"n": 1, "at": "1970-01-01 00:00:01"}'
    with pytest.raises(ExecutionError, match=r'SS402: a row at t\[3\]@8 cannot be read: .*"n" of type BIGINT is "x"'):
        read(READ, good, b'{"n": "x"}')
    with pytest.raises(ExecutionError, match=r"SS401: time at is NULL at t\[3\]@9"):
        read(READ, good, None, b'{"n": 1}')
    required = {"n": FromFile("n", pa.int64(), not_null="n is NOT NULL and got NULL")}
    with pytest.raises(ExecutionError, match=r'SS403: n is NOT NULL and got NULL at t\[3\]@8: \{"n":null'):
        read(required, good, b"{}")


def test_bad_messages_come_first_where_they_are_tolerated_with_what_they_lack():
    values = (b'{"n": 1}', b"no json", b'{"at": "1970-01-01 00:00:01"}', b"", b'{"n": 2}')
    required = (RequiredValue("n", "SS403: n lacks"),)
    columns = {"n": READ["n"], "o": FromFile("o", pa.int64())}
    given = read(
        columns, *values, tolerant=True, more={BAD: BAD_TYPE}, required=required, metadata={"o": "offset"}
    )  # fmt: skip
    bad = [row[BAD] for row in given if row[BAD] is not None]
    assert [(b["record"], b["place"]) for b in bad] == [(values[1], "t[3]@8"), (values[2], "t[3]@9")]
    assert [b["error"].partition(":")[0] for b in bad] == ["SS402", "SS403"]
    assert [(row["n"], row["o"]) for row in given if row[BAD] is None] == [(1, 7), (2, 11)]
    unnamed = read(columns, *values, tolerant=True, more={BAD: BAD_TYPE}, letters=False, metadata={"o": "offset"})
    assert [row[BAD]["record"] for row in unnamed if row[BAD] is not None] == [None]


def test_a_message_may_lack_its_time_headers_key_and_epoch():
    message = Message(topic="t", partition=0, offset=3, value=b"v", timestamp=(0, 0), latency=0.0)
    lacking = {"timestamp": None, "timestampType": -1, "headers": None, "key": None, "leaderEpoch": None}
    assert {name: COLUMNS[name]([message]).to_pylist()[0] for name in lacking} == lacking
