"""Connections: a session, shared by the cursors on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakSet

from sqlstream.arguments import Arguments
from sqlstream.dbapi import exceptions
from sqlstream.dbapi.cursor import Cursor
from sqlstream.dbapi.exceptions import raised_as, raising
from sqlstream.errors import ExecutionError, UnsupportedError

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

    from sqlstream.dbapi.cursor import Result
    from sqlstream.session import Session

CLOSED = "SS471"
NO_TRANSACTIONS = "SS387"

SERIAL = RLock()
"""Held while a statement is planned and started. All connections of a process share one Spark, whose settings are
brought to those of the connection before; rows are waited for without it."""


def connect(
    spark: SparkSession | str | None = None,
    *,
    project: str | os.PathLike[str] | None = None,
    profile: str | None = None,
    settings: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> Connection:
    """Open a connection.

    ``spark`` is as for ``sqlstream.connect``; without it, all cores of this machine. ``project`` is a folder whose
    ``sqlstream.toml`` applies, with ``profile``; ``settings`` are those of SET. ``session`` is an existing session
    instead of all that: the connection uses its definitions, and does not close it.
    """
    with raising():
        if session is not None:
            return Connection(session, lambda: None)
        opened = _opened(spark, project, profile, settings or {})
    return Connection(opened, opened.close)


def _opened(
    spark: SparkSession | str | None,
    folder: str | os.PathLike[str] | None,
    profile: str | None,
    settings: Mapping[str, str],
) -> Session:
    from sqlstream import project, session  # importing the DB-API loads neither connectors nor the planner

    opened = session.connect(spark)
    of_folder = None if folder is None else project.nearest_project(folder, profile)
    if of_folder is not None:
        project.enter(opened, of_folder)
    for key, value in settings.items():
        opened.workspace.settings.set(key, value)
    return opened


class Connection:
    """A DB-API connection, which threads may share. Each statement takes effect when it is executed: there are no
    transactions.
    """

    Warning = exceptions.Warning
    Error = exceptions.Error
    InterfaceError = exceptions.InterfaceError
    DatabaseError = exceptions.DatabaseError
    DataError = exceptions.DataError
    OperationalError = exceptions.OperationalError
    IntegrityError = exceptions.IntegrityError
    InternalError = exceptions.InternalError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError

    autocommit = True

    def __init__(self, session: Session, on_close: Callable[[], None]) -> None:
        self._session: Session | None = session
        self._on_close = on_close
        self._cursors: WeakSet[Cursor] = WeakSet()

    @property
    def session(self) -> Session:
        """The session of the connection, for what DB-API lacks: jobs, functions, DataFrames."""
        if self._session is None:
            hint = "Open another one with sqlstream.dbapi.connect()."
            raise raised_as(ExecutionError(CLOSED, "the connection is closed", hint=hint))
        return self._session

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self._session is None

    def cursor(self) -> Cursor:
        """A new cursor; InterfaceError where the connection is closed."""
        _ = self.session
        cursor = Cursor(self)
        self._cursors.add(cursor)
        return cursor

    def commit(self) -> None:
        """No effect, as each statement has taken effect already."""
        _ = self.session

    def rollback(self) -> None:
        """NotSupportedError, because each statement takes effect at once."""
        _ = self.session
        hint = "Leave it out: each statement has taken effect when it was executed."
        raise raised_as(UnsupportedError(NO_TRANSACTIONS, "there is no transaction to roll back", hint=hint))

    def close(self) -> None:
        """Close the cursors, and the session with its jobs if the connection has opened it."""
        if self._session is None:
            return
        for cursor in list(self._cursors):
            cursor.close()
        with raising():
            self._on_close()
        self._session = None

    def results(self, operation: str, parameters: Arguments | None, begun: Callable[[set[str]], None],
                started: Callable[[Result], None]) -> Iterator[Result]:  # fmt: skip
        """The result of each statement of the text, one after the other.

        While a statement starts, other threads wait: ``begun`` is then called with what ran before, and ``started``
        with the result.
        """
        steps = self.session.results(operation, parameters, as_table=True)
        while True:
            with SERIAL:
                begun({run.id for run in self.session.running})
                with raising():
                    result = next(steps, None)
                if result is None:
                    return
                started(result)
            yield result

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
