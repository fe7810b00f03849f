"""Files of records that tasks and lookups read themselves instead of Spark, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlstream.connectors.change_formats import has_kinds
from sqlstream.connectors.connector import columns_of
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.tables import columns_in_files, local_path
from sqlstream.connectors.formats import records_columns
from sqlstream.connectors.on_spark.decoders import decoder_of, session_zone
from sqlstream.connectors.stores.options import is_in_store
from sqlstream.connectors.stores.stores import store_of
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.decoder import Decoder, Field
from sqlstream.formats.file_access import LOCAL, FileAccess
from sqlstream.planner.bad_rows import action_of, checked_columns, missing_are_null, tolerates_bad_rows
from sqlstream.planner.catalog import Column, Table
from sqlstream.spark.running import is_connect
from sqlstream.udfs.files.avro import AvroFiles, AvroFormat
from sqlstream.udfs.files.columnar import ColumnarFiles
from sqlstream.udfs.files.columnar_records import ColumnarFormat
from sqlstream.udfs.files.records import RecordFormat
from sqlstream.udfs.files.text import Header, TextFormat

COLUMNAR = ("arrow", "orc", "parquet")
"""Formats of files of columns."""

_NOT_IN_COLUMNS = ("VARIANT", "INTERVAL")


def is_local(environment: Environment, table: Table) -> bool:
    """True where the files of the table are on this machine, so that tasks can open them by path."""
    path = table.option("path") or ""
    elsewhere = environment.spark.conf.get("spark.hadoop.fs.defaultFS", "file:")
    return path.startswith("file:") or (local_path(path) is not None and str(elsewhere).startswith("file:"))


def tasks_read(environment: Environment, table: Table) -> bool:
    """True where tasks decode the table's files of text: local ones that hold no messages of changes, unless through
    Spark Connect or where the settings say that Spark reads all files; and those in object stores, which Spark need
    not know.
    """
    if is_in_store(table.option("path") or ""):
        return not has_kinds(table)
    through_spark = environment.spark_reads or is_connect(environment.spark) or has_kinds(table)
    return not through_spark and is_local(environment, table)


def record_format(
    environment: Environment, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> RecordFormat | None:
    """Returns how tasks read the records of the files; None where Spark must read them: where ``tasks_read`` is false,
    and for formats and types that no decoder supports.
    """
    if not tasks_read(environment, table):
        return None
    access = access_of(values)
    if values["format"] == "avro":
        return avro_format(table, columns, access, checked=environment.located)
    if values["format"] in COLUMNAR and not access.is_local:
        return columnar_format(table, columns, access, checked=environment.located)
    if values["format"] in COLUMNAR:
        has_instants = any(part.name == "TIMESTAMP" for c in records_columns(table) for part in c.type.parts())
        if values["format"] == "orc" and has_instants:  # of which Arrow lacks those beyond 1677 and 2262
            return None
        return columnar_format(table, columns, access, checked=environment.located)
    decoder = decoder_of(table, columns, values, session_zone(environment.spark))
    if decoder is None:
        return None
    return _of_decoder(table, columns, values, decoder, access, checked=environment.located)


def access_of(values: Mapping[str, Any]) -> FileAccess:
    """How the files of a table are opened. ``values``: the parsed options of the table."""
    return store_of(values["path"], values) or LOCAL


def lookup_format(table: Table, columns: tuple[str, ...], values: Mapping[str, Any], zone: str) -> RecordFormat | None:
    """How lookups decode the files; None for types that no decoder supports, and for VARIANT, which Spark makes of what
    the decoder gives.

    ``values``: the parsed options of the table. ``zone``: the session's time zone.
    """
    access = access_of(values)
    if values["format"] == "avro":
        return avro_format(table, columns, access)
    if any(part.name == "VARIANT" for c in columns_of(table, columns) for part in c.type.parts()):
        return None
    decoder = decoder_of(table, columns, values, zone)
    return None if decoder is None else _of_decoder(table, columns, values, decoder, access)


def avro_format(
    table: Table, columns: tuple[str, ...], access: FileAccess = LOCAL, *, checked: bool = False
) -> AvroFormat:
    """How tasks and lookups read Avro. Columns that are not named are looked at where bad rows are tolerated, so that a
    record is bad for all queries or none. ``checked``: see ``_tolerance``.
    """
    strict = tolerates_bad_rows(table)
    fields = (Field(c.name, c.type, c.name in columns) for c in records_columns(table))
    read = tuple(f for f in fields if f.wanted or strict)
    return AvroFormat(read, missing_are_null(table), *_tolerance(table, checked), access)


def columnar_format(
    table: Table, columns: tuple[str, ...], access: FileAccess = LOCAL, *, checked: bool
) -> ColumnarFormat | None:
    """How tasks read files of columns whose bad rows are tolerated, or that lie in a store; None for others, and where
    a column that is named has a type that Arrow lacks. ``checked``: see ``_tolerance``.
    """
    fields = [Field(c.name, c.type, c.name in columns) for c in records_columns(table)]
    read = tuple(f for f in fields if not any(part.name in _NOT_IN_COLUMNS for part in f.type.parts()))
    tolerates = tolerates_bad_rows(table)
    if (access.is_local and not tolerates) or any(f.wanted and f not in read for f in fields):
        return None
    read = tuple(f for f in read if f.wanted or tolerates)
    return ColumnarFormat(
        (table.option("format") or "").strip().lower(),
        read,
        missing_are_null(table),
        *_tolerance(table, checked),
        access,
    )


def whole_files(table: Table, in_files: Sequence[Column], values: Mapping[str, Any]) -> ColumnarFiles | AvroFiles:
    """How one task reads whole files. A record that cannot be read fails the job, whatever the table tolerates."""
    if values["format"] == "avro":
        return AvroFiles(AvroFormat(tuple(Field(c.name, c.type) for c in in_files), missing_are_null(table)))
    return ColumnarFiles(values["format"], tuple((c.name, c.type) for c in in_files), missing_are_null(table))


def _tolerance(table: Table, checked: bool) -> tuple[bool, bool]:
    """``tolerant`` and ``keeps_records`` of a ``RecordFormat``. ``checked``: the query checks rows that the decoder
    takes for good ones, which may become dead letters.
    """
    tolerant = tolerates_bad_rows(table)
    return tolerant, tolerant and action_of(table)[1] is not None and (checked or bool(checked_columns(table)))


def _of_decoder(
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    decoder: Decoder,
    access: FileAccess,
    *,
    checked: bool = False,
) -> TextFormat:
    tolerant, keeps = _tolerance(table, checked)
    lines = {"tolerant": tolerant, "keeps_records": keeps, "encoding": values["encoding"], "access": access}
    if not isinstance(decoder, CsvDecoder):
        return TextFormat(decoder, **lines)
    header = None
    if values["csv.header"]:
        read = columns_in_files(table, columns)
        named = ((i, f.name) for i, f in enumerate(decoder.fields) if f.name in {c.name for c in read})
        header = Header(table.name, tuple(named), decoder.dialect, len(decoder.fields))
    has_quotes = decoder.dialect.quote is not None
    return TextFormat(decoder, dialect=decoder.dialect if has_quotes else None, header=header, **lines)
