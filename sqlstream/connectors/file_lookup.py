"""Lookups in tables of files: loaded whole in each worker, reloaded on an interval (Flink's FULL cache)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlstream.connectors.change_formats import has_kinds
from sqlstream.connectors.connector import Environment
from sqlstream.connectors.kind_column import kind_column
from sqlstream.errors import UnsupportedError
from sqlstream.options import DURATION, Option, one_of
from sqlstream.planner.catalog import Table
from sqlstream.planner.missing_columns import missing_are_null
from sqlstream.secrets import shown_value
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison, Request
from sqlstream.udfs.lookup.sources.file_formats import FileFormat
from sqlstream.udfs.lookup.sources.files import COMPARED, FileSource, as_of, keys_can_be

NOT_A_KEY = "SS580"
NOT_LOCAL = "SS581"
OF_CHANGES = "SS665"
NOT_IN_FORMAT = "SS582"

LOOKUP_OPTIONS = (
    Option(
        "lookup.cache",
        one_of("FULL", planned=("none", "partial")),
        "Lookups load the table whole, once per worker process.",
        "FULL",
    ),
    Option(
        "lookup.full-cache.reload-strategy",
        one_of("PERIODIC", planned=("timed",)),
        "When lookups load the table again.",
        "PERIODIC",
    ),
    Option(
        "lookup.full-cache.periodic-reload.interval",
        DURATION,
        "Lookups look this often whether files have changed, and load the table again; not given, it is loaded once.",
    ),
)


def file_lookup(
    environment: Environment,
    table: Table,
    request: Request,
    values: Mapping[str, Any],
    path: str | None,
    partitions: list[str],
) -> FileSource:
    """``values``: the options; ``path``: None where it is none of this machine; ``partitions``: directories."""
    if path is None:
        message = f'lookups in table "{table.name}" read no files of "{shown_value("path", values["path"])}"'
        hint = "They read local paths, or such as are mounted on every worker: write 'path' = '/…'."
        raise UnsupportedError(NOT_LOCAL, message, hint=hint)
    if has_kinds(table) or kind_column(table) is not None:
        by = f'format "{values["format"]}"' if has_kinds(table) else f'column "{kind_column(table)}"'
        message = f'lookups in table "{table.name}" read no changes, which its {by} tells'
        hint = "Let a job write the table into a database, and look it up there."
        raise UnsupportedError(OF_CHANGES, message, hint=hint)
    zone = environment.spark.conf.get("spark.sql.session.timeZone") or "UTC"
    form = _format(table, values, zone)
    _check(table, request, form)
    interval = values["lookup.full-cache.periodic-reload.interval"]
    location = str(Path(path).absolute())
    return FileSource(table.name, request, location, form, tuple(partitions), interval, as_of(location))


def filters(table: Table, comparison: Comparison) -> bool:
    """Rows that a filter excludes are not kept in memory."""
    kinds = {c.name: c.type.name for c in table.physical_columns}
    return kinds.get(comparison.column) in COMPARED


def _check(table: Table, request: Request, form: FileFormat) -> None:
    for name, kind in request.keys:
        if not keys_can_be(kind):
            message = f'column "{name}" of type {kind.ddl()} cannot be the key of a lookup in files'
            raise UnsupportedError(NOT_A_KEY, message, hint="Compare a column of a plain type, a STRING for instance.")
    for name, kind in (*request.keys, *request.columns):
        if not form.reads(kind):
            message = f'lookups in table "{table.name}" cannot read column "{name}" of type {kind.ddl()} as {form.name}'
            raise UnsupportedError(NOT_IN_FORMAT, message, hint="Write the table as parquet.")


def _format(table: Table, values: Mapping[str, Any], zone: str) -> FileFormat:
    columns: tuple[tuple[str, DataType], ...] = tuple((c.name, c.type) for c in table.physical_columns)
    name = values["format"]
    if name == "csv":
        return FileFormat(
            name,
            columns,
            zone,
            header=values["csv.header"],
            delimiter=values["csv.field-delimiter"],
            quote=None if values["csv.disable-quote-character"] else values["csv.quote-character"],
            escape=values["csv.escape-character"],
            null=values["csv.null-literal"],
            comments=values["csv.allow-comments"],
            drop=values["csv.ignore-parse-errors"],
            line_feeds=values["csv.multi-line"],
        )
    if name == "json":
        standard, drop = values["json.timestamp-format.standard"], values["json.ignore-parse-errors"]
        return FileFormat(name, columns, zone, timestamps=standard, drop=drop)
    return FileFormat(name, columns, zone, nulls=missing_are_null(table))
