"""PostgreSQL as a source of lookups, through psycopg's asynchronous connections.

All connections run in UTC: a ``timestamp`` without time zone that is declared TIMESTAMP is one of UTC.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.lookup.sources.clients import SharedRoundTrips, require_texts
from sqlstream.udfs.lookup.sources.sql_text import Dialect, Question, StoredColumn

if TYPE_CHECKING:
    import psycopg

_TEXTS = ("text", "character varying", "name")


MOST_KEYS = 32
"""The maximum number of keys of a round trip, unless batches are larger: a slow round trip delays other requests."""


class PostgresError(Exception):
    """An error of PostgreSQL, with its own message in one line."""


class NoConnection(PostgresError):
    """The server did not answer, or the connection broke."""


def encode(value: object, type_: DataType, stored: str) -> object:
    """Converts a value of the SQL type ``type_`` to a parameter for a column of PostgreSQL's type ``stored``.
    ValueError where PostgreSQL has no such value.
    """
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a text of PostgreSQL holds no zero byte")
    if stored == "uuid" and type_.name == "STRING":
        return str(UUID(str(value)))
    if isinstance(value, datetime):
        return in_utc(value, type_)
    return value


def in_utc(value: datetime, type_: DataType) -> datetime:
    """The value as PostgreSQL expects it: for TIMESTAMP in the zone UTC, for TIMESTAMP_NTZ without a zone."""
    if type_.name == "TIMESTAMP_NTZ":
        return value.replace(tzinfo=None)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def finite(value: object, _: DataType) -> object:
    """Returns the value of a column of PostgreSQL's type ``numeric``. Raises PostgresError for NaN and infinity, which
    DECIMAL lacks.
    """
    if isinstance(value, Decimal) and not value.is_finite():
        raise PostgresError(f"a numeric is {value}, which no DECIMAL can be: declare the column as STRING")
    return value


DIALECT = Dialect(
    placeholder="%s",
    arrays=True,
    sent={
        "BOOLEAN": "boolean",
        # Integers of all widths compare with bigint through an index, and no key is out of its range.
        **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), "bigint"),
        **dict.fromkeys(("FLOAT", "DOUBLE"), "double precision"),
        "DECIMAL": "numeric",
        "STRING": "text",
        "BINARY": "bytea",
        "DATE": "date",
        "TIMESTAMP": "timestamptz",
        "TIMESTAMP_NTZ": "timestamp",
    },
    read={
        **{("STRING", stored): "{c}" for stored in _TEXTS},
        ("STRING", ""): "CAST({c} AS text)",
        ("ARRAY<STRING>", "text[]"): "{c}",
        ("ARRAY<STRING>", ""): "CAST({c} AS text[])",
        ("TIMESTAMP", "timestamp without time zone"): "CAST({c} AS timestamptz)",
        ("TIMESTAMP_NTZ", "timestamp with time zone"): "CAST({c} AS timestamp)",
    },
    equal={
        **{("STRING", stored): "{c} = {k}" for stored in _TEXTS},
        ("STRING", "uuid"): "{c} = CAST({k} AS uuid)",
        ("STRING", "character"): "{c} = CAST({k} AS bpchar)",
        ("STRING", "citext"): "{c} = CAST({k} AS citext)",
        ("STRING", ""): "{v} = {k}",
        ("TIMESTAMP", "timestamp without time zone"): "{c} = CAST({k} AS timestamp)",
        ("TIMESTAMP_NTZ", "timestamp with time zone"): "{c} = CAST({k} AS timestamptz)",
    },
    binary=' COLLATE "C"',
    encode=encode,
    decode={"DECIMAL": finite},
)


@dataclass(frozen=True)
class PostgresSource:
    """A lookup table of a PostgreSQL server. ``connection``: libpq's parameters, including the password. ``table``:
    schema and name, or the name alone.

    ``connections``: the maximum number of connections of a process.
    """

    name: str
    connection: tuple[tuple[str, str], ...] = field(repr=False)
    table: tuple[str, ...]
    request: Request
    stored: tuple[tuple[str, StoredColumn], ...]
    connections: int = 8
    statement_timeout_ms: int = 30_000

    async def open(self) -> PostgresClient:
        import psycopg  # noqa: F401 - optional; loading it takes longer than a request may

        return PostgresClient(self)


class PostgresClient:
    """The client of a ``PostgresSource``, which connects with the first request.

    Concurrent requests may share one round trip.
    """

    def __init__(self, source: PostgresSource) -> None:
        self._name = source.name
        self._question = Question(DIALECT, source.table, source.request, dict(source.stored))
        self._pool = Connections(dict(source.connection), source.connections, source.statement_timeout_ms)
        self._together: SharedRoundTrips[list[Row]] = SharedRoundTrips(
            self._found, source.connections, MOST_KEYS, _of_all
        )

    async def ask(self, keys: Sequence[Key]) -> list[list[Row]]:
        require_texts(self._name, self._question.request, keys)
        encoded = [(number, key) for number, k in enumerate(keys) if (key := self._question.encoded(k)) is not None]
        answers: list[list[Row]] = [[] for _ in keys]
        if encoded:
            rows_of_keys = await self._together.ask([key for _, key in encoded])
            for (number, _), rows in zip(encoded, rows_of_keys, strict=True):
                answers[number] = rows
        return answers

    async def _found(self, encoded: Sequence[Key]) -> list[list[Row]]:
        count = len(encoded)
        rows = await self._pool.fetch(self._question.text(count), self._question.parameters(encoded))
        return self._question.rows(rows, count)

    async def close(self) -> None:
        await self._together.close()
        await self._pool.close()


def _of_all(error: Exception) -> bool:
    return isinstance(error, NoConnection)


class Connections:
    """A pool of at most ``size`` connections, opened on demand; idle ones remain open.

    psycopg's own pool hides why it cannot connect until its timeout has passed; here each request reports the error at
    once, as RETRY requires.
    """

    def __init__(self, connection: Mapping[str, str], size: int, statement_timeout_ms: int) -> None:
        self._connection = dict(connection)
        self._statement_timeout_ms = statement_timeout_ms
        self._free = asyncio.Semaphore(size)
        self._idle: list[psycopg.AsyncConnection[Any]] = []

    async def fetch(self, text: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """The rows of a prepared statement. PostgresError for any failure.

        A connection that broke while it was idle, because the server was restarted, is silently replaced.
        """
        import psycopg  # an optional package

        async with self._free:
            while True:
                reused = bool(self._idle)
                try:
                    async with self._taken() as connection:
                        cursor = await connection.execute(text, parameters, prepare=True)
                        return await cursor.fetchall()
                except psycopg.Error as error:
                    lost = isinstance(error, psycopg.OperationalError) and connection_lost(error)
                    if not (reused and lost):
                        kind = NoConnection if lost else PostgresError
                        raise kind(one_line(error, self._statement_timeout_ms)) from None

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        connection = self._idle.pop() if self._idle else await self._connected()
        try:
            yield connection
        finally:
            # One that is still busy belongs to a request that was cancelled.
            if connection.info.transaction_status.name == "IDLE":
                self._idle.append(connection)
            else:
                await connection.close()

    async def _connected(self) -> psycopg.AsyncConnection[Any]:
        import psycopg  # an optional package

        connection = await psycopg.AsyncConnection.connect(**self._connection, autocommit=True)  # type: ignore[arg-type]
        settings = session_settings(self._statement_timeout_ms)
        try:
            await connection.execute(f"{settings}; SET default_transaction_read_only = on")
        except BaseException:
            await connection.close()
            raise
        return connection

    async def close(self) -> None:
        """Closes all connections."""
        while self._idle:
            await self._idle.pop().close()


def session_settings(statement_timeout_ms: int) -> str:
    """The SQL settings with which each connection starts."""
    return f"SET TIME ZONE 'UTC'; SET statement_timeout = {statement_timeout_ms}"


def connection_lost(error: psycopg.Error) -> bool:
    """True if the error means that the connection ended: the server closed it (class 57P), or the network did (class
    08, or no answer at all).
    """
    return error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))


def one_line(error: psycopg.Error, statement_timeout_ms: int | None = None) -> str:
    """PostgreSQL's error message in one line. If the statement was cancelled because it took too long, the message
    names the option statement-timeout.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (error.diag.message_primary or "; ".join(lines) or type(error).__name__).rstrip(".")
    if error.sqlstate == "57014" and statement_timeout_ms is not None:
        return f"{text} (option statement-timeout: {statement_timeout_ms} ms)"
    return text
