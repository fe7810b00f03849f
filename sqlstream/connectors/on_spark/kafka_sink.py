"""Micro-batches as messages of Kafka, which tasks send with librdkafka.

Spark encodes the rows. Where each micro-batch is one transaction, a single task sends all of its messages: a
transaction of Kafka belongs to one producer, and those of several producers could not be committed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.connector import BatchWriter
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.kafka.sink import (
    GUARANTEE,
    NONE,
    PARTITIONER,
    PREFIX,
    NewTopic,
    require_topic,
    writes_once,
    writing_properties,
)
from sqlstream.connectors.secrets import secrets_of
from sqlstream.planner.catalog import Table
from sqlstream.secrets import Secrets
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kafka.produce import Destination, SentMessages
from sqlstream.udfs.kafka.transactions import Epoch, EpochTransaction

Encode = Callable[[DataFrame], DataFrame]
"""From rows to messages: the columns ``value`` and ``key``, and those of ``udfs.kafka.produce``."""


def batch_writer(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    encode: Encode,
    creation: NewTopic | None,
) -> BatchWriter:
    """Returns the function that writes a micro-batch. ``values``: the parsed and resolved options of the table.

    ConnectorError SS507, SS577, SS590 or SS679 where nothing can be written to the topic.
    """
    properties, topic = writing_properties(table, values), values["topic"]
    require_topic(properties, topic, creation)
    partitioner = values.get(PARTITIONER) or "default"
    destination, secrets = Destination(properties, topic, partitioner), secrets_of(table)
    if writes_once(table):
        return TransactionWriter(encode, destination, f"{values[PREFIX]}-0", secrets, environment, table.name)
    waits = values[GUARANTEE] != NONE

    def write(batch: DataFrame, number: int) -> None:
        tasks = _by_tasks(encode(batch), Sending(SentMessages(destination, waits), secrets))
        environment.written.add(table.name, sum(tasks))

    return write


class TransactionWriter:
    """Writes each micro-batch by one transaction of one task."""

    def __init__(
        self,
        encode: Encode,
        destination: Destination,
        transactional_id: str,
        secrets: Secrets,
        environment: Environment,
        table: str,
    ) -> None:
        self._encode, self._destination, self._id, self._secrets = encode, destination, transactional_id, secrets
        self._run, self._job = environment.run, environment.job
        self._table, self._written = table, environment.written
        resumed = environment.after is not None and not environment.anew
        self._begun = environment.begun if resumed else None
        self._first = True

    def __call__(self, batch: DataFrame, number: int) -> None:
        in_doubt = self._begun is not None and number <= self._begun
        epoch = Epoch(number, self._run, self._job, self._first, in_doubt)
        transaction = EpochTransaction(self._destination, self._id, epoch)
        messages = self._encode(batch).repartition(1)
        tasks = _by_tasks(messages, Sending(transaction, self._secrets))
        if not tasks:  # Spark runs no task for no rows
            for _ in transaction.rows(()):
                pass
        self._written.add(self._table, sum(tasks))
        self._first = False


def _by_tasks(messages: DataFrame, sending: Sending) -> list[int]:
    """Sends messages, and returns the bytes of those of each task."""
    fields = (F.col(name).cast("BINARY").alias(name) if name in _BYTES else F.col(name) for name in messages.columns)
    return [row[0] for row in messages.select(*fields).mapInArrow(sending, "bytes BIGINT").collect()]


_BYTES = ("key", "value")


@dataclass(frozen=True)
class Sending:
    """Sends the messages of a task, whose errors show no secret of the table."""

    work: SentMessages | EpochTransaction
    secrets: Secrets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task, sizes = TaskContext.get(), [0]

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                sizes[0] += bytes_of(batch)
                yield batch

        with hiding(self.secrets):
            for _ in self.work.rows(counted(), task.partitionId() if task is not None else 0):
                yield pa.record_batch({"bytes": pa.array(sizes, pa.int64())})


def bytes_of(messages: pa.RecordBatch) -> int:
    """The bytes of keys and values."""
    columns = (messages.column(name) for name in _BYTES if name in messages.schema.names)
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)
