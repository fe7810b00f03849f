"""Messages of Kafka, fetched by tasks: a task is given ranges of offsets, and librdkafka brings what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kafka import librdkafka
from sqlstream.udfs.kafka.clients import consumer_of, consumer_settings, wrong_properties
from sqlstream.udfs.kafka.fetched import FIELDS, PARTITION, PLACES, TOPIC, Fetched, FetchingConsumer, Slot
from sqlstream.udfs.kafka.objects import ObjectConsumer
from sqlstream.udfs.kafka.reader import Reader, Span
from sqlstream.udfs.kafka.records import RowsOfMessages
from sqlstream.udfs.kafka.sizes import SizeCounter, sizes_of
from sqlstream.udfs.kafka.tokens import FUNCTION
from sqlstream.udfs.lifts import LIFT, lift_of

TOPIC_ID, BEGIN, END = "topic_id", "begin", "until"
RANGES_DDL = f"{TOPIC} STRING, {TOPIC_ID} STRING, {PARTITION} INT, {BEGIN} BIGINT, {END} BIGINT, {LIFT} BIGINT"
"""The schema of ranges: the messages of a partition from ``begin`` to before ``until``. TOPIC_ID: what Kafka calls the
topic, or NULL. LIFT: the time that the watermark may reach behind the micro-batch, in microseconds; a row may have this
alone."""

RANGES = pa.schema([
    (TOPIC, pa.string()), (TOPIC_ID, pa.string()), (PARTITION, pa.int32()), (BEGIN, pa.int64()), (END, pa.int64()),
    (LIFT, pa.int64()),
])  # fmt: skip

_PAYLOAD = ("key", "value")


@dataclass(frozen=True)
class FetchedMessages:
    """Fetches the messages of ranges. ``properties``: those of librdkafka. ``columns``: which of FIELDS are given.
    ``skips_lost``: messages that are gone are left out, with a warning in the log; else they are an error. ``sizes``:
    what counts the bytes of values, and of keys where these are among the columns.
    """

    properties: Mapping[str, str] = field(repr=False)
    columns: tuple[str, ...]
    skips_lost: bool = False
    sizes: SizeCounter | None = field(default=None, repr=False, compare=False)

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of a task's ranges, each partition's in their order.

        ConnectorError SS590 where the brokers do not give them, SS592 where they are gone.
        """
        rows = (row for batch in places for row in batch.to_pylist() if row[TOPIC] is not None)
        ranges = {(row[TOPIC], row[PARTITION]): Span(row[BEGIN], row[END], row[TOPIC_ID]) for row in rows}
        if not ranges:
            return
        key = self._reader_key
        reader = _reader_of(*key)
        try:
            for fetched in reader.read(ranges, self.skips_lost):
                yield self._batch(fetched, reader.known)
        except BaseException:
            _forget(*key)  # it stands anywhere
            raise

    @property
    def _reader_key(self) -> _Key:
        properties = tuple(sorted(self.properties.items()))
        return properties, tuple(name for name in FIELDS if name in self.columns and name not in PLACES)

    def _batch(self, fetched: Fetched, known: Sequence[Slot]) -> pa.RecordBatch:
        columns = {
            "offset": lambda: pa.array(fetched.offsets),
            PARTITION: lambda: pa.array(np.array([number for _, number in known], np.int32)[fetched.index]),
            TOPIC: lambda: pa.array([topic for topic, _ in known], pa.string()).take(pa.array(fetched.index)),
        }
        arrays = [columns[name]() if name in columns else fetched.columns[name] for name in self.columns]
        if self.sizes is not None:
            payload = [array for name, array in zip(self.columns, arrays, strict=True) if name in _PAYLOAD]
            self.sizes.add(sizes_of(payload, known, fetched.index))
        return pa.RecordBatch.from_arrays(arrays, [*self.columns])


@dataclass(frozen=True)
class LiftedMessages:
    """Fetches messages with one more column: LIFT, that of their micro-batch."""

    fetched: FetchedMessages

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of a task's ranges. Raises what fetching raises."""
        ranges = [*places]
        lift = pa.scalar(lift_of(ranges), pa.int64())
        for batch in self.fetched.rows(ranges):
            lifts = pa.repeat(lift, batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, lifts], [*batch.schema.names, LIFT])


@dataclass(frozen=True)
class RowsOfTopics:
    """Fetches messages and decodes them, in one task."""

    fetched: FetchedMessages | LiftedMessages
    reader: RowsOfMessages

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task's ranges. Raises what fetching and decoding raise."""
        return self.reader.rows(self.fetched.rows(places))


# --- consumers, which live as long as their process ----------------------------------------------------------------

_Key = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]
"""Properties, and the fields of messages that are given."""

_readers: dict[_Key, Reader] = {}


def _reader_of(properties: tuple[tuple[str, str], ...], fields: tuple[str, ...]) -> Reader:
    key = (properties, fields)
    if key not in _readers:
        _readers[key] = Reader(_consumer_for(dict(properties), fields))
    return _readers[key]


def _forget(properties: tuple[tuple[str, str], ...], fields: tuple[str, ...]) -> None:
    reader = _readers.pop((properties, fields), None)
    if reader is not None:
        reader.consumer.close()


def _consumer_for(properties: Mapping[str, str], fields: Sequence[str]) -> FetchingConsumer:
    """The consumer that takes the least time for a message of those that can follow the properties. ConnectorError
    SS590 for wrong ones.
    """
    from confluent_kafka import KafkaException  # an optional package

    library = None if _OF_PYTHON & properties.keys() else librdkafka.library()
    if library is None:
        return ObjectConsumer(consumer_of(properties), fields)
    try:
        return librdkafka.ColumnConsumer(library, consumer_settings(properties), fields)
    except KafkaException as error:
        raise wrong_properties(error) from None


_OF_PYTHON = {"plugin.library.paths", "sasl.oauthbearer.metadata.authentication.type", FUNCTION}
"""Properties that confluent-kafka follows itself: where plugins are, and logins by a role in a cloud or a function of
Python."""
