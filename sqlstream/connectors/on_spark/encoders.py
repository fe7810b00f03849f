"""Messages of formats with a schema: tasks encode the rows, and a registry gives each schema its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.on_spark.records import encode_object
from sqlstream.connectors.schema_formats import (
    AVRO,
    AVRO_CONFLUENT,
    DEBEZIUM_AVRO,
    JSON_CONFLUENT,
    PROTOBUF,
    avro_text,
    json_values,
    proto_type,
    registry_of,
)
from sqlstream.connectors.secrets import resolved
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.formats import schema_registry
from sqlstream.formats.avro_encoder import AvroEncoder, Unwritable
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.avro_writable import unwritten_fields
from sqlstream.formats.json_schema import json_schema_of_columns
from sqlstream.formats.protobuf import ProtoType
from sqlstream.formats.protobuf_encoder import ProtobufEncoder, proto_of_columns
from sqlstream.formats.protobuf_schema import parse_proto
from sqlstream.formats.registered import header_of, written_indexes
from sqlstream.formats.schema_registry import REFUSED, RegisteredSchema, Registry
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import from_arrow

NOT_IN_SCHEMA = "SS597"


@dataclass(frozen=True)
class MessageEncoder:
    """Encodes rows as messages, each of which begins with the ``header``."""

    records: AvroEncoder | ProtobufEncoder
    header: bytes = b""

    def encoded(self, rows: pa.StructArray) -> pa.Array:
        """Returns the messages of rows; NULL for one that is NULL. ExecutionError SS597 for a value that the schema
        does not have.
        """
        if rows.null_count:
            given = rows.is_valid()
            index = pc.subtract(pc.cumulative_sum(given.cast(pa.int64())), 1)
            return self.encoded(rows.filter(given)).take(pc.if_else(given, index, pa.scalar(None, pa.int64())))
        batch = pa.RecordBatch.from_arrays(rows.flatten(), [f.name for f in rows.type])
        try:
            messages = self.records.encoded(batch)
        except Unwritable as error:
            hint = "Filter such rows, or let the option schema of the format have other types."
            raise ExecutionError(NOT_IN_SCHEMA, f"a row cannot be written: {error}", hint=hint) from None
        if not self.header:
            return messages
        return pc.binary_join_element_wise(pa.scalar(self.header, pa.binary()), messages, pa.scalar(b"", pa.binary()))


def encode_by_schema(
    rows: DataFrame, table: Table, values: Mapping[str, Any], subject: str, where: SparkColumn | None = None
) -> SparkColumn:
    """Returns an expression that encodes each row as a message in a format with a schema.

    ``table``: has the columns. ``values``: the parsed options of the table. ``subject``: the one of the registry unless
    the options name one. ``where``: which rows are encoded; the others have no message.

    ConnectorError SS505 where the schema does not have the columns, SS598 and SS599 as ``Registry``.
    """
    if values["format"] == JSON_CONFLUENT:
        header = json_header(table, tuple(rows.columns), values, subject)
        message = F.concat(F.lit(header), encode_object(rows, json_values(values)).cast("BINARY"))
        return message if where is None else F.when(where, message)
    encoder = message_encoder(table, tuple(rows.columns), values, subject)
    row = F.struct(*(F.col(quoted(name)) for name in rows.columns))
    return encoded_by(encoder, row if where is None else F.when(where, row))


def encoded_by(encoder: MessageEncoder, row: SparkColumn) -> SparkColumn:
    """Returns the messages of rows, which are a STRUCT, as BINARY."""

    def encoded(batch: pa.Array) -> pa.Array:  # Spark reads from the annotations how to call it
        return encoder.encoded(batch)

    make: Any = arrow_udf
    return make(encoded, "binary")(row)  # type: ignore[no-any-return]


def message_encoder(table: Table, columns: tuple[str, ...], values: Mapping[str, Any], subject: str) -> MessageEncoder:
    """Returns the encoder of the named columns of a table, whose schema is registered if the format has a registry."""
    own, form = _columns(table, columns), values["format"]
    fields = [pa.field(c.name, c.type.to_arrow()) for c in own]
    try:
        if form in (AVRO, AVRO_CONFLUENT, DEBEZIUM_AVRO):
            return _avro(table, own, fields, values, subject)
        return _protobuf(own, fields, values, subject)
    except SchemaError as error:
        raise ConnectorError(WRONG_COLUMN, f'the schema of table "{table.name}" {error}', hint=_HINT) from None


_HINT = "Give columns the types of the schema, or leave the option schema of the format out."


def _columns(table: Table, names: tuple[str, ...]) -> list[Column]:
    by_name = {c.name: c for c in table.physical_columns}
    return [by_name[name] for name in names if name in by_name]


def _avro(
    table: Table, own: list[Column], fields: list[pa.Field], values: Mapping[str, Any], subject: str
) -> MessageEncoder:
    form = values["format"]
    text = values[f"{form}.schema"] or avro_text(own, legacy=bool(values.get(f"{form}.timestamp_mapping.legacy")))
    encoder = AvroEncoder(text)
    for path, kind, written in unwritten_fields(encoder.schema, fields):
        if kind is None:
            message = f'table "{table.name}" has no column "{path}", for which its schema has no default'
        elif written == "nothing":
            message = f'the schema of table "{table.name}" has no field "{path}"'
        else:
            message = (
                f'column "{path}" of type {from_arrow(kind)} is not written as "{written}", its type in the schema'
            )
        raise ConnectorError(WRONG_COLUMN, message, hint=_HINT)
    if form == AVRO:
        return MessageEncoder(encoder)
    return MessageEncoder(encoder, header_of(_registered(values, subject, text, schema_registry.AVRO)))


def _protobuf(own: list[Column], fields: list[pa.Field], values: Mapping[str, Any], subject: str) -> MessageEncoder:
    form = values["format"]
    if form == PROTOBUF:
        encoder = ProtobufEncoder(proto_type(form, values))
        encoder.check(fields)
        return MessageEncoder(encoder)
    text = values[f"{form}.schema"] or proto_of_columns([(c.name, c.type) for c in own])
    file, name = parse_proto(text), values[f"{form}.message-class-name"]
    message = file.at((0,)) if name is None else file.message(name)
    encoder = ProtobufEncoder(ProtoType(text, message.full_name))
    encoder.check(fields)
    number = _registered(values, subject, text, schema_registry.PROTOBUF)
    return MessageEncoder(encoder, header_of(number) + written_indexes(file.indexes(message)))


def json_header(table: Table, columns: tuple[str, ...], values: Mapping[str, Any], subject: str) -> bytes:
    """Returns what messages of the format ``json-confluent`` begin with, whose schema is registered."""
    own = [(c.name, c.type, c.nullable) for c in _columns(table, columns)]
    text = values[f"{JSON_CONFLUENT}.schema"] or json_schema_of_columns(own)
    return header_of(_registered(values, subject, text, schema_registry.JSON))


def _registered(values: Mapping[str, Any], subject: str, text: str, kind: str) -> int:
    """The id of the schema of a sink."""
    form = values["format"]
    registers = bool(values[f"{form}.properties.auto.register.schemas"])
    subject = values[f"{form}.subject"] or resolved({"topic": subject})["topic"]  # which may be a variable
    return _id_of(registry_of(values), subject, RegisteredSchema(0, text, kind), registers)


@cache
def _id_of(registry: Registry, subject: str, schema: RegisteredSchema, registers: bool) -> int:
    """The id of a schema of a subject. Each process asks once."""
    if registers:
        return registry.register(subject, schema)
    number = registry.registered(subject, schema)
    if number is None:
        message = f'subject "{subject}" of the schema registry does not have the schema of the table'
        hint = "Name its schema in the option schema of the format, or leave properties.auto.register.schemas out."
        raise ConnectorError(REFUSED, message, hint=hint)
    return number
