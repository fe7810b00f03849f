"""The dialect: what SQLAlchemy asks about the database, and the session that the connections of an engine share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import sqlalchemy
from sqlalchemy import schema
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.sql import sqltypes

from sqlstream.grammar.nodes import Name
from sqlstream.sqlalchemy.compiler import (
    INTERVAL,
    CalendarDate,
    SqlStreamCompiler,
    SqlStreamDDLCompiler,
    SqlStreamIdentifierPreparer,
    SqlStreamTypeCompiler,
)
from sqlstream.sqlalchemy.reflection import Reflection
from sqlstream.version import __version__

if TYPE_CHECKING:
    from sqlstream.dbapi import Connection
    from sqlstream.session import Session

# --- URLs: sqlstream:// in this process, sqlstream:///folder?profile=test for a project ------------------------


_KEYS = ("catalog", "database", "profile", "spark")


def arguments_of(url: URL) -> dict[str, Any]:
    """The arguments for ``SqlStreamDialect.connect`` that a URL contains: ``project``, ``profile``, ``spark``,
    ``catalog``, ``database``, and ``settings`` with all keys that contain a dot.
    """
    if url.host or url.username or url.port:
        raise ArgumentError("a URL of sqlstream has no host: sqlstream:// or sqlstream:///path/to/project")
    given: dict[str, Any] = {"project": url.database} if url.database else {}
    settings: dict[str, str] = {}
    for key, value in url.query.items():
        if not isinstance(value, str):
            raise ArgumentError(f'"{key}" is given twice')
        if "." in key:
            settings[key] = value
        elif key in _KEYS:
            given[key] = value
        else:
            raise ArgumentError(f'"{key}" is none of {", ".join(_KEYS)}, and no setting, whose keys have a dot')
    return {**given, "settings": settings} if settings else given


_IN_MEMORY = {"connector": "memory"}
_GONE = ("SS464", "SS474", "SS481", "SS471")


class SqlStreamDialect(Reflection):
    """The SQLAlchemy dialect of ``sqlstream://`` URLs.

    All connections of an engine share one session, which ends with the last of them. ``table_options`` of
    ``create_engine`` are the WITH options of tables that have none (``sqlstream_with``).
    """

    name = "sqlstream"
    driver = "session"
    default_paramstyle = "qmark"
    supports_statement_cache = True

    statement_compiler = SqlStreamCompiler
    ddl_compiler = SqlStreamDDLCompiler
    type_compiler_cls = SqlStreamTypeCompiler
    preparer = SqlStreamIdentifierPreparer  # type: ignore[assignment] # declared as the class that it extends

    supports_alter = False
    supports_comments = True
    inline_comments = True
    supports_default_metavalue = False
    supports_default_values = False
    supports_empty_insert = False
    supports_is_distinct_from = True
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_multi_rowcount = False
    supports_sane_rowcount = False
    supports_sequences = False
    supports_views = True
    cte_follows_insert = True
    div_is_floordiv = False
    max_identifier_length = 255
    postfetch_lastrowid = False

    colspecs = {sqltypes.Date: CalendarDate, sqltypes.Interval: INTERVAL}  # noqa: RUF012 — SQLAlchemy declares no ClassVar
    construct_arguments = [  # noqa: RUF012
        (schema.Table, {"with": None, "watermark": None, "partitioned_by": None})
    ]

    def __init__(
        self,
        table_options: Mapping[str, str] | None = None,
        json_serializer: Any = None,
        json_deserializer: Any = None,
        **kw: Any,
    ) -> None:
        super().__init__(**kw)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer
        self.table_options = dict(table_options or _IN_MEMORY)
        self._lock = Lock()
        self._session: Session | None = None
        self._connections = 0
        self._created: WeakKeyDictionary[Connection, list[str]] = WeakKeyDictionary()
        self._failed: WeakSet[Connection] = WeakSet()

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The DB-API module that SQLAlchemy connects through."""
        from sqlstream import dbapi  # loaded when an engine connects

        return dbapi

    if sqlalchemy.__version__.startswith("1."):  # the names of 1.4, which Superset has, for the same things
        dbapi = import_dbapi  # type: ignore[assignment]
        type_compiler = SqlStreamTypeCompiler
        type_compiler_instance = property(lambda self: self.type_compiler)

    # --- connections ------------------------------------------------------------------------------------------

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Returns the positional (none) and the keyword arguments with which SQLAlchemy calls ``connect`` for a URL."""
        return [], arguments_of(url)

    def connect(self, *args: Any, **arguments: Any) -> Any:
        """A connection to the session of the engine, which the first connection opens."""
        dbapi = self.import_dbapi()
        with self._lock:
            if self._session is None:
                self._session = _opened(**arguments)
            self._connections += 1
            owned = arguments.get("session") is None
            return dbapi.Connection(self._session, lambda: self._on_close(owned))

    def _on_close(self, owned: bool) -> None:
        with self._lock:
            self._connections -= 1
            if self._connections:
                return
            session, self._session = self._session, None
        if session is not None and owned:
            session.close()

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether an error says that Spark or the session has ended."""
        return getattr(e, "code", None) in _GONE

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the connection is open."""
        return not dbapi_connection.closed

    def do_begin(self, dbapi_connection: Any) -> None:
        """No effect, as there are no transactions."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Nothing to commit, because there are no transactions. Tables that were created since the last commit or
        rollback stay, unless a statement has failed: then they are dropped, as other databases do, on which pandas
        relies.
        """
        created, failed = self._end_of_transaction(dbapi_connection)
        if failed:
            self._drop(dbapi_connection, created)

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Drops the tables that were created since the last commit or rollback, if a statement has failed. Otherwise no
        effect: SQLAlchemy also rolls back connections that return to the pool, whose statements have taken effect
        already.
        """
        created, failed = self._end_of_transaction(dbapi_connection)
        if failed or sys.exc_info()[0] is not None:
            self._drop(dbapi_connection, created)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Executes a statement. Does nothing for one that was compiled to nothing, such as CREATE INDEX."""
        if statement:
            with self._noted(cursor, context):
                cursor.execute(statement, parameters)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        """Execute a statement without parameters."""
        self.do_execute(cursor, statement, None, context)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Execute a statement for each of its rows of parameters."""
        with self._noted(cursor, context):
            cursor.executemany(statement, parameters)

    @contextmanager
    def _noted(self, cursor: Any, context: Any) -> Iterator[None]:
        """Note whether a statement fails, and the table that it creates, until the end of the transaction."""
        try:
            yield
        except BaseException:
            self._failed.add(cursor.connection)
            raise
        statement = None if context is None else getattr(context.compiled, "statement", None)
        if isinstance(statement, schema.CreateTable) and not getattr(statement, "if_not_exists", False):
            name = context.compiled.preparer.format_table(statement.element)
            self._created.setdefault(cursor.connection, []).append(name)

    def _end_of_transaction(self, connection: Any) -> tuple[list[str], bool]:
        """The tables that the transaction has created, and whether a statement of it has failed."""
        # SQLAlchemy has a connection of its own around ours when it first looks at the database.
        raw: Connection = getattr(connection, "dbapi_connection", connection)
        failed = raw in self._failed
        self._failed.discard(raw)
        return self._created.pop(raw, []), failed

    def _drop(self, connection: Any, tables: list[str]) -> None:
        for table in reversed(tables if not connection.closed else []):
            with suppress(connection.Error), closing(connection.cursor()) as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS {table}")

    def get_isolation_level_values(self, dbapi_connection: Any) -> list[Any]:
        """The isolation levels: only AUTOCOMMIT, as there are no transactions."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """The isolation level: AUTOCOMMIT, as there are no transactions."""
        return "AUTOCOMMIT"

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """The default isolation level: AUTOCOMMIT, as there are no transactions."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """No effect, as there is only one isolation level."""

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return tuple(int(number) for number in __version__.split(".")[:3] if number.isdigit())


def _opened(catalog: str | None = None, database: str | None = None, **arguments: Any) -> Session:
    connection: Connection = SqlStreamDialect.import_dbapi().connect(**arguments)
    if catalog is not None:
        connection.session.workspace.catalog.use_catalog(Name((catalog,)))
    if database is not None:
        connection.session.workspace.catalog.use_database(Name((database,)))
    return connection.session
