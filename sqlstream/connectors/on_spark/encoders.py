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
from sqlstream.connectors.schema_formats import AVRO, avro_text, registry_of
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.formats.avro_encoder import AvroEncoder, Unwritable
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.avro_writable import unwritten_fields
from sqlstream.formats.registered import header_of
from sqlstream.formats.schema_registry import REFUSED, RegisteredSchema, Registry
from sqlstream.planner.catalog import Table
from sqlstream.types import from_arrow

NOT_IN_SCHEMA = "SS597"


@dataclass(frozen=True)
class MessageEncoder:
    """Encodes rows as messages, each of which begins with the ``header``."""

    records: AvroEncoder
    header: bytes = b""

    def encoded(self, rows: pa.StructArray) -> pa.Array:
        """Returns the messages of rows. ExecutionError SS597 for a value that the schema does not have."""
        batch = pa.RecordBatch.from_arrays(rows.flatten(), [f.name for f in rows.type])
        try:
            messages = self.records.encoded(batch)
        except Unwritable as error:
            hint = "Filter such rows, or let the option schema of the format have other types."
            raise ExecutionError(NOT_IN_SCHEMA, f"a row cannot be written: {error}", hint=hint) from None
        if not self.header:
            return messages
        return pc.binary_join_element_wise(pa.scalar(self.header, pa.binary()), messages, pa.scalar(b"", pa.binary()))


def encode_by_schema(rows: DataFrame, table: Table, values: Mapping[str, Any], subject: str) -> SparkColumn:
    """Returns an expression that encodes each row as a message in a format with a schema.

    ``table``: has the columns. ``values``: the parsed options of the table. ``subject``: the one of the registry unless
    the options name one. ConnectorError SS505 where the schema does not have the columns, SS598 and SS599 as
    ``Registry``.
    """
    encoder = message_encoder(table, tuple(rows.columns), values, subject)

    def encoded(batch: pa.Array) -> pa.Array:  # Spark reads from the annotations how to call it
        return encoder.encoded(batch)

    make: Any = arrow_udf
    return make(encoded, "binary")(  # type: ignore[no-any-return]
        F.struct(*(F.col(quoted(name)) for name in rows.columns))
    )


def message_encoder(table: Table, columns: tuple[str, ...], values: Mapping[str, Any], subject: str) -> MessageEncoder:
    """Returns the encoder of the named columns of a table, whose schema is registered if the format has a registry."""
    form = values["format"]
    own = [c for c in table.physical_columns if c.name in columns]
    own.sort(key=lambda c: columns.index(c.name))
    text = values[f"{form}.schema"] or avro_text(own, legacy=bool(values[f"{form}.timestamp_mapping.legacy"]))
    encoder = AvroEncoder(text)
    _check_written(encoder, [pa.field(c.name, c.type.to_arrow()) for c in own], table.name)
    if form == AVRO:
        return MessageEncoder(encoder)
    registers = bool(values[f"{form}.properties.auto.register.schemas"])
    schema = RegisteredSchema(0, text)
    return MessageEncoder(
        encoder, header_of(_id_of(registry_of(values), values[f"{form}.subject"] or subject, schema, registers))
    )


def _check_written(encoder: AvroEncoder, columns: list[pa.Field], name: str) -> None:
    hint = "Give columns the types of the schema, or leave the option schema of the format out."
    try:
        schema = encoder.schema
    except SchemaError as error:
        raise ConnectorError(WRONG_COLUMN, f'the schema of table "{name}" {error}', hint=hint) from None
    for path, kind, written in unwritten_fields(schema, columns):
        if kind is None:
            message = f'table "{name}" has no column "{path}", for which its schema has no default'
        elif written == "nothing":
            message = f'the schema of table "{name}" has no field "{path}"'
        else:
            message = (
                f'column "{path}" of type {from_arrow(kind)} is not written as "{written}", its type in the schema'
            )
        raise ConnectorError(WRONG_COLUMN, message, hint=hint)


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
