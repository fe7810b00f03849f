"""``kafka``: topics, through Spark's own connector, whose jar is not a part of PySpark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.change_formats import (
    CHANGE_FORMATS,
    CHANGE_OPTIONS,
    check_changes,
    has_kinds,
    metadata_of,
    takes_changes,
)
from sqlstream.connectors.connector import BatchWriter, Environment, Source, StreamSink
from sqlstream.connectors.formats import CSV_OPTIONS, JSON_OPTIONS, PLANNED_FORMATS, check_format, quoted
from sqlstream.connectors.message_keys import FORMAT, KEY_OPTIONS, check_keys, key_fields, only_in_keys, table_of_values
from sqlstream.connectors.on_spark.change_messages import decode_changes, encode_changes
from sqlstream.connectors.on_spark.kafka import with_key, with_key_text, with_keys
from sqlstream.connectors.on_spark.records import decode, encode, encode_object
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import DURATION, MISSING_OPTION, NAME, STRING, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.bad_rows import BAD
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

METADATA = {
    "topic": ("topic", DataType("STRING")),
    "partition": ("partition", DataType("INT")),
    "offset": ("offset", DataType("BIGINT")),
    "timestamp": ("timestamp", DataType("TIMESTAMP")),
    "timestamp-type": ("timestampType", DataType("INT")),
    "key": ("key", DataType("BINARY")),
    "headers": ("headers", parse_type("MAP<STRING, BINARY>")),
}
_HEADERS = "headers"
_PARTITIONERS = {"round-robin": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
_START = {"earliest-offset": "earliest", "latest-offset": "latest"}


def is_bounded(table: Table) -> bool:
    """Whether the source ends at the offsets of the start."""
    return table.option("scan.bounded.mode") is not None


def header_options(table: Table) -> dict[str, str]:
    """The option by which Spark reads headers, if the table has a column of them."""
    return {"includeHeaders": "true"} if any(c.metadata_key == _HEADERS for c in table.columns) else {}


def source_options(table: Table) -> dict[str, str]:
    """Spark's options to read the topics of a table, with resolved secrets."""
    return start_options(Kafka().resolved_values(table)) | header_options(table)


def start_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Spark's options for the values of a table: which topics to read, and from where."""
    topics = {"subscribe": values["topic"].replace(";", ",")} if values["topic"] else {}
    if values["topic-pattern"]:
        topics = {"subscribePattern": values["topic-pattern"]}
    start = {"startingOffsets": _START.get(values["scan.startup.mode"], "latest")}
    if values["scan.startup.mode"] == "timestamp":
        start = {"startingTimestamp": str(values["scan.startup.timestamp-millis"])}
    group = values.get("properties.group.id")
    return _properties(values) | topics | start | ({"kafka.group.id": group} if group else {})


def _properties(values: Mapping[str, Any]) -> dict[str, str]:
    prefix = "properties."
    options = {
        f"kafka.{k.removeprefix(prefix)}": v for k, v in values.items() if k.startswith(prefix) and v is not None
    }
    options.pop("kafka.group.id", None)
    return options


def _target(table: Table) -> dict[str, str]:
    return target_options(Kafka().resolved_values(table))


def target_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Spark's options to write to the topic of a table, given as its values."""
    chosen = _PARTITIONERS.get(values.get("sink.partitioner") or "default")
    return _properties(values) | {"topic": values["topic"]} | ({"kafka.partitioner.class": chosen} if chosen else {})


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
    """Reads and writes by Spark's Kafka connector. ConnectorError SS509 without its jar."""

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
        require_jar(environment.spark)
        messages = environment.spark.readStream.format("kafka").options(**source_options(table)).load()
        return self.rows_of_messages(messages, table, columns)

    def rows_of_messages(self, messages: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """The columns of the table out of Spark's columns of messages: value, key, topic and so on."""
        from pyspark.sql import functions as F

        keep, in_key = metadata_columns(table, columns), only_in_keys(table)
        payload = tuple(name for name in columns if name not in keep and name not in in_key)
        if in_key:
            keep = with_key_text(keep, place_of_message())
        texts = messages.withColumn("value", F.col("value").cast("string"))
        if self.values(table)["format"] == "json":  # as Flink, which takes an empty message for none
            texts = texts.where(F.trim("value") != "")
        read, values = decode_changes if has_kinds(table) else decode, self.values(table)
        rows = read(texts, "value", table_of_values(table), payload, values, keep, place_of_message())
        if in_key:
            return with_keys(rows, table, columns)
        extra = [name for name in (BAD, ROW_KIND) if name in rows.columns]
        return rows.select(*(F.col(quoted(name)) for name in (*columns, *extra)))

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        require_jar(environment.spark)
        return self.messages_of_rows(rows, table).writeStream.format("kafka").options(**_target(table))

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """A micro-batch that runs again sends its rows again, as with Spark's own sink."""
        require_jar(environment.spark)
        return lambda batch, _: (
            self.messages_of_rows(batch, table).write.format("kafka").options(**_target(table)).save()
        )

    def messages_of_rows(self, rows: DataFrame, table: Table) -> DataFrame:
        """Messages with a value, and a key where the table names key fields."""
        from pyspark.sql import functions as F

        values = self.values(table)
        changes = has_kinds(table)
        apart = only_in_keys(table)
        payload = rows.select(*(F.col(quoted(name)) for name in rows.columns if name not in apart)) if apart else rows
        fields = [(encode_changes if changes else encode)(payload, values).alias("value")]
        names = key_fields(table)
        if names:
            if table.option(FORMAT) is not None:
                return with_key(rows, fields[0], table)
            keys = rows.select(*(F.col(quoted(name)) for name in names))
            fields.append((encode_object if changes else encode)(keys, values).alias("key"))
        return rows.select(*fields)

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
