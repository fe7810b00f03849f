"""Databases in files, whose drivers block: requests run in threads, each with a connection of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.lookup.sources.clients import require_texts
from sqlstream.udfs.lookup.sources.sql_text import Dialect, Question, StoredColumn

_KEYS_OF_A_STATEMENT = 1000
"""SQLite takes 32,766 parameters."""


class DatabaseError(Exception):
    """The database's own message, in one line."""


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
    """A client of a database file. ``errors``: the exception classes of the driver; ``threads``: the number of
    concurrent requests."""

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
    """Base of the sources that read a database file. ``path`` must exist on every worker.

    ``as_of`` identifies the version of the file when the query started; a file that replaces it is another source.
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
