"""What the options of a table of files say: where its files are, and what is in them."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlstream.connectors.change_formats import has_kinds, of_message
from sqlstream.connectors.connector import PATH_ERROR, WRONG_COLUMN, columns_of
from sqlstream.connectors.stores.options import is_in_store, is_of_web
from sqlstream.errors import Diagnostic, Span
from sqlstream.formats.encodings import encoding_of
from sqlstream.options import NAME, WRONG_VALUE, Option, OptionKind, hint_of
from sqlstream.planner.catalog import APPEND_ONLY, Column, Table
from sqlstream.secrets import secret_texts, shown_value
from sqlstream.types import DataType
from sqlstream.udfs.texts import reason_of

CREDENTIALS = "SS584"
ENCODING = Option(
    "encoding",
    OptionKind("encoding", "an encoding such as 'UTF-8', 'ISO-8859-1', 'windows-1252' or 'UTF-16'", encoding_of),
    "How characters are bytes in files of the formats csv, json and text, local ones and those of object stores.",
    "utf-8",
)
TEXTS = ("csv", "json", "text")
"""The formats with an encoding."""

ROWS = "rows.parquet"
"""The file of a directory with the current rows of a table."""
MOST_PER_TRIGGER = "source.max-files-per-trigger"
BYTES_PER_TRIGGER = "source.max-bytes-per-trigger"
_LONGEST_SHOWN = 100

METADATA = {
    "file.path": ("file_path", DataType("STRING")),
    "file.name": ("file_name", DataType("STRING")),
    "file.size": ("file_size", DataType("BIGINT")),
    "file.modification-time": ("file_modification_time", DataType("TIMESTAMP")),
}
"""The keys of METADATA columns: the names of Spark's columns, and their types."""


def local_path(path: str) -> str | None:
    """Converts a path or ``file:`` URL into a local path; returns None for other file systems."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return unquote(parts.path)
    return path if parts.scheme == "" else None


def is_bounded(table: Table) -> bool:
    """True where the source reads only the files that exist when the query starts."""
    return table.option("source.monitor-interval") is None


def tells_kinds(table: Table) -> bool:
    """True where the files say the kind of each row (+I, -U, …), by their format or in a column."""
    return has_kinds(table) or kind_column(table) is not None


def partition_columns(table: Table) -> list[str]:
    """Returns the names of the columns in the option ``partition-by``."""
    listed = (table.option("partition-by") or "").split(",")
    return [name.strip() for name in listed if name.strip()]


def credentials(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields a diagnostic SS584 if the path contains credentials, because Spark would write them into checkpoint and
    logs.
    """
    path = table.option("path") or ""
    if secret_texts("path", path):
        message = f'path "{shown_value("path", path)}" of table "{table.name}" holds credentials'
        hint = "Give them to Spark: SET 'spark.hadoop.fs.s3a.access.key' = '…', or as your file system wants them."
        if is_of_web(path):
            hint = "Files of web servers are read without credentials: put them into an object store, or copy them."
        elif is_in_store(path):
            hint = "Give them in options, as 's3.access-key-id' = '${NAME}', or in the environment of the job."
        yield Diagnostic(CREDENTIALS, message, spans.get("path"), hint=hint)


def unusable(table: Table, path: str, error: Exception, span: Span | None = None) -> Diagnostic:
    """Returns the diagnostic SS508 for a path for which the file system raised ``error``."""
    message = f'path "{shown_path(path)}" of table "{table.name}" cannot be used: {reason_of(error)}'
    return Diagnostic(PATH_ERROR, message, span, hint='Correct the option "path".')


def shown_path(path: str) -> str:
    """Returns the path, shortened for messages."""
    return path if len(path) <= _LONGEST_SHOWN else f"{path[:_LONGEST_SHOWN]}…"


def columns_in_files(table: Table, columns: tuple[str, ...]) -> tuple[Column, ...]:
    """Returns those of the named columns that are read from file contents, and not from directory names or file
    metadata.
    """
    partitions = partition_columns(table)
    in_records = (c for c in columns_of(table, columns) if c.physical or of_message(table, c) is not None)
    return tuple(c for c in in_records if c.name not in partitions)


def matching_paths(path: str) -> Iterable[Path]:
    """Returns the local paths that match a path, which may be a glob pattern. Patterns fit no hidden names, as in
    Spark.
    """
    if not glob.has_magic(path):
        return (Path(path),)
    root = Path(path).anchor
    return (found for found in Path(root).glob(path.removeprefix(root)) if not is_hidden(found.name))


def check_encoding(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields a diagnostic SS504 if the option ``encoding`` is given where it has no effect."""
    chosen = (table.option("format") or "").strip().lower()
    if table.option(ENCODING.key) is None:
        return
    if chosen not in TEXTS:
        message = f'option "{ENCODING.key}" has no effect with format "{chosen}"'
        yield Diagnostic(WRONG_VALUE, message, spans.get(ENCODING.key), hint="Leave it out.")
    elif not _tasks_reach(table.option("path") or "") or tells_kinds(table):
        message = f'option "{ENCODING.key}" of table "{table.name}" holds for local files of inserted rows only'
        hint = "Convert the files to UTF-8, for instance with iconv, and leave the option out."
        yield Diagnostic(WRONG_VALUE, message, spans.get(ENCODING.key), hint=hint)


def _tasks_reach(path: str) -> bool:
    return local_path(path) is not None or is_in_store(path)


# --- kinds of rows in a column, for formats that have none: 'source.kind-column' = 'op' ---------------------------

KIND_COLUMN = Option(
    "source.kind-column",
    NAME,
    "The column with the kind of each row, +I, -U, +U or -D, or a word for it such as DELETE; with 'changelog-mode'.",
)


def kind_column(table: Table) -> str | None:
    """Returns the name of the column that holds the row kinds (option ``source.kind-column``), or None."""
    return table.option(KIND_COLUMN.key)


def check_kind_column(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields a diagnostic SS505 if the column with the row kinds does not exist or is not STRING, SS504 if the table
    has only inserts.
    """
    name = kind_column(table)
    if name is None:
        return
    span, kinds = spans.get(KIND_COLUMN.key), {c.name: c.type for c in table.physical_columns}
    if name not in kinds:
        message = f'option "{KIND_COLUMN.key}" names the column "{name}", which table "{table.name}" does not have'
        yield Diagnostic(WRONG_COLUMN, message, span, hint=hint_of(name, kinds, "Columns"))
    elif kinds[name].name != "STRING":
        message = f'column "{name}" of option "{KIND_COLUMN.key}" is of type {kinds[name]}, not STRING'
        yield Diagnostic(WRONG_COLUMN, message, span, hint="Declare it STRING: its values are +I, -U, +U and -D.")
    if table.changelog == APPEND_ONLY:
        message = f"option \"{KIND_COLUMN.key}\" needs a 'changelog-mode' of more kinds than I"
        yield Diagnostic(WRONG_VALUE, message, span, hint="Add 'changelog-mode' = 'I,UB,UA,D', or the kinds that come.")


def read_columns(table: Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the columns to read: ``columns`` and the column with the row kinds, if there is one."""
    name = kind_column(table)
    return columns if name is None or name in columns else (*columns, name)


def holds_rows_now(table: Table) -> bool:
    """True where the directory contains one Parquet file with the current rows by PRIMARY KEY, which each micro-batch
    replaces.
    """
    one_file = not (table.option("partition-by") or "").strip()
    parquet = (table.option("format") or "").strip().lower() == "parquet"
    return bool(table.primary_key) and parquet and one_file and table.changelog == APPEND_ONLY


def is_hidden(name: str) -> bool:
    """True where Spark ignores files and folders of this name."""
    return name.startswith(("_", "."))
