"""``kafka`` and ``upsert-kafka``: topics, through Spark's own connector, whose jar is not a part of PySpark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors import on_spark
from sqlstream.connectors.change_formats import (
    CHANGE_FORMATS,
    CHANGE_OPTIONS,
    check_changes,
    has_kinds,
    metadata_of,
    takes_changes,
)
from sqlstream.connectors.connector import BatchWriter, Environment, Source, StreamSink, UpsertSink
from sqlstream.connectors.formats import CSV_OPTIONS, JSON_OPTIONS, PLANNED_FORMATS, check_format, wrong_keys_of_json
from sqlstream.connectors.kafka_messages import (
    FORMATS_OF_KEYS,
    KEY_OPTIONS,
    METADATA,
    check_keys,
    header_options,
    is_bounded,
    keys_of_upserts,
    spans_of_keys,
    start_options,
    table_of_values,
    target_options,
)
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import DURATION, MISSING_OPTION, NAME, STRING, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.catalog import UPSERT, RowKind, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def source_options(table: Table) -> dict[str, str]:
    """Returns Spark's options to read the Kafka topics of a table, with secrets filled in."""
    return start_options(Kafka().resolved_values(table)) | header_options(table)


def _target(table: Table) -> dict[str, str]:
    return target_options(Kafka().resolved_values(table))


CLIENT_OPTIONS = (
    Option("properties.bootstrap.servers", NAME, "The brokers, host:port, with commas.", required=True, sink=True),
    Option("properties.group.id", NAME, "The consumer group that brokers see."),
    Option("properties.#", STRING, "Any other property of the Kafka client.", sink=True),
)
BOUNDED_MODE = Option(
    "scan.bounded.mode",
    one_of("latest-offset", planned=("group-offsets", "specific-offsets", "timestamp", "unbounded")),
    "Ends at what is there when the job starts; without it, no end.",
)


class Kafka(Source, StreamSink):
    """Tables in Kafka topics, which Spark's Kafka connector reads and writes. Raises ConnectorError SS509 without its
    jar.
    """

    name = "kafka"
    doc = "Topics of Apache Kafka, through Spark's connector: its jar must be on Spark's class path."
    options = (
        Option("topic", NAME, "The topic; as a source several, separated by semicolons.", sink=True),
        Option("topic-pattern", NAME, "A regular expression of topics to read."),
        *CLIENT_OPTIONS,
        Option(
            "scan.startup.mode",
            one_of("latest-offset", "earliest-offset", "timestamp", planned=("group-offsets", "specific-offsets")),
            "Where a job without checkpoint begins.",
            "latest-offset",
        ),
        Option("scan.startup.timestamp-millis", integer(), "Where the mode timestamp begins, in ms since 1970."),
        BOUNDED_MODE,
        Option(
            "format",
            one_of("csv", "json", "raw", *CHANGE_FORMATS, planned=PLANNED_FORMATS),
            "How the value of a message is written: csv, json or raw (one STRING); changes of a table by the others.",
            required=True,
            sink=True,
        ),
        Option(
            "scan.topic-partition-discovery.interval",
            DURATION,
            "Changes nothing: each micro-batch reads the topics and partitions that there are then.",
        ),
        Option(
            "sink.delivery-guarantee",
            one_of("at-least-once", planned=("exactly-once", "none")),
            "A micro-batch that runs again sends its rows again.",
            "at-least-once",
            source=False,
            sink=True,
        ),
        Option("raw.charset", one_of("UTF-8"), "How raw values are written.", "UTF-8", sink=True),
        Option(
            "sink.partitioner",
            one_of("default", "round-robin", planned=("fixed",)),
            "Which partition gets a message: Kafka's choice, by the key if there is one, or each in turn.",
            source=False,
            sink=True,
        ),
        *KEY_OPTIONS,
        *CSV_OPTIONS,
        *JSON_OPTIONS,
        *CHANGE_OPTIONS,
    )
    variables = ("properties.#", "properties.bootstrap.servers", "properties.group.id", "topic", "topic-pattern")

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        messages = on_spark.kafka.messages_of(environment.spark, source_options(table))
        return self.rows_of_messages(messages, table, columns)

    def rows_of_messages(self, messages: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Decodes Kafka messages, which have Spark's columns (value, key, topic and so on), into the named columns of
        the table.
        """
        return on_spark.kafka.rows_of_messages(messages, table, columns, self.values(table))

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        on_spark.kafka.require_jar(environment.spark)
        return self.messages_of_rows(rows, table).writeStream.format("kafka").options(**_target(table))

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """Returns the function that writes a micro-batch. A repeated micro-batch writes its rows again, as Spark's own
        sink does.
        """
        on_spark.kafka.require_jar(environment.spark)
        return lambda batch, _: (
            self.messages_of_rows(batch, table).write.format("kafka").options(**_target(table)).save()
        )

    def messages_of_rows(self, rows: DataFrame, table: Table) -> DataFrame:
        """Encodes rows as Kafka messages with the columns ``value`` and, if the table names key fields, ``key``."""
        return on_spark.kafka.messages_of_rows(rows, table, self.values(table))

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from check_format(table_of_values(table), spans)
        yield from check_changes(table, spans)
        given = dict(table.options)
        if ("topic" in given) == ("topic-pattern" in given):
            message = 'connector "kafka" requires one of the options "topic" and "topic-pattern"'
            yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint="Add 'topic' = '…' to WITH.")
        mode, millis = given.get("scan.startup.mode", "").lower(), "scan.startup.timestamp-millis"
        if (mode == "timestamp") != (millis in given):
            message = f'option "{millis}" and "scan.startup.mode" = "timestamp" need each other'
            yield Diagnostic(WRONG_VALUE, message, spans.get(millis) or spans.get("scan.startup.mode"))
        yield from check_keys(table, spans)

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def has_kinds(self, table: Table) -> bool:
        return has_kinds(table)

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        return takes_changes(table)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: type_ for key, (_, type_) in METADATA.items()} | dict(metadata_of(table))


# --- ``upsert-kafka``: a topic that holds the last row of each key, as in Flink ----------------------------------
# The key of a message is the PRIMARY KEY as a JSON object or a row of CSV, the value is the whole row, and a message
# without a value deletes the row of its key. Compaction by Kafka therefore does not change the table.


NEEDS_KEY = "SS666"

_OTHER_FORMATS = ("avro", "csv", "protobuf", "raw")


def _format(key: str, doc: str, *formats: str) -> Option:
    others = [name for name in _OTHER_FORMATS if name not in formats]
    return Option(key, one_of(*formats, planned=others), doc, required=True, sink=True)


_OPTIONS_OF_KEYS = tuple(
    option
    for option in FORMATS_OF_KEYS
    if option.key.startswith("key.csv.") and not option.key.endswith(("ignore-parse-errors", "allow-comments"))
)


class UpsertKafka(Source, UpsertSink):
    """Upsert tables in Kafka topics, which Spark's Kafka connector reads and writes. Raises ConnectorError SS509
    without its jar.
    """

    name = "upsert-kafka"
    doc = (
        "A topic of Apache Kafka that holds the last row of each PRIMARY KEY: a message replaces the row of its key, "
        "one without a value deletes it."
    )
    options = (
        Option("topic", NAME, "The topic.", required=True, sink=True),
        *CLIENT_OPTIONS,
        _format("key.format", "How the key of a message is written: the columns of the PRIMARY KEY.", "json", "csv"),
        *_OPTIONS_OF_KEYS,
        _format("value.format", "How its value is: the row as a JSON object.", "json"),
        Option(
            "value.fields-include",
            one_of("ALL", planned=("except_key",)),
            "Which columns the value holds: all of them.",
            "ALL",
            sink=True,
        ),
        BOUNDED_MODE,
    )
    variables = ("properties.#", "properties.bootstrap.servers", "properties.group.id", "topic")

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Reads the topic from its beginning, as Flink does, because later messages alone do not make up the table."""
        values = self.resolved_values(table)
        options = start_options({**values, "topic-pattern": None, "scan.startup.mode": "earliest-offset"})
        options |= header_options(table)
        messages = on_spark.kafka.messages_of(environment.spark, options)
        return on_spark.kafka.rows_of_upserts(messages, table, columns)

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """Returns the function that writes a micro-batch. A repeated micro-batch writes its messages again, after
        which the last message of each key is the same.
        """
        on_spark.kafka.require_jar(environment.spark)
        options = target_options(self.resolved_values(table))
        return lambda batch, _: (
            on_spark.kafka.messages_of_upserts(batch, table).write.format("kafka").options(**options).save()
        )

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
        yield from wrong_keys_of_json(table)
        yield from check_format(keys_of_upserts(table), spans_of_keys(spans))

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def has_kinds(self, table: Table) -> bool:
        return True

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: type_ for key, (_, type_) in METADATA.items()}
