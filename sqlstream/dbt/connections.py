"""The profile of a dbt project, and the session that all threads of a process share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState, Credentials
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError

from sqlstream import dbapi
from sqlstream.dbt.views import VIEWS
from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.views.server import DIRECTORY as VIEWS_DIR

DEFINITIONS, DATA = "definitions", "data"
"""The folders of a warehouse: statements of its catalog, and rows of the tables that models are."""


@dataclass
class SqlStreamCredentials(Credentials):  # type: ignore[misc] # dbt is in no environment of ours
    """A target in ``profiles.yml``.

    ``database`` names the catalog, whose definitions are files below ``warehouse``, as the rows of tables are;
    ``schema`` is a database in it. ``project``: a folder with a ``sqlstream.toml``, for other catalogs and settings.
    ``spark``: where Spark runs. ``settings``: those of SET.
    """

    database: str = "dbt"
    schema: str = "default"
    warehouse: str = "warehouse"
    project: str | None = None
    profile: str | None = None
    spark: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The name of the adapter."""
        return "sqlstream"

    @property
    def unique_field(self) -> str:
        """What tells targets apart in dbt's anonymous statistics."""
        return str(self.warehouse)

    def _connection_keys(self) -> tuple[str, ...]:
        """What ``dbt debug`` shows; settings may hold references to secrets only, and are left out."""
        return ("database", "schema", "warehouse", "project", "profile", "spark")

    @property
    def folder(self) -> Path:
        """The folder of the warehouse."""
        return Path(self.warehouse).absolute()


_LOCK = Lock()
_OPEN: dict[tuple[Any, ...], dbapi.Connection] = {}


def shared_connection(credentials: SqlStreamCredentials) -> dbapi.Connection:
    """The connection of a target, the same for all threads of the process, because its session has the temporary tables
    and the jobs.
    """
    settings = {name: str(value) for name, value in credentials.settings.items()}
    key = (credentials.database, str(credentials.folder), credentials.project, credentials.profile, credentials.spark,
           *sorted(settings.items()))  # fmt: skip
    with _LOCK:
        if key not in _OPEN:
            _OPEN[key] = _opened(credentials)
        return _OPEN[key]


def _opened(credentials: SqlStreamCredentials) -> dbapi.Connection:
    views = {VIEWS_DIR: str(credentials.folder / VIEWS)}
    settings = {**views, **{key: str(value) for key, value in credentials.settings.items()}}
    connection = dbapi.connect(
        credentials.spark, project=credentials.project, profile=credentials.profile, settings=settings
    )
    known = [mount.name for mount in connection.session.workspace.catalog.mounts()]
    if credentials.database not in known:
        path = credentials.folder / DEFINITIONS
        path.mkdir(parents=True, exist_ok=True)
        options = f"'type' = 'file', 'path' = {quote_string(str(path))}"
        connection.session.sql(f"CREATE CATALOG {quote_name(credentials.database)} WITH ({options})")
    connection.session.sql(f"USE CATALOG {quote_name(credentials.database)}")
    return connection


class Handle:
    """What a thread of dbt has: cursors of the shared connection, which it can cancel and not close."""

    def __init__(self, connection: dbapi.Connection) -> None:
        self.connection = connection
        self._cursor: dbapi.Cursor | None = None

    def cursor(self) -> dbapi.Cursor:
        """A new cursor, which is closed with the next one."""
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = self.connection.cursor()
        return self._cursor

    def cancel(self) -> None:
        """End what the thread executes."""
        if self._cursor is not None:
            self._cursor.cancel()

    def rollback(self) -> None:
        """Nothing: each statement has taken effect."""

    commit = close = rollback


class SqlStreamConnectionManager(SQLConnectionManager):  # type: ignore[misc]
    """Opens connections for dbt, and executes its statements. There are no transactions."""

    TYPE = "sqlstream"

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Turns errors of the DB-API into dbt's, with code, place and hint."""
        try:
            yield
        except dbapi.Error as error:
            raise DbtDatabaseError(str(error)) from error

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Opens the connection of a thread."""
        if connection.state != ConnectionState.OPEN:
            try:
                connection.handle = Handle(shared_connection(connection.credentials))
            except dbapi.Error as error:
                connection.state = ConnectionState.FAIL
                raise DbtDatabaseError(str(error)) from error
            connection.state = ConnectionState.OPEN
        return connection

    def cancel(self, connection: Connection) -> None:
        """Ends what another thread executes."""
        connection.handle.cancel()

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        """What dbt prints beside a model: the rows that were written, where they are known."""
        rows = cursor.rowcount
        return AdapterResponse("OK" if rows < 0 else f"OK {rows}", rows_affected=None if rows < 0 else rows)

    @classmethod
    def data_type_code_to_name(cls, type_code: Any) -> str:
        """The type of a column of a result, as DDL spells it."""
        return str(type_code)

    def begin(self) -> Connection:
        """Nothing but dbt's own note: there are no transactions."""
        connection = self.get_thread_connection()
        connection.transaction_open = True
        return connection

    def commit(self) -> Connection:
        """Nothing but dbt's own note: there are no transactions."""
        connection = self.get_thread_connection()
        connection.transaction_open = False
        return connection
