"""Checks of local files before a job starts: names, formats, directories, and the columns that a query reads.

Only the newest files are opened: they are most like those that will follow. The reader reports what others lack, and
files that cannot be read.
"""

from __future__ import annotations

import csv
import heapq
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from sqlstream.connectors.files.tables import is_hidden
from sqlstream.connectors.formats import csv_settings
from sqlstream.errors import Diagnostic, ExecutionError, SqlStreamError
from sqlstream.formats.avro_schema import Schema as AvroSchema
from sqlstream.formats.encodings import longer_header
from sqlstream.planner.bad_rows import missing_are_null
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD_ROW
from sqlstream.udfs.files import avro as avro_files
from sqlstream.udfs.files.columnar import ColumnarFiles, schema_of
from sqlstream.udfs.files.listed import Mismatch, mismatches, require_readable, shown_name, version_of
from sqlstream.udfs.files.sink_log import logged_paths
from sqlstream.udfs.texts import is_text, json_of

WRONG_HEADER = "SS525"
MISSPELT_FIELD = "SS526"

MOST_FILES = 100
_MOST_TEXT_FILES = 4
MOST_RECORDS = 100
_REMEMBERED_FILES = 100_000
_LIKENESS = 0.75  # the least ratio of difflib for two names of which one is surely the other misspelt


def newest_files(paths: Iterable[Path], most: int = MOST_FILES) -> list[Path]:
    """Returns at most ``most`` files below the paths that Spark would read, newest first."""
    return [path for _, path in heapq.nlargest(most, ((p.stat().st_mtime_ns, p) for p in _files(paths) if p.exists()))]


def has_more_files(paths: Iterable[Path], most: int = MOST_FILES) -> bool:
    """True where there are more than ``most`` files below the paths."""
    return next(islice(_files(paths), most, None), None) is not None


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        logged = None
        with suppress(OSError, ValueError):  # a damaged log is for the reader to name
            logged = logged_paths(path)
        if logged is not None:
            yield from map(Path, logged)
        elif path.is_dir():
            for folder, folders, names in os.walk(path):
                folders[:] = [name for name in folders if not is_hidden(name)]
                yield from (Path(folder, name) for name in names if not is_hidden(name))
        elif path.is_file():
            yield path


def wrong_columns(
    table: Table, values: Mapping[str, Any], columns: Sequence[Column], files: Sequence[Path]
) -> list[Diagnostic]:
    """Compares the columns with those in the files, and returns diagnostics SS467 and SS524 to SS526 for the newest
    file that differs: a column is missing, or has another name, position or type.

    ``values``: the parsed options of the table. ``files``: files to check, newest first.
    """
    match values["format"]:
        case "parquet" | "orc" | "arrow":
            kind = values["format"]
            schemas = ((str(file), schema) for file in files if (schema := file_schema(file, kind)) is not None)
            return wrong_schema(table, kind, columns, schemas)
        case "avro":
            return avro_mismatches(table, columns, _avro_schemas(files))
        case "csv" if values["csv.header"]:
            read = ((str(file), _lines(file, MOST_RECORDS, values["encoding"])) for file in files)
            headers = ((file, line) for file, lines in read for line in header(lines, values))
            return wrong_header(table, values, columns, headers)
        case "json":
            samples = [(str(f), _lines(f, MOST_RECORDS, values["encoding"])) for f in files[:_MOST_TEXT_FILES]]
            return misspelt_fields(table, columns, samples)
    return []


# --- Parquet, ORC, Arrow and Avro ------------------------------------------------------------------------------------


def file_schema(file: Path, format: str) -> pa.Schema | None:  # noqa: A002
    """Returns the schema of a Parquet, ORC or Arrow file; None where it cannot be read."""
    with suppress(pa.ArrowException, OSError):
        return schema_of(str(file), format)
    return None


def wrong_schema(
    table: Table, kind: str, columns: Sequence[Column], schemas: Iterable[tuple[str, pa.Schema]]
) -> list[Diagnostic]:
    """Compares the columns with the schemas of Parquet or ORC files.

    Returns diagnostics SS524 for columns that a file lacks and SS467 for columns of another type. ``schemas``: pairs
    of file name and schema.
    """
    wanted = {c.name: type_ for c in columns if (type_ := _arrow_type(c)) is not None}
    for file, schema in schemas:
        wrong = [*mismatches([*schema], wanted, nulls=missing_are_null(table), orc=kind == "orc")]
        if wrong:
            return _shown(table, wrong, schema.names, file, kind)
    return []


def no_text(format: str, columns: Sequence[Column], paths: Iterable[Path]) -> SqlStreamError | None:  # noqa: A002
    """Returns the error SS402 for the first value of the columns in Parquet and ORC files that is no UTF-8; None
    without one. It reads their texts, for which Spark takes any bytes.
    """
    texts = tuple((c.name, c.type) for c in columns if any(part.name == "STRING" for part in c.type.parts()))
    for file in _files(paths) if format in ("orc", "parquet") and texts else ():
        with suppress(OSError):  # gone meanwhile
            found = _text_that_is_none(str(file), format, texts, version_of(file.stat()))
            if found is not None:
                return ExecutionError.of([found])
    return None


@lru_cache(maxsize=_REMEMBERED_FILES)
def _text_that_is_none(
    file: str,
    format: str,  # noqa: A002
    texts: tuple[tuple[str, DataType], ...],
    version: tuple[int, ...],
) -> Diagnostic | None:
    """The fault of the first of these columns of a file that has one. What is known of a ``version`` of a file is not
    read again: a query that makes such a text itself asks for each batch of its rows.
    """
    for column in texts:
        try:
            for _ in ColumnarFiles(format, (column,), nulls=True).batches(file):
                pass
        except SqlStreamError as error:
            if error.code == BAD_ROW:
                return error.diagnostic
    return None


def avro_mismatches(
    table: Table, columns: Sequence[Column], schemas: Iterable[tuple[str, AvroSchema]]
) -> list[Diagnostic]:
    """``wrong_schema`` for files of Avro."""
    wanted = [pa.field(c.name, type_) for c in columns if (type_ := _arrow_type(c)) is not None]
    for file, schema in schemas:
        with suppress(pa.ArrowException, OSError):
            wrong = [*avro_files.mismatches(schema, wanted, nulls=missing_are_null(table))]
            if wrong:
                return _shown(table, wrong, [m.name for m in schema.members], file, "avro")
    return []


def _avro_schemas(files: Iterable[Path]) -> Iterator[tuple[str, AvroSchema]]:
    for file in files:
        with suppress(pa.ArrowException, OSError):
            yield str(file), avro_files.file_schema(str(file))


def _shown(table: Table, wrong: Sequence[Mismatch], names: Sequence[str], file: str, kind: str) -> list[Diagnostic]:
    declared = {c.name.casefold() for c in table.physical_columns}
    free = [name for name in names if name.casefold() not in declared]
    return [m.diagnostic(file, _suggestion(m.column, m.names, free), kind) for m in wrong]


def _arrow_type(column: Column) -> pa.DataType | None:
    with suppress(TypeError):
        return column.type.to_arrow()
    return None


def _suggestion(column: str, names: Sequence[str], free: Sequence[str]) -> str:
    """The name that was meant, among those that no column has yet, and what is there."""
    meant = did_you_mean(column, free) if "." not in column else None
    return " ".join(filter(None, (meant, f"Columns: {', '.join(sorted(names))}.")))


# --- CSV ------------------------------------------------------------------------------------------------------


def wrong_header(
    table: Table, values: Mapping[str, Any], columns: Sequence[Column], headers: Iterable[tuple[str, str]]
) -> list[Diagnostic]:
    """Returns diagnostics SS525 for columns that have another name at their position in the header of a CSV file, and
    for a header with more columns than the table has.

    ``headers``: pairs of file name and header line.
    """
    partitions = {name.strip() for name in (table.option("partition-by") or "").split(",")}
    places = {c.name: i for i, c in enumerate(c for c in table.physical_columns if c.name not in partitions)}
    for file, line in headers:
        names = _fields_of_header(line, values)
        for column in columns:
            there = names[places[column.name]] if places[column.name] < len(names) else None
            if there is None or there.casefold() != column.name.casefold():
                return [_wrong_name(table, column, places[column.name], there, file, names)]
        if len(names) > len(places):
            message, hint = longer_header(table.name, len(places), file, names)
            return [Diagnostic(WRONG_HEADER, message, hint=hint)]
    return []


def header(lines: Iterable[str], values: Mapping[str, Any]) -> list[str]:
    """Returns a list with the first line that is not a comment; an empty list if there is none. ``values``: the parsed
    options of the table, which say whether lines that begin with ``#`` are comments.
    """
    return [*islice((line for line in lines if not (values["csv.allow-comments"] and line.startswith("#"))), 1)]


def _wrong_name(
    table: Table, column: Column, index: int, there: str | None, file: str, names: Sequence[str]
) -> Diagnostic:
    shown = "no column" if there is None else f'"{there}"'
    message = (
        f'column {index + 1} in the header of file "{file}" is {shown}, not "{column.name}" of table "{table.name}"'
    )
    order = f"A table of CSV files has their columns in their order: {', '.join(names)}."
    meant = did_you_mean(column.name, [name for name in names if name.casefold() != column.name.casefold()])
    misplaced = any(name.casefold() == column.name.casefold() for name in names)
    return Diagnostic(WRONG_HEADER, message, hint=order if misplaced or meant is None else f"{meant} {order}")


def _fields_of_header(line: str, values: Mapping[str, Any]) -> list[str]:
    dialect = csv_settings(values)
    quote, escape = dialect["quote"] or None, dialect["escape"] if dialect["escape"] != dialect["quote"] else None
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    return next(csv.reader([line], delimiter=dialect["sep"], quotechar=quote, escapechar=escape, quoting=quoting), [])


# --- JSON -----------------------------------------------------------------------------------------------------


def misspelt_fields(
    table: Table, columns: Sequence[Column], samples: Iterable[tuple[str, Sequence[str]]]
) -> list[Diagnostic]:
    """Returns a diagnostic SS526 for a column that no JSON record has, if records have an unknown field with a similar
    name.

    ``samples``: pairs of file name and its first lines. A missing field alone is no error, because JSON fields are
    optional.
    """
    fields: dict[str, str] = {}
    for file, lines in samples:
        for name in _names_of_records(lines):
            fields.setdefault(name, file)
    declared = {c.name for c in table.physical_columns}
    if missing_are_null(table):
        return []
    free = {name.casefold(): name for name in fields if name not in declared}
    diagnostics = []
    for column in columns:
        near = get_close_matches(column.name.casefold(), free, n=1, cutoff=_LIKENESS)
        if column.name not in fields and near:
            diagnostics.append(_misspelt(table, column, free[near[0]], fields[free[near[0]]]))
    return diagnostics


def _names_of_records(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        with suppress(ValueError):
            record = json_of(line)
            if isinstance(record, dict):
                yield from record


def _misspelt(table: Table, column: Column, field: str, file: str) -> Diagnostic:
    message = (
        f'no record looked at has the field "{column.name}" of table "{table.name}", but file "{file}" has "{field}"'
    )
    way_out = (
        "With 'json.missing-columns' = 'null' in its WITH, a field that a record lacks is NULL whatever others it has."
    )
    return Diagnostic(MISSPELT_FIELD, message, hint=f'Did you mean "{field}"? {way_out}')


def _lines(file: Path, most: int, encoding: str) -> list[str]:
    """The first lines of a file that are not empty, unpacked."""
    with (
        suppress(pa.ArrowException, OSError, UnicodeDecodeError),
        pa.input_stream(str(file), compression="detect") as raw,
    ):
        text = TextIOWrapper(raw, encoding="utf-8-sig" if encoding == "utf-8" else encoding)
        return [*islice((line for line in map(str.strip, text) if line), most)]
    return []


# --- links and names ------------------------------------------------------------------------------------------

WRONG_NAME = "SS530"


@dataclass
class Walk:
    """The files below some directories, each listed once. ``links``: further symbolic links to listed files."""

    files: list[Path] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)


def walk(roots: Iterable[Path]) -> Walk:
    """Lists the files below the given directories. Links are followed last, so that a file is listed under its own
    path.
    """
    result, seen = Walk(), set[str]()
    waiting = [*roots]
    while waiting:
        links: list[Path] = []
        for path in waiting:
            _visit(path, result, seen, links)
        waiting = links
    return result


def _visit(path: Path, result: Walk, seen: set[str], links: list[Path]) -> None:
    real = os.path.realpath(path)
    if real in seen:
        result.links.append(path)
        return
    seen.add(real)
    if not path.is_dir():
        result.files.append(path)
        return
    children: list[Path] = []
    with suppress(FileNotFoundError):  # removed since its name was read
        children = sorted(path.iterdir())
    for child in children:
        if child.name.startswith(("_", ".")):
            continue
        if child.is_symlink():
            links.append(child)
        else:
            _visit(child, result, seen, links)


def wrong_files(table: Table, files: Iterable[Path], format: str) -> Iterator[Diagnostic]:  # noqa: A002
    """Yields diagnostics for files that cannot be read: SS530 for a name that is not UTF-8, SS528 for another format,
    SS529 for a broken link.
    """
    for file in files:
        if not is_text(str(file)):
            message = f'the name of file "{shown_name(str(file))}" of table "{table.name}" is no UTF-8'
            yield Diagnostic(WRONG_NAME, message, hint="Rename it: Spark does not find it by this name.")
            continue
        try:
            require_readable(str(file), format)
        except SqlStreamError as error:
            yield error.diagnostic


# --- directories column=value of 'partition-by' -----------------------------------------------------------------

WRONG_DIRECTORY = "SS532"


def wrong_directories(
    table: Table, partitions: Sequence[str], roots: Iterable[Path], files: Iterable[Path]
) -> Iterator[Diagnostic]:
    """Yields a diagnostic SS532 for each file that is not in one ``column=value`` directory per partition column."""
    folders = [root for root in roots if root.is_dir()]
    if not partitions or len(folders) != 1:
        return
    for file in files:
        if file.is_relative_to(folders[0]):
            names = [name.partition("=")[0] for name in file.relative_to(folders[0]).parts[:-1]]
            if sorted(names) != sorted(partitions):
                wanted = "/".join(f"{name}=…" for name in partitions)
                yield wrong_directory(table, f'file "{shown_name(str(file))}" is not in "{wanted}"')


def wrong_directory(table: Table, what: str) -> Diagnostic:
    """Returns the diagnostic SS532 for a table whose directories do not match ``partition-by``. ``what``: the end of
    the message, which says what is wrong.
    """
    hint = (
        "Each file stands in directories column=value, one for each column of 'partition-by', with values of its type."
    )
    return Diagnostic(WRONG_DIRECTORY, f'table "{table.name}" has the option "partition-by": {what}', hint=hint)
