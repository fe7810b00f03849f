"""The common part of connectors for databases in one file: ``duckdb`` and ``sqlite``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.database_tables import CONNECTIONS, TABLE_OPTION
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import PATH, Option
from sqlstream.planner.catalog import Table
from sqlstream.udfs.listed_files import version_of
from sqlstream.udfs.lookup.source import Request
from sqlstream.udfs.lookup.sources.file_database import first_line
from sqlstream.udfs.lookup.sources.sql_text import Dialect
from sqlstream.udfs.texts import reason_of

NO_FILE = "SS566"
NO_KEY_TYPE = "SS568"

OPTIONS = (
    Option("path", PATH, "The file of the database, the same on every machine of a cluster.", required=True),
    TABLE_OPTION,
    Option("lookup.connections", CONNECTIONS, "At most so many connections of a worker process.", "8"),
)


def check_types(table: Table, spans: Mapping[str, Span], types: Iterable[str]) -> Iterable[Diagnostic]:
    """SS505 for each column of a type that is not among ``types``, written as DDL or by its name."""
    readable = set(types)
    for column in table.physical_columns:
        if not {column.type.name, column.type.ddl()} & readable:
            message = f'connector "{table.connector}" has no values of type {column.type} for column "{column.name}"'
            hint = f"Its types are {', '.join(sorted(readable))}."
            yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint=hint)


def require_keys(table: Table, request: Request, dialect: Dialect) -> None:
    """SS568 where a key is of a type whose values have several spellings in the database."""
    for name, type_ in request.keys:
        if type_.name not in dialect.sent:
            message = f'column "{name}" of type {type_} cannot be a key of table "{table.name}"'
            raise ConnectorError(
                NO_KEY_TYPE, message, hint="Join on a column of another type, or declare it as STRING."
            )


def columns_there(
    table: Table, path: str, read: Callable[[], Mapping[str, str]], errors: type[Exception]
) -> Mapping[str, str]:
    """The columns that ``read`` finds in the file; SS566 if the file is missing or cannot be read."""
    try:
        there = Path(path).is_file()
    except (OSError, ValueError) as error:
        message = f'path "{path[:100]}" of table "{table.name}" cannot be used: {reason_of(error)}'
        raise ConnectorError(NO_FILE, message, hint='Correct the option "path".') from None
    if not there:
        message = f'file "{path}" of table "{table.name}" does not exist'
        raise ConnectorError(NO_FILE, message, hint='Correct the option "path"; a lookup creates no database.')
    try:
        return read()
    except errors as error:
        message = f'file "{path}" of table "{table.name}" cannot be read'
        hint = f"Is it a database of {table.connector}, and does no process write to it?"
        raise ConnectorError(NO_FILE, message, detail=f"{first_line(error)}.", hint=hint) from None


def file_as_of(path: str, *, changing: bool = False) -> str:
    """A word for the file as it is now. ``changing``: the database lets others write, and shows it to open connections,
    so that only a file in its place is another one."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return ""
    parts = (status.st_dev, status.st_ino) if changing else version_of(status)
    return "-".join(map(str, parts))
