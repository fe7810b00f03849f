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
    """Opens a DB-API connection.

    ``spark``: as for ``sqlstream.connect``; by default Spark runs locally with all cores. ``project`` is a folder
    whose ``sqlstream.toml`` applies, with the profile ``profile``. ``settings`` are those of SET. ``session``, instead
    of all these, is an existing session, which the connection uses and does not close.
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
    """A DB-API connection, which several threads may share. There are no transactions: each statement takes effect
    when it is executed.
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
        """The underlying session, for what DB-API does not offer: jobs, functions, DataFrames."""
        if self._session is None:
            hint = "Open another one with sqlstream.dbapi.connect()."
            raise raised_as(ExecutionError(CLOSED, "the connection is closed", hint=hint))
        return self._session

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self._session is None

    def cursor(self) -> Cursor:
        """Returns a new cursor. Raises InterfaceError if the connection is closed."""
        _ = self.session
        cursor = Cursor(self)
        self._cursors.add(cursor)
        return cursor

    def commit(self) -> None:
        """Does nothing, because each statement took effect when it was executed."""
        _ = self.session

    def rollback(self) -> None:
        """Raises NotSupportedError, because executed statements cannot be undone."""
        _ = self.session
        hint = "Leave it out: each statement has taken effect when it was executed."
        raise raised_as(UnsupportedError(NO_TRANSACTIONS, "there is no transaction to roll back", hint=hint))

    def close(self) -> None:
        """Closes all cursors, and also the session with its jobs if the connection opened it."""
        if self._session is None:
            return
        for cursor in list(self._cursors):
            cursor.close()
        with raising():
            self._on_close()
        self._session = None

    def results(self, operation: str, parameters: Arguments | None, begun: Callable[[set[str]], None],
                started: Callable[[Result], None]) -> Iterator[Result]:  # fmt: skip
        """Executes the statements of a text one after the other and yields the result of each.

        Only one thread at a time can start a statement. Before it starts, ``begun`` is called with the ids of running
        jobs and queries; once it has started, ``started`` is called with its result.
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
