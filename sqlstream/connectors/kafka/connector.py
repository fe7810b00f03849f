"""``kafka``: topics that tasks read and write with librdkafka, or Spark with its own connector, whose jar is not a part
of PySpark; and what ``upsert-kafka`` shares with it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
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
from sqlstream.connectors.connector import NOT_REAL_TIME, BatchWriter, Sink, Source, SplitSource, StreamSink
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import (
    CSV_OPTIONS,
    JSON_CONFLUENT_OPTIONS,
    JSON_OPTIONS,
    RAW_OPTIONS,
    check_format,
)
from sqlstream.connectors.kafka.client import PREFIX, check_properties, client_properties
from sqlstream.connectors.kafka.messages import (
    FORMAT,
    FORMAT_OF_VALUES,
    KEY_OPTIONS,
    METADATA,
    REFUSED_OF_PARTS,
    check_keys,
    header_options,
    is_bounded,
    only_in_keys,
    start_options,
    table_of_keys,
    table_of_values,
    target_options,
)
from sqlstream.connectors.kafka.offsets import Bound, TopicSettings, specific_offsets
from sqlstream.connectors.kafka.sink import (
    PARTITIONER_OPTION,
    WRITING_OPTIONS,
    check_writing,
    new_topic,
    prefix_of,
)
from sqlstream.connectors.schema_formats import (
    DEBEZIUM_AVRO,
    SCHEMA_FORMATS,
    SCHEMA_OPTIONS,
    SCHEMA_VARIABLES,
    has_schema,
)
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import (
    DURATION,
    MISSING_OPTION,
    NAME,
    PATTERN,
    STRING,
    WRONG_VALUE,
    Option,
    OptionKind,
    integer,
    one_of,
    wrong_pattern,
)
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.spark.java import memory_limit, share_of_micro_batches
from sqlstream.types import DataType
from sqlstream.udfs.kafka.tokens import FUNCTION
from sqlstream.udfs.lookup.sources.clients import no_package

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


CLIENT, LIBRDKAFKA = "kafka.client", "librdkafka"
_START, _START_MILLIS = "scan.startup.mode", "scan.startup.timestamp-millis"
_START_OFFSETS = "scan.startup.specific-offsets"
_STOP, _GROUP, _RESET = "scan.bounded.mode", "properties.group.id", "properties.auto.offset.reset"

TOKENS = f"{PREFIX}{FUNCTION}"


def _function(text: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", text.strip()):
        raise ValueError(text)
    return text.strip()


CLIENT_OPTIONS = (
    Option("properties.bootstrap.servers", NAME, "The brokers, host:port, with commas.", required=True, sink=True),
    Option(
        "properties.group.id",
        NAME,
        "The consumer group whose offsets are committed, so that its lag is seen; the job goes on from its checkpoint.",
    ),
    Option(
        "properties.auto.offset.reset",
        one_of("earliest", "latest", "none"),
        "Where partitions begin that lack the offset of the start: one that the group has not committed, or one out of "
        "range; none fails.",
    ),
    Option(
        TOKENS,
        OptionKind("function", "a function of Python, 'package.module:name'", _function),
        "A function that gives tokens to log in with OAUTHBEARER.",
        sink=True,
    ),
    Option("properties.#", STRING, "Any other property of the Kafka client.", sink=True),
)
_OFFSETS = OptionKind("offsets", "offsets such as 'partition:0,offset:42;partition:1,offset:300'", specific_offsets)
BOUNDED_OPTIONS = (
    Option(
        "scan.bounded.mode",
        one_of("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "Where the table ends: at what is there when the job starts, at what the consumer group has committed, before "
        "a time, or before offsets.",
        "unbounded",
    ),
    Option("scan.bounded.timestamp-millis", integer(), "Where the bounded mode timestamp ends, in ms since 1970."),
    Option(
        "scan.bounded.specific-offsets",
        _OFFSETS,
        "The first offset of each partition that is not read; partitions that are not named end at their latest.",
    ),
)
READING_OPTIONS = (
    Option(
        CLIENT,
        one_of(LIBRDKAFKA, "spark"),
        "Who reads and writes: tasks with librdkafka, or Spark's connector, whose jar must be on Spark's class path.",
        LIBRDKAFKA,
        sink=True,
    ),
    Option(
        "on-data-loss",
        one_of("fail", "skip"),
        "What happens where messages are gone before they were read: the job fails, or goes on with a warning.",
        "fail",
    ),
    Option(
        "source.max-rows-per-trigger",
        integer(1),
        "A micro-batch reads at most so many messages, of each partition in proportion to what waits there. Not given, "
        "2 million, and less on machines or in containers with less than 16 GB of memory.",
    ),
    Option(
        "scan.topic-partition-discovery.interval",
        DURATION,
        "How often new topics and partitions are looked for; Spark's connector does in each micro-batch.",
        "10 s",
    ),
)
"""Options of both connectors."""


# --- reading ----------------------------------------------------------------------------------------------------


def messages_of_table(kind: Source, environment: Environment, table: Table, fields: tuple[str, ...]) -> DataFrame:
    """The messages of a table of either connector, with at least the columns ``fields``, and LIFT where the source
    knows how far the watermark may go.
    """
    values = _reading_values(kind, table)
    if values[CLIENT] == LIBRDKAFKA:
        return on_spark.kafka_source.messages_of(
            environment.spark,
            _settings(environment, values),
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
    settings = _settings(environment, values)
    return on_spark.topic_rows.fetched_rows(environment, table, columns, values, settings, records)


def _reading_values(kind: Source, table: Table) -> dict[str, Any]:
    """The resolved options of a table; a connector that lacks some reads one topic from its beginning."""
    return {"topic-pattern": None, _START: "earliest-offset", **kind.resolved_values(table)}


def _bound(values: Mapping[str, Any], when: str) -> dict[str, Any]:
    return {
        "mode": values[f"scan.{when}.mode"],
        "millis": values.get(f"scan.{when}.timestamp-millis"),
        "offsets": values.get(f"scan.{when}.specific-offsets") or {},
    }


def require_librdkafka() -> None:
    """Raises ConnectorError SS577 where confluent-kafka is not installed."""
    if find_spec("confluent_kafka") is None:
        raise no_package("kafka", "confluent-kafka")


def topic_settings(values: Mapping[str, Any]) -> TopicSettings:
    """Returns which messages a table has, by its parsed and resolved options. SS577 without confluent-kafka."""
    require_librdkafka()
    stop = _bound(values, "bounded")
    return TopicSettings(
        properties=client_properties(values),
        topics=tuple(name.strip() for name in (values["topic"] or "").split(";") if name.strip()),
        pattern=values["topic-pattern"],
        group=values[_GROUP],
        start=Bound(**_bound(values, "startup")),
        stop=None if stop["mode"] == "unbounded" else Bound(**stop),
        reset=values[_RESET] or "none",
        most=values["source.max-rows-per-trigger"] or int(_USUAL_MESSAGES * share_of_micro_batches(memory_limit())),
        discovery_ms=values["scan.topic-partition-discovery.interval"],
        skips_lost=values["on-data-loss"] == "skip",
    )


_FEWEST = 1000
_USUAL_MESSAGES = 2_000_000


def _settings(environment: Environment, values: Mapping[str, Any]) -> TopicSettings:
    """The settings of a table for a job. Where a few rows end the query, its micro-batches read few messages."""
    settings = replace(topic_settings(values), wanted_ms=environment.wanted_ms)
    first = environment.first_rows
    return settings if first is None else replace(settings, most=min(settings.most or first, max(first, _FEWEST)))


def check_reading(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS503 and SS504 for options of reading that need each other, or another client."""
    given = dict(table.options)
    by_spark = reads_by_spark(table)
    for when in ("startup", "bounded"):
        key = f"scan.{when}.mode"
        mode = given.get(key, "").strip().lower()
        for needed, name in (("timestamp", "timestamp-millis"), ("specific-offsets", "specific-offsets")):
            other = f"scan.{when}.{name}"
            if (mode == needed) != (other in given):
                message = f'option "{other}" and "{key}" = "{needed}" need each other'
                yield Diagnostic(WRONG_VALUE, message, spans.get(other) or spans.get(key))
        if mode == "group-offsets" and _GROUP not in given:
            message = f'"{key}" = "group-offsets" needs the option "{_GROUP}"'
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=f"Add '{_GROUP}' = '…' to WITH.")
        known = ("", "earliest-offset", "latest-offset", *(("timestamp",) if when == "startup" else ("unbounded",)))
        if by_spark and mode not in known:
            message = f'Spark\'s connector has no "{key}" = "{mode}"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=f"Leave out '{CLIENT}' = 'spark'.")
        if mode == "specific-offsets" and (";" in given.get("topic", "") or "topic-pattern" in given):
            message = f'"{key}" = "specific-offsets" goes with one topic alone'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Its offsets name partitions, not topics.")
    if by_spark:
        for key in ("on-data-loss", "source.max-rows-per-trigger", TOKENS):
            if key in given:
                hint = f"Leave it or '{CLIENT}' = 'spark' out."
                message = f'option "{key}" has no effect on Spark\'s connector'
                yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint)
    else:
        yield from check_properties(given, spans)
        yield from _wrong_pattern(given.get("topic-pattern", ""), spans.get("topic-pattern"))


def _wrong_pattern(pattern: str, span: Span | None) -> Iterable[Diagnostic]:
    """SS504 for a regular expression of Java that Python, which looks for the topics, does not have."""
    why = wrong_pattern(pattern)
    if why is not None:
        message = f'option "topic-pattern" is no regular expression of Python, which looks for topics: {why}'
        hint = f"Spell it otherwise, such as [A-Za-z] for \\p{{Alpha}}, or add '{CLIENT}' = 'spark' for those of Java."
        yield Diagnostic(WRONG_VALUE, message, span, hint=hint)


def metadata_of_messages(table: Table) -> dict[str, DataType]:
    return {key: type_ for key, (_, type_) in METADATA.items() if not (reads_by_spark(table) and key == "leader-epoch")}


def reads_by_spark(table: Table) -> bool:
    return (table.option(CLIENT) or "").strip().lower() == "spark"


def of_python(table: Table, *, written: bool) -> Diagnostic | None:
    """SS369 for what of reading or writing a table of either connector is not Java's work."""
    if not reads_by_spark(table):
        message = f'table "{table.name}" is read and written by Python tasks, which real-time mode does not call'
        return Diagnostic(NOT_REAL_TIME, message, hint=f"Add '{CLIENT}' = 'spark' to WITH.")
    if is_bounded(table) and not written:
        message = f'table "{table.name}" has an end, which real-time mode does not have'
        return Diagnostic(NOT_REAL_TIME, message, hint="Leave 'scan.bounded.mode' out.")
    for key in ("format", FORMAT_OF_VALUES, FORMAT):
        form = (table.option(key) or "").strip().lower()
        by_tasks = has_schema(form) or form == DEBEZIUM_AVRO or (form in CHANGE_FORMATS and not written)
        if by_tasks and (key != FORMAT or written or only_in_keys(table)):
            message = f'"{key}" = "{form}" is the work of Python tasks, which real-time mode does not call'
            return Diagnostic(NOT_REAL_TIME, message, hint="Take 'json', 'csv' or 'raw'.")
    return None if written else _of_numbers(table)


def _of_numbers(table: Table) -> Diagnostic | None:
    """SS369 for raw values or keys that are numbers, which Java does not read."""
    for part in (table_of_values(table), *([table_of_keys(table)] if only_in_keys(table) else [])):
        others = (c for c in part.physical_columns if c.type.name not in ("STRING", "BINARY"))
        if (part.option("format") or "").strip().lower() == "raw" and (column := next(others, None)) is not None:
            message = f'raw column "{column.name}" is a number, which real-time mode does not read'
            hint = "Declare the column STRING or BYTES, or write it as json or csv."
            return Diagnostic(NOT_REAL_TIME, message, hint=hint)
    return None


REFUSED = REFUSED_OF_PARTS | {
    "scan.parallelism": "Leave it out: 'parallelism.default' says how many tasks there are.",
    "sink.transaction-naming-strategy": "Leave it out: 'sink.transactional-id-prefix' names transactions.",
}


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
        Option(
            "scan.startup.mode",
            one_of("latest-offset", "earliest-offset", "group-offsets", "timestamp", "specific-offsets"),
            "Where a job without checkpoint begins.",
            "latest-offset",
        ),
        Option("scan.startup.timestamp-millis", integer(), "Where the mode timestamp begins, in ms since 1970."),
        Option(
            "scan.startup.specific-offsets",
            _OFFSETS,
            "Where the mode specific-offsets begins; partitions that are not named begin at their earliest.",
        ),
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
            _settings(environment, values),
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
