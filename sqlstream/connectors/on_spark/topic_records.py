"""How tasks decode messages of topics: values and keys, by the options of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from sqlstream.connectors.change_formats import has_kinds
from sqlstream.connectors.connector import columns_of
from sqlstream.connectors.kafka.messages import (
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
from sqlstream.connectors.on_spark.decoders import decoder_of, session_zone
from sqlstream.formats.decoder import OptionalRecords
from sqlstream.planner.bad_rows import ON_ERROR, BadAction, action_of, checked_columns, tolerates_bad_rows
from sqlstream.planner.catalog import Table
from sqlstream.udfs.kafka.records import KeyRecords, TopicRecords


def topic_records(
    spark: SparkSession, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> TopicRecords | None:
    """Returns how tasks decode messages into those of the named columns that are no metadata; None where Spark must do
    a part: for changes, and VARIANT in CSV. ``values``: the parsed options of the table.
    """
    if has_kinds(table):
        return None
    zone, physical = session_zone(spark), _physical(table, columns)
    decoder = decoder_of(table_of_values(table), physical, values, zone, all_columns=True)
    if decoder is None:
        return None
    form = values["format"]
    return TopicRecords(
        OptionalRecords(decoder) if form == "raw" else decoder,  # a message without a value is a row, as in Flink
        tolerates_bad_rows(table),
        skips_blank=form == "json",
        placed=_is_placed(table),
        keys=_keys(table, physical, zone) if only_in_keys(table) else None,
    )


def upsert_records(spark: SparkSession, table: Table, columns: tuple[str, ...]) -> TopicRecords:
    """Returns how tasks decode messages of ``upsert-kafka`` into those of the named columns that are no metadata."""
    keyed, of_values, values = with_key_fields(table), values_of_upserts(table), value_values(table)
    zone, physical = session_zone(spark), _physical(table, columns)
    decoder = decoder_of(of_values, physical, values, zone, all_columns=True)
    assert decoder is not None, "checked with the table"
    return TopicRecords(
        OptionalRecords(decoder),
        tolerates_bad_rows(of_values),
        skips_blank=values["format"] == "json",
        placed=_is_placed(table),
        keys=_keys(keyed, physical, zone, of_deletes=not only_in_keys(keyed)),
        upserts=True,
    )


def _is_placed(table: Table) -> bool:
    """Whether dead letters may be rows that could be read, and lack a value or a time."""
    checked = bool(checked_columns(table)) or table.watermark is not None
    return checked and action_of(table)[0] is BadAction.DEAD_LETTER


def _physical(table: Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(c.name for c in columns_of(table, columns) if c.physical)


def _keys(table: Table, columns: tuple[str, ...], zone: str, *, of_deletes: bool = False) -> KeyRecords:
    """How the named columns are read from keys, by the options of their format, or else by ``on-error``."""
    keys, names = table_of_keys(table), tuple(name for name in key_fields(table) if name in columns)
    own = tuple(name_in_key(table, name) for name in names)
    decoder = decoder_of(keys, own, key_values(table), zone, all_columns=True, arrays=False)
    assert decoder is not None, "checked with the table"
    tolerant, by_table = tolerates_bad_rows(keys), table.option(ON_ERROR) is not None
    return KeyRecords(
        OptionalRecords(decoder), names, tolerant and by_table, drops=tolerant and not by_table, of_deletes=of_deletes
    )
