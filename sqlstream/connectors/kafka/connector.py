"""``kafka``: topics that tasks read and write with librdkafka, or Spark with its own connector, whose jar is not a part
of PySpark; and what ``upsert-kafka`` shares with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.change_formats import (
    CHANGE_FORMATS,
    CHANGE_OPTIONS,
    check_changes,
    has_kinds,
    metadata_of,
    takes_changes,
)
from sqlstream.connectors.connector import BatchWriter, Sink, Source, SplitSource, StreamSink
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import (
    CSV_OPTIONS,
    JSON_CONFLUENT_OPTIONS,
    JSON_OPTIONS,
    RAW_OPTIONS,
    check_format,
)
from sqlstream.connectors.kafka.messages import (
    KEY_OPTIONS,
    check_keys,
    header_options,
    is_bounded,
    start_options,
    table_of_values,
    target_options,
)
from sqlstream.connectors.kafka.sink import (
    PARTITIONER_OPTION,
    WRITING_OPTIONS,
    check_writing,
    new_topic,
    prefix_of,
)
from sqlstream.connectors.kafka.source import (
    BOUNDED_OPTIONS,
    CLIENT,
    CLIENT_OPTIONS,
    LIBRDKAFKA,
    READING_OPTIONS,
    REFUSED,
    STARTUP_OPTIONS,
    check_reading,
    metadata_of_messages,
    of_python,
    reads_by_spark,
    settings_of_job,
    topic_settings,
)
from sqlstream.connectors.schema_formats import (
    SCHEMA_FORMATS,
    SCHEMA_OPTIONS,
    SCHEMA_VARIABLES,
)
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import (
    MISSING_OPTION,
    NAME,
    PATTERN,
    WRONG_VALUE,
    Option,
    one_of,
)
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sqlstream.udfs.kafka.records import TopicRecords
    from sqlstream.udfs.kafka.rows import TopicFormat


def source_options(table: Table, values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the options with which Spark's connector reads a table. ``values``: its parsed and resolved options."""
    return start_options(values) | header_options(table)


def _target(table: Table) -> dict[str, str]:
    return target_options(Kafka().resolved_values(table))


# --- reading ----------------------------------------------------------------------------------------------------


def messages_of_table(kind: Source, environment: Environment, table: Table, fields: tuple[str, ...]) -> DataFrame:
    """The messages of a table of either connector, with at least the columns ``fields``, and LIFT where the source
    knows how far the watermark may go.
    """
    values = _reading_values(kind, table)
    if values[CLIENT] == LIBRDKAFKA:
        return on_spark.kafka_source.messages_of(
            environment.spark,
            settings_of_job(environment, values),
            fields,
            finished=environment.finished,
            watermark=on_spark.kafka_times.watermark_of_topics(environment, table, values, by_rows=True),
            sizes=environment.fetched.counter(environment.spark, table.name),
        )
    return messages_by_spark(kind, environment, table)


def messages_by_spark(kind: Source, environment: Environment, table: Table) -> DataFrame:
    """The messages of a table of either connector, which Spark's connector reads, with all of its columns."""
    options = source_options(table, _reading_values(kind, table))
    messages = on_spark.kafka.messages_of(environment.spark, options, finished=environment.finished)
    return on_spark.kafka.measured(messages, table) if environment.real_time else messages


def fetched_rows(
    kind: Source, environment: Environment, table: Table, columns: tuple[str, ...], records: TopicRecords
) -> DataFrame:
    """The named columns of a table of either connector, whose messages tasks fetch and decode at once."""
    values = _reading_values(kind, table)
    settings = settings_of_job(environment, values)
    return on_spark.topic_rows.fetched_rows(environment, table, columns, values, settings, records)


def _reading_values(kind: Source, table: Table) -> dict[str, Any]:
    """The resolved options of a table; a connector that lacks some reads one topic from its beginning."""
    return {"topic-pattern": None, "scan.startup.mode": "earliest-offset", **kind.resolved_values(table)}


class Kafka(SplitSource, StreamSink):
    """Tables in Kafka topics, which librdkafka or Spark's Kafka connector reads and writes. Raises ConnectorError SS577
    without the package confluent-kafka, SS509 without Spark's jar.
    """

    name = "kafka"
    doc = "Topics of Apache Kafka, which tasks read and write with librdkafka."
    options = (
        Option("topic", NAME, "The topic; as a source several, separated by semicolons.", sink=True),
        Option("topic-pattern", PATTERN, "A regular expression of topics to read, each as a whole."),
        *CLIENT_OPTIONS,
        *STARTUP_OPTIONS,
        *BOUNDED_OPTIONS,
        *READING_OPTIONS,
        Option(
            "format",
            one_of("csv", "json", "raw", *SCHEMA_FORMATS, *CHANGE_FORMATS),
            "How the value of a message is written: csv, json, raw (the bytes of one column) or by a schema; changes "
            "of a table by the others.",
            required=True,
            sink=True,
        ),
        *WRITING_OPTIONS,
        PARTITIONER_OPTION,
        *KEY_OPTIONS,
        *CSV_OPTIONS,
        *JSON_OPTIONS,
        *RAW_OPTIONS,
        *SCHEMA_OPTIONS,
        *JSON_CONFLUENT_OPTIONS,
        *CHANGE_OPTIONS,
    )
    refused = REFUSED
    variables = (
        "properties.#", "properties.bootstrap.servers", "properties.group.id", "topic", "topic-pattern",
        *SCHEMA_VARIABLES,
    )  # fmt: skip

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        records = None if reads_by_spark(table) else self._records(environment.spark, table, columns)
        if records is not None:
            return fetched_rows(self, environment, table, columns, records)
        messages = messages_of_table(self, environment, table, on_spark.kafka.fields_of_messages(table, columns))
        return self.rows_of_messages(messages, table, columns, by_java=environment.real_time)

    def has_file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> bool:
        by_tasks = not reads_by_spark(table) and self._records(environment.spark, table, columns) is not None
        return by_tasks and on_spark.topic_rows.fields_of_columns(table, columns) is not None

    def file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        values = self.resolved_values(table)
        return on_spark.kafka_source.ranges_of_topics(
            environment.spark,
            settings_of_job(environment, values),
            finished=environment.finished,
            watermark=on_spark.kafka_times.watermark_of_topics(environment, table, values, by_rows=False),
        )

    def record_format(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> TopicFormat:
        records = self._records(environment.spark, table, columns)
        assert records is not None, "asked for splits that are not there"
        values = self.resolved_values(table)
        return on_spark.topic_rows.topic_format(environment, table, columns, values, topic_settings(values), records)

    def _records(self, spark: SparkSession, table: Table, columns: tuple[str, ...]) -> TopicRecords | None:
        """How tasks decode messages; None where Spark must do a part."""
        return on_spark.topic_records.topic_records(spark, table, columns, self.values(table))

    def rows_of_messages(
        self, messages: DataFrame, table: Table, columns: tuple[str, ...], *, by_java: bool = False
    ) -> DataFrame:
        """Decodes Kafka messages, which have Spark's columns (value, key, topic and so on), into the named columns of
        the table. ``by_java``: functions of Spark do, as real-time mode needs it, in place of tasks of Python.
        """
        if has_kinds(table):
            return on_spark.kafka.rows_of_changes(messages, table, columns, self.values(table))
        records = None if by_java else self._records(messages.sparkSession, table, columns)
        if records is None:
            return on_spark.kafka.rows_by_java(messages, table, columns, self.values(table))
        return on_spark.topic_rows.rows_of_messages(messages, table, columns, records)

    def stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        kind = StreamSink if reads_by_spark(table) else Sink
        return kind.stream(self, environment, table, rows)

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        on_spark.kafka.require_jar(environment.spark)
        return self.messages_of_rows(rows, table).writeStream.format("kafka").options(**_target(table))

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """Returns the function that writes a micro-batch. One that is repeated writes its rows again, unless each is a
        transaction.
        """
        values = self.resolved_values(table)
        encode = partial(on_spark.kafka.messages_of_rows, table=table, values=self.values(table))
        if not reads_by_spark(table):
            return on_spark.kafka_sink.batch_writer(environment, table, values, encode, new_topic(values))
        on_spark.kafka.require_jar(environment.spark)
        return lambda batch, _: encode(batch).write.format("kafka").options(**_target(table)).save()

    def location(self, table: Table) -> Hashable | None:
        return prefix_of(table)

    def messages_of_rows(self, rows: DataFrame, table: Table) -> DataFrame:
        """Encodes rows as Kafka messages with the columns ``value`` and, if the table names key fields, ``key``."""
        return on_spark.kafka.messages_of_rows(rows, table, self.values(table))

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from check_format(table_of_values(table), spans)
        yield from check_changes(table, spans)
        given = dict(table.options)
        if not given.keys() & {"topic", "topic-pattern"}:
            message = 'connector "kafka" requires one of the options "topic" and "topic-pattern"'
            yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint="Add 'topic' = '…' to WITH.")
        elif {"topic", "topic-pattern"} <= given.keys():
            message = 'options "topic" and "topic-pattern" both say which topics are read'
            yield Diagnostic(WRONG_VALUE, message, spans.get("topic-pattern"), hint="Leave one of them out.")
        yield from check_reading(table, spans)
        yield from check_writing(table, spans, by_spark=reads_by_spark(table))
        yield from check_keys(table, spans)

    def refuses_real_time(self, table: Table, *, written: bool) -> Diagnostic | None:
        return of_python(table, written=written)

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def has_kinds(self, table: Table) -> bool:
        return has_kinds(table)

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        return takes_changes(table)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return metadata_of_messages(table) | dict(metadata_of(table))
