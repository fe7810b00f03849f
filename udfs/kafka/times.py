"""The newest event times of partitions of topics, by which their source decides how far a watermark may go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.time_texts import InstantRule, in_micros
from sqlstream.types import DataType
from sqlstream.udfs.event_times import EARLIEST, LATEST
from sqlstream.udfs.kafka.fetched import FIELDS, PARTITION, PLACES, TOPIC, Slot
from sqlstream.udfs.kafka.reader import Span
from sqlstream.udfs.kafka.records import TopicRecords, with_values
from sqlstream.udfs.kafka.samples import sample

LOOKED_AT = 1000
"""How many of the last messages of a range are looked at. An older one that is newer by its event time is passed over:
the watermark is lower for a while, and never too high."""

_TIME = "time"
_INSTANT = DataType("TIMESTAMP")


@dataclass(frozen=True)
class TopicTimes:
    """How the event time of a message is found: it is the column ``column`` of what ``records`` decode, or, without
    ``records``, the ``part`` of a message (``fetched.FIELDS``) itself.

    ``unit``: the column is a number, which counts so many microseconds since 1970. ``zone``: it is a text, of a time in
    this zone unless it names another one. ``member``: it is a STRUCT, of which
    this field is the time. ``only``: pairs of a column and a regular expression, which its values must match as a whole
    where they are not NULL; other rows do not count.
    """

    records: TopicRecords | None
    column: str = ""
    part: str = ""
    unit: int | None = None
    zone: str | None = None
    member: str | None = None
    only: tuple[tuple[str, str], ...] = ()

    def found(self, messages: pa.RecordBatch) -> tuple[pa.Array, np.ndarray]:
        """The times of messages in microseconds since 1970, and the index of the message of each. There is none of a
        message that is no row or cannot be read, and there are several where it is several rows.
        """
        if self.records is None:
            return self.of(messages.column(self.part)), np.arange(messages.num_rows)
        decoded = self.records.read(with_values(messages))
        column = decoded.rows.column(self.column)
        times = self.of(column if self.member is None else pc.struct_field(column, self.member))
        for name, pattern in self.only:
            times = pc.if_else(_matches(decoded.rows.column(name), pattern), times, None)
        return times, decoded.numbers

    def of(self, values: pa.Array) -> pa.Array:
        """The times of a column's values in microseconds since 1970; NULL where a number is out of range, or a text is
        no time.
        """
        if self.zone is not None:
            return in_micros(InstantRule(_INSTANT, self.zone).read(values)[0])
        if self.unit is None:
            return in_micros(values)
        numbers = values.cast(pa.int64())
        earliest, latest = EARLIEST // self.unit, LATEST // self.unit
        inside = pc.and_(pc.greater_equal(numbers, earliest), pc.less_equal(numbers, latest))
        return pc.multiply(pc.if_else(inside, numbers, None), self.unit)


@dataclass(frozen=True)
class NewestTimes:
    """Looks at the last messages of ranges. ``properties``: those of librdkafka."""

    times: TopicTimes
    properties: Mapping[str, str] = field(repr=False)

    def of(self, ranges: Mapping[Slot, Span]) -> dict[Slot, int]:
        """The newest event time of each partition among the last messages of its range, in microseconds since 1970;
        none for those without one. Messages that cannot be read, or whose time is NULL or out of range, have none.

        ConnectorError SS590 where the brokers do not give them.
        """
        needed = {self.times.part, *PLACES} if self.times.records is None else self.times.records.fields
        fields = tuple(name for name in FIELDS if name in needed)
        last = {slot: span._replace(begin=max(span.begin, span.end - LOOKED_AT)) for slot, span in ranges.items()}
        if last and self.times.records is not None:
            self.times.records.begin()
        newest: dict[Slot, int] = {}
        for messages in sample(self.properties, fields, last):
            for slot, time in self._newest(messages).items():
                newest[slot] = max(time, newest.get(slot, time))
        return newest

    def _newest(self, messages: pa.RecordBatch) -> dict[Slot, int]:
        times, numbers = self.times.found(messages)
        of_rows = messages.take(pa.array(numbers))
        rows = pa.table({_TIME: times, TOPIC: of_rows.column(TOPIC), PARTITION: of_rows.column(PARTITION)})
        good = pc.and_(pc.greater_equal(times, EARLIEST), pc.less_equal(times, LATEST)).fill_null(False)
        found = rows.filter(good).group_by([TOPIC, PARTITION]).aggregate([(_TIME, "max")])
        return {(row[TOPIC], row[PARTITION]): row[f"{_TIME}_max"] for row in found.to_pylist()}


def _matches(values: pa.Array, pattern: str) -> pa.Array:
    """Where texts match as a whole, or are NULL."""
    texts = pc.unique(values)
    matching = [text for text in texts.to_pylist() if text is None or re.fullmatch(pattern, text)]
    return pc.is_in(values, pa.array(matching, texts.type))
