"""``postgres``: tables of PostgreSQL, looked up by any columns and written exactly once; ``jdbc`` is its other name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from sqlstream.connectors.connector import (
    UNKNOWN_RANGE,
    WRONG_COLUMN,
    BatchWriter,
    Environment,
    LookupTable,
    RecoverableSink,
    SinkWriteRange,
    UpsertSink,
)
from sqlstream.connectors.database_tables import (
    CONNECTIONS,
    READABLE,
    TABLE_OPTION,
    WRITABLE,
    filters,
    matched,
)
from sqlstream.connectors.postgres_server import (
    columns_there,
    connected,
    parameters,
    regclass,
    require_psycopg,
    unique_keys,
)
from sqlstream.connectors.postgres_sink import PostgresWriter
from sqlstream.connectors.postgres_tables import (
    INDEXES,
    create_table,
    create_table_text,
    drop_table,
    exists,
    has_epochs,
    has_null_keys,
    innermost,
)
from sqlstream.connectors.secrets import resolved, secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import BOOLEAN, DURATION, MISSING_OPTION, NAME, STRING, WRONG_VALUE, Option, integer
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources.postgres import DIALECT, PostgresSource

if TYPE_CHECKING:
    from sqlstream.connectors.postgres_server import Connection

NO_UNIQUE_KEY = "SS565"

# --- what a table says ----------------------------------------------------------------------------------------


def check_types(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    for column in table.physical_columns:
        if innermost(column.type).name not in DIALECT.sent:
            message = f'connector "{table.connector}" has no values of type {column.type} for column "{column.name}"'
            hint = f"Declare it as STRING; its types are {', '.join(sorted(DIALECT.sent))} and ARRAY of them."
            yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint=hint)
    yield from _check_indexes(table, spans)


def _check_indexes(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    names = {c.name.casefold() for c in table.physical_columns}
    for name in filter(None, (name.strip() for name in re.split("[;,]", table.option("indexes") or ""))):
        if name.casefold() not in names:
            message = f'column "{name}" of the option "indexes" does not exist'
            yield Diagnostic(WRONG_VALUE, message, spans.get("indexes"), hint=f"There are {', '.join(sorted(names))}.")


def _opened(table: Table) -> tuple[dict[str, Any], dict[str, str]]:
    """The options with their secrets, and libpq's parameters. Called when a job starts, on the driver."""
    require_psycopg()
    values = resolved({**dict.fromkeys(("host", "port", "database")), **_all_values(table)})
    try:
        return values, parameters(values)
    except ValueError as error:
        message = f'option "url" of table "{table.name}" cannot be used: {error}'
        hint = "Write 'postgresql://host:5432/database', or 'jdbc:postgresql://host:5432/database' with jdbc."
        raise ConnectorError(WRONG_VALUE, message, hint=hint) from None


def _all_values(table: Table) -> dict[str, Any]:
    from sqlstream.connectors import connector

    return connector(table.connector).values(table)


# --- lookups --------------------------------------------------------------------------------------------------


# --- materialized views ---------------------------------------------------------------------------------------


def is_stored(table: Table) -> bool:
    """Whether the database has a table of that name."""
    values, connection = _opened(table)
    with connected(table.name, connection, values["statement-timeout"]) as server:
        return exists(server, values["table-name"])


def was_written(table: Table) -> bool:
    """Whether the database knows of a job that has written to the table."""
    values, connection = _opened(table)
    with connected(table.name, connection, values["statement-timeout"]) as server:
        return has_epochs(server, values["table-name"])


def remove_stored(table: Table) -> None:
    """Drop the table in the database."""
    values, connection = _opened(table)
    with connected(table.name, connection, values["statement-timeout"]) as server:
        drop_table(server, values["table-name"])


# --- sink -----------------------------------------------------------------------------------------------------


def _writer(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    connection: Mapping[str, str],
    columns: tuple[tuple[str, str, DataType], ...] = (),
    keys: tuple[str, ...] = (),
) -> PostgresWriter:
    return PostgresWriter(
        table.name,
        tuple(connection.items()),
        values["table-name"],
        columns,
        keys,
        environment.job,
        environment.run,
        values["statement-timeout"],
        secrets_of(table),
        has_null_keys(table),
    )


def _require_unique(server: Connection, table: Table, parts: tuple[str, ...], keys: tuple[str, ...]) -> None:
    if keys and set(keys) not in unique_keys(server, parts):
        listed = ", ".join(regclass((key,)) for key in keys)
        message = f'table "{table.name}" has no unique index on its PRIMARY KEY ({", ".join(keys)}) in the database'
        hint = f"Rows are replaced by key through it: CREATE UNIQUE INDEX ON {regclass(parts)} ({listed});"
        raise ConnectorError(NO_UNIQUE_KEY, message, hint=hint)


OPTIONS = (
    replace(TABLE_OPTION, sink=True),
    Option("username", NAME, "The user; that of the process.", sink=True),
    Option("password", STRING, "The password, best as '${NAME}' of an environment variable.", sink=True),
    Option("connect-timeout", DURATION, "How long to wait for a connection.", "10 s", sink=True),
    Option("statement-timeout", DURATION, "How long a statement may run in the server.", "30 s", sink=True),
    Option("lookup.connections", CONNECTIONS, "At most so many connections of a worker process for lookups.", "8"),
    Option(
        "create-table", BOOLEAN, "Create the table when a job starts, where there is none.", "false",
        source=False, sink=True,
    ),
    Option("indexes", INDEXES, "Indexes of a table that is created: 'a; b, c'.", source=False, sink=True),
)  # fmt: skip
"""What ``postgres`` and ``jdbc`` have in common."""


class Postgres(LookupTable, UpsertSink, RecoverableSink):
    """Asks in the worker processes and copies rows from them, with psycopg."""

    name = "postgres"
    doc = "Tables of PostgreSQL, looked up by any columns; written exactly once, by PRIMARY KEY where there is one."
    options: ClassVar[tuple[Option, ...]] = (
        Option("url", NAME, "The server and the database: postgresql://host:5432/database.", sink=True),
        Option("host", NAME, "The server, in place of a url.", sink=True),
        Option("port", integer(1, 65535), "Its port.", "5432", sink=True),
        Option("database", NAME, "Its database.", sink=True),
        *OPTIONS,
    )
    scans = True
    variables: ClassVar[tuple[str, ...]] = ("database", "host", "password", "url", "username")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        given = dict(table.options)
        if "url" not in given and ("host" not in given or "database" not in given):
            message = f'connector "{table.connector}" requires the option "url", or "host" and "database"'
            hint = "Add 'url' = 'postgresql://host:5432/database' to WITH."
            yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint=hint)
        for key in ("host", "port", "database"):
            if "url" in given and key in given:
                message = f'option "{key}" does not go with "url", which names it'
                yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=f'Leave out "{key}" or "url".')
        url = given.get("url", "${")
        if "${" not in url and not url.startswith(("postgresql://", "postgres://")):
            message = 'option "url" is no address of PostgreSQL'
            yield Diagnostic(WRONG_VALUE, message, spans.get("url"), hint="Write 'postgresql://host:5432/database'.")
        yield from check_types(table, spans)

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        """Looks at the table there first: whether it has the columns, and of which types."""
        values, connection = _opened(table)
        parts, timeout_ms = values["table-name"], values["statement-timeout"]
        names = [name for name, _ in (*request.keys, *request.columns)] + [c.column for c in request.filters]
        with connected(table.name, connection, timeout_ms) as server:
            stored = matched(table, names, columns_there(server, table, parts), READABLE)
        return PostgresSource(
            table.name,
            tuple(connection.items()),
            parts,
            request,
            tuple(stored.items()),
            values["lookup.connections"],
            timeout_ms,
        )

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """Looks at the table there first, so that a mistake shows before the first row."""
        values, connection = _opened(table)
        parts, timeout_ms = values["table-name"], values["statement-timeout"]
        names = [c.name for c in table.physical_columns]
        with connected(table.name, connection, timeout_ms) as server:
            if values["create-table"] or table.materialized:
                create_table(server, table, parts, values["indexes"] or ())
            hint = f"Create it, or add 'create-table' = 'true' to WITH: {create_table_text(table, parts)}"
            stored = matched(table, names, columns_there(server, table, parts, hint), WRITABLE)
            keys = tuple(stored[name].name for name in table.primary_key)
            _require_unique(server, table, parts, keys)
            columns = tuple((name, column.name, column.declared) for name, column in stored.items())
            writer = _writer(environment, table, values, connection, columns, keys)
            writer.prepare(server)
        return writer

    def location(self, table: Table) -> tuple[str | None, ...]:
        """The table there, as far as the options tell without their secrets."""
        return tuple(table.option(key) for key in ("url", "host", "port", "database", "table-name"))

    def require_intact(
        self, environment: Environment, table: Table, written: SinkWriteRange | None, streamed: bool
    ) -> None:
        """Checks that the database knows the batches of a table without a key, where repeated rows are duplicates."""
        if table.primary_key or written is None or written is UNKNOWN_RANGE or environment.begun is None:
            return
        if environment.begun <= written.since:
            return
        values, connection = _opened(table)
        with connected(table.name, connection, values["statement-timeout"]) as server:
            writer = _writer(environment, table, values, connection)
            writer.require_remembered(server, written.until if streamed and written.until != written.since else None)

    def filters(self, table: Table, comparison: Comparison) -> bool:
        return filters(table, comparison)
