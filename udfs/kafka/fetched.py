"""What consumers give of topics: messages as columns, and what librdkafka says between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

AT_ONCE, BYTES_AT_ONCE = 20_000, 8 << 20
"""A consumer gives at most so many messages at once, and about so many bytes of them."""

TOPIC, PARTITION = "topic", "partition"
FIELDS: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "leaderEpoch": pa.int32(),
}
"""The columns of messages: those of Spark's connector, and the epoch of the partition's leader."""

DDL = {
    "key": "BINARY", "value": "BINARY", TOPIC: "STRING", PARTITION: "INT", "offset": "BIGINT",
    "timestamp": "TIMESTAMP", "timestampType": "INT", "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "leaderEpoch": "INT",
}  # fmt: skip
"""Their types in Spark."""

PLACES = (TOPIC, PARTITION, "offset")
"""The columns that say where a message is. Consumers give the others."""

Slot = tuple[str, int]
"""Topic and partition."""


class Notice(NamedTuple):
    """What librdkafka says between messages: the end of a partition, or what is wrong. ``code``: that of a KafkaError.
    ``slot``: of which partition, if of one; its topic is "" where none is named.
    """

    code: int
    slot: Slot
    offset: int
    reason: str


@dataclass(frozen=True)
class Fetched:
    """Messages of partitions, those of each in their order. ``columns``: without those of PLACES. ``index``: the
    partition of each message, as its place among those that the consumer was given.
    """

    columns: Mapping[str, pa.Array]
    index: np.ndarray
    offsets: np.ndarray
    notices: Sequence[Notice] = field(default=())

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return sum(column.nbytes for column in self.columns.values())

    def where(self, chosen: np.ndarray) -> Fetched:
        """The messages that are chosen. Those that follow each other are not copied."""
        begin, count = int(chosen.argmax()) if len(chosen) else 0, int(np.count_nonzero(chosen))
        if chosen[begin : begin + count].all():
            piece = slice(begin, begin + count)
            columns = {name: column[piece] for name, column in self.columns.items()}
            return Fetched(columns, self.index[piece], self.offsets[piece])
        mask = pa.array(chosen)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return Fetched(columns, self.index[chosen], self.offsets[chosen])


class FetchingConsumer(Protocol):
    """A consumer of librdkafka, which is given its partitions. Its methods raise KafkaException."""

    def assign(self, begins: Iterable[tuple[Slot, int]]) -> None:
        """Fetches these partitions from these offsets on, and no others."""

    def add(self, slot: Slot, begin: int) -> None:
        """Fetches one more partition from this offset on."""

    def leave(self, slots: Iterable[Slot]) -> None:
        """Fetches these partitions no more."""

    def bounds(self, slot: Slot, seconds: float) -> tuple[int, int] | None:
        """The first offset of a partition, and the one after its last, as its brokers say within so many seconds."""

    def known_end(self, slot: Slot) -> int:
        """The offset after the last message of a partition, as brokers said with the last messages of it. Those of open
        transactions count, too. It asks nobody, and is less than 0 where nothing is known.
        """

    def fetch(self, slots: Mapping[Slot, int], seconds: float) -> Fetched:
        """What has come, at most AT_ONCE messages and about BYTES_AT_ONCE bytes; it waits up to so many seconds for the
        first. ``slots``: the place of each partition in ``Fetched.index``.
        """

    def close(self) -> None:
        """Ends its connections. It can do nothing afterwards."""


def room_after(fetched: Fetched, room: int) -> int:
    """How many messages to take at once after these, so that those of their size have BYTES_AT_ONCE bytes. ``room``:
    how many it was, which stays where there are none.
    """
    if not len(fetched) or not fetched.columns:
        return room
    return max(1, min(AT_ONCE, BYTES_AT_ONCE * len(fetched) // max(1, fetched.nbytes)))


def timestamps(types: np.ndarray, millis: np.ndarray) -> pa.Array:
    """The column of the times of messages, which are in milliseconds since 1970. ``types``: 0 where there is none."""
    return pa.array(millis * 1000, pa.int64(), mask=types == 0).cast(FIELDS["timestamp"])


def timestamp_types(types: np.ndarray) -> pa.Array:
    """The column of what the times of messages are, as Spark counts: -1, where there is none."""
    return pa.array((types - 1).astype(np.int32))
