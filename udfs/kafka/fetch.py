"""Messages of Kafka, fetched by tasks: a task is given ranges of offsets, and librdkafka brings what is in them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ConnectorError, repeating
from sqlstream.formats.decoder import Decoded, Fault
from sqlstream.udfs.exchange import LIFT
from sqlstream.udfs.kafka.sizes import SizeCounter, sizes_of
from sqlstream.udfs.kafka.tokens import with_tokens
from sqlstream.udfs.messages import VALUE, MessageRows

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

UNREACHABLE = "SS590"
LOST = repeating("SS592")

TOPIC, TOPIC_ID, PARTITION, BEGIN, END = "topic", "topic_id", "partition", "begin", "until"
RANGES_DDL = f"{TOPIC} STRING, {TOPIC_ID} STRING, {PARTITION} INT, {BEGIN} BIGINT, {END} BIGINT, {LIFT} BIGINT"
"""The schema of ranges: the messages of a partition from ``begin`` to before ``until``. TOPIC_ID: what Kafka calls the
topic, or NULL. LIFT: the time that the watermark may reach behind the micro-batch, in microseconds; a row may have this
alone."""

RANGES = pa.schema([
    (TOPIC, pa.string()), (TOPIC_ID, pa.string()), (PARTITION, pa.int32()), (BEGIN, pa.int64()), (END, pa.int64()),
    (LIFT, pa.int64()),
])  # fmt: skip

_PATIENCE_SECONDS = 120
_BOUNDS_SECONDS = 30
_AT_ONCE = 20_000
_MOST_AHEAD, _MOST_BYTES_AHEAD = 100_000, 128 << 20
"""So many messages, or bytes of them, are kept for later micro-batches; of more they are fetched again."""

_FETCHES_ON = {"fetch.queue.backoff.ms": "10"}
"""Where 100,000 messages wait for us, librdkafka fetches no more for a second otherwise, in which we read them several
times over."""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FIELDS: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": _HEADERS,
    "leaderEpoch": pa.int32(),
}
"""The columns of messages: those of Spark's connector, and the epoch of the partition's leader."""

DDL = {
    "key": "BINARY", "value": "BINARY", TOPIC: "STRING", PARTITION: "INT", "offset": "BIGINT",
    "timestamp": "TIMESTAMP", "timestampType": "INT", "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "leaderEpoch": "INT",
}  # fmt: skip
"""Their types in Spark."""

_PAYLOAD = ("key", "value")
Slot = tuple[str, int]
"""Topic and partition."""


class Span(NamedTuple):
    """The messages of a partition from offset ``begin`` to before ``end``. ``id``: what Kafka calls its topic, by which
    one that was deleted and made again is another; None where that is not known.
    """

    begin: int
    end: int
    id: str | None = None


def losing(what: str) -> ConnectorError:
    """SS592 for messages that are gone before they were read."""
    hint = "Start in a new directory ('execution.checkpointing.dir'), or let 'on-data-loss' = 'skip' go on behind them."
    return ConnectorError(LOST, f"messages are gone before they were read: {what}", hint=hint)


def lose(what: str, *, skips_lost: bool) -> None:
    """Tells the log of messages that are gone; ConnectorError SS592 unless the table ``skips_lost`` ones."""
    if not skips_lost:
        raise losing(what)
    logging.getLogger("sqlstream.kafka").warning("messages are gone before they were read: %s", what)


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
        reader = _reader_of(self.properties)
        try:
            for messages, slots, offsets in reader.read(ranges, self.skips_lost):
                yield self._batch(messages, slots, offsets)
        except BaseException:
            _forget(self.properties)  # it stands anywhere
            raise

    def _batch(self, messages: Sequence[Message], slots: _Slots, offsets: np.ndarray) -> pa.RecordBatch:
        columns = {
            "offset": lambda: pa.array(offsets),
            PARTITION: lambda: pa.array(slots.numbers, pa.int32()),
            TOPIC: lambda: slots.topics,
        }
        arrays = [columns[name]() if name in columns else _OF_MESSAGES[name](messages) for name in self.columns]
        if self.sizes is not None:
            payload = [array for name, array in zip(self.columns, arrays, strict=True) if name in _PAYLOAD]
            self.sizes.add(sizes_of(payload, slots.known, slots.index))
        return pa.RecordBatch.from_arrays(arrays, [*self.columns])


def place_of(messages: pa.RecordBatch, index: int) -> str:
    """Where a message is: ``topic[partition]@offset``."""
    topic, number, offset = (messages.column(name)[index] for name in (TOPIC, PARTITION, "offset"))
    return f"{topic}[{number}]@{offset}"


# --- messages as rows -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopicRecords(MessageRows):
    """Decodes messages of topics. As in Flink, those without a value are no rows, nor are blank ones if
    ``skips_blank``; with ``keeps_null`` a message without a value is a row of one NULL.
    """

    skips_blank: bool = False
    keeps_null: bool = False

    def _place(self, batch: pa.RecordBatch, fault: Fault) -> str | None:
        return place_of(batch, fault.record)

    def decoded(self, values: pa.Array) -> Decoded:
        """The rows and faults of messages, without those that are no rows. ``values``: what they hold."""
        if self.keeps_null and values.null_count:
            decoded = self.decoder.messages(values.fill_null(b""))
            if not decoded.rows.num_columns:
                return decoded
            given = values.is_valid().take(pa.array(decoded.numbers))
            (column,) = decoded.rows.columns
            rows = pa.RecordBatch.from_arrays([pc.if_else(given, column, None)], schema=decoded.rows.schema)
            return replace(decoded, rows=rows)
        decoded = self.decoder.messages(values)
        if not decoded.faults:
            return decoded
        left = [f for f in decoded.faults if not self._is_none(values[f.record].as_py())]
        return replace(decoded, faults=left, origins=decoded.numbers)

    def _is_none(self, value: bytes | None) -> bool:
        return value is None or (self.skips_blank and not value.strip())


def lift_of(ranges: Iterable[pa.RecordBatch]) -> int | None:
    """The time that the watermark may reach behind the micro-batch of a task's ranges; None if it stays."""
    return next((lift for batch in ranges for lift in batch.column(LIFT).to_pylist() if lift is not None), None)


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
    """Fetches messages and decodes them, in one task. The rows have the columns of ``records`` by the ``names``, and
    the columns ``kept`` of their message. If ``lifts``, they also have LIFT, that of their micro-batch.
    """

    fetched: FetchedMessages
    records: TopicRecords
    names: tuple[str, ...]
    kept: tuple[str, ...]
    lifts: bool = False

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task's ranges. Raises what fetching and decoding raise."""
        ranges = [*places]
        names = [*self.names, *self.kept, *([LIFT] if self.lifts else [])]
        lift = pa.scalar(lift_of(ranges), pa.int64())
        renamed = [VALUE if name == "value" else name for name in self.fetched.columns]
        messages = (batch.rename_columns(renamed) for batch in self.fetched.rows(ranges))
        for batch in self.records.rows(messages):
            own = batch.columns[: len(self.names)]
            kept = (batch.column(len(self.names) + place) for place in self._places_of_kept(renamed))
            lifts = [pa.repeat(lift, batch.num_rows)] if self.lifts else []
            yield pa.RecordBatch.from_arrays([*own, *kept, *lifts], names)

    def _places_of_kept(self, columns: Sequence[str]) -> list[int]:
        others = [name for name in columns if name != VALUE]
        return [others.index(name) for name in self.kept]


# --- columns ----------------------------------------------------------------------------------------------------


def _each(method: str, kind: pa.DataType) -> Callable[[Sequence[Message]], pa.Array]:
    def column(messages: Sequence[Message]) -> pa.Array:
        return pa.array(list(map(_methods()[method], messages)), kind)

    return column


def _times(messages: Sequence[Message]) -> np.ndarray:
    """Type and time of each, in milliseconds since 1970."""
    return np.array(list(map(_methods()["timestamp"], messages)), np.int64).reshape(-1, 2)


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    times = _times(messages)
    return pa.array(times[:, 1] * 1000, pa.int64(), mask=times[:, 0] == 0).cast(FIELDS["timestamp"])


def _timestamp_types(messages: Sequence[Message]) -> pa.Array:
    return pa.array((_times(messages)[:, 0] - 1).astype(np.int32))  # as Spark: -1, where there is no time


def _headers(messages: Sequence[Message]) -> pa.Array:
    of_each = map(_methods()["headers"], messages)
    return pa.array([h and [{"key": k, "value": v} for k, v in h] for h in of_each], _HEADERS)


_OF_MESSAGES: Mapping[str, Callable[[Sequence[Message]], pa.Array]] = {
    "key": _each("key", FIELDS["key"]),
    "value": _each("value", FIELDS["value"]),
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
    "leaderEpoch": _each("leader_epoch", FIELDS["leaderEpoch"]),
}


def _methods() -> Mapping[str, Callable[[Message], Any]]:
    """The methods of messages, which C calls for each without a frame of Python."""
    from confluent_kafka import Message  # an optional package

    return vars(Message)


# --- consumers, which live as long as their process ----------------------------------------------------------------


@dataclass(frozen=True)
class _Slots:
    """The partition of each of some messages: ``index`` points into ``known``."""

    known: Sequence[Slot]
    index: np.ndarray

    @property
    def numbers(self) -> np.ndarray:
        numbers: np.ndarray = np.array([number for _, number in self.known], np.int32)[self.index]
        return numbers

    @property
    def topics(self) -> pa.Array:
        return pa.array([topic for topic, _ in self.known], pa.string()).take(pa.array(self.index))


_NOTHING = Span(0, -1)
_readers: dict[tuple[tuple[str, str], ...], _Reader] = {}


def _reader_of(properties: Mapping[str, str]) -> _Reader:
    key = tuple(sorted(properties.items()))
    if key not in _readers:
        _readers[key] = _Reader(consumer_of(properties))
    return _readers[key]


def _forget(properties: Mapping[str, str]) -> None:
    reader = _readers.pop(tuple(sorted(properties.items())), None)
    if reader is not None:
        reader.consumer.close()


_OF_PRODUCERS = (
    "acks", "batch.", "compression.", "delivery.", "enable.gapless", "enable.idempotence", "linger.", "message.send.",
    "message.timeout.", "partitioner", "queue.buffering.", "request.required.", "retries", "sticky.", "transaction",
)  # fmt: skip
"""Properties that a table that is also written may have, and of which librdkafka would warn."""


def consumer_of(properties: Mapping[str, str], group: str = "sqlstream", **more: Any) -> Consumer:
    """A consumer that is given its partitions and commits nothing by itself. ``more``: further settings of librdkafka.
    ConnectorError SS590 for wrong properties.
    """
    from confluent_kafka import Consumer, KafkaException  # an optional package

    own = {"group.id": group, "enable.auto.commit": False, "enable.auto.offset.store": False,
           "auto.offset.reset": "error", "enable.partition.eof": True}  # fmt: skip
    try:
        given = {k: v for k, v in with_tokens(properties).items() if not k.startswith(_OF_PRODUCERS)}
        made = Consumer({**_FETCHES_ON, **given, **own, **more}, logger=logging.getLogger("sqlstream.kafka"))
    except KafkaException as error:
        raise wrong_properties(error) from None
    made.poll(0)  # gives librdkafka its first token, where it logs in by one
    return made


def is_of_coordinator(error: KafkaError) -> bool:
    """Whether it says that a coordinator is being elected: of requests that librdkafka does not repeat itself, it does
    not say that they may be repeated then.
    """
    from confluent_kafka import KafkaError  # an optional package

    return error.code() in (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    )  # fmt: skip


def wrong_properties(error: Exception) -> ConnectorError:
    """SS590 for properties that librdkafka refuses."""
    reason = reason_of(error)
    if "GSSAPI" in reason:  # what a login is without a mechanism
        hint = (
            "Add 'properties.sasl.mechanism' = 'PLAIN', 'SCRAM-SHA-512' or 'OAUTHBEARER'; for Kerberos set "
            "'kafka.client' = 'spark'."
        )
    else:
        hint = "librdkafka's names are in its CONFIGURATION.md; 'kafka.client' = 'spark' takes those of Java."
    return ConnectorError(UNREACHABLE, f"options properties.… of Kafka are wrong: {reason}", hint=hint)


def unreachable(properties: Mapping[str, str], error: Exception, refusal: str | None = None) -> ConnectorError:
    """SS590 for brokers that do not answer the driver. ``properties``: those of librdkafka. ``refusal``: what it has
    said of a login or a certificate.
    """
    servers = properties.get("bootstrap.servers", "")
    if refusal is not None:
        hint = "Look at the options properties.security.protocol, properties.sasl.… and properties.ssl.… of the table."
        return ConnectorError(UNREACHABLE, f'Kafka\'s brokers "{servers}" refuse the connection: {refusal}', hint=hint)
    hint = "Look whether they run there, and at the options properties.… of the table."
    return ConnectorError(UNREACHABLE, f'Kafka\'s brokers "{servers}" do not answer: {reason_of(error)}', hint=hint)


def reason_of(error: Exception) -> str:
    """What librdkafka says in a KafkaException."""
    return str(error.args[0].str() if error.args and hasattr(error.args[0], "str") else error)


class _Reader:
    """A consumer and the partitions that it has been given. It goes on where a micro-batch goes on from the last one,
    so that what librdkafka has fetched ahead is not fetched again.
    """

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self._known: list[Slot] = []
        self._slot_of: dict[Slot, int] = {}
        self._ids: list[str | None] = []  # of their topics
        self._next = np.zeros(0, np.int64)  # the offsets that follow what was given
        self._reached = self._next  # before these offsets nothing more will come
        self._ahead: list[Message] = []
        self._bytes_ahead = 0
        self._left = np.zeros(0, bool)  # those of which nothing more is fetched

    def read(self, ranges: Mapping[Slot, Span], skips_lost: bool) -> Iterator[tuple[list[Message], _Slots, np.ndarray]]:
        """The messages of the ranges, some at a time, with their partitions and offsets."""
        self._go_to(ranges)
        ends = np.array([ranges.get(slot, _NOTHING).end for slot in self._known], np.int64)
        wanted, heard = ends >= 0, time.monotonic()
        come, self._ahead, self._bytes_ahead = self._ahead, [], 0
        while True:
            if come:
                heard = time.monotonic()
                given = self._sorted(come, ends, skips_lost)
                if given[0]:
                    yield given
                    heard = time.monotonic()
            missing = wanted & (self._reached < ends)
            if not missing.any():
                break
            if self._is_far_ahead:
                self._leave(~missing)
            if time.monotonic() - heard > _PATIENCE_SECONDS:
                raise self._silence(missing, ends)
            come = self.consumer.consume(1, 1.0)
            come += self.consumer.consume(_AT_ONCE, 0) if come else []
        self._next = np.where(wanted, ends, self._next)

    def _go_to(self, ranges: Mapping[Slot, Span]) -> None:
        if not self._is_far_ahead and all(self._is_at(slot, span) for slot, span in ranges.items()):
            return
        from confluent_kafka import TopicPartition  # an optional package

        self._known = list(ranges)
        self._slot_of = {slot: index for index, slot in enumerate(self._known)}
        self._ids = [span.id for span in ranges.values()]
        self._next = np.array([span.begin for span in ranges.values()], np.int64)
        self._reached, self._ahead, self._bytes_ahead = self._next.copy(), [], 0
        self._left = np.zeros(len(ranges), bool)
        self.consumer.assign([TopicPartition(topic, n, span.begin) for (topic, n), span in ranges.items()])

    def _is_at(self, slot: Slot, span: Span) -> bool:
        """Whether what comes next of a partition is where a range begins."""
        index = self._slot_of.get(slot)
        if index is None or self._left[index] or self._ids[index] != span.id:
            return False
        return bool(self._next[index] == span.begin)

    @property
    def _is_far_ahead(self) -> bool:
        return len(self._ahead) >= _MOST_AHEAD or self._bytes_ahead >= _MOST_BYTES_AHEAD

    def _leave(self, whole: np.ndarray) -> None:
        """Fetches nothing more of partitions that are read, while others are waited for, and drops what is ahead."""
        from confluent_kafka import TopicPartition  # an optional package

        left = np.flatnonzero(whole & ~self._left).tolist()
        self.consumer.incremental_unassign([TopicPartition(*self._known[index]) for index in left])
        self._left[left] = True
        self._ahead, self._bytes_ahead = [], 0

    def _sorted(
        self, come: list[Message], ends: np.ndarray, skips_lost: bool
    ) -> tuple[list[Message], _Slots, np.ndarray]:
        """Those of the messages that come before ``ends``; the others are kept for later micro-batches."""
        methods = _methods()
        errors = list(map(methods["error"], come))
        if any(errors):
            for message in compress(come, errors):
                self._heed(message, ends, skips_lost)
            come = list(compress(come, map(not_, errors)))
        count = len(come)
        offsets = np.fromiter(map(methods["offset"], come), np.int64, count)
        if len(self._known) == 1:
            index = np.zeros(count, np.int64)
        else:
            slots = zip(map(methods["topic"], come), map(methods["partition"], come), strict=True)
            index = np.fromiter(map(self._slot_of.__getitem__, slots), np.int64, count)
        np.maximum.at(self._reached, index, offsets + 1)
        early = offsets < ends[index]
        if not early.all():
            every = np.empty(count, object)
            every[:] = come
            ahead = every[~early & ~self._left[index]].tolist()
            self._ahead += ahead
            self._bytes_ahead += sum(map(len, ahead))
            come, index, offsets = every[early].tolist(), index[early], offsets[early]
        return come, _Slots(self._known, index), offsets

    def _heed(self, message: Message, ends: np.ndarray, skips_lost: bool) -> None:
        """What librdkafka says between messages: the end of a partition, or what is wrong."""
        from confluent_kafka import KafkaError  # an optional package

        gone = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
        error = message.error()
        slot = (message.topic() or "", message.partition() or 0)
        assert error is not None
        index = self._slot_of.get(slot)
        if index is not None and self._left[index]:
            return
        if error.code() == KafkaError._PARTITION_EOF:
            if index is None:
                return
            self._reached[index] = max(self._reached[index], message.offset())
            if self._reached[index] < ends[index]:  # of before, or messages are gone
                self._require_there(slot, int(ends[index]), skips_lost)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) and index is not None:
            self._go_behind_loss(slot, int(ends[index]), skips_lost)
        elif error.code() in gone:
            if not skips_lost:
                raise losing(f"{slot[0]}[{slot[1]}] does not exist any more")
            if index is not None:
                self._reached[index] = max(self._reached[index], ends[index])
        elif error.fatal() or not error.retriable():
            raise ConnectorError(UNREACHABLE, f"Kafka gives no messages of {slot[0]}[{slot[1]}]: {error.str()}")

    def _require_there(self, slot: Slot, end: int, skips_lost: bool) -> None:
        _, high = self._bounds(slot)
        if high < end:
            lose(f"{slot[0]}[{slot[1]}] ends at offset {high} now, not at {end}", skips_lost=skips_lost)
            self._reached[self._slot_of[slot]] = end

    def _go_behind_loss(self, slot: Slot, end: int, skips_lost: bool) -> None:
        from confluent_kafka import TopicPartition  # an optional package

        index = self._slot_of[slot]
        low, high = self._bounds(slot)
        at = int(self._reached[index])
        begin = low if low > at else end
        what = f"begins at offset {low}" if low > at else f"ends at offset {high}"
        lose(f"{slot[0]}[{slot[1]}] {what} now, and was read up to {at}", skips_lost=skips_lost)
        self._reached[index] = min(begin, end) if end >= 0 else begin
        self.consumer.incremental_unassign([TopicPartition(*slot)])
        self.consumer.incremental_assign([TopicPartition(*slot, begin)])

    def _bounds(self, slot: Slot) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last. While leaders are elected the client fails, or
        answers without offsets, which must not be taken for messages that are gone.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition  # an optional package

        deadline = time.monotonic() + _BOUNDS_SECONDS
        while True:
            reason, passes = "there are no offsets in the answer", True
            try:
                found: Any = self.consumer.get_watermark_offsets(TopicPartition(*slot), timeout=_BOUNDS_SECONDS)
                if found is not None and min(found) >= 0:
                    return int(found[0]), int(found[1])
            except KafkaException as error:
                reason, passes = reason_of(error), error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART
            if not passes or time.monotonic() > deadline:
                message = f"Kafka does not say what {slot[0]}[{slot[1]}] holds: {reason}"
                hint = "Look whether its brokers run, and the partition has a leader."
                raise ConnectorError(UNREACHABLE, message, hint=hint)
            time.sleep(0.2)

    def _silence(self, missing: np.ndarray, ends: np.ndarray) -> ConnectorError:
        index = int(np.flatnonzero(missing)[0])
        (topic, number), reached = self._known[index], self._reached[index]
        message = (
            f"Kafka gave nothing of {topic}[{number}] at offset {reached} of {ends[index]} for {_PATIENCE_SECONDS} s"
        )
        return ConnectorError(
            UNREACHABLE, message, hint="Look whether its brokers run, and the partition has a leader."
        )
