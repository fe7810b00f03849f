"""A PostgreSQL server as the driver sees it: addresses, connecting, its catalog, and the tables that are created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.database_tables import no_table
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import MISSING_OPTION, WRONG_VALUE, OptionKind
from sqlstream.planner.catalog import Table
from sqlstream.secrets import is_clear
from sqlstream.types import DataType
from sqlstream.udfs.lookup.sources.clients import no_package
from sqlstream.udfs.lookup.sources.postgres import DIALECT, one_line, session_settings

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

CANNOT_CONNECT = "SS562"
FAILED = "SS567"

_JDBC = "jdbc:"
_OF_JDBC = {"user": "user", "password": "password", "sslmode": "sslmode", "ApplicationName": "application_name"}
_HINTS = (
    ("pg_hba.conf", "The server lets nobody in this way: add the user and the address to its pg_hba.conf."),
    ("authentication failed", 'Correct the options "username" and "password".'),
    ("no password supplied", "Add 'username' and 'password' = '${NAME}', an environment variable."),
    ("database", 'Correct the database in "url", or create it.'),
    ("role", 'Correct the option "username".'),
)
_NO_SERVER = 'Is the server running, and can it be reached from here? Its address is in "url", or in "host" and "port".'


def check_address(table: Table, spans: Mapping[str, Span], host: str, database: str, hint: str) -> Iterator[Diagnostic]:
    """SS503 and SS504 where the options name no server, or name it twice: by ``url``, or by ``host``, ``port`` and
    ``database``, of which two have other names in some connectors. ``hint``: for what is missing.
    """
    given = dict(table.options)
    if "url" not in given and (host not in given or database not in given):
        message = f'connector "{table.connector}" requires the option "url", or "{host}" and "{database}"'
        yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint=hint)
    for key in (host, "port", database):
        if "url" in given and key in given:
            message = f'option "{key}" does not go with "url", which names it'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=f'Leave out "{key}" or "url".')


def check_columns(table: Table, spans: Mapping[str, Span]) -> Iterator[Diagnostic]:
    """SS505 for columns of types that PostgreSQL lacks."""
    for column in table.physical_columns:
        if innermost(column.type).name not in DIALECT.sent:
            message = f'connector "{table.connector}" has no values of type {column.type} for column "{column.name}"'
            hint = f"Declare it as STRING; its types are {', '.join(sorted(DIALECT.sent))} and ARRAY of them."
            yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint=hint)


def parameters(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns libpq's connection parameters for a table's parsed options. Raises ValueError for a URL that is not
    valid.
    """
    fixed = {"connect_timeout": str(max(2, -(-values["connect-timeout"] // 1000)))}  # libpq takes 2 s at least
    if values["url"] is not None:
        fixed |= of_url(values["url"])
    else:
        fixed |= {"host": values["host"], "port": str(values["port"]), "dbname": values["database"]}
    given = {"user": values["username"], "password": values["password"]}
    return fixed | {key: value for key, value in given.items() if value is not None}


def of_url(url: str) -> dict[str, str]:
    """Returns libpq's connection parameters for a ``postgresql://`` or ``jdbc:postgresql://`` URL. Raises ValueError
    for others.

    Of JDBC properties those are accepted that libpq has too.
    """
    if not is_clear(url):
        raise ValueError("in its password / is written as %2F and @ as %40")
    if url.startswith(_JDBC):
        return _of_jdbc(url.removeprefix(_JDBC))
    import psycopg  # an optional package

    try:
        return {key: str(value) for key, value in psycopg.conninfo.conninfo_to_dict(_with_encoded_user(url)).items()}
    except psycopg.ProgrammingError:  # its text may hold the password
        raise ValueError("it is no address of PostgreSQL") from None


def _with_encoded_user(url: str) -> str:
    """The URL with ``@`` in the password encoded: libpq takes what follows the first ``@`` for the host."""
    user, at, host = urlsplit(url).netloc.rpartition("@")
    return url.replace(f"{user}{at}{host}", f"{user.replace('@', '%40')}{at}{host}", 1) if "@" in user else url


def _of_jdbc(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    try:
        port = parts.port or 5432
    except ValueError:
        raise ValueError("its port is no number from 1 to 65535") from None
    result = {"host": parts.hostname or "localhost", "port": str(port), "dbname": parts.path.strip("/")}
    for key, value in parse_qsl(parts.query):
        if key == "currentSchema":
            result["options"] = f"-c search_path={value}"
        elif key in _OF_JDBC:
            result[_OF_JDBC[key]] = value
        else:
            allowed = ", ".join(sorted([*_OF_JDBC, "currentSchema"]))
            raise ValueError(f'its property "{key}" is not known; known are {allowed}')
    return result


def require_psycopg() -> None:
    """Raises ConnectorError SS577 if the package psycopg is not installed."""
    if find_spec("psycopg") is None:
        raise no_package("postgres", "psycopg")


@contextmanager
def connected(name: str, connection: Mapping[str, str], timeout_ms: int) -> Iterator[Connection]:
    """A context manager that opens a connection in autocommit mode. ``name``: the table, for error messages.

    Raises ConnectorError SS562 if the server cannot be reached, and SS567 for errors of statements in the context.
    """
    import psycopg  # an optional package

    try:
        server = psycopg.connect(**connection, autocommit=True)  # type: ignore[arg-type]
    except psycopg.Error as error:
        raise _no_way(name, connection, one_line(error)) from None
    try:
        with server:
            server.execute(session_settings(timeout_ms))
            yield server
    except psycopg.Error as error:
        raise failed(name, error, timeout_ms) from error


def failed(name: str, error: psycopg.Error, timeout_ms: int) -> ConnectorError:
    """Returns the error SS567 for a failed statement. ``name``: the table, for the message."""
    detail = error.diag.message_detail or error.diag.context  # of a COPY the column and the value
    return ConnectorError(FAILED, f'table "{name}": PostgreSQL says: {one_line(error, timeout_ms)}', detail=detail)


def _no_way(name: str, connection: Mapping[str, str], reason: str) -> ConnectorError:
    where = f"{connection.get('host', 'localhost')}:{connection.get('port', 5432)}"
    message = f'PostgreSQL at "{where}" of table "{name}" cannot be reached'
    answer = reason.partition("FATAL:")[2]  # what the server said, where there is one
    hint = next((hint for words, hint in _HINTS if words in answer), "" if answer else _NO_SERVER)
    return ConnectorError(CANNOT_CONNECT, message, detail=f"{reason}.", hint=hint or None)


# --- the catalog of the server ----------------------------------------------------------------------------------

_COLUMNS = """
    SELECT a.attname, (
        WITH RECURSIVE bases(type, sizes) AS (
            SELECT a.atttypid, a.atttypmod
            UNION ALL SELECT t.typbasetype, t.typtypmod FROM bases JOIN pg_type t ON t.oid = type WHERE t.typtype = 'd')
        SELECT format_type(type, sizes) FROM bases JOIN pg_type t ON t.oid = type WHERE t.typtype <> 'd')
    FROM pg_attribute a
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_TABLES = """
    SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND nspname !~ '^(pg_|information_schema$)'"""
_UNIQUE = """
    SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
    WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
      AND i.indisvalid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) GROUP BY i.indexrelid"""


def regclass(parts: tuple[str, ...]) -> str:
    """Returns the quoted name of a table, from the parts of the name (schema and table)."""
    return ".".join('"' + identifier.replace('"', '""') + '"' for identifier in parts)


def columns_there(server: Connection, table: Table, parts: tuple[str, ...], hint: str = "") -> dict[str, str]:
    """Returns all columns of a database table with their types. Raises SS563 if the table does not exist."""
    types: dict[str, str] = dict(server.execute(_COLUMNS, [regclass(parts)]).fetchall())
    if not types:
        raise no_table(table, parts, (name for (name,) in server.execute(_TABLES).fetchall()), hint)
    return types


def unique_keys(server: Connection, parts: tuple[str, ...]) -> list[set[str]]:
    """Returns the columns of each unique index that covers all rows, as partial indexes do not."""
    return [set(names) for (names,) in server.execute(_UNIQUE, [regclass(parts)]).fetchall()]


EPOCHS = "sqlstream_epochs"


# --- CREATE TABLE and its indexes -------------------------------------------------------------------------------

TOO_OLD = "SS697"
_NULLS_NOT_DISTINCT = 150_000
"""The first version of PostgreSQL whose unique indexes may take NULL for a value like others."""

_CREATED = {**DIALECT.sent, "TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer", "FLOAT": "real"}


def _indexes(text: str) -> tuple[tuple[str, ...], ...]:
    indexes = tuple(tuple(name.strip() for name in index.split(",")) for index in text.split(";") if index.strip())
    if not indexes or not all(all(index) for index in indexes):
        raise ValueError(text)
    return indexes


INDEXES = OptionKind("indexes", "names of columns with commas, and a semicolon between indexes: 'a; b, c'", _indexes)


def create_table_text(table: Table, parts: tuple[str, ...]) -> str:
    """Returns PostgreSQL's CREATE TABLE statement for the declared columns. ``parts``: schema and name of the new
    table.
    """
    columns = [
        f"{regclass((c.name,))} {_sql_type(c.type)}{' NOT NULL' * (not c.nullable)}" for c in table.physical_columns
    ]
    keys = _listed(table.primary_key)
    keyed = bool(keys) and not has_null_keys(table)
    return f"CREATE TABLE {regclass(parts)} ({', '.join([*columns, *([f'PRIMARY KEY ({keys})'] if keyed else [])])})"


def create_table(
    server: Connection, table: Table, parts: tuple[str, ...], indexes: tuple[tuple[str, ...], ...]
) -> None:
    """Creates the table in the database, with its primary key and indexes, unless they exist. ``parts``: its schema
    and name. ``indexes``: the columns of each index.

    Raises ConnectorError SS697 if a key column may be NULL and the server is older than PostgreSQL 15.
    """
    if has_null_keys(table) and server.info.server_version < _NULLS_NOT_DISTINCT:
        message = f'the key ({", ".join(table.primary_key)}) of "{table.name}" may be NULL'
        detail = "Servers before PostgreSQL 15 take rows with NULL in their key for different ones."
        hint = "Leave such rows out (WHERE … IS NOT NULL), or give NULL a value with COALESCE."
        raise ConnectorError(TOO_OLD, message, detail=detail, hint=hint)
    with server.transaction():
        server.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [regclass(parts)])  # several jobs start at once
        for statement in _statements(table, parts, indexes):
            server.execute(statement)


def _statements(table: Table, parts: tuple[str, ...], indexes: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    if table.materialized and len(parts) > 1:
        yield f"CREATE SCHEMA IF NOT EXISTS {regclass(parts[:-1][-1:])}"
    yield create_table_text(table, parts).replace("TABLE", "TABLE IF NOT EXISTS", 1)
    if has_null_keys(table):
        name = regclass((f"{parts[-1]}_key",))
        keys = _listed(table.primary_key)
        yield f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {regclass(parts)} ({keys}) NULLS NOT DISTINCT"
    spelled = {c.name.casefold(): c.name for c in table.physical_columns}
    for columns in indexes:
        names = tuple(spelled[name.casefold()] for name in columns)
        name = regclass(("_".join((parts[-1], *names, "idx"))[-63:],))  # PostgreSQL cuts longer names
        yield f"CREATE INDEX IF NOT EXISTS {name} ON {regclass(parts)} ({_listed(names)})"


def exists(server: Connection, parts: tuple[str, ...]) -> bool:
    """True where the database has the table. ``parts``: its schema and name."""
    return server.execute("SELECT to_regclass(%s)", [regclass(parts)]).fetchone() != (None,)


def has_epochs(server: Connection, parts: tuple[str, ...]) -> bool:
    """True where the database records stored micro-batches of the table, which means that a job has written it."""
    epochs = regclass((*parts[:-1], EPOCHS))
    if server.execute("SELECT to_regclass(%s)", [epochs]).fetchone() == (None,):
        return False
    return server.execute(f"SELECT 1 FROM {epochs} WHERE target = %s", [regclass(parts)]).fetchone() is not None


def drop_table(server: Connection, parts: tuple[str, ...]) -> None:
    """Drops the table and deletes the record of its stored micro-batches."""
    epochs = regclass((*parts[:-1], EPOCHS))
    with server.transaction():
        server.execute(f"DROP TABLE IF EXISTS {regclass(parts)}")
        if server.execute("SELECT to_regclass(%s)", [epochs]).fetchone() != (None,):
            server.execute(f"DELETE FROM {epochs} WHERE target = %s", [regclass(parts)])


def has_null_keys(table: Table) -> bool:
    """True where the table is a materialized view whose key may be NULL, as keys of GROUP BY may be."""
    return table.materialized and any(c.nullable for c in table.physical_columns if c.name in table.primary_key)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(regclass((name,)) for name in names)


def innermost(type_: DataType) -> DataType:
    """Returns the element type of an array with any number of dimensions; other types are returned unchanged."""
    if type_.name != "ARRAY":
        return type_
    element = type_.args[0]
    assert isinstance(element, DataType)
    return innermost(element)


def _sql_type(type_: DataType) -> str:
    if type_.name == "ARRAY":
        return f"{_sql_type(innermost(type_))}[]"
    return f"numeric({type_.args[0]}, {type_.args[1]})" if type_.name == "DECIMAL" else _CREATED[type_.name]
