"""The consumer of confluent-kafka, which makes an object of Python of each message, as columns.

It serves where librdkafka's own functions cannot be called (``librdkafka``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kafka.fetched import (
    AT_ONCE,
    FIELDS,
    Fetched,
    Notice,
    Slot,
    room_after,
    timestamp_types,
    timestamps,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition


class ObjectConsumer:
    """Gives the messages of a consumer as columns. ``fields``: which of FIELDS, without those of PLACES."""

    def __init__(self, consumer: Consumer, fields: Sequence[str]) -> None:
        self._consumer = consumer
        self._fields = fields
        self._room = AT_ONCE

    def assign(self, begins: Iterable[tuple[Slot, int]]) -> None:
        self._consumer.assign([_place(slot, begin) for slot, begin in begins])

    def add(self, slot: Slot, begin: int) -> None:
        self._consumer.incremental_assign([_place(slot, begin)])

    def leave(self, slots: Iterable[Slot]) -> None:
        self._consumer.incremental_unassign([_place(slot) for slot in slots])

    def bounds(self, slot: Slot, seconds: float) -> tuple[int, int] | None:
        return self._consumer.get_watermark_offsets(_place(slot), timeout=seconds)

    def known_end(self, slot: Slot) -> int:
        return self._consumer.get_watermark_offsets(_place(slot), cached=True)[1]

    def fetch(self, slots: Mapping[Slot, int], seconds: float) -> Fetched:
        fetched = self._fetched(slots, seconds)
        self._room = room_after(fetched, self._room)
        return fetched

    def _fetched(self, slots: Mapping[Slot, int], seconds: float) -> Fetched:
        come = self._consumer.consume(1, seconds)
        come += self._consumer.consume(self._room - 1, 0) if come and self._room > 1 else []
        methods = _methods()
        errors, notices = list(map(methods["error"], come)), []
        if any(errors):
            notices = [_notice(message) for message in compress(come, errors)]
            come = list(compress(come, map(not_, errors)))
        count = len(come)
        if len(slots) == 1:
            index = np.zeros(count, np.int64)
        else:
            places = zip(map(methods["topic"], come), map(methods["partition"], come), strict=True)
            index = np.fromiter(map(slots.__getitem__, places), np.int64, count)
        offsets = np.fromiter(map(methods["offset"], come), np.int64, count)
        return Fetched({name: COLUMNS[name](come) for name in self._fields}, index, offsets, notices)

    def close(self) -> None:
        self._consumer.close()


def _place(slot: Slot, begin: int = -1001) -> TopicPartition:  # without an offset
    from confluent_kafka import TopicPartition  # an optional package

    return TopicPartition(*slot, begin)


def _notice(message: Message) -> Notice:
    error = message.error()
    assert error is not None
    slot = (message.topic() or "", message.partition() or 0)
    return Notice(error.code(), slot, message.offset() or 0, error.str())


# --- columns ----------------------------------------------------------------------------------------------------


def _each(method: str) -> Callable[[Sequence[Message]], pa.Array]:
    kind = FIELDS.get(method, pa.int32())

    def column(messages: Sequence[Message]) -> pa.Array:
        return pa.array(list(map(_methods()[method], messages)), kind)

    return column


def _times(messages: Sequence[Message]) -> np.ndarray:
    """Type and time of each, in milliseconds since 1970."""
    return np.array(list(map(_methods()["timestamp"], messages)), np.int64).reshape(-1, 2)


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    times = _times(messages)
    return timestamps(times[:, 0], times[:, 1])


def _timestamp_types(messages: Sequence[Message]) -> pa.Array:
    return timestamp_types(_times(messages)[:, 0])


def _headers(messages: Sequence[Message]) -> pa.Array:
    of_each = map(_methods()["headers"], messages)
    return pa.array([h and [{"key": k, "value": v} for k, v in h] for h in of_each], FIELDS["headers"])


COLUMNS: Mapping[str, Callable[[Sequence[Message]], pa.Array]] = {
    "key": _each("key"),
    "value": _each("value"),
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
    "leaderEpoch": _each("leader_epoch"),
}


def _methods() -> Mapping[str, Callable[[Message], Any]]:
    """The methods of messages, which C calls for each without a frame of Python."""
    from confluent_kafka import Message  # an optional package

    return vars(Message)
