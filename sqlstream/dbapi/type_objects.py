"""Types of columns and constructors of values, as PEP 249 names them.

The ``type_code`` of a column is its type as DDL spells it, such as ``DECIMAL(10, 2)``; each equals one of the type
objects here.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import date, datetime
from datetime import time as time_of_day

from sqlstream.types import DataType

_WORD = re.compile(r"\w+")

Date, Time, Timestamp, Binary = date, time_of_day, datetime, bytes


@dataclass(frozen=True)
class TypeObject:
    """Equal to the type codes of all its types."""

    name: str
    types: frozenset[str]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.types == other.types
        if isinstance(other, str):
            word = _WORD.match(other)
            return word is not None and word[0] in self.types
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.types)


STRING = TypeObject("STRING", frozenset({"STRING", "ARRAY", "MAP", "STRUCT", "VARIANT", "VOID", "UNKNOWN"}))
"""Also what Python has as lists and dictionaries."""
BINARY = TypeObject("BINARY", frozenset({"BINARY"}))
NUMBER = TypeObject(
    "NUMBER", frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
)
DATETIME = TypeObject("DATETIME", frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL"}))
ROWID = TypeObject("ROWID", frozenset())
"""No column is one."""


def DateFromTicks(ticks: float) -> date:  # noqa: N802
    """The local date at a time in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> time_of_day:  # noqa: N802
    """The local time of day at a time in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The local date and time at a time in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


Column = tuple[str, str, None, None, int | None, int | None, None]
"""Name, type code, display size, internal size, precision, scale, whether NULL is allowed."""


def described(name: str, type_: DataType) -> Column:
    """The entry of ``Cursor.description`` for a column."""
    precision, scale = _digits(type_)
    return name, type_.ddl(), None, None, precision, scale, None


def _digits(type_: DataType) -> tuple[int | None, int | None]:
    match type_.name, type_.args:
        case "DECIMAL", (int(precision), int(scale)):
            return precision, scale
    return None, None
