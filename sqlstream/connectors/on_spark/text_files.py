"""Files of text that tasks read themselves instead of Spark, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream.connectors.connector import Environment
from sqlstream.connectors.file_tables import local_path, tells_kinds
from sqlstream.connectors.formats import records_columns
from sqlstream.formats.decoder import Decoder, Field
from sqlstream.formats.lines import LineDecoder
from sqlstream.planner.bad_rows import action_of, required_columns, tolerates_bad_rows
from sqlstream.planner.catalog import Table
from sqlstream.spark.running import is_connect
from sqlstream.udfs.text_files import TextFormat


def is_local(environment: Environment, table: Table) -> bool:
    """Whether the files of the table are on this machine, where tasks can open them by their paths."""
    path = table.option("path") or ""
    elsewhere = environment.spark.conf.get("spark.hadoop.fs.defaultFS", "file:")
    return path.startswith("file:") or (local_path(path) is not None and str(elsewhere).startswith("file:"))


def text_format(
    environment: Environment, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> TextFormat | None:
    """How tasks read the files; None where Spark does: remote ones, changes, values that no decoder holds, through
    Spark Connect, and where the settings say so.
    """
    if environment.spark_reads or is_connect(environment.spark) or tells_kinds(table):
        return None
    decoder = _decoder(table, columns, values, str(environment.spark.conf.get("spark.sql.session.timeZone")))
    if decoder is None or not is_local(environment, table):
        return None
    tolerant = tolerates_bad_rows(table)
    keeps = tolerant and action_of(table)[1] is not None and bool(required_columns(table))
    return TextFormat(decoder, tolerant=tolerant, keeps_records=keeps)


def _decoder(table: Table, columns: tuple[str, ...], values: Mapping[str, Any], zone: str) -> Decoder | None:
    fields = tuple(Field(c.name, c.type, c.name in columns) for c in records_columns(table))
    if values["format"] == "text" and len(fields) == 1:
        return LineDecoder(fields[0])
    return None
