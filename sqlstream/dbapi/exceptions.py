"""The exceptions of PEP 249. Each carries the diagnostics of the ``SqlStreamError`` that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlstream.errors import (
    BindError,
    ConnectorError,
    Diagnostic,
    ExecutionError,
    ParseError,
    SqlStreamError,
    UnsupportedError,
)


class Warning(Exception):  # noqa: A001
    """Something that is allowed but probably a mistake. It is never raised, but listed in ``Cursor.messages``."""


class Error(Exception):
    """Base class of all errors. ``code`` and ``hint`` are explained in ``docs/errors.md``."""

    def __init__(self, message: str = "", diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)

    @property
    def code(self) -> str | None:
        """The code of the first diagnostic, such as ``SS201``; None if the error has no diagnostics."""
        return self.diagnostics[0].code if self.diagnostics else None

    @property
    def detail(self) -> str | None:
        """The detail of the first diagnostic, or None."""
        return self.diagnostics[0].detail if self.diagnostics else None

    @property
    def hint(self) -> str | None:
        """The hint of the first diagnostic, or None."""
        return self.diagnostics[0].hint if self.diagnostics else None

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.diagnostics))


class InterfaceError(Error):
    """The interface was misused: the connection or cursor is closed."""


class DatabaseError(Error):
    """Base class of errors of statements, rows and external systems."""


class DataError(DatabaseError):
    """A value in a row is not valid for a computation."""


class OperationalError(DatabaseError):
    """A statement failed while it ran, was cancelled, or an external system did not respond."""


class IntegrityError(DatabaseError):
    """A NOT NULL column would contain NULL."""


class InternalError(DatabaseError):
    """Spark has ended while the connection was open."""


class ProgrammingError(DatabaseError):
    """The statement or its parameters contain an error."""


class NotSupportedError(DatabaseError):
    """The statement is part of this or of Flink's dialect but not supported; or a transaction was to be rolled back."""


_OF_VALUES = ("SS401", "SS402", "SS404", "SS430", "SS431", "SS445", "SS446", "SS448", "SS467", "SS469")
_OF_CLOSED = ("SS481", "SS471", "SS472")
_BY_CODE: dict[str, type[Error]] = {
    **dict.fromkeys(_OF_VALUES, DataError),
    **dict.fromkeys(_OF_CLOSED, InterfaceError),
    "SS403": IntegrityError,
    "SS464": InternalError,
    "SS474": InternalError,
    "SS480": ProgrammingError,
}

_BY_CLASS: tuple[tuple[type[SqlStreamError], type[Error]], ...] = (
    (ParseError, ProgrammingError),
    (BindError, ProgrammingError),
    (UnsupportedError, NotSupportedError),
    (ExecutionError, OperationalError),
    (ConnectorError, OperationalError),
)


def raised_as(error: SqlStreamError) -> Error:
    """Converts an error of sqlstream into the DB-API exception (PEP 249) for it."""
    by_class = next((kind for ours, kind in _BY_CLASS if isinstance(error, ours)), DatabaseError)
    return _BY_CODE.get(error.code, by_class)(str(error), error.diagnostics)


@contextmanager
def raising() -> Iterator[None]:
    """A context manager that converts errors of sqlstream into DB-API exceptions (PEP 249)."""
    try:
        yield
    except SqlStreamError as error:
        raise raised_as(error) from error
