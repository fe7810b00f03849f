"""Messages of ``upsert-kafka`` as changes of rows, and changes as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.formats import quoted, reading, schema_ddl, writing
from sqlstream.connectors.kafka.messages import (
    KEY,
    VALUE,
    key_values,
    keys_of_upserts,
    only_in_keys,
    value_values,
    values_of_upserts,
    with_key_fields,
)
from sqlstream.connectors.on_spark.encoders import encode_by_schema
from sqlstream.connectors.on_spark.kafka import (
    metadata_columns,
    place_of_message,
    rows_of_bytes,
    text_of_nulls,
    with_key,
    with_key_text,
    with_keys,
    with_lift,
    written_metadata,
)
from sqlstream.connectors.on_spark.records import decode, encode
from sqlstream.connectors.schema_formats import has_schema
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.planner.lowering.hidden_columns import present
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.exchange import LIFT
from sqlstream.udfs.kernel import ROW_KIND

_GONE = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
_TEXT = "__row_text"


# --- reading --------------------------------------------------------------------------------------------------


def rows_of_upserts(messages: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """Decodes messages of an upsert topic into the named columns and ROW_KIND. A -D row has values only in its key
    columns.
    """
    kind = F.when(F.col("value").isNull(), RowKind.DELETE.value).otherwise(RowKind.UPDATE_AFTER.value)
    keep = with_lift({**metadata_columns(table, columns), ROW_KIND: kind}, messages)
    values = value_values(table)
    if _is_plain(table, values):
        return _of_plain_json(messages, table, columns, keep, values)
    keyed, of_values, place = with_key_fields(table), values_of_upserts(table), place_of_message()
    apart = only_in_keys(keyed)
    payload = tuple(name for name in columns if name not in keep and name not in apart)
    # Keys of messages with all columns in their values are read only where there is no value.
    keep = with_key_text(keep, place, None if apart else F.col("value").isNull())
    if has_schema(values["format"]):
        rows = rows_of_bytes(messages, of_values, payload, values, keep, optional=True)
    else:
        text = F.col("value").cast("string")
        nothing = text_of_nulls(of_values, values)
        texts = messages.withColumn(_TEXT, text if nothing is None else F.coalesce(text, F.lit(nothing)))
        rows = decode(texts, _TEXT, of_values, payload, values, keep, place)
        given = {name: F.when(F.col(ROW_KIND) != RowKind.DELETE.value, F.col(quoted(name))) for name in payload}
        rows = rows.withColumns(given) if values["format"] == "csv" and given else rows
    in_values = tuple(name for name in payload if name in table.primary_key)
    return with_keys(rows, keyed, (*columns, ROW_KIND), in_values=in_values)


def _is_plain(table: Table, values: Mapping[str, Any]) -> bool:
    """True where values have all columns as JSON, and keys can be made JSON of that kind, so that both are read in one
    step.
    """
    json_options = any(key.startswith((f"{KEY}json.", f"{VALUE}json.")) for key, _ in table.options)
    of_key = key_values(table)["format"]
    apart = only_in_keys(with_key_fields(table))
    return values["format"] == "json" and of_key in ("json", "csv") and not json_options and not apart


def _of_plain_json(
    messages: DataFrame,
    table: Table,
    columns: tuple[str, ...],
    keep: Mapping[str, SparkColumn],
    values: Mapping[str, Any],
) -> DataFrame:
    texts = messages.withColumn(_TEXT, F.coalesce(F.col("value").cast("string"), _key_text(table, values)))
    payload = tuple(name for name in columns if name not in keep)
    rows = decode(texts, _TEXT, table, payload, values, keep, place_of_message())
    extra = present(rows, (BAD, ROW_KIND, LIFT))
    return rows.select(*(F.col(quoted(name)) for name in (*columns, *extra)))


def _key_text(table: Table, values: Mapping[str, Any]) -> SparkColumn:
    """The key as a JSON object. Unreadable fields of CSV become NULL, which a PRIMARY KEY does not allow."""
    text, of_key = F.col("key").cast("string"), key_values(table)
    if of_key["format"] == "json":
        return text
    row = F.from_csv(text, schema_ddl(keys_of_upserts(table).columns), reading(of_key))
    return F.to_json(row, writing(values))


# --- writing --------------------------------------------------------------------------------------------------


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
        row = encode(payload, values)
        row = row if stays is None else F.when(stays, row)
    return with_key(together, row, keyed, written_metadata(table))
