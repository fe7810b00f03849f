"""Messages for Kafka, sent by tasks: librdkafka gets whole batches, and no task succeeds before brokers have all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ConnectorError
from sqlstream.udfs.kafka.clients import UNREACHABLE, reason_of, wrong_properties
from sqlstream.udfs.kafka.tokens import LOG, require_token, with_tokens
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

UNDELIVERED = "SS595"

KEY, VALUE, TIME, HEADERS = "key", "value", "time", "headers"
"""The columns of messages: bytes, bytes, milliseconds since 1970, and a map from STRING to bytes. Only VALUE must be
there; a NULL is no key, a message without a value, the present, and no headers."""

SENT = pa.schema([("sent", pa.int64())])
"""What a task returns: how many messages it has sent."""

_AT_ONCE = 10_000
_SECONDS = 30
_AT_MOST_SECONDS = 2
_OF_IDEMPOTENT = 5  # requests on their way
_NO_PARTITION = -1  # librdkafka chooses


@dataclass(frozen=True)
class Destination:
    """Where messages go. ``properties``: those of librdkafka. ``partitioner``: ``default`` (Kafka's: by the key, else
    any), ``fixed`` (one partition per task) or ``round-robin``.
    """

    properties: Mapping[str, str] = field(repr=False)
    topic: str
    partitioner: str = "default"


@dataclass(frozen=True)
class SentMessages:
    """Sends the messages of a task. ``waits``: the task succeeds when brokers have all of them, and fails when they do
    not take one; else it waits a moment, and what is not delivered is told to the log only.
    """

    destination: Destination
    waits: bool = True

    def rows(self, batches: Iterable[pa.RecordBatch], task: int = 0) -> Iterator[pa.RecordBatch]:
        """The number of messages, once they are delivered. ConnectorError SS595 where brokers do not take one, SS590
        where there are none. ``task``: the number of the task, for partitioners.
        """
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        sender = _sender_of(self.destination.properties)
        try:
            yield sent(sender.send_all((first,), self.destination, task) + self._rest(sender, filled, task))
        except BaseException:
            _forget(self.destination.properties)  # messages of this attempt must not follow those of the next
            raise

    def _rest(self, sender: Sender, batches: Iterable[pa.RecordBatch], task: int) -> int:
        count = sender.send_all(batches, self.destination, task)
        if self.waits:
            sender.wait(self.destination.topic)
        else:
            sender.wait_a_moment(self.destination.topic)
        return count


def sent(count: int) -> pa.RecordBatch:
    """What a task returns."""
    return pa.record_batch([pa.array([count], pa.int64())], schema=SENT)


_OF_CONSUMERS = (
    "check.crcs", "enable.partition.eof", "fetch.", "group.", "heartbeat.", "isolation.level", "max.partition.fetch",
    "max.poll.", "queued.", "session.timeout",
)  # fmt: skip


def common_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that are not of consumers alone, which a table that is also read may have."""
    return {key: value for key, value in properties.items() if not key.startswith(_OF_CONSUMERS)}


def producer_of(properties: Mapping[str, str], **own: Any) -> Producer:
    """A producer that keeps the order of messages and places keys as Java's does. ConnectorError SS590 for wrong
    properties.
    """
    from confluent_kafka import KafkaException, Producer  # an optional package

    usual: dict[str, Any] = {"partitioner": "murmur2_random", **keeping_order(properties)}
    if "transactional.id" not in own:
        usual["delivery.timeout.ms"] = "120000"
    try:
        given = {**usual, **with_tokens(common_properties(properties)), **own}
        made = Producer(given, logger=LOG)
    except KafkaException as error:
        raise wrong_properties(error) from None
    made.poll(0)  # gives librdkafka its first token, where it logs in by one: nothing else may ask for it before
    return made


def keeping_order(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties by which messages of a partition keep their order: as Java's, a producer is idempotent, unless
    the properties say otherwise, or do not go with that: brokers need not all have a message, none is sent again, or
    more than five requests are on their way. Else one request at a time is: one that is repeated would follow its
    successor.
    """
    acks = properties.get("acks", properties.get("request.required.acks", "all"))
    again = properties.get("retries", properties.get("message.send.max.retries", "1"))
    at_once = properties.get("max.in.flight.requests.per.connection", properties.get("max.in.flight", "1"))
    goes = acks in ("all", "-1") and again != "0" and not (at_once.isdecimal() and int(at_once) > _OF_IDEMPOTENT)
    if properties.get("enable.idempotence", "true" if goes else "false").lower() == "true":
        return {"enable.idempotence": "true"}
    return {"max.in.flight.requests.per.connection": "1"}


# --- producers, which live as long as their process ----------------------------------------------------------------

_senders: dict[tuple[tuple[str, str], ...], Sender] = {}


def _sender_of(properties: Mapping[str, str]) -> Sender:
    require_token(properties)
    key = tuple(sorted(properties.items()))
    if key not in _senders:
        _senders[key] = Sender(properties)
    return _senders[key]


def _forget(properties: Mapping[str, str]) -> None:
    sender = _senders.pop(tuple(sorted(properties.items())), None)
    if sender is not None:
        sender.close()


class Sender:
    """A producer, and what brokers said of the messages that they did not take."""

    def __init__(self, properties: Mapping[str, str], **own: Any) -> None:
        self._refused: list[tuple[KafkaError, str]] = []
        reports = {"on_delivery": partial(_note, self._refused), "delivery.report.only.error": True}
        self.producer = producer_of(properties, **reports, **own)
        self._turn = 0

    def send_all(self, batches: Iterable[pa.RecordBatch], destination: Destination, task: int) -> int:
        """Hands messages to librdkafka, and returns how many. ConnectorError SS595 as soon as one is refused."""
        count, partitions = 0, self._partitions(destination)
        for batch in batches:
            for start in range(0, batch.num_rows, _AT_ONCE):
                piece = batch.slice(start, _AT_ONCE)
                with _delivering(destination.topic):
                    self._send(piece, destination, self._places(piece.num_rows, destination, partitions, task))
                    self.producer.poll(0)
                self.require_delivered(destination.topic)
            count += batch.num_rows
        return count

    def _partitions(self, destination: Destination) -> int:
        return 0 if destination.partitioner == "default" else len(partitions_of(self.producer, destination.topic))

    def _places(self, count: int, destination: Destination, partitions: int, task: int) -> Iterable[int]:
        if destination.partitioner == "default":
            return repeat(_NO_PARTITION)
        if destination.partitioner == "fixed":
            return repeat(task % partitions)
        turns = np.arange(self._turn, self._turn + count) % partitions
        self._turn = int(turns[-1]) + 1
        return list(map(int, turns))

    def _send(self, batch: pa.RecordBatch, destination: Destination, places: Iterable[int]) -> None:
        """Hands each message over by a call, which librdkafka's binding for Python requires, without a frame of
        Python. A full queue takes the rest when brokers have taken some of what it holds.
        """
        columns = [_column(batch, VALUE), _column(batch, KEY), places, repeat(None), repeat(None), _times(batch)]
        columns += [python_list(batch.column(HEADERS), "a header")] if HEADERS in batch.schema.names else []
        at, count = 0, batch.num_rows
        while at < count:
            values, *others = (_from(column, at) for column in columns)
            left = iter(values)
            try:
                deque(map(self.producer.produce, repeat(destination.topic), left, *others), maxlen=0)
                return
            except BufferError:
                at = count - length_hint(left) - 1  # the one that was not taken
                self._make_room(destination.topic)

    def _make_room(self, topic: str) -> None:
        most = len(self.producer) * 3 // 4
        while len(self.producer) > most:
            self.producer.poll(0.1)
            self.require_delivered(topic)

    def wait(self, topic: str) -> None:
        """Waits until brokers have all messages; librdkafka refuses those that it cannot deliver in time."""
        with _delivering(topic):
            while self.producer.flush(1.0):
                self.require_delivered(topic)
        self.require_delivered(topic)

    def wait_a_moment(self, topic: str) -> None:
        """Waits a little, and tells the log of what was not delivered."""
        with _delivering(topic):
            left = self.producer.flush(_AT_MOST_SECONDS)
        if left or self._refused:
            LOG.warning("topic %s: %d messages refused, %d not delivered yet", topic, len(self._refused), left)
            self._refused.clear()

    def require_delivered(self, topic: str) -> None:
        """ConnectorError SS595 where brokers have refused a message."""
        if self._refused:
            error, place = self._refused[0]
            raise undelivered(topic, f"{error.str()} ({place})")

    def close(self) -> None:
        """Drops what is not delivered yet."""
        from confluent_kafka import KafkaException  # an optional package

        with suppress(KafkaException):  # of a producer that is at its end
            self.producer.purge()
            self.producer.flush(1.0)


def _note(refused: list[tuple[KafkaError, str]], error: KafkaError | None, message: Message) -> None:
    if error is not None:
        refused.append((error, f"{message.topic()}[{message.partition()}]"))


@contextmanager
def _delivering(topic: str) -> Iterator[None]:
    """Turns errors of the client into ConnectorError SS595."""
    from confluent_kafka import KafkaException  # an optional package

    try:
        yield
    except KafkaException as error:
        raise undelivered(topic, reason_of(error)) from None


def undelivered(topic: str, why: str) -> ConnectorError:
    """SS595 for a message that brokers do not take."""
    hint = (
        "The epoch is repeated when the job starts again. See whether its brokers run and have enough replicas, and "
        "the topic's max.message.bytes with 'properties.max.request.size'."
    )
    return ConnectorError(UNDELIVERED, f'Kafka does not take a message of topic "{topic}": {why}', hint=hint)


def partitions_of(producer: Producer, topic: str) -> Sequence[int]:
    """The partitions of a topic. ConnectorError SS590 where the brokers do not answer, or have no such topic."""
    from confluent_kafka import KafkaException  # an optional package

    try:
        found = producer.list_topics(topic, timeout=_SECONDS).topics[topic]
    except KafkaException as error:
        raise ConnectorError(UNREACHABLE, f"Kafka's brokers do not answer: {reason_of(error)}") from None
    if found.error is not None:
        raise ConnectorError(UNREACHABLE, f'topic "{topic}" cannot be written: {found.error.str()}')
    return sorted(found.partitions)


# --- columns ----------------------------------------------------------------------------------------------------


def _column(batch: pa.RecordBatch, name: str) -> Iterable[Any]:
    return batch.column(name).to_pylist() if name in batch.schema.names else repeat(None)


def _times(batch: pa.RecordBatch) -> Iterable[int]:
    """Milliseconds; 0 is the present for librdkafka. ConnectorError SS595 for a time that is 0."""
    if TIME not in batch.schema.names:
        return repeat(0)
    times = batch.column(TIME)
    if pc.any(pc.equal(times, 0)).as_py():
        message = "the time of a message is 1970-01-01 00:00:00 UTC, which librdkafka takes for the present"
        raise ConnectorError(UNDELIVERED, message, hint="Write NULL for the present, or another time.")
    millis: list[int] = times.fill_null(0).to_pylist()
    return millis


def _from(column: Iterable[Any], at: int) -> Iterable[Any]:
    return column[at:] if isinstance(column, list) else column
