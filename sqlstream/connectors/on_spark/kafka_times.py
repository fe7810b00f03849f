"""Where the event time of a message of a topic is: in its value or its key, in the envelope of a change, or its own.

The source of a topic reads it there to know how far each partition is, also where Spark decodes the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from sqlglot import exp

from sqlstream.connectors.change_formats import ChangeFormat, Instant, Metadata, change_format, of_message
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.kafka.messages import HEADERS, METADATA, table_of_values
from sqlstream.connectors.on_spark.change_messages import change_decoder, envelope_column
from sqlstream.connectors.on_spark.decoders import session_zone
from sqlstream.connectors.on_spark.topic_records import topic_records, upsert_records
from sqlstream.connectors.table_options import idle_timeout_ms
from sqlstream.options import wrong_pattern
from sqlstream.planner.catalog import Column, Table
from sqlstream.sources.kafka.ranges import TopicWatermark
from sqlstream.types import DataType
from sqlstream.udfs.kafka.records import TopicRecords
from sqlstream.udfs.kafka.times import TopicTimes

_UPSERTS = "upsert-kafka"
_VALUE_ITSELF = Instant("")


def watermark_of_topics(
    environment: Environment, table: Table, values: Mapping[str, Any], *, by_rows: bool
) -> TopicWatermark | None:
    """Returns how the source finds the watermark of a table from those of its partitions; None where rows move it: if
    no decoder of tasks reads the event time, or it is computed otherwise than from a whole number or a text; and if no
    operator waits for it. ``values``: the parsed options of the table. ``by_rows``: as of ``TopicWatermark``.
    """
    mark = table.watermark
    if mark is None or mark.expression is not None or environment.finished or table.name not in environment.timed:
        return None
    column = next(c for c in table.columns if c.name == mark.column)
    counted, spelled = counted_time(table, column), spelled_time(table, column)
    is_computed = column.expression is not None
    if column.type.name != "TIMESTAMP" or (is_computed and counted is None and spelled is None):
        return None
    name, unit = counted or (spelled or column.name, None)
    times = _times(environment.spark, table, next(c for c in table.columns if c.name == name), values)
    if times is None:
        return None
    times = times if unit is None else replace(times, unit=unit)
    times = times if spelled is None else replace(times, zone=session_zone(environment.spark))
    idle_ms = idle_timeout_ms(table, environment.idle_timeout_ms)
    return TopicWatermark(times, idle_ms, table.name if by_rows else None)


def _times(spark: SparkSession, table: Table, column: Column, values: Mapping[str, Any]) -> TopicTimes | None:
    """Where a column that the table does not compute is in messages."""
    form = change_format(table)
    metadata = of_message(table, column)
    if column.metadata_key is not None and metadata is None:
        field, kind = METADATA[column.metadata_key]
        return None if field == HEADERS or kind != column.type else TopicTimes(None, part=field)
    if form is not None:
        return _of_changes(form, table, column, metadata, values, session_zone(spark))
    if table.connector == _UPSERTS:
        records: TopicRecords | None = upsert_records(spark, table, (column.name,))
    else:
        records = topic_records(spark, table, (column.name,), values)
    # A message that cannot be read moves nothing; the task that reads it says so.
    return None if records is None else TopicTimes(records.tolerating(), column.name)


def _of_changes(
    form: ChangeFormat,
    table: Table,
    column: Column,
    metadata: Metadata | None,
    values: Mapping[str, Any],
    zone: str,
) -> TopicTimes | None:
    """Where a column of a change is: among those of the row, or ``metadata`` of its envelope. Messages of other tables,
    which options leave out, do not count.
    """
    patterns = {field: values[form.key(key)] for key, field in form.include.items()}
    only = {field: pattern for field, pattern in patterns.items() if pattern is not None}
    instant = _VALUE_ITSELF if metadata is None else metadata.instant
    if (
        instant is None
        or (metadata is not None and metadata.type != column.type)
        or any(map(wrong_pattern, only.values()))
    ):
        return None
    read = [Metadata(field, "STRING", DataType("STRING")) for field in only]
    if metadata is not None:
        read.append(replace(metadata, read=instant.read))
    columns = (column.name,) if metadata is None else ()
    decoder = change_decoder(form, table_of_values(table), columns, values, zone, read)
    return TopicTimes(
        TopicRecords(decoder, tolerant=True),
        column.name if metadata is None else envelope_column(metadata.path),
        unit=instant.unit,
        member=instant.member,
        only=tuple((envelope_column(field), pattern) for field, pattern in only.items()),
    )


_UNITS = {"TIMESTAMP_SECONDS": 1_000_000, "TIMESTAMP_MILLIS": 1000, "TIMESTAMP_MICROS": 1}
"""Functions that make a time of a number, with the microseconds that it counts; TO_TIMESTAMP_LTZ is one of them."""
_WHOLE = ("BIGINT", "INT", "SMALLINT", "TINYINT")


def counted_time(table: Table, column: Column) -> tuple[str, int] | None:
    """Returns the column of whole numbers that an event time is computed from, and the microseconds that they count;
    None for other event times.
    """
    match column.expression:
        case exp.Anonymous(this=str(function), expressions=[exp.Column(this=exp.Identifier(this=name))]):
            numbers = next((c for c in table.columns if c.name == name and c.physical), None)
            if function.upper() in _UNITS and numbers is not None and numbers.type.name in _WHOLE:
                return numbers.name, _UNITS[function.upper()]
    return None


def spelled_time(table: Table, column: Column) -> str | None:
    """Returns the column of texts that an event time is converted from: by a cast, or by TO_TIMESTAMP without a format.
    None for other event times.
    """
    match column.expression:
        case exp.Cast(this=exp.Column(this=exp.Identifier(this=name))):
            pass
        case exp.Anonymous(this=str(function), expressions=[exp.Column(this=exp.Identifier(this=name))]):
            if function.upper() != "TO_TIMESTAMP":
                return None
        case _:
            return None
    is_text = any(c.name == name and c.physical and c.type.name == "STRING" for c in table.columns)
    return name if is_text else None
