"""Rows of topics whose messages tasks decode: within the exchange, at once as they fetch them, or as they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors import on_spark
from sqlstream.connectors.change_formats import of_message
from sqlstream.connectors.connector import columns_of
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import records_columns
from sqlstream.connectors.kafka.messages import HEADERS, METADATA
from sqlstream.connectors.on_spark.kafka_times import watermark_of_topics
from sqlstream.connectors.on_spark.messages import as_variants
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.planner.lowering.hidden_columns import present
from sqlstream.sources.kafka.offsets import TopicSettings
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kafka.fetch import FetchedMessages
from sqlstream.udfs.kafka.fetched import FIELDS
from sqlstream.udfs.kafka.records import RowsOfMessages, TopicRecords
from sqlstream.udfs.kafka.rows import TopicFormat
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lifts import LIFT
from sqlstream.udfs.spark.batches import rows_of


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
    records: TopicRecords,
) -> TopicFormat:
    """Returns how tasks read the named columns of a table as columns of Arrow, of which Spark need do no part."""
    fields = fields_of_columns(table, columns)
    assert fields is not None, table.name
    needed = {*records.fields, *fields.values()}
    given, sizes = tuple(f for f in FIELDS if f in needed), environment.fetched.counter(environment.spark, table.name)
    fetched = FetchedMessages(settings.properties, given, settings.skips_lost, sizes)
    watermark = watermark_of_topics(environment, table, values, by_rows=False)
    return TopicFormat(fetched, records, fields, watermark is not None)


def fetched_rows(
    environment: Environment,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    settings: TopicSettings,
    records: TopicRecords,
) -> DataFrame:
    """Returns the named columns of a table whose messages tasks fetch and decode at once, and the hidden ones of
    ``Source.read``. ``values``: the parsed options of the table.
    """
    reader = RowsOfMessages(records, _kept(table, columns))
    rows = on_spark.kafka_source.rows_of_topics(
        environment.spark,
        settings,
        tuple(name for name in FIELDS if name in {*records.fields, *reader.kept}),
        reader,
        finished=environment.finished,
        watermark=watermark_of_topics(environment, table, values, by_rows=True),
        sizes=environment.fetched.counter(environment.spark, table.name),
    )
    return _chosen(rows, table, columns, reader)


def rows_of_messages(messages: DataFrame, table: Table, columns: tuple[str, ...], records: TopicRecords) -> DataFrame:
    """Returns the named columns of a table, and the hidden ones of ``Source.read``. ``messages``: those of the table,
    with the columns of Spark's connector.
    """
    reader = RowsOfMessages(records, _kept(table, columns))
    given = messages.select(*sorted({*records.fields, *reader.kept}))
    return _chosen(given.mapInArrow(rows_of(reader), reader.ddl), table, columns, reader)


def _kept(table: Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of messages from which metadata is made; one of them where no column is read: rows that are only
    counted need it.
    """
    keys = {c.metadata_key for c in columns_of(table, columns)}
    kept = tuple(name for name in FIELDS if name in {METADATA[key][0] for key in keys if key is not None})
    return kept if columns else ("offset",)


def _chosen(rows: DataFrame, table: Table, columns: tuple[str, ...], reader: RowsOfMessages) -> DataFrame:
    """The named columns of rows that tasks have decoded."""
    metadata = on_spark.kafka.metadata_columns(table, columns)
    kinds = {c.name: c.type for c in records_columns(table)}
    names = dict(zip(reader.records.schema.names, reader.names, strict=True))

    def column(name: str) -> SparkColumn:
        return (metadata[name] if name in metadata else as_variants(names[name], kinds[name])).alias(name)

    hidden = [F.col(name) for name in present(rows, (BAD, LIFT))]
    if reader.records.upserts:  # a message that cannot be read changes no row, but stands in one
        hidden.append(F.coalesce(F.col(ROW_KIND), F.lit(RowKind.INSERT.value)).alias(ROW_KIND))
    return rows.select(*map(column, columns), *hidden)
