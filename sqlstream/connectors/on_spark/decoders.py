"""The decoder of the records of a table, in files and in messages, as the options of its format say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.formats import records_columns
from sqlstream.connectors.schema_formats import avro_text, has_schema, json_values, proto_type, registry_of
from sqlstream.errors import ConnectorError
from sqlstream.formats.avro_messages import avro_decoder
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Decoder, Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.json_records import with_raw_json
from sqlstream.formats.lines import LineDecoder
from sqlstream.formats.protobuf import ProtobufDecoder
from sqlstream.formats.raw import RawDecoder
from sqlstream.formats.registered import RegisteredAvro, RegisteredJson, RegisteredProtobuf
from sqlstream.planner.bad_rows import tolerates_bad_rows
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType

_ANY = DataType("VOID")
"""The type of columns that are only counted."""


def session_zone(spark: SparkSession) -> str:
    """Returns the time zone of a session, by its name."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def decoder_of(
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    zone: str,
    *,
    all_columns: bool = False,
    arrays: bool = True,
) -> Decoder | None:
    """Returns the decoder of the named columns; None where no decoder reads the format, or a column of this type. Of a
    VARIANT it gives the JSON (``messages.as_variants``).

    ``values``: the parsed options of the table. ``zone``: the session's time zone. Columns that are not named are
    looked at where bad rows are tolerated, or ``all_columns`` says so, so that a record is bad for all queries or none.
    ``arrays``: a record of JSON may be an array of several rows.
    """
    strict = all_columns or tolerates_bad_rows(table)
    fields = tuple(Field(c.name, c.type, c.name in columns) for c in records_columns(table))
    match values["format"]:
        case "text" | "raw" if len(fields) == 1 and fields[0].type.name == "STRING":
            return LineDecoder(fields[0])
        case "raw" if len(fields) == 1:
            return RawDecoder(fields[0], values["raw.endianness"] == "little-endian")
        case "json":
            decoder = _json(fields, values, zone, strict=strict)
            return None if decoder is None else replace(decoder, arrays=arrays)
        case "csv" if all(f.type.name != "VARIANT" for f in fields):
            read = tuple(f if f.wanted or strict else replace(f, type=_ANY) for f in fields)
            return CsvDecoder(read, Dialect.of(values), zone)
    if values["format"] == "json-confluent":
        of_json = _json(fields, json_values(values), zone, strict=strict)
        return None if of_json is None else RegisteredJson(of_json.fields, registry_of(values), of_json)
    if has_schema(values["format"]):
        return _by_schema(table, tuple(f for f in fields if f.wanted or strict), values)
    return None


def _json(fields: tuple[Field, ...], values: Mapping[str, Any], zone: str, *, strict: bool) -> JsonDecoder | None:
    missing = bool(values["json.fail-on-missing-field"])
    read = tuple(f for f in fields if f.wanted or strict or missing)
    read = tuple(replace(f, type=with_raw_json(f.type)) for f in read)
    standard, ignores = values["json.timestamp-format.standard"], bool(values["json.ignore-parse-errors"])
    return JsonDecoder(read, missing, ignores, standard, zone) if all(map(_in_json, read)) else None


def _by_schema(table: Table, fields: tuple[Field, ...], values: Mapping[str, Any]) -> Decoder | None:
    """The decoder of messages that are written by a schema; None for files, which have theirs with them.

    ConnectorError SS505 where the schema does not have the columns.
    """
    form, defaults = values["format"], bool(values.get(f"{values['format']}.read-default-values"))
    try:
        match form:
            case "avro" if "avro.schema" in values:
                return avro_decoder(fields, values["avro.schema"] or avro_text(records_columns(table)), None)
            case "protobuf":
                decoder = ProtobufDecoder(fields, proto_type(form, values), defaults)
                _ = decoder.reader
                return decoder
            case "avro-confluent":
                return RegisteredAvro(fields, registry_of(values), values["avro-confluent.schema"])
            case "protobuf-confluent":
                return RegisteredProtobuf(fields, registry_of(values), defaults)
    except SchemaError as error:
        hint = f"Give columns the names and types of the schema in the options of the format {form}."
        raise ConnectorError(WRONG_COLUMN, f'the schema of table "{table.name}" {error}', hint=hint) from None
    return None


def _in_json(field: Field) -> bool:
    return JsonDecoder.holds(field.type)
