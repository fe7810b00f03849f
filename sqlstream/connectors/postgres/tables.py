"""``postgres`` and ``jdbc``: tables of PostgreSQL, looked up by any columns and written exactly once.

``jdbc`` takes Flink's options. No JDBC driver is used: psycopg reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import BatchWriter, LookupTable, RecoverableSink, UpsertSink
from sqlstream.connectors.database_tables import CONNECTIONS, READABLE, TABLE_OPTION, WRITABLE, filters, matched
from sqlstream.connectors.environment import UNKNOWN_RANGE, Environment, SinkWriteRange
from sqlstream.connectors.postgres.server import (
    INDEXES,
    check_address,
    check_columns,
    columns_there,
    connected,
    create_table,
    create_table_text,
    drop_table,
    exists,
    has_epochs,
    has_null_keys,
    of_url,
    parameters,
    regclass,
    require_psycopg,
    unique_keys,
)
from sqlstream.connectors.secrets import secrets_of
from sqlstream.connectors.stored_tables import ViewTable
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import BOOLEAN, DURATION, MISSING_OPTION, NAME, STRING, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.binder.lookups import (
    CACHE,
    MISSES,
    OLDER_MISSES,
    OLDER_ROWS,
    OLDER_TTL,
    PARTIAL,
    RETRIES,
    ROWS,
    TTL,
)
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources.postgres import PostgresSource

if TYPE_CHECKING:
    from sqlstream.connectors.on_spark.postgres import PostgresWriter
    from sqlstream.connectors.postgres.server import Connection

NO_UNIQUE_KEY = "SS565"

# --- checks ---------------------------------------------------------------------------------------------------


def _check_types(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS505 for columns of types that PostgreSQL lacks, and SS504 for indexes of columns that do not exist."""
    yield from check_columns(table, spans)
    yield from _check_indexes(table, spans)


def _check_indexes(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    names = {c.name.casefold() for c in table.physical_columns}
    for name in filter(None, (name.strip() for name in re.split("[;,]", table.option("indexes") or ""))):
        if name.casefold() not in names:
            message = f'column "{name}" of the option "indexes" does not exist'
            yield Diagnostic(WRONG_VALUE, message, spans.get("indexes"), hint=f"There are {', '.join(sorted(names))}.")


# --- sink -----------------------------------------------------------------------------------------------------


def _writer(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    connection: Mapping[str, str],
    columns: tuple[tuple[str, str, DataType], ...] = (),
    keys: tuple[str, ...] = (),
) -> PostgresWriter:
    return on_spark.postgres.PostgresWriter(
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
        table.materialized,
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


class Postgres(LookupTable, UpsertSink, RecoverableSink, ViewTable):
    """Tables in PostgreSQL, which worker processes query and write with psycopg."""

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
    some_keep_columns = True
    variables: ClassVar[tuple[str, ...]] = ("database", "host", "password", "url", "username")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        hint = "Add 'url' = 'postgresql://host:5432/database' to WITH."
        yield from check_address(table, spans, "host", "database", hint)
        url = dict(table.options).get("url", "${")
        if "${" not in url and not url.startswith(("postgresql://", "postgres://")):
            message = 'option "url" is no address of PostgreSQL'
            yield Diagnostic(WRONG_VALUE, message, spans.get("url"), hint="Write 'postgresql://host:5432/database'.")
        yield from _check_types(table, spans)

    def keeps_columns(self, table: Table) -> bool:
        """True where INSERT into some columns leaves the others unchanged. False if the job creates the table, which
        would then lack the other columns.
        """
        return table.option("create-table") != "true"

    def _opened(self, table: Table) -> tuple[dict[str, Any], dict[str, str]]:
        """The options with their secrets, and libpq's parameters. Called when a job starts, on the driver."""
        require_psycopg()
        values = {**dict.fromkeys(("host", "port", "database")), **self.resolved_values(table)}
        try:
            return values, parameters(values)
        except ValueError as error:
            message = f'option "url" of table "{table.name}" cannot be used: {error}'
            hint = "Write 'postgresql://host:5432/database', or 'jdbc:postgresql://host:5432/database' with jdbc."
            raise ConnectorError(WRONG_VALUE, message, hint=hint) from None

    @contextmanager
    def _connected(self, table: Table) -> Iterator[tuple[Connection, tuple[str, ...]]]:
        """A connection, and the name of the table in the database."""
        values, connection = self._opened(table)
        with connected(table.name, connection, values["statement-timeout"]) as server:
            yield server, values["table-name"]

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        """Checks that the table in the database has the columns, with readable types, and returns the object that
        answers lookups.
        """
        values, connection = self._opened(table)
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
        """Returns the function that writes a micro-batch, after the table in the database was checked or created."""
        values, connection = self._opened(table)
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
        """Identifies the table in the database, by server, database and table name."""
        return tuple(table.option(key) for key in ("url", "host", "port", "database", "table-name"))

    def require_intact(
        self, environment: Environment, table: Table, written: SinkWriteRange | None, streamed: bool
    ) -> None:
        """Checks that the table of a materialized view is still there, since a job would create it anew, without its
        rows. For a table without PRIMARY KEY: checks that the database still records which micro-batches are stored,
        because repeated rows would otherwise be duplicates.
        """
        if written is None or written is UNKNOWN_RANGE or environment.begun is None:
            return
        if environment.begun <= written.since or (table.primary_key and not table.materialized):
            return
        values, connection = self._opened(table)
        with connected(table.name, connection, values["statement-timeout"]) as server:
            writer = _writer(environment, table, values, connection)
            if table.materialized and environment.after is not None:
                writer.require_there(server)
            if table.primary_key:
                return
            writer.require_remembered(server, written.until if streamed and written.until != written.since else None)

    def filters(self, table: Table, comparison: Comparison) -> bool:
        return filters(table, comparison)

    def is_there(self, table: Table) -> bool:
        with self._connected(table) as (server, name):
            return exists(server, name)

    def is_ours(self, table: Table) -> bool:
        with self._connected(table) as (server, name):
            return has_epochs(server, name)

    def is_gone(self, table: Table) -> bool:
        return not self.is_there(table)

    def remove(self, table: Table) -> None:
        with self._connected(table) as (server, name):
            drop_table(server, name)


# --- jdbc -----------------------------------------------------------------------------------------------------

_PREFIX = "jdbc:postgresql://"
_AFTER_WRITE = f"'{TTL}' says after which time answers are forgotten."
_PER_BATCH = "Each micro-batch is one transaction; 'execution.checkpointing.interval' says how often there is one."

_REFUSED = {
    "lookup.partial-cache.expire-after-access": _AFTER_WRITE,
    "lookup.partial-cache.caching-missing-key": f"It is '{MISSES}'.",
    **dict.fromkeys(("sink.buffer-flush.max-rows", "sink.buffer-flush.interval", "sink.max-retries"), _PER_BATCH),
    "sink.parallelism": "Rows are copied by the tasks that make them.",
    "connection.max-retry-timeout": "'connect-timeout' says how long to wait for a connection.",
    **dict.fromkeys(
        ("scan.partition.column", "scan.partition.num", "scan.partition.lower-bound", "scan.partition.upper-bound",
         "scan.fetch-size", "scan.auto-commit"),
        "A query over finished data reads the table whole, in one task.",
    ),
}  # fmt: skip


def _check_cache(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS503 for options of a cache that is off, or that would have no bound."""
    given = dict(table.options)
    partial = (given.get(CACHE) or "").strip().upper() == PARTIAL
    if partial and ROWS not in given and OLDER_ROWS not in given:
        message = f"'{CACHE}' = '{PARTIAL}' needs the option \"{ROWS}\""
        yield Diagnostic(MISSING_OPTION, message, spans.get(CACHE), hint="A cache has a most number of rows.")
    for key in (ROWS, TTL, MISSES) if not partial else ():
        if key in given:
            message = f"option \"{key}\" needs '{CACHE}' = '{PARTIAL}'"
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=f"Add '{CACHE}' = '{PARTIAL}' to WITH.")
    for key in (OLDER_TTL, OLDER_MISSES):
        if key in given and OLDER_ROWS not in given:
            message = f'option "{key}" needs the option "{OLDER_ROWS}"'
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint="A cache has a most number of rows.")


def _check_url(url: str, span: Span | None) -> Iterable[Diagnostic]:
    hint = f"Write '{_PREFIX}host:5432/database'."
    if not url.startswith(_PREFIX):
        message = 'option "url" of connector "jdbc" is no address of PostgreSQL, the only database that it knows'
        yield Diagnostic(WRONG_VALUE, message, span, hint=hint)
        return
    try:
        parameters = of_url(url)
    except ValueError as error:
        yield Diagnostic(WRONG_VALUE, f'option "url" cannot be used: {error}', span, hint=hint)
        return
    if not parameters["dbname"]:
        yield Diagnostic(WRONG_VALUE, 'option "url" names no database', span, hint=hint)


class Jdbc(Postgres):
    """Tables in PostgreSQL, declared with the options of Flink's JDBC connector. Only options and their checks differ
    from ``Postgres``.
    """

    name = "jdbc"
    doc = "The connector postgres with Flink's options; of all databases, PostgreSQL only."
    options: ClassVar[tuple[Option, ...]] = (
        Option("url", NAME, f"The server and the database: {_PREFIX}host:5432/database.", required=True, sink=True),
        Option("driver", one_of("org.postgresql.Driver"), "Accepted; no driver is loaded.", sink=True),
        *OPTIONS,
        Option(
            CACHE,
            one_of("NONE", PARTIAL, planned=("full",)),
            "Whether lookups remember answers. LOOKUP ASYNC (CACHE …) of a join says so, too, and counts.",
            "NONE",
        ),
        Option(ROWS, integer(1), "Of how many keys the cache remembers the rows."),
        Option(TTL, DURATION, "After which time answers are forgotten; not given, never."),
        Option(MISSES, BOOLEAN, "Whether it is remembered, too, that a key has no rows.", "true"),
        Option(OLDER_ROWS, integer(1), f"The older name of {ROWS}, which needs no {CACHE}."),
        Option(OLDER_TTL, DURATION, f"The older name of {TTL}."),
        Option(OLDER_MISSES, BOOLEAN, f"The older name of {MISSES}."),
        Option(RETRIES, integer(), "How often a lookup that fails asks again, each time after a second.", "0"),
    )
    refused = _REFUSED
    variables: ClassVar[tuple[str, ...]] = ("password", "url", "username")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        url = table.option("url") or ""
        if not url.startswith("${"):
            yield from _check_url(url, spans.get("url"))
        yield from _check_types(table, spans)
        yield from _check_cache(table, spans)
