"""Spark started on a thread of its own, while the user still types."""

from __future__ import annotations

import contextlib
import os
import sys
from threading import Thread
from typing import TYPE_CHECKING

from sqlstream.grammar.nodes import CreateTable, Insert, Query, Statement, StatementSet

if TYPE_CHECKING:
    from sqlstream.session import Session


def needs_spark(statement: Statement) -> bool:
    """True for statements that start a job."""
    creates = isinstance(statement, CreateTable) and statement.query is not None
    return creates or isinstance(statement, Query | Insert | StatementSet)


def _keep_stderr() -> None:
    """Starting Spark takes descriptor 2 for its log; this process's own messages go on to where it led before."""
    with contextlib.suppress(OSError):  # a captured stderr has no descriptor
        if sys.stderr.fileno() == 2:
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=sys.stderr.encoding)


class SparkStart:
    """Starts the session's Spark at once; ``wait`` returns when it is there or raises what kept it from starting.

    Off the main thread PySpark leaves Ctrl-C to us; on it, Ctrl-C would cancel the work of every job.
    Until ``wait`` has returned the session must not be used for anything that needs Spark.
    """

    def __init__(self, session: Session) -> None:
        _keep_stderr()
        self._session = session
        self._error: Exception | None = None
        self._thread = Thread(target=self._start, name="sqlstream-start", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _start(self) -> None:
        try:
            self._session.spark  # noqa: B018
        except Exception as error:
            self._error = error
