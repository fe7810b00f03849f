"""Change messages to rows with kinds, decoded by tasks, and back, by functions of Spark, or by tasks as Avro.

A message without text is a tombstone, which is skipped. What is in the others: ``formats.changes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.change_formats import (
    CHANGE_FORMATS,
    ChangeFormat,
    Metadata,
    Operation,
    change_format,
    of_message,
)
from sqlstream.connectors.formats import quoted, records_columns, writing
from sqlstream.connectors.on_spark.decoders import session_zone
from sqlstream.connectors.on_spark.encoders import encoded_by, message_encoder
from sqlstream.connectors.on_spark.messages import as_variants, decoded
from sqlstream.connectors.on_spark.records import json_columns
from sqlstream.connectors.schema_formats import DEBEZIUM_AVRO, registry_of
from sqlstream.formats import changes
from sqlstream.formats.changes import ChangeDecoder, Envelope
from sqlstream.formats.decoder import Field
from sqlstream.formats.json_records import with_raw_json
from sqlstream.formats.registered import RegisteredAvro
from sqlstream.planner.bad_rows import tolerates_bad_rows
from sqlstream.planner.catalog import Column, RowKind, Table
from sqlstream.types import STRING, DataType, parse_type
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.messages import MessageRows

_DEBEZIUM = "debezium-json"
_CODES = {
    Operation.INSERT: changes.INSERT,
    Operation.UPDATE: changes.UPDATE,
    Operation.DELETE: changes.DELETE,
    Operation.SKIPPED: changes.SKIPPED,
}


def decode_changes(
    messages: DataFrame,
    value: str,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    keep: Mapping[str, SparkColumn],
    position: SparkColumn | None,
    *,
    of_files: bool = False,
) -> DataFrame:
    """Decodes change messages, such as Debezium's, into rows with the named columns and ROW_KIND. An update gives two
    rows.

    ``value``: the column of ``messages`` with their text. ``values``: the parsed options of the table. ``keep``:
    further columns of the result, by name, as expressions over ``messages``. ``position``: where a message is in the
    source, for errors; ``of_files``: it is the URL of a file. If the table tolerates bad rows, the result has the
    column BAD.
    """
    form = change_format(table)
    assert form is not None, "a table of changes"
    zone = session_zone(messages.sparkSession)
    metadata = {c.name: m for c in table.columns if (m := of_message(table, c)) is not None}
    decoder = change_decoder(form, table, columns, values, zone, metadata.values())
    if form.name == DEBEZIUM_AVRO:
        texts = messages.where(F.length(value) > 0)
    else:
        texts = messages.where(~F.col(value).rlike(r"^\s*$") & _included(form, F.col(value), values))
    reader = MessageRows(decoder, tolerates_bad_rows(table), of_files=of_files)
    rows = decoded(texts, F.col(value), reader, keep, position)
    kinds = {c.name: c.type for c in table.columns}

    def column(name: str) -> SparkColumn:
        if name in metadata:
            return _metadata(metadata[name]).cast(kinds[name].ddl()).alias(name)
        return as_variants(name, kinds[name]).alias(name)

    # A message that cannot be read changes no row, but stands in one.
    kind = F.coalesce(F.col(ROW_KIND), F.lit(RowKind.INSERT.value)).alias(ROW_KIND)
    bad = [F.col(BAD)] if reader.tolerant else []
    return rows.select(*map(column, columns), *(F.col(quoted(name)) for name in keep), *bad, kind)


def change_decoder(
    form: ChangeFormat,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    zone: str,
    metadata: Iterable[Metadata] = (),
) -> ChangeDecoder:
    """Returns the decoder of the messages of a table. ``metadata``: the fields of the envelope that columns hold."""
    nested = bool(values.get(form.key("schema-include")))
    debezium = form.name == _DEBEZIUM
    fields = tuple(Field(c.name, with_raw_json(c.type), c.name in columns) for c in records_columns(table))
    envelope = Envelope(
        form.operation,
        tuple((word, _CODES[meant]) for word, meant in form.operations.items()),
        form.after,
        form.before,
        form.lists,
        form.old,
        form.ddl,
        nested,
        " (schema-include says whether it is within a payload)" if debezium else "",
        ", and neither a schema nor debezium-json.time-unit fits it" if debezium else "",
        _UNAVAILABLE if debezium or form.name == DEBEZIUM_AVRO else None,
    )
    paths = {m.path: m.read for m in metadata}
    return ChangeDecoder(
        fields,
        envelope,
        ROW_KIND,
        tuple((envelope_column(path), Field(path, parse_type(read))) for path, read in paths.items()),
        RowKind.UPDATE_BEFORE in table.changelog,
        bool(values.get(form.key("ignore-parse-errors"))),
        values.get(form.key("timestamp-format.standard")),
        zone,
        debezium and nested,
        values.get(form.key("time-unit")),
        _avro_envelope(form, fields, values) if form.name == DEBEZIUM_AVRO else None,
    )


_UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's text for a value that is unchanged and that the database does not log, its default one."""


def _avro_envelope(form: ChangeFormat, fields: tuple[Field, ...], values: Mapping[str, Any]) -> RegisteredAvro:
    row = DataType("STRUCT", tuple((f.name, f.type) for f in fields))
    envelope = (Field(form.before, row), Field(form.after, row), Field(form.operation, STRING))
    return RegisteredAvro(envelope, registry_of(values))


def envelope_column(path: str) -> str:
    """The name of the column that ``change_decoder`` gives to a field of the envelope."""
    return f"__envelope_{path}"


def _metadata(metadata: Metadata) -> SparkColumn:
    return F.expr(metadata.sql.format(quoted(envelope_column(metadata.path))))


def _included(form: ChangeFormat, text: SparkColumn, values: Mapping[str, Any]) -> SparkColumn:
    """False for messages of databases and tables that the options leave out: other rows are in them."""
    patterns = ((values[form.key(key)], name) for key, name in form.include.items())
    conditions = [
        F.coalesce(F.rlike(F.get_json_object(text, f"$.{name}"), F.lit(rf"^(?:{pattern})\z")), F.lit(True))
        for pattern, name in patterns
        if pattern is not None
    ]
    return reduce(and_, conditions, F.lit(True))


# --- writing --------------------------------------------------------------------------------------------------


def encode_changes(rows: DataFrame, values: Mapping[str, Any]) -> SparkColumn:
    """Returns an expression that encodes each row as one change message. Without the column ROW_KIND all rows are
    inserts. ``values``: the parsed options of the table.

    As in Flink, +U is written as an insert and -U as a delete, because a message has no link to the other half.
    """
    row = F.struct(*json_columns(rows.drop(ROW_KIND), values))
    return F.to_json(F.struct(*_envelope(rows, row, CHANGE_FORMATS[values["format"]])), writing(values))


def encode_avro_changes(rows: DataFrame, table: Table, values: Mapping[str, Any], subject: str) -> SparkColumn:
    """Returns an expression that encodes each row as a message of changes in Avro, as ``encode_changes`` does in JSON.
    ``subject``: as of ``encode_by_schema``, which says what is raised.
    """
    form = CHANGE_FORMATS[values["format"]]
    own = {c.name: c.type for c in table.physical_columns}
    row = DataType("STRUCT", tuple((name, own[name]) for name in rows.columns if name in own))
    columns = (Column(form.before, row), Column(form.after, row), Column(form.operation, STRING))
    encoder = message_encoder(replace(table, columns=columns), tuple(c.name for c in columns), values, subject)
    image = F.struct(*(F.col(quoted(name)) for name, _ in row.fields()))
    return encoded_by(encoder, F.struct(*_envelope(rows, image, form)))


def _envelope(rows: DataFrame, row: SparkColumn, form: ChangeFormat) -> list[SparkColumn]:
    """The fields of a message about a row."""
    kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit(RowKind.INSERT.value)
    retracted = kind.isin(RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)
    came, went = form.written
    operation = F.when(retracted, F.lit(went)).otherwise(F.lit(came)).alias(form.operation)
    if form.old:
        fields = [(F.array(row) if form.lists else row).alias(form.after), operation]
    else:
        fields = [F.when(retracted, row).alias(form.before), F.when(~retracted, row).alias(form.after), operation]
    return fields
