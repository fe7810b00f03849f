"""Checks of tables whose files lie in an object store: options, what is there, and the columns of new objects."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import islice
from typing import Any, cast

import pyarrow as pa

from sqlstream.connectors.change_formats import has_kinds
from sqlstream.connectors.connector import PATH_ERROR
from sqlstream.connectors.files.checks import (
    MOST_RECORDS,
    avro_mismatches,
    header,
    misspelt_fields,
    wrong_header,
    wrong_schema,
)
from sqlstream.connectors.stores.epochs import LOG
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.options import check_store_options, is_in_store, is_of_web
from sqlstream.connectors.stores.paths import StoredObject, matching
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError
from sqlstream.formats.compressions import opened
from sqlstream.options import WRONG_VALUE
from sqlstream.planner.catalog import Column, Table
from sqlstream.secrets import shown_value
from sqlstream.udfs.files.avro import file_schema
from sqlstream.udfs.files.columnar import schema_of

_MOST_OBJECTS = 4
"""Objects that are looked into when a job starts, each of which is a few requests."""


def check_in_store(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields diagnostics SS504 for options that do not go with the place of the table."""
    path = table.option("path") or ""
    yield from check_store_options(table.options, path, spans)
    if is_of_web(path):
        yield from _check_web(table, path, spans)
    if is_in_store(path) and has_kinds(table):
        message = f'format "{table.option("format")}" of table "{table.name}" is not read or written in object stores'
        hint = "Take json with 'source.kind-column', or a table format: delta, iceberg."
        yield Diagnostic(WRONG_VALUE, message, spans.get("format"), hint=hint)


def _check_web(table: Table, path: str, spans: Mapping[str, Span]) -> Iterator[Diagnostic]:
    """What web servers cannot: they list no files."""
    if "source.monitor-interval" in dict(table.options):
        message = f'table "{table.name}" cannot watch "{shown_value("path", path)}": web servers list no files'
        hint = "Leave 'source.monitor-interval' out, or read a directory or an object store."
        yield Diagnostic(WRONG_VALUE, message, spans.get("source.monitor-interval"), hint=hint)
    for url in path.split():
        if not is_of_web(url) or url.endswith("/") or any(mark in url for mark in "*[]"):
            message = f'path "{shown_value("path", url)}" of table "{table.name}" is no URL of a file'
            hint = "Name each file, with blanks between the URLs: web servers have no folders and patterns."
            yield Diagnostic(WRONG_VALUE, message, spans.get("path"), hint=hint)


def is_missing(table: Table, store: ObjectStore, path: str, spans: Mapping[str, Span]) -> Iterator[Diagnostic]:
    """Yields a diagnostic SS508 where nothing is at the path, SS675 to SS677 where the store refuses to say."""
    span = spans.get("path")
    try:
        there = bool(store.listed(path)) or store.exists(path)
    except SqlStreamError as error:
        yield from (Diagnostic(d.code, d.message, span, d.detail, d.hint) for d in error.diagnostics)
    except OSError as error:
        message = f'path "{shown_value("path", path)}" of table "{table.name}" cannot be used: {error}'
        yield Diagnostic(PATH_ERROR, message, span, hint='Correct the option "path".')
    else:
        if not there:
            message = f'path "{shown_value("path", path)}" of table "{table.name}" does not exist'
            hint = "Correct the option \"path\"; with 'source.monitor-interval' the job waits for objects to appear."
            yield Diagnostic(PATH_ERROR, message, span, hint=hint)


def truncate_folder(table: Table, store: ObjectStore) -> None:
    """Removes all objects of a table's folder, its log of them at the end: until then readers see those that it has.
    ConnectorError SS508 where the path is no folder, SS675 to SS677 where the store refuses.
    """
    path = (table.option("path") or "").rstrip("/")
    objects = [] if matching(path) is not None else store.below(path)
    if matching(path) is not None or any(stored.url == path for stored in objects):
        message = f'path "{shown_value("path", path)}" of table "{table.name}" is no folder'
        raise ConnectorError(PATH_ERROR, message, hint="Remove the objects where they are.")
    for stored in sorted(objects, key=lambda stored: stored.url.startswith(f"{path}/{LOG}/")):
        store.remove(stored.url)


def wrong_in_store(
    table: Table, store: ObjectStore, values: Mapping[str, Any], columns: Sequence[Column]
) -> list[Diagnostic]:
    """Returns what ``checks.wrong_columns`` does, for the newest objects of a table. What cannot be read is for the
    reader to name.
    """
    newest = _newest(store.listed(values["path"]))
    match values["format"]:
        case "parquet" | "orc" | "arrow" as kind:
            return wrong_schema(table, kind, columns, _schemas(store, newest, kind))
        case "avro":
            return avro_mismatches(table, columns, _avro_schemas(store, newest))
        case "csv" if values["csv.header"]:
            headers = ((url, line) for url in newest for line in header(_lines(store, url, values["encoding"]), values))
            return wrong_header(table, values, columns, headers)
        case "json":
            return misspelt_fields(table, columns, [(url, _lines(store, url, values["encoding"])) for url in newest])
    return []


def _newest(objects: Iterable[StoredObject]) -> list[str]:
    return [o.url for o in heapq.nlargest(_MOST_OBJECTS, objects, key=lambda o: (o.modified, o.url)) if o.size]


def _schemas(store: ObjectStore, urls: Iterable[str], kind: str) -> Iterator[tuple[str, pa.Schema]]:
    for url in urls:
        with suppress(pa.ArrowException, OSError):
            yield url, schema_of(url, kind, store)


def _avro_schemas(store: ObjectStore, urls: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for url in urls:
        with suppress(pa.ArrowException, OSError):
            yield url, file_schema(url, store)


def _lines(store: ObjectStore, url: str, encoding: str) -> list[str]:
    """The first lines of an object that are not empty, unpacked."""
    with suppress(pa.ArrowException, OSError, UnicodeDecodeError), opened(url, store) as raw:
        text = TextIOWrapper(cast(Any, raw), encoding="utf-8-sig" if encoding == "utf-8" else encoding)
        return [*islice((line for line in map(str.strip, text) if line), MOST_RECORDS)]
    return []
