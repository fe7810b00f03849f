"""``duckdb`` and ``sqlite``: tables of a database in one file, looked up by any columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from sqlstream.connectors.connector import WRONG_COLUMN, LookupTable
from sqlstream.connectors.database_tables import CONNECTIONS, TABLE_OPTION, Allowed, filters, matched, no_table
from sqlstream.connectors.environment import Environment
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import PATH, Option
from sqlstream.planner.catalog import Table
from sqlstream.udfs.files.listed import version_of
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources import file_database
from sqlstream.udfs.lookup.sources.clients import no_package
from sqlstream.udfs.lookup.sources.file_database import DuckDbSource, SqliteSource, first_line
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
    """Yields a diagnostic SS505 for each column whose type is not in ``types``, which lists type names (``DECIMAL``)
    or whole types (``DECIMAL(10, 2)``).
    """
    readable = set(types)
    for column in table.physical_columns:
        if not {column.type.name, column.type.ddl()} & readable:
            message = f'connector "{table.connector}" has no values of type {column.type} for column "{column.name}"'
            hint = f"Its types are {', '.join(sorted(readable))}."
            yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint=hint)


def require_keys(table: Table, request: Request, dialect: Dialect) -> None:
    """Raises ConnectorError SS568 for a lookup key whose type has no unique representation in the database, so that
    equality is undefined.
    """
    for name, type_ in request.keys:
        if type_.name not in dialect.sent:
            message = f'column "{name}" of type {type_} cannot be a key of table "{table.name}"'
            raise ConnectorError(
                NO_KEY_TYPE, message, hint="Join on a column of another type, or declare it as STRING."
            )


def columns_there(
    table: Table, path: str, read: Callable[[], Mapping[str, str]], errors: type[Exception]
) -> Mapping[str, str]:
    """Calls ``read`` and returns its result, the columns of a database table with their types.

    Raises ConnectorError SS566 if the file ``path`` does not exist, or if ``read`` raises one of ``errors``.
    """
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
    """Returns an identifier of a file's version, which changes when cached connections must be reopened.

    ``changing``: open connections see the writes of other processes, so only a new file under the path is a new
    version.
    """
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return ""
    parts = (status.st_dev, status.st_ino) if changing else version_of(status)
    return "-".join(map(str, parts))


# --- duckdb ---------------------------------------------------------------------------------------------------


_ELEMENTS = [name for name in file_database.DUCKDB.sent if name not in ("DECIMAL", "TIMESTAMP", "TIMESTAMP_NTZ")]
_TYPES_OF_DUCKDB = (*file_database.DUCKDB.sent, *(f"ARRAY<{name}>" for name in _ELEMENTS))
_SMALL = ("tinyint", "smallint", "utinyint")
_MIDDLE = (*_SMALL, "integer", "usmallint")
_LARGE = (*_MIDDLE, "bigint", "uinteger")
_TIMES = {"timestamp", "timestamp with time zone", "timestamp_s", "timestamp_ms"}

READABLE: Allowed = {
    "BOOLEAN": {"boolean"},
    "TINYINT": {"tinyint"},
    "SMALLINT": set(_SMALL),
    "INT": set(_MIDDLE),
    "BIGINT": set(_LARGE),
    "FLOAT": {"float"},
    "DOUBLE": {"float", "double"},
    "DECIMAL": {"decimal", *_LARGE},
    "BINARY": {"blob"},
    "DATE": {"date"},
    "TIMESTAMP": _TIMES,
    "TIMESTAMP_NTZ": _TIMES,
}

_COLUMNS_QUERY = """
    SELECT column_name, data_type FROM duckdb_columns()
    WHERE table_name = ? AND schema_name = ? AND NOT internal ORDER BY column_index"""


def _columns_of_duckdb(table: Table, path: str, parts: tuple[str, ...]) -> dict[str, str]:
    with closing(file_database.connect_to_duckdb(path)) as database:
        schema = parts[-2] if len(parts) > 1 else "main"
        types: dict[str, str] = dict(database.execute(_COLUMNS_QUERY, [parts[-1], schema]).fetchall())
        if not types:
            tables = database.execute("SELECT DISTINCT table_name FROM duckdb_columns() WHERE NOT internal").fetchall()
            raise no_table(table, parts, (name for (name,) in tables))
    return types


class DuckDb(LookupTable):
    """Lookups in a DuckDB file, which each worker process opens."""

    name = "duckdb"
    doc = "Tables of a DuckDB file, looked up by any columns."
    options = OPTIONS
    scans = True
    variables = ("path",)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        return check_types(table, spans, _TYPES_OF_DUCKDB)

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        """Checks that the file has the table and its columns, with readable types, and returns the object that answers
        lookups.
        """
        if find_spec("duckdb") is None:
            raise no_package("duckdb", "duckdb")
        values = self.resolved_values(table)
        path, parts = values["path"], values["table-name"]
        require_keys(table, request, file_database.DUCKDB)
        types = columns_there(table, path, lambda: _columns_of_duckdb(table, path, parts), file_database.duckdb_error())
        names = [name for name, _ in (*request.keys, *request.columns)] + [c.column for c in request.filters]
        stored = matched(table, names, types, READABLE)
        connections, file = values["lookup.connections"], file_as_of(path)
        return DuckDbSource(table.name, path, parts, request, tuple(stored.items()), connections, file)

    def filters(self, table: Table, comparison: Comparison) -> bool:
        return filters(table, comparison)


# --- sqlite ---------------------------------------------------------------------------------------------------


_TYPES_OF_SQLITE = (*file_database.SQLITE.sent, "TIMESTAMP", "TIMESTAMP_NTZ")


def _columns_of_sqlite(table: Table, path: str, parts: tuple[str, ...]) -> dict[str, str]:
    with closing(file_database.connect_to_sqlite(path)) as database:
        rows = database.execute("SELECT name FROM pragma_table_info(?)", [parts[-1]]).fetchall()
        if not rows or parts[:-1] not in ((), ("main",)):
            tables = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
            raise no_table(table, parts, (name for (name,) in tables))
    return {name: "" for (name,) in rows}


class Sqlite(LookupTable):
    """Lookups in an SQLite file, which each worker process opens."""

    name = "sqlite"
    doc = "Tables of a SQLite file, looked up by any columns."
    options = OPTIONS
    scans = True
    variables = ("path",)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        return check_types(table, spans, _TYPES_OF_SQLITE)

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        """Checks that the file has the table and its columns (SQLite's columns have no types), and returns the object
        that answers lookups.
        """
        values = self.resolved_values(table)
        path, parts = values["path"], values["table-name"]
        require_keys(table, request, file_database.SQLITE)
        columns = columns_there(table, path, lambda: _columns_of_sqlite(table, path, parts), sqlite3.Error)
        names = [name for name, _ in (*request.keys, *request.columns)] + [c.column for c in request.filters]
        stored = matched(table, names, columns, {})
        connections, file = values["lookup.connections"], file_as_of(path, changing=True)
        return SqliteSource(table.name, path, parts, request, tuple(stored.items()), connections, file)

    def filters(self, table: Table, comparison: Comparison) -> bool:
        return filters(table, comparison)
