"""SQLite as a source of lookups. Its columns have no types: values are read as the table declares them.

A DATE is text such as 2024-01-31, a TIMESTAMP such as 2024-01-31 12:00:00, in UTC where it names no zone, a BOOLEAN 0
or 1, and a DECIMAL a number or a text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from sqlstream.types import DataType
from sqlstream.udfs.lookup.sources.file_database import FileClient, FileDatabase
from sqlstream.udfs.lookup.sources.sql_text import Dialect


def encode(value: object, type_: DataType, stored: str) -> object:
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


def _time(value: object, type_: DataType) -> datetime:
    try:
        instant = datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is no {type_}") from None
    instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    return instant if type_.name == "TIMESTAMP" else instant.replace(tzinfo=None)


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")

DIALECT = Dialect(
    placeholder="?",
    arrays=False,
    sent=dict.fromkeys((*_INTEGERS, "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "DATE"), ""),
    read={("STRING", ""): "CAST({c} AS TEXT)"},
    encode=encode,
    decode={
        **dict.fromkeys(_INTEGERS, _of(int)),
        **dict.fromkeys(("FLOAT", "DOUBLE"), _of(int, float)),
        **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _time),
        "BINARY": _of(bytes),
        "BOOLEAN": _boolean,
        "DECIMAL": _decimal,
        "DATE": _date,
    },
)


def connect(path: str) -> sqlite3.Connection:
    """A read-only connection; another thread may close it."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


class SqliteSource(FileDatabase):
    """A table of an SQLite file."""

    async def open(self) -> FileClient:
        return self.client(DIALECT, connect, sqlite3.Error)
