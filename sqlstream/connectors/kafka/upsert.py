"""``upsert-kafka``: a topic that holds the last row of each key, as in Flink.

The key of a message is the PRIMARY KEY, the value is the row, each in a format of its own, and a message without a
value deletes the row of its key. Compaction by Kafka therefore does not change the table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import BatchWriter, Source, UpsertSink
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.kafka.connector import fetched_rows, messages_by_spark
from sqlstream.connectors.kafka.messages import (
    FORMAT,
    FORMAT_OF_A_PART,
    FORMAT_OF_VALUES,
    INCLUDE,
    KEY,
    KEY_OPTIONS,
    PREFIX,
    VALUE,
    check_upsert_formats,
    is_bounded,
    target_options,
    upsert_options,
)
from sqlstream.connectors.kafka.sink import WRITING_OPTIONS, check_writing, new_topic, prefix_of, writes_once
from sqlstream.connectors.kafka.source import (
    BOUNDED_OPTIONS,
    CLIENT_OPTIONS,
    READING_OPTIONS,
    REFUSED,
    check_reading,
    metadata_of_messages,
    of_python,
    reads_by_spark,
)
from sqlstream.connectors.schema_formats import SCHEMA_VARIABLES
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, WRONG_VALUE, Option
from sqlstream.planner.catalog import UPSERT, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

NEEDS_KEY = "SS666"


class UpsertKafka(Source, UpsertSink):
    """Upsert tables in Kafka topics, which librdkafka or Spark's Kafka connector reads and writes. Raises
    ConnectorError SS577 without the package confluent-kafka, SS509 without Spark's jar.
    """

    name = "upsert-kafka"
    doc = (
        "A topic of Apache Kafka that holds the last row of each PRIMARY KEY: a message replaces the row of its key, "
        "one without a value deletes it."
    )
    options = (
        Option("topic", NAME, "The topic.", required=True, sink=True),
        *CLIENT_OPTIONS,
        Option(
            FORMAT,
            FORMAT_OF_A_PART,
            "How the key of a message is written: the columns of the PRIMARY KEY.",
            required=True,
            sink=True,
        ),
        Option(FORMAT_OF_VALUES, FORMAT_OF_A_PART, "How its value is written: the row.", required=True, sink=True),
        *(option for option in KEY_OPTIONS if option.key in (PREFIX, INCLUDE)),
        *upsert_options(KEY, "Of keys: "),
        *upsert_options(VALUE, "Of values: "),
        *BOUNDED_OPTIONS,
        *READING_OPTIONS,
        *WRITING_OPTIONS,
    )
    refused: ClassVar[Mapping[str, str]] = REFUSED | dict.fromkeys(
        ("sink.buffer-flush.max-rows", "sink.buffer-flush.interval"),
        "Each micro-batch is sent as it is; 'execution.checkpointing.interval' says how often there is one.",
    )
    variables = (
        "properties.#", "properties.bootstrap.servers", "properties.group.id", "topic",
        *(name if name.startswith(KEY) else f"{VALUE}{name}" for name in SCHEMA_VARIABLES),
    )  # fmt: skip

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Reads the topic from its beginning, as Flink does, because later messages alone do not make up the table."""
        if not reads_by_spark(table):
            records = on_spark.topic_records.upsert_records(environment.spark, table, columns)
            return fetched_rows(self, environment, table, columns, records)
        return self.rows_of_messages(messages_by_spark(self, environment, table), table, columns)

    def rows_of_messages(self, messages: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Decodes Kafka messages, which have Spark's columns (value, key, topic and so on), into the named columns of
        the table and ROW_KIND. A -D row has values only in its key columns.
        """
        records = on_spark.topic_records.upsert_records(messages.sparkSession, table, columns)
        return on_spark.topic_rows.rows_of_messages(messages, table, columns, records)

    def refuses_real_time(self, table: Table, *, written: bool) -> Diagnostic | None:
        return of_python(table, written=True) if written else super().refuses_real_time(table, written=False)

    def stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        if not environment.real_time:
            return super().stream(environment, table, rows)
        on_spark.kafka.require_jar(environment.spark)
        messages = on_spark.kafka.messages_of_upserts(rows, table, by_key=False)  # rows of a key are together
        return messages.writeStream.format("kafka").options(**target_options(self.resolved_values(table)))

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """Returns the function that writes a micro-batch. A repeated micro-batch writes its messages again, after
        which the last message of each key is the same.
        """
        values, once = self.resolved_values(table), writes_once(table)
        encode = partial(on_spark.kafka.messages_of_upserts, table=table, by_key=not once)
        if not reads_by_spark(table):
            creation = new_topic(values, {"cleanup.policy": "compact"})
            return on_spark.kafka_sink.batch_writer(environment, table, values, encode, creation)
        on_spark.kafka.require_jar(environment.spark)
        options = target_options(values)
        return lambda batch, _: encode(batch).write.format("kafka").options(**options).save()

    def location(self, table: Table) -> Hashable | None:
        return prefix_of(table)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        if not table.primary_key:
            message = (
                f'table "{table.name}" of the connector "upsert-kafka" has no PRIMARY KEY, the key of its messages'
            )
            hint = "Declare PRIMARY KEY (…) NOT ENFORCED, or take the connector kafka for a topic of all rows."
            yield Diagnostic(NEEDS_KEY, message, spans.get("connector"), hint=hint)
        if table.changelog != UPSERT:
            message = 'option "changelog-mode" of the connector "upsert-kafka" is \'I,UA,D\': its messages replace rows'
            yield Diagnostic(WRONG_VALUE, message, spans.get("changelog-mode"), hint="Leave it out.")
        yield from check_reading(table, spans)
        yield from check_writing(table, spans, by_spark=reads_by_spark(table))
        yield from check_upsert_formats(table, spans)

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def has_kinds(self, table: Table) -> bool:
        return True

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return metadata_of_messages(table)
