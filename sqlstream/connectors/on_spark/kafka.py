"""Messages of Kafka as rows, and rows as messages: the sources and sinks ``kafka`` and ``upsert-kafka``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from sqlstream.connectors import on_spark
from sqlstream.connectors.change_formats import has_kinds, of_message
from sqlstream.connectors.connector import MISSING_JAR, columns_of
from sqlstream.connectors.environment import LATENCIES, LATENCY_METRIC, Environment
from sqlstream.connectors.formats import quoted, records_columns
from sqlstream.connectors.kafka.messages import (
    FORMAT,
    HEADERS,
    METADATA,
    key_fields,
    key_values,
    name_in_key,
    only_in_keys,
    table_of_keys,
    table_of_values,
)
from sqlstream.connectors.kafka.offsets import TopicSettings
from sqlstream.connectors.on_spark.change_messages import decode_changes, encode_avro_changes, encode_changes
from sqlstream.connectors.on_spark.decoders import decoder_of
from sqlstream.connectors.on_spark.encoders import encode_by_schema
from sqlstream.connectors.on_spark.kafka_times import watermark_of_topics
from sqlstream.connectors.on_spark.messages import as_variants, decoded
from sqlstream.connectors.on_spark.records import decode, encode, encode_object
from sqlstream.connectors.schema_formats import DEBEZIUM_AVRO, has_schema
from sqlstream.errors import ConnectorError
from sqlstream.formats.decoder import OptionalRecords
from sqlstream.planner.bad_rows import ON_ERROR, tolerates_bad_rows
from sqlstream.planner.catalog import Table
from sqlstream.planner.lowering.hidden_columns import present
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.exchange import LIFT
from sqlstream.udfs.kafka.fetch import FetchedMessages, TopicRecords
from sqlstream.udfs.kafka.fetched import FIELDS
from sqlstream.udfs.kafka.produce import HEADERS as WRITTEN_HEADERS
from sqlstream.udfs.kafka.produce import TIME
from sqlstream.udfs.kafka.rows import TopicFormat
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.messages import MessageRows

_LAST_HEADERS = (
    "map_from_entries(filter(headers, (h, i) -> not exists(slice(headers, i + 2, size(headers)), x -> x.key = h.key)))"
)
"""The last value of each header: a key may be repeated, and Flink uses the last one."""
_TIMESTAMP_TYPES = "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' ELSE 'NoTimestampType' END"


def metadata_columns(table: Table, columns: tuple[str, ...]) -> dict[str, Column]:
    """Returns a dictionary from name to expression, for those of the named columns that are metadata of a Kafka
    message.
    """
    chosen = (c for c in columns_of(table, columns) if of_message(table, c) is None)
    metadata = ((c.name, c.metadata_key, c.type.ddl()) for c in chosen)
    return {name: F.expr(_metadata_sql(key, type_)).cast(type_) for name, key, type_ in metadata if key is not None}


def _metadata_sql(key: str, type_: str) -> str:
    """Spark SQL for a METADATA column. ``timestamp-type`` is a number, or as a STRING Flink's name."""
    if key == HEADERS:
        return _LAST_HEADERS
    return _TIMESTAMP_TYPES if key == "timestamp-type" and type_ == "STRING" else METADATA[key][0]


def place_of_message() -> Column:
    """Returns an expression for the position of a message as text: ``topic[partition]@offset``."""
    return F.concat("topic", F.lit("["), "partition", F.lit("]@"), "offset")


_NEWEST_JAR = "4.2.0"
"""The newest version that Maven has of Spark's Kafka connector. Spark 4.3 runs it, too."""


def _jar_version(spark_version: str) -> str:
    """The version of the connector for a version of Spark."""
    numbers = [tuple(map(int, version.split(".")[:2])) for version in (spark_version, _NEWEST_JAR)]
    return spark_version if numbers[0] <= numbers[1] else _NEWEST_JAR


def require_jar(spark: SparkSession) -> None:
    """Raises ConnectorError SS509 where Spark lacks the Kafka connector."""
    reader = spark.readStream.format("kafka").option("subscribe", "t").option("kafka.bootstrap.servers", "localhost")
    try:
        _ = reader.load().schema  # Spark Connect looks for it no earlier
    except AnalysisException as error:
        if "find data source: kafka" not in str(error):
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_jar_version(spark.version)}"
        hint = (
            f"Start spark-submit with --packages {package}, "
            f"or connect with the option 'spark.jars.packages' = '{package}' before Spark starts."
        )
        raise ConnectorError(MISSING_JAR, "Spark's Kafka connector is not installed", hint=hint) from None


def messages_of(spark: SparkSession, options: Mapping[str, str], *, finished: bool = False) -> DataFrame:
    """Returns Kafka messages that Spark's connector reads with Spark's ``options``: a streaming DataFrame, or, if
    ``finished``, a batch DataFrame of those up to the latest. Raises ConnectorError SS509 without the jar.
    """
    require_jar(spark)
    if not finished:
        return spark.readStream.format("kafka").options(**options).load()
    if options.get("startingOffsets") != "latest" or "startingTimestamp" in options:
        return spark.read.format("kafka").options(**options).load()
    # Spark refuses to begin there.
    return spark.read.format("kafka").options(**{**options, "startingOffsets": "earliest"}).load().where(F.lit(False))


_AGE = "__age_ms"


def measured(messages: DataFrame, table: Table) -> DataFrame:
    """Returns messages with a metric of how old they are when a task has read them. Java tells the time for each:
    Spark's own clock stands while a micro-batch runs.
    """
    age = F.expr("java_method('java.lang.System', 'currentTimeMillis')").cast("BIGINT") - F.unix_millis("timestamp")
    shares = (F.percentile_approx(_AGE, share) for share in (0.5, 0.99))
    values = (*shares, F.max(_AGE))
    named = [value.alias(name) for name, value in zip(LATENCIES, values, strict=True)]
    name = f"{LATENCY_METRIC}/{quote(table.name, safe='')}"
    return messages.select("*", age.alias(_AGE)).observe(name, *named).drop(_AGE)


def fields_of_messages(table: Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Returns which columns of messages (``udfs.kafka.fetched.FIELDS``) the named columns of a table need."""
    keys = {c.metadata_key for c in columns_of(table, columns) if of_message(table, c) is None}
    needed = {"value", "topic", "partition", "offset"} | {METADATA[key][0] for key in keys if key is not None}
    needed |= {"key"} if only_in_keys(table) else set()
    return tuple(name for name in FIELDS if name in needed)


# --- kafka ----------------------------------------------------------------------------------------------------


def rows_of_messages(
    messages: DataFrame, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> DataFrame:
    """Decodes Kafka messages, which have Spark's columns (value, key, topic and so on), into the named columns of the
    table.

    ``values``: the parsed options of the table.
    """
    keep, in_key = metadata_columns(table, columns), only_in_keys(table)
    payload = tuple(name for name in columns if name not in keep and name not in in_key)
    if in_key:
        keep = with_key_text(keep, place_of_message())
    keep = with_lift(keep, messages)
    if has_schema(values["format"]):
        given = messages.where(F.col("value").isNotNull())
        rows = rows_of_bytes(given, table_of_values(table), payload, values, keep)
        return with_keys(rows, table, columns) if in_key else rows.select(*_columns_of(rows, columns))
    in_bytes = values["format"] == DEBEZIUM_AVRO
    texts = messages if in_bytes else messages.withColumn("value", F.col("value").cast("string"))
    if values["format"] == "json":  # as Flink, which takes an empty message for none
        texts = texts.where(F.trim("value") != "")
    read = decode_changes if has_kinds(table) else decode
    rows = read(texts, "value", table_of_values(table), payload, values, keep, place_of_message())
    if in_key:
        return with_keys(rows, table, columns)
    return rows.select(*_columns_of(rows, columns))


def rows_of_bytes(
    messages: DataFrame,
    table: Table,
    payload: tuple[str, ...],
    values: Mapping[str, Any],
    keep: Mapping[str, SparkColumn],
    *,
    optional: bool = False,
) -> DataFrame:
    """Decodes the values of messages of a format with a schema. ``optional``: a message without a value is a row of
    NULLs.
    """
    zone = str(messages.sparkSession.conf.get("spark.sql.session.timeZone"))
    decoder = decoder_of(table, payload, values, zone, all_columns=True)
    assert decoder is not None, "a format with a schema"
    reader = MessageRows(OptionalRecords(decoder) if optional else decoder, tolerates_bad_rows(table))
    rows = decoded(messages, F.col("value"), reader, keep, place_of_message())
    kinds = {c.name: c.type for c in records_columns(table)}
    return rows.select(*(as_variants(c, kinds[c]) if c in payload else F.col(quoted(c)) for c in rows.columns))


def with_lift(keep: Mapping[str, SparkColumn], messages: DataFrame) -> dict[str, SparkColumn]:
    """Returns ``keep`` with LIFT, where messages have it, so that their rows do, too."""
    return {**keep, **({LIFT: F.col(LIFT)} if LIFT in messages.columns else {})}


def _columns_of(rows: DataFrame, columns: tuple[str, ...]) -> list[SparkColumn]:
    extra = present(rows, (BAD, ROW_KIND, LIFT))
    return [F.col(quoted(name)) for name in (*columns, *extra)]


def messages_of_rows(rows: DataFrame, table: Table, values: Mapping[str, Any]) -> DataFrame:
    """Encodes rows as Kafka messages with the columns ``value`` and, if the table names key fields, ``key``, and those
    of its METADATA columns that are written.

    ``values``: the parsed options of the table.
    """
    changes = has_kinds(table)
    apart = {*only_in_keys(table), *table.written_metadata}
    metadata = written_metadata(table)
    payload = rows.select(*(F.col(quoted(name)) for name in rows.columns if name not in apart)) if apart else rows
    by_schema, subject = has_schema(values["format"]), f"{values['topic']}-value"
    if by_schema:
        value = encode_by_schema(payload, table, values, subject)
    elif values["format"] == DEBEZIUM_AVRO:
        value = encode_avro_changes(payload, table, values, subject)
    else:
        value = (encode_changes if changes else encode)(payload, values)
    fields = [value.alias("value")]
    names = key_fields(table)
    if names:
        if table.option(FORMAT) is not None:
            return with_key(rows, fields[0], table, metadata)
        keys = rows.select(*(F.col(quoted(name)) for name in names))
        if by_schema:
            key = encode_by_schema(keys, table, values, f"{values['topic']}-key")
            return rows.select(*fields, key.alias("key"), *metadata)
        fields.append((encode_object if changes else encode)(keys, values).alias("key"))
    return rows.select(*fields, *metadata)


def written_metadata(table: Table) -> list[Column]:
    """Returns expressions for the columns HEADERS and TIME of messages, as far as the table's METADATA columns are
    written. A time zone that a column lacks is the session's.
    """
    sql = {
        HEADERS: f"CAST({{}} AS MAP<STRING, BINARY>) AS {WRITTEN_HEADERS}",
        "timestamp": f"unix_millis(CAST({{}} AS TIMESTAMP)) AS {TIME}",
    }
    return [F.expr(sql[key].format(quoted(name))) for name, key in table.written_metadata.items()]


def rows_by_tasks(
    environment: Environment,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    settings: TopicSettings,
) -> DataFrame | None:
    """Returns the named columns of a table whose messages tasks fetch and decode at once; None where Spark must do a
    part: for changes, keys of a format of their own, and types that no decoder reads.
    """
    metadata = metadata_columns(table, columns)
    payload = tuple(name for name in columns if name not in metadata)
    records = topic_records(environment, table, columns, values)
    if records is None:
        return None
    keys = {c.metadata_key for c in columns_of(table, columns) if c.name in metadata}
    kept = tuple(name for name in FIELDS if name in {METADATA[key][0] for key in keys if key is not None})
    kept = kept if payload or kept else ("offset",)  # rows that are only counted need a column
    watermark = watermark_of_topics(environment, table, values, by_rows=True)
    places = on_spark.kafka_source.ranges_of_topics(
        environment.spark, settings, finished=environment.finished, watermark=watermark
    )
    sizes, lifts = environment.fetched.counter(environment.spark, table.name), watermark is not None
    rows = on_spark.kafka_source.rows_of_topics(places, settings, records, kept, lifts=lifts, sizes=sizes)
    kinds = {c.name: c.type for c in records_columns(table)}
    names = {f.name: f"value{i}" for i, f in enumerate(records.decoder.schema)}
    given = {name: as_variants(names[name], kinds[name]).alias(name) for name in payload}
    bad = map(F.col, present(rows, (BAD, LIFT)))
    return rows.select(*(metadata[name].alias(name) if name in metadata else given[name] for name in columns), *bad)


def topic_records(
    environment: Environment, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> TopicRecords | None:
    """Returns how tasks decode the values of messages into the columns that are no metadata; None where Spark must do a
    part: for changes, keys of a format of their own, and types that no decoder reads.
    """
    if has_kinds(table) or only_in_keys(table):
        return None
    payload = tuple(c.name for c in columns_of(table, columns) if c.physical)
    zone = str(environment.spark.conf.get("spark.sql.session.timeZone"))
    decoder = decoder_of(table, payload, values, zone, all_columns=True)
    if decoder is None:
        return None
    form = values["format"]
    return TopicRecords(decoder, tolerates_bad_rows(table), skips_blank=form == "json", keeps_null=form == "raw")


def fields_of_columns(table: Table, columns: tuple[str, ...]) -> dict[str, str] | None:
    """Returns a dictionary from the columns that are metadata to the fields of messages
    (``udfs.kafka.fetched.FIELDS``); None where Spark must convert one to another type than Kafka's own, or take it from
    the value of the message.
    """
    chosen = columns_of(table, columns)
    if any(of_message(table, c) is not None for c in chosen):
        return None
    metadata = [(c, METADATA[c.metadata_key]) for c in chosen if c.metadata_key is not None]
    converts = any(column.type != kind or column.metadata_key == HEADERS for column, (_, kind) in metadata)
    return None if converts else {column.name: field for column, (field, _) in metadata}


def topic_format(
    environment: Environment,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    settings: TopicSettings,
) -> TopicFormat:
    """Returns how tasks read the named columns of a table as columns of Arrow, of which Spark need do no part."""
    records, fields = topic_records(environment, table, columns, values), fields_of_columns(table, columns)
    assert records is not None and fields is not None, table.name
    needed = {"value", "topic", "partition", "offset", *fields.values()}
    given, sizes = tuple(f for f in FIELDS if f in needed), environment.fetched.counter(environment.spark, table.name)
    fetched = FetchedMessages(settings.properties, given, settings.skips_lost, sizes)
    watermark = watermark_of_topics(environment, table, values, by_rows=False)
    return TopicFormat(fetched, records, fields, watermark is not None)


# --- keys in a format of their own ----------------------------------------------------------------------------

_KEY_TEXT, _KEY_PLACE, _REST = "__key_text", "__key_place", "__rest"


def with_key(rows: DataFrame, value: SparkColumn, table: Table, metadata: Sequence[SparkColumn] = ()) -> DataFrame:
    """Returns messages with the columns ``value`` and ``metadata``, as given, and the column ``key``: the key fields of
    each row in the key format.
    """
    # Two steps: columns of the key may have the names of others.
    keys = [F.col(quoted(name)).alias(name_in_key(table, name)) for name in key_fields(table)]
    rest = F.struct(value.alias("value"), *metadata)
    made = rows.select(rest.alias(_REST), *keys)
    values, names = key_values(table), made.drop(_REST)
    if has_schema(values["format"]):
        key = encode_by_schema(names, table_of_keys(table), values, f"{table.option('topic')}-key")
    else:
        key = encode(names, values)
    return made.select(key.alias("key"), F.col(f"{_REST}.*"))


def with_key_text(
    keep: Mapping[str, SparkColumn], place: SparkColumn, where: SparkColumn | None = None
) -> dict[str, SparkColumn]:
    """Returns ``keep``, the columns that ``decode`` passes on, with two more that ``with_keys`` needs: the message key,
    and ``place``, the position of the message. ``where``: of which messages the key is looked at.
    """
    key = F.col("key") if where is None else F.when(where, F.col("key"))
    return {**keep, _KEY_TEXT: key, _KEY_PLACE: place}


def with_keys(rows: DataFrame, table: Table, columns: tuple[str, ...], *, in_values: tuple[str, ...] = ()) -> DataFrame:
    """Decodes the message keys and adds their columns to rows whose values are decoded. For a message without key they
    are NULL, or as ``rows`` have them where they are among ``in_values``.

    If the key cannot be decoded, the row is a bad row, and BAD holds the key.
    """
    keys, values = table_of_keys(table), key_values(table)
    names = tuple(c.name for c in keys.columns)
    # All other columns are in a struct, because a column of the key may have the name of another one.
    rest = F.struct(*(F.col(quoted(name)) for name in rows.columns))
    place, kept = F.col(f"{_REST}.{_KEY_PLACE}"), {_REST: F.col(_REST)}
    if has_schema(values["format"]):
        zone = str(rows.sparkSession.conf.get("spark.sql.session.timeZone"))
        decoder = decoder_of(keys, names, values, zone, all_columns=True)
        assert decoder is not None, "a format with a schema"
        reader = MessageRows(OptionalRecords(decoder), tolerates_bad_rows(keys))
        read = decoded(rows.select(rest.alias(_REST), F.col(_KEY_TEXT)), F.col(_KEY_TEXT), reader, kept, place)
    else:
        text = F.coalesce(F.col(_KEY_TEXT).cast("string"), F.lit(text_of_nulls(keys, values)))
        read = decode(
            rows.select(rest.alias(_REST), text.alias(_KEY_TEXT)), _KEY_TEXT, keys, names, values, kept, place
        )
    has_key = F.col(f"{_REST}.{_KEY_TEXT}").isNotNull()
    fields = {}
    for name in key_fields(table):
        of_key = F.when(has_key, F.col(quoted(name_in_key(table, name))))
        fields[name] = of_key.otherwise(F.col(f"{_REST}.{quoted(name)}")) if name in in_values else of_key
    own = (*columns, LIFT) if LIFT in rows.columns else columns
    result = [fields.get(name, F.col(f"{_REST}.{quoted(name)}")).alias(name) for name in own]
    in_value = F.col(f"{_REST}.{BAD}") if BAD in rows.columns else None
    if BAD not in read.columns:
        return read.select(*result, *([] if in_value is None else [in_value.alias(BAD)]))
    in_key, unread = F.col(BAD), F.col(f"{BAD}.error").isNotNull()
    if table.option(ON_ERROR) is None:  # keys that are no record are dropped: key.json.ignore-parse-errors
        return read.where(~unread).select(*result, *([] if in_value is None else [in_value.alias(BAD)]))
    if in_value is None:
        return read.select(*result, in_key)
    bad = F.when(in_value.getField("error").isNull() & unread, in_key).otherwise(in_value)
    return read.select(*result, bad.alias(BAD))


def text_of_nulls(table: Table, values: Mapping[str, Any]) -> str | None:
    """The text of a record of csv or json whose columns are all NULL; None for other formats. An empty line is no
    record of Spark's CSV: where it would be one column, the text has some value of its type.
    """
    columns = records_columns(table)
    if values["format"] == "csv":
        null = values["csv.null-literal"] or ""
        text = str(values["csv.field-delimiter"]).join([null] * len(columns))
        return text or _SOME_VALUE.get(columns[0].type.name, "0")
    return json.dumps(dict.fromkeys(c.name for c in columns)) if values["format"] == "json" else None


_SOME_VALUE = {
    "STRING": "x", "BOOLEAN": "true", "DATE": "2000-01-01", "TIMESTAMP": "2000-01-01 00:00:00",
    "TIMESTAMP_NTZ": "2000-01-01 00:00:00", "TIME": "00:00:00",
}  # fmt: skip
