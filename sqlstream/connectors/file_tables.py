"""What the options of a table of files say: where its files are, and what is in them."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sqlstream.connectors.change_formats import has_kinds, of_message
from sqlstream.connectors.connector import PATH_ERROR, WRONG_COLUMN, columns_of
from sqlstream.connectors.formats import quoted, shown
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, WRONG_VALUE, Option, hint_of
from sqlstream.planner.bad_rows import BAD_ROW
from sqlstream.planner.catalog import APPEND_ONLY, Column, RowKind, Table
from sqlstream.secrets import secret_texts, shown_value
from sqlstream.types import DataType
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

CREDENTIALS = "SS584"
MOST_PER_TRIGGER = "source.max-files-per-trigger"
_LONGEST_SHOWN = 100

METADATA = {
    "file.path": ("file_path", DataType("STRING")),
    "file.name": ("file_name", DataType("STRING")),
    "file.size": ("file_size", DataType("BIGINT")),
    "file.modification-time": ("file_modification_time", DataType("TIMESTAMP")),
}
"""The keys of METADATA columns: the names of Spark's columns, and their types."""


def local_path(path: str) -> str | None:
    """The path on this machine that ``path`` means; None where it lies in another file system."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return unquote(parts.path)
    return path if parts.scheme == "" else None


def is_bounded(table: Table) -> bool:
    """Whether the files that are there at the start are all."""
    return table.option("source.monitor-interval") is None


def tells_kinds(table: Table) -> bool:
    """Whether each row that is read has its kind, from its format or from a column."""
    return has_kinds(table) or kind_column(table) is not None


def partition_columns(table: Table) -> list[str]:
    """The columns of the option ``partition-by``."""
    listed = (table.option("partition-by") or "").split(",")
    return [name.strip() for name in listed if name.strip()]


def credentials(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS584 for a path with credentials, which Spark would write into the checkpoint and its logs."""
    path = table.option("path") or ""
    if secret_texts("path", path):
        message = f'path "{shown_value("path", path)}" of table "{table.name}" holds credentials'
        hint = "Give them to Spark: SET 'spark.hadoop.fs.s3a.access.key' = '…', or as your file system wants them."
        yield Diagnostic(CREDENTIALS, message, spans.get("path"), hint=hint)


def unusable(table: Table, path: str, error: Exception, span: Span | None = None) -> Diagnostic:
    """SS508 for a path that the file system refuses."""
    message = f'path "{shown_path(path)}" of table "{table.name}" cannot be used: {reason_of(error)}'
    return Diagnostic(PATH_ERROR, message, span, hint='Correct the option "path".')


def shown_path(path: str) -> str:
    """The beginning of a path, for messages."""
    return path if len(path) <= _LONGEST_SHOWN else f"{path[:_LONGEST_SHOWN]}…"


def columns_in_files(table: Table, columns: tuple[str, ...]) -> tuple[Column, ...]:
    """The columns that are read from the content of files, not from their names or metadata."""
    partitions = partition_columns(table)
    in_records = (c for c in columns_of(table, columns) if c.physical or of_message(table, c) is not None)
    return tuple(c for c in in_records if c.name not in partitions)


def matching_paths(path: str) -> Iterable[Path]:
    """The local paths that a path or a pattern means."""
    root = Path(path).anchor
    return Path(root).glob(path.removeprefix(root)) if glob.has_magic(path) else (Path(path),)


# --- kinds of rows in a column, for formats that have none: 'source.kind-column' = 'op' ---------------------------

KIND_COLUMN = Option(
    "source.kind-column",
    NAME,
    "The column with the kind of each row, +I, -U, +U or -D, or a word for it such as DELETE; with 'changelog-mode'.",
)
_WORDS = {
    RowKind.INSERT: ("+I", "I", "INSERT"),
    RowKind.UPDATE_BEFORE: ("-U", "UB", "UPDATE_BEFORE"),
    RowKind.UPDATE_AFTER: ("+U", "U", "UA", "UPDATE", "UPDATE_AFTER"),
    RowKind.DELETE: ("-D", "D", "DELETE"),
}


def kind_column(table: Table) -> str | None:
    """The column with the kinds of rows, if the table names one."""
    return table.option(KIND_COLUMN.key)


def check_kind_column(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS505 for a column that does not exist or is no STRING, SS504 for a table whose rows are all inserts."""
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
    """The columns to read: ``columns``, and the one with the kinds."""
    name = kind_column(table)
    return columns if name is None or name in columns else (*columns, name)


def with_kinds(rows: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """The rows with ROW_KIND. The job fails with SS402 at a kind that the table does not declare.

    If the column with the kinds is among ``columns``, it is NULL: a retraction must equal the row that it retracts.
    """
    from pyspark.sql import functions as F

    name = kind_column(table)
    assert name is not None
    rows = rows.withColumn(ROW_KIND, _kind(F.col(quoted(name)), table, name))
    return rows.withColumn(name, F.lit(None).cast("STRING")) if name in columns else rows.drop(name)


def _kind(text: SparkColumn, table: Table, name: str) -> SparkColumn:
    from pyspark.sql import functions as F

    word, kinds = F.upper(F.trim(text)), sorted(table.changelog, key=list(RowKind).index)
    listed = ", ".join(kind.value for kind in kinds)
    start = F.lit(f'{BAD_ROW}: column "{name}" of table "{table.name}" tells the kind "')
    message = F.concat(start, F.coalesce(shown(text), F.lit("NULL")), F.lit(f'" of a row, which is none of {listed}'))
    kind = F.raise_error(message).cast("STRING")
    for declared in kinds:
        kind = F.when(word.isin(*_WORDS[declared]), F.lit(declared.value)).otherwise(kind)
    return kind
