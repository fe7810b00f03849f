"""Files of text that tasks read themselves instead of Spark, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlstream.connectors.connector import Environment
from sqlstream.connectors.file_tables import columns_in_files, local_path, tells_kinds
from sqlstream.connectors.formats import records_columns
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Decoder, Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.lines import LineDecoder
from sqlstream.planner.bad_rows import action_of, required_columns, tolerates_bad_rows
from sqlstream.planner.catalog import Table
from sqlstream.spark.running import is_connect
from sqlstream.types import DataType
from sqlstream.udfs.text_files import Header, TextFormat

_ANY = DataType("VOID")
"""The type of columns that are only counted."""


def is_local(environment: Environment, table: Table) -> bool:
    """True where the files of the table are on this machine, so that tasks can open them by path."""
    path = table.option("path") or ""
    elsewhere = environment.spark.conf.get("spark.hadoop.fs.defaultFS", "file:")
    return path.startswith("file:") or (local_path(path) is not None and str(elsewhere).startswith("file:"))


def text_format(
    environment: Environment, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> TextFormat | None:
    """Returns the decoder and the encoding with which tasks read the files as text; None where Spark must read them.

    Spark reads remote files, change formats, types that no decoder supports, CSV with an escape character (which its
    writer leaves out outside quotes), everything through Spark Connect, and all files if the settings say so.
    """
    if environment.spark_reads or is_connect(environment.spark) or tells_kinds(table):
        return None
    decoder = _decoder(table, columns, values, str(environment.spark.conf.get("spark.sql.session.timeZone")))
    if decoder is None or not is_local(environment, table):
        return None
    tolerant = tolerates_bad_rows(table)
    keeps = tolerant and action_of(table)[1] is not None and bool(required_columns(table))
    lines = {"tolerant": tolerant, "keeps_records": keeps, "encoding": values["encoding"]}
    if not isinstance(decoder, CsvDecoder):
        return TextFormat(decoder, **lines)
    header = None
    if values["csv.header"]:
        read = columns_in_files(table, columns)
        named = ((i, f.name) for i, f in enumerate(decoder.fields) if f.name in {c.name for c in read})
        header = Header(table.name, tuple(named), decoder.dialect)
    dialect = decoder.dialect
    quotes = (c.encode() if c is not None and dialect.multi_line else None for c in (dialect.quote, dialect.escape))
    return TextFormat(decoder, quote=next(quotes), escape=next(quotes), header=header, **lines)


def _decoder(table: Table, columns: tuple[str, ...], values: Mapping[str, Any], zone: str) -> Decoder | None:
    """The decoder of the columns. What is wrong in columns that no query reads is looked for where bad rows are
    tolerated, so that a record is bad for all queries or none."""
    tolerant = tolerates_bad_rows(table)
    fields = tuple(Field(c.name, c.type, c.name in columns) for c in records_columns(table))
    match values["format"]:
        case "text" if len(fields) == 1:
            return LineDecoder(fields[0])
        case "json" if all(JsonDecoder.holds(f.type) for f in fields):
            return JsonDecoder(
                tuple(f for f in fields if f.wanted or tolerant or values["json.fail-on-missing-field"]),
                values["json.fail-on-missing-field"],
                values["json.ignore-parse-errors"],
                values["json.timestamp-format.standard"],
                zone,
            )
        case "csv" if all(f.type.name != "VARIANT" for f in fields) and Dialect.of(values).escape is None:
            read = tuple(f if f.wanted or tolerant else replace(f, type=_ANY) for f in fields)
            return CsvDecoder(read, Dialect.of(values), zone)
    return None
