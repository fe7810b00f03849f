"""SQLite and DuckDB as sources of lookups. Their drivers block: requests run in threads, each with a connection."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.lookup.sources.clients import require_texts
from sqlstream.udfs.lookup.sources.sql_text import Dialect, Question, StoredColumn

if TYPE_CHECKING:
    import duckdb


_KEYS_OF_A_STATEMENT = 1000
"""SQLite takes 32,766 parameters."""


class DatabaseError(Exception):
    """An error of the database, with its own message in one line."""


class Connection(Protocol):
    """The interface that the connections of sqlite3 and duckdb share."""

    def execute(self, text: str, parameters: Any, /) -> Any:
        """Runs a statement with parameters."""
        ...

    def interrupt(self) -> None:
        """Cancels the running statement; called from another thread."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class FileClient:
    """A client of a database file (SQLite or DuckDB). ``errors``: the exception classes of the driver; ``threads``: the
    number of concurrent requests.
    """

    def __init__(
        self, name: str, question: Question, connect: Callable[[], Connection], errors: type[Exception], threads: int
    ) -> None:
        self._name = name
        self._question = question
        self._connect = connect
        self._errors = errors
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lookup")
        self._own = threading.local()
        self._connections: list[Connection] = []

    async def ask(self, keys: Sequence[Key]) -> list[list[Row]]:
        require_texts(self._name, self._question.request, keys)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._answers, list(keys))

    async def close(self) -> None:
        for connection in self._connections:
            connection.interrupt()
        await asyncio.to_thread(self._threads.shutdown)
        while self._connections:
            self._connections.pop().close()

    # --- in a thread ------------------------------------------------------------------------------------------

    def _answers(self, keys: Sequence[Key]) -> list[list[Row]]:
        answers: list[list[Row]] = [[] for _ in keys]
        encoded = [(n, key) for n, k in enumerate(keys) if (key := self._question.encoded(k)) is not None]
        for chunk in _chunks(encoded):
            fetched = self._fetch([key for _, key in chunk])
            for (number, _), rows in zip(chunk, fetched, strict=True):
                answers[number] = rows
        return answers

    def _fetch(self, keys: list[Key]) -> list[list[Row]]:
        try:
            cursor = self._connection().execute(self._question.text(len(keys)), self._question.parameters(keys))
            return self._question.rows(cursor.fetchall(), len(keys))
        except (self._errors, ValueError) as error:
            raise DatabaseError(first_line(error)) from None

    def _connection(self) -> Connection:
        if not hasattr(self._own, "connection"):
            self._own.connection = self._connect()
            self._connections.append(self._own.connection)
        connection: Connection = self._own.connection
        return connection


@dataclass(frozen=True)
class FileDatabase:
    """The base of sources that read a database file. ``path`` must exist on every worker.

    ``as_of`` identifies the version of the file when the query started, so that sources of a file that was replaced are
    not equal and share no cache.
    """

    name: str
    path: str
    table: tuple[str, ...]
    request: Request
    stored: tuple[tuple[str, StoredColumn], ...]
    connections: int = 8
    as_of: str = ""

    def client(self, dialect: Dialect, connect: Callable[[str], Connection], errors: type[Exception]) -> FileClient:
        """A client of the file. ``connect`` opens a connection, ``errors`` are the exceptions of the driver."""
        question = Question(dialect, self.table, self.request, dict(self.stored))
        return FileClient(self.name, question, partial(connect, self.path), errors, self.connections)


def _chunks(keys: list[tuple[int, Key]]) -> Iterator[list[tuple[int, Key]]]:
    for start in range(0, len(keys), _KEYS_OF_A_STATEMENT):
        yield keys[start : start + _KEYS_OF_A_STATEMENT]


def first_line(error: Exception) -> str:
    """The first line of an error message."""
    return (str(error).splitlines() or [type(error).__name__])[0].strip()


# --- SQLite ---------------------------------------------------------------------------------------------------
# Its columns have no types: values are read as the table declares them. A DATE is text such as 2024-01-31, a TIMESTAMP
# such as 2024-01-31 12:00:00, in UTC where it names no zone, a BOOLEAN 0 or 1, and a DECIMAL a number or a text.


def _sqlite_parameter(value: object, type_: DataType, stored: str) -> object:
    """A value of a declared type as a parameter of SQLite. ValueError for a value that no row can equal."""
    if isinstance(value, Decimal):
        return format(value, "f")  # a text that columns of numbers compare as a number
    return value.isoformat() if isinstance(value, date) else value


def _of(*kinds: type) -> Callable[[object, DataType], object]:
    """Values of these Python types as they are; ValueError for any other."""

    def checked(value: object, type_: DataType) -> object:
        if not isinstance(value, kinds):
            raise ValueError(f"{value!r} is no {type_}")
        return value

    return checked


def _decimal(value: object, type_: DataType) -> Decimal:
    try:
        decimal = Decimal(repr(value) if isinstance(value, float) else str(value))
    except ArithmeticError:
        raise ValueError(f"{value!r} is no {type_}") from None
    # Numbers with a point are binary ones, so the last digits mean nothing.
    return round(decimal, int(str(type_.args[1]))) if isinstance(value, float) and decimal.is_finite() else decimal


def _boolean(value: object, type_: DataType) -> bool:
    if value not in (0, 1):
        raise ValueError(f"{value!r} is no {type_}")
    return bool(value)


def _date(value: object, type_: DataType) -> date:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is no {type_}") from None


def _sqlite_time(value: object, type_: DataType) -> datetime:
    try:
        instant = datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is no {type_}") from None
    instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    return instant if type_.name == "TIMESTAMP" else instant.replace(tzinfo=None)


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")

SQLITE = Dialect(
    placeholder="?",
    arrays=False,
    sent=dict.fromkeys((*_INTEGERS, "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "DATE"), ""),
    read={("STRING", ""): "CAST({c} AS TEXT)"},
    encode=_sqlite_parameter,
    decode={
        **dict.fromkeys(_INTEGERS, _of(int)),
        **dict.fromkeys(("FLOAT", "DOUBLE"), _of(int, float)),
        **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _sqlite_time),
        "BINARY": _of(bytes),
        "BOOLEAN": _boolean,
        "DECIMAL": _decimal,
        "DATE": _date,
    },
)


def connect_to_sqlite(path: str) -> sqlite3.Connection:
    """A read-only connection; another thread may close it."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


class SqliteSource(FileDatabase):
    """A table of an SQLite file."""

    async def open(self) -> FileClient:
        return self.client(SQLITE, connect_to_sqlite, sqlite3.Error)


# --- DuckDB ---------------------------------------------------------------------------------------------------
# Times travel as microseconds since 1970, in UTC.


_EPOCH = datetime(1970, 1, 1)


def _duckdb_parameter(value: object, type_: DataType, stored: str) -> object:
    """A value of a declared type as a parameter of DuckDB. ValueError for a value that no row can equal."""
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo is not None else value
        return (utc.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
    return value


def _duckdb_time(value: object, type_: DataType) -> datetime:
    assert isinstance(value, int)
    instant = _EPOCH + timedelta(microseconds=value)
    return instant.replace(tzinfo=UTC) if type_.name == "TIMESTAMP" else instant


_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ")

DUCKDB = Dialect(
    placeholder="?",
    arrays=False,
    sent={
        **{name: name for name in ("BOOLEAN", "FLOAT", "DOUBLE", "DATE")},
        **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), "BIGINT"),
        "DECIMAL": "DECIMAL({0}, {1})",
        "STRING": "VARCHAR",
        "BINARY": "BLOB",
        **dict.fromkeys(_TIMES, "BIGINT"),
    },
    read={
        ("STRING", "varchar"): "{c}",
        ("STRING", ""): "CAST({c} AS VARCHAR)",
        ("ARRAY<STRING>", "varchar[]"): "{c}",
        ("ARRAY<STRING>", ""): "CAST({c} AS VARCHAR[])",
        **{(name, ""): "epoch_us({c})" for name in _TIMES},
    },
    equal={
        ("STRING", "varchar"): "{c} = {k}",
        ("STRING", "uuid"): "{c} = TRY_CAST({k} AS UUID)",
        ("STRING", ""): "{v} = {k}",
        **{(name, ""): "{v} = {k}" for name in _TIMES},
    },
    encode=_duckdb_parameter,
    decode=dict.fromkeys(_TIMES, _duckdb_time),
)


def connect_to_duckdb(path: str) -> duckdb.DuckDBPyConnection:
    """A read-only connection."""
    import duckdb  # an optional package

    return duckdb.connect(path, read_only=True)


def duckdb_error() -> type[duckdb.Error]:
    """The class of the exceptions that DuckDB raises."""
    import duckdb  # an optional package

    return duckdb.Error


class DuckDbSource(FileDatabase):
    """A table of a DuckDB file. No process may have the file open for writing."""

    async def open(self) -> FileClient:
        return self.client(DUCKDB, connect_to_duckdb, duckdb_error())
