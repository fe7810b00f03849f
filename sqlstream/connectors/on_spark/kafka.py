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

from sqlstream.connectors.change_formats import has_kinds, of_message
from sqlstream.connectors.connector import MISSING_JAR, columns_of
from sqlstream.connectors.environment import LATENCIES, LATENCY_METRIC
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
    value_values,
    values_of_upserts,
    with_key_fields,
)
from sqlstream.connectors.on_spark.change_messages import decode_changes, encode_avro_changes, encode_changes
from sqlstream.connectors.on_spark.encoders import encode_by_schema
from sqlstream.connectors.on_spark.records import decode, encode, encode_object
from sqlstream.connectors.schema_formats import DEBEZIUM_AVRO, has_schema
from sqlstream.errors import ConnectorError
from sqlstream.planner.bad_rows import ON_ERROR
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.planner.lowering.hidden_columns import present
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kafka.fetched import FIELDS
from sqlstream.udfs.kafka.produce import HEADERS as WRITTEN_HEADERS
from sqlstream.udfs.kafka.produce import TIME
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lifts import LIFT

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
    return tuple(name for name in FIELDS if name in needed)


# --- reading --------------------------------------------------------------------------------------------------


def rows_of_changes(
    messages: DataFrame, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> DataFrame:
    """Decodes messages of changes, which have Spark's columns (value, key, topic and so on), into the named columns of
    the table and ROW_KIND. ``values``: the parsed options of the table.
    """
    texts = messages if values["format"] == DEBEZIUM_AVRO else _texts(messages)
    keep = _with_lift(metadata_columns(table, columns), messages)
    payload = tuple(name for name in columns if name not in keep)
    rows = decode_changes(texts, "value", table_of_values(table), payload, values, keep, place_of_message())
    return rows.select(*_columns_of(rows, columns))


def rows_by_java(messages: DataFrame, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]) -> DataFrame:
    """Decodes messages of json, csv or raw as ``rows_of_changes``, by functions of Spark: in real-time mode, which
    calls no Python, and VARIANT in CSV, which no decoder of tasks reads.
    """
    keep, in_key = metadata_columns(table, columns), only_in_keys(table)
    payload = tuple(name for name in columns if name not in keep and name not in in_key)
    if in_key:
        keep |= {_KEY: F.col("key"), _KEY_PLACE: place_of_message()}
    keep = _with_lift(keep, messages)
    in_bytes = values["format"] == "raw" and any(c.type.name == "BINARY" for c in columns_of(table, payload))
    texts = messages if in_bytes else _texts(messages)
    if values["format"] != "raw":  # as Flink, which takes a message without value, and an empty one of JSON, for none
        texts = texts.where(F.trim("value") != "" if values["format"] == "json" else F.col("value").isNotNull())
    rows = decode(texts, "value", table_of_values(table), payload, values, keep, place_of_message())
    return _with_keys(rows, table, columns) if in_key else rows.select(*_columns_of(rows, columns))


def _texts(messages: DataFrame) -> DataFrame:
    return messages.withColumn("value", F.col("value").cast("string"))


def _with_lift(keep: Mapping[str, SparkColumn], messages: DataFrame) -> dict[str, SparkColumn]:
    """Returns ``keep`` with LIFT, where messages have it, so that their rows do, too."""
    return {**keep, **({LIFT: F.col(LIFT)} if LIFT in messages.columns else {})}


def _columns_of(rows: DataFrame, columns: tuple[str, ...]) -> list[SparkColumn]:
    extra = present(rows, (BAD, ROW_KIND, LIFT))
    return [F.col(quoted(name)) for name in (*columns, *extra)]


# --- writing --------------------------------------------------------------------------------------------------

_GONE = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)


def messages_of_rows(rows: DataFrame, table: Table, values: Mapping[str, Any]) -> DataFrame:
    """Encodes rows as Kafka messages with the columns ``value`` and, if the table names key fields, ``key``, and those
    of its METADATA columns that are written.

    ``values``: the parsed options of the table.
    """
    changes = has_kinds(table)
    apart = {*only_in_keys(table), *table.written_metadata}
    metadata = _written_metadata(table)
    payload = rows.select(*(F.col(quoted(name)) for name in rows.columns if name not in apart)) if apart else rows
    by_schema, subject = has_schema(values["format"]), f"{values['topic']}-value"
    if by_schema:
        value = encode_by_schema(payload, table, values, subject)
    elif values["format"] == DEBEZIUM_AVRO:
        value = encode_avro_changes(payload, table, values, subject)
    else:
        value = encode_changes(payload, values) if changes else encode(payload, values, table.name)
    fields = [value.alias("value")]
    names = key_fields(table)
    if names:
        if table.option(FORMAT) is not None:
            return _with_key(rows, fields[0], table, metadata)
        keys = rows.select(*(F.col(quoted(name)) for name in names))
        if by_schema:
            key = encode_by_schema(keys, table, values, f"{values['topic']}-key")
            return rows.select(*fields, key.alias("key"), *metadata)
        key = encode_object(keys, values) if changes else encode(keys, values, table.name)
        fields.append(key.alias("key"))
    return rows.select(*fields, *metadata)


def messages_of_upserts(rows: DataFrame, table: Table, *, by_key: bool = True) -> DataFrame:
    """Encodes each change as a message, those of a key in order. The value of -D and -U is NULL; after -U another
    message of the key may follow. ``by_key``: all changes of a key are put into one task, which sends them in order.
    """
    keyed, values = with_key_fields(table), value_values(table)
    together = rows.repartition(*(F.col(quoted(name)) for name in table.primary_key)) if by_key else rows
    apart = {*only_in_keys(keyed), *table.written_metadata}
    names = (c.name for c in table.physical_columns if c.name not in apart)
    payload = together.select(*(F.col(quoted(name)) for name in names))
    stays = ~F.col(ROW_KIND).isin(*_GONE) if ROW_KIND in rows.columns else None
    if has_schema(values["format"]):
        row = encode_by_schema(payload, values_of_upserts(table), values, f"{values['topic']}-value", stays)
    else:
        row = encode(payload, values, table.name)
        row = row if stays is None else F.when(stays, row)
    return _with_key(together, row, keyed, _written_metadata(table))


def _written_metadata(table: Table) -> list[Column]:
    """Returns expressions for the columns HEADERS and TIME of messages, as far as the table's METADATA columns are
    written. A time zone that a column lacks is the session's.
    """
    sql = {
        HEADERS: f"CAST({{}} AS MAP<STRING, BINARY>) AS {WRITTEN_HEADERS}",
        "timestamp": f"unix_millis(CAST({{}} AS TIMESTAMP)) AS {TIME}",
    }
    return [F.expr(sql[key].format(quoted(name))) for name, key in table.written_metadata.items()]


# --- keys in a format of their own ----------------------------------------------------------------------------

_KEY, _KEY_PLACE, _REST = "__key", "__key_place", "__rest"


def _with_key(rows: DataFrame, value: SparkColumn, table: Table, metadata: Sequence[SparkColumn] = ()) -> DataFrame:
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
        key = encode(names, values, table.name)
    return made.select(key.alias("key"), F.col(f"{_REST}.*"))


def _with_keys(rows: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """Decodes the message keys by functions of Spark and adds their columns to rows whose values are decoded. For a
    message without key they are NULL.

    If the key cannot be decoded, the row is a bad row, and BAD holds the key.
    """
    keys, values = table_of_keys(table), key_values(table)
    names = tuple(c.name for c in keys.columns)
    # All other columns are in a struct, because a column of the key may have the name of another one.
    rest = F.struct(*(F.col(quoted(name)) for name in rows.columns)).alias(_REST)
    text = F.coalesce(F.col(_KEY).cast("string"), F.lit(_text_of_nulls(keys, values))).alias(_KEY)
    if values["format"] == "raw":
        text = F.col(_KEY).cast(keys.columns[0].type.ddl())
    place, kept = F.col(f"{_REST}.{_KEY_PLACE}"), {_REST: F.col(_REST)}
    read = decode(rows.select(rest, text), _KEY, keys, names, values, kept, place)
    has_key = F.col(f"{_REST}.{_KEY}").isNotNull()
    fields = {name: F.when(has_key, F.col(quoted(name_in_key(table, name)))) for name in key_fields(table)}
    result = [fields.get(name, F.col(f"{_REST}.{quoted(name)}")).alias(name) for name in columns]
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


def _text_of_nulls(table: Table, values: Mapping[str, Any]) -> str | None:
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
