"""Epochs in Kafka's topics, each by one transaction, which also holds the number of the epoch.

The number is an offset that the transaction commits for a consumer group of its own, with the checkpoint's identifier
as the metadata of the offset. So it is in Kafka exactly when the messages are. Each epoch begins by ending what another
producer of the same transactional id has left open (which also shuts out one that still lives), and then reads the
number: an epoch that runs again finds its own, and sends nothing.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from sqlstream.errors import ConnectorError, repeating
from sqlstream.udfs.kafka.clients import UNREACHABLE, consumer_of, is_of_coordinator, reason_of
from sqlstream.udfs.kafka.produce import Destination, Sender, sent
from sqlstream.udfs.kafka.tokens import LOG

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, KafkaException

TAKEN_OVER = repeating("SS596")
FORGOTTEN = repeating("SS678")

_TIMEOUT = "transaction.timeout.ms"
_OPTION = f"properties.{_TIMEOUT}"
TIMEOUT_MS = 600_000
"""How long brokers keep a transaction open whose producer is gone. Readers of what is committed wait so long."""

_SECONDS = 60.0
_UNSERVED_SECONDS = 5.0
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Epoch:
    """Which epoch is written, and for which job.

    * ``number``: that of the micro-batch, and ``run``: the checkpoint that counts it.
    * ``first``: the first one since the job has started, which may take the transactional id over from another job.
    * ``in_doubt``: the job has begun it before, and must find out whether it was committed.
    """

    number: int
    run: str
    job: str
    first: bool = False
    in_doubt: bool = False

    @property
    def owner(self) -> str:
        """What tells checkpoints apart."""
        return hashlib.sha256(self.run.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Marker:
    """The last epoch that Kafka has, of which checkpoint it is, and the name of its job for messages."""

    number: int
    owner: str
    job: str


@dataclass(frozen=True)
class EpochTransaction:
    """Sends the messages of an epoch by one transaction, unless Kafka has them already."""

    destination: Destination
    transactional_id: str
    epoch: Epoch

    def rows(self, batches: Iterable[pa.RecordBatch], task: int = 0) -> Iterator[pa.RecordBatch]:
        """The number of messages, once they are committed. ConnectorError SS595 where brokers do not take one, SS596
        where another job has taken the transactional id over, SS678 where Kafka has forgotten the last epoch.
        """
        with closing(Transactions(self.destination, self.transactional_id)) as transactions:
            transactions.take_over()
            if self._is_committed(transactions.marker()):
                count = sum(batch.num_rows for batch in batches)  # operators with state see them again
            else:
                count = transactions.write(batches, task, self.epoch)
        yield sent(count)

    def _is_committed(self, marker: Marker | None) -> bool:
        epoch = self.epoch
        if marker is not None and marker.owner == epoch.owner:
            return marker.number >= epoch.number
        if not epoch.first:
            if marker is None:  # forgotten: another job's would be there, and that of this epoch is too new for it
                return False
            raise taken_over(self.transactional_id, marker.job)
        if epoch.in_doubt:
            topic = self.destination.topic
            message = f'Kafka does not tell whether micro-batch {epoch.number} of the job is in topic "{topic}"'
            detail = f'No offset of the consumer group "{self.transactional_id}" is of this checkpoint.'
            hint = (
                "Was 'sink.transactional-id-prefix' changed, or the job stopped for longer than "
                "offsets.retention.minutes? See which messages are there, and start the job anew in another directory "
                "('execution.checkpointing.dir')."
            )
            raise ConnectorError(FORGOTTEN, message, detail=detail, hint=hint)
        return False


def taken_over(transactional_id: str, by: str | None = None) -> ConnectorError:
    """SS596 for a transactional id that is used by another producer."""
    who = f'job "{by}"' if by else "another producer"
    message = f'{who} has taken over the transactional id "{transactional_id}"'
    hint = "Give each sink a 'sink.transactional-id-prefix' of its own; one checkpoint runs once at a time."
    return ConnectorError(TAKEN_OVER, message, hint=hint)


def patiently(ask: Callable[[float], _Answer], seconds: float, serve: Callable[[], object] | None = None) -> _Answer:
    """What is answered in time, with repetitions where librdkafka asks for them, and where a coordinator is elected.

    ``serve``: called every few seconds of the wait, since a client renews its token only when it is served. The request
    must be one that may be repeated when it has timed out.
    """
    from confluent_kafka import KafkaError, KafkaException  # an optional package

    deadline = time.monotonic() + seconds
    while True:
        left = max(1.0, deadline - time.monotonic())
        try:
            if serve is None:
                return ask(left)
            serve()
            return ask(min(left, _UNSERVED_SECONDS))
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            passes = error.retriable() or (is_of_coordinator(error) and not error.txn_requires_abort())
            passes = passes or (serve is not None and error.code() == KafkaError._TIMED_OUT)
            if not passes or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


class Transactions:
    """A producer of transactions, and a consumer that reads what they have committed."""

    def __init__(self, destination: Destination, transactional_id: str) -> None:
        self._destination, self._id = destination, transactional_id
        own = {"transactional.id": transactional_id}
        if _TIMEOUT not in destination.properties:
            own[_TIMEOUT] = str(TIMEOUT_MS)
        self._sender = Sender(destination.properties, **own)
        self._timeout_ms = int({**destination.properties, **own}[_TIMEOUT])
        self._opened = math.inf
        self._producer = self._sender.producer
        self._consumer: Consumer = consumer_of(destination.properties, transactional_id)

    def take_over(self) -> None:
        """Ends what other producers of this id have left open, and shuts them out."""
        self._patiently(self._producer.init_transactions, self._serve)

    def marker(self) -> Marker | None:
        """The last epoch that was committed; None if there is none."""
        from confluent_kafka import TopicPartition  # an optional package

        place = TopicPartition(self._destination.topic, 0)
        (found,) = self._patiently(lambda wait: self._consumer.committed([place], timeout=wait), self._serve)
        owner, _, job = (found.metadata or "").partition(" ")
        return None if found.offset < 0 else Marker(found.offset - 1, owner, job)

    def write(self, batches: Iterable[pa.RecordBatch], task: int, epoch: Epoch) -> int:
        """Sends messages and commits them with the number of the epoch. What fails is aborted."""
        topic = self._destination.topic
        with self._errors():
            self._producer.begin_transaction()
        self._opened = time.monotonic()
        try:
            count = self._send(batches, task)
            self._mark(epoch)
            self._sender.require_delivered(topic)
            self._commit()
        except BaseException:
            self._abort()
            raise
        return count

    def _send(self, batches: Iterable[pa.RecordBatch], task: int) -> int:
        with self._errors():
            count = self._sender.send_all(batches, self._destination, task)
            self._sender.wait(self._destination.topic)
        return count

    def _mark(self, epoch: Epoch) -> None:
        from confluent_kafka import TopicPartition  # an optional package

        place = TopicPartition(self._destination.topic, 0, epoch.number + 1, f"{epoch.owner} {epoch.job[:200]}")
        group = self._consumer.consumer_group_metadata()
        self._patiently(lambda wait: self._producer.send_offsets_to_transaction([place], group, wait))

    def _commit(self) -> None:
        self._patiently(self._producer.commit_transaction, self._serve)

    def _abort(self) -> None:
        """The next producer of this id aborts what this one cannot. ConnectorError SS596 where there is one already,
        which is why the transaction has failed.
        """
        from confluent_kafka import KafkaException  # an optional package

        try:
            self._producer.abort_transaction(10)
        except KafkaException as error:
            if _is_fenced(error):
                raise self._fenced() from None
            LOG.warning("transaction not aborted: %s", reason_of(error))

    def _patiently(self, ask: Callable[[float], _Answer], serve: Callable[[], object] | None = None) -> _Answer:
        with self._errors():
            return patiently(ask, _SECONDS, serve)

    def _serve(self) -> None:
        self._producer.poll(0)
        self._consumer.poll(0)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns errors of the client into ConnectorError SS596 or SS590."""
        from confluent_kafka import KafkaError, KafkaException  # an optional package

        try:
            yield
        except KafkaException as error:
            if _is_fenced(error):
                raise self._fenced() from None
            if error.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                message = f"Kafka does not allow '{_OPTION}' = '{self._timeout_ms}'"
                hint = "Write a smaller one: transaction.max.timeout.ms of the brokers is the greatest."
                raise ConnectorError(UNREACHABLE, message, hint=hint) from None
            message = f'Kafka does not end a transaction of topic "{self._destination.topic}": {reason_of(error)}'
            hint = "See whether its brokers run, and allow the transactional id and the consumer group of its name."
            raise ConnectorError(UNREACHABLE, message, hint=hint) from None

    def _fenced(self) -> ConnectorError:
        """Why the producer is shut out: brokers do it when a transaction is open for too long, and when another one of
        the same id begins.
        """
        open_ms = (time.monotonic() - self._opened) * 1000
        if open_ms < self._timeout_ms:
            return taken_over(self._id)
        message = f'Kafka has ended a transaction of topic "{self._destination.topic}" that was open for too long'
        detail = f"It was open for {open_ms / 1000:.1f} s, and '{_OPTION}' is {self._timeout_ms:,} ms."
        hint = f"Let micro-batches read less ('source.max-rows-per-trigger'), or write a greater '{_OPTION}'."
        return ConnectorError(UNREACHABLE, message, detail=detail, hint=hint)

    def close(self) -> None:
        self._consumer.close()
        self._sender.close()


def _is_fenced(error: KafkaException) -> bool:
    from confluent_kafka import KafkaError  # an optional package

    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    return error.args[0].code() in fenced
