"""The types of columns by values that were seen: of JSON as parsed, and of texts such as fields of CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlstream.types import DataType

_NOTHING = DataType("VOID")
_STRING, _VARIANT, _TIMESTAMP = DataType("STRING"), DataType("VARIANT"), DataType("TIMESTAMP")
_BIGINT, _DOUBLE, _BOOLEAN, _DATE = (DataType(name) for name in ("BIGINT", "DOUBLE", "BOOLEAN", "DATE"))
_LARGE = DataType("DECIMAL", (38, 0))
_NUMBERS = (_BIGINT, _LARGE, _DOUBLE)
"""Each has all whole numbers of those before it."""
_LARGEST = 2**63

_WHOLE = re.compile(r"[+-]?\d{1,38}")
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?")

_KEYS_OF_A_MAP = 20
"""An object that has so many different keys, and few of them at a time, is a MAP."""


@dataclass(frozen=True)
class InferredColumn:
    """A column: its name and type, whether a value was missing, and its values."""

    name: str
    type: DataType
    nullable: bool
    values: Sequence[Any]


def columns_of_objects(rows: Sequence[Mapping[str, Any]]) -> list[InferredColumn]:
    """The columns of JSON objects, in the order in which their fields were first seen."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [_column(name, [row.get(name) for row in rows], type_of) for name in names]


def columns_of_texts(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> list[InferredColumn]:
    """The columns of rows of texts, of which an empty one is NULL."""
    values = zip(*rows, strict=True) if rows else ([] for _ in names)
    return [_column(n, [v or None for v in given], _type_of_text) for n, given in zip(names, values, strict=True)]


def _column(name: str, values: Sequence[Any], kind: Any) -> InferredColumn:
    types = [kind(value) for value in values if value is not None]
    return InferredColumn(name, common_type(types) or _STRING, len(types) < len(values), values)


def type_of(value: Any) -> DataType | None:
    """The type of a value of JSON; None of null and of what has nothing else."""
    match value:
        case None:
            return None
        case bool():
            return _BOOLEAN
        case int():
            return _BIGINT if -_LARGEST <= value < _LARGEST else _LARGE
        case float():
            return _DOUBLE
        case list():
            return DataType("ARRAY", (_common(map(type_of, value)) or _NOTHING,))
        case dict():
            return _of_object(value)
    return _of_time(str(value)) or _STRING


def _of_object(value: Mapping[str, Any]) -> DataType:
    return DataType("STRUCT", tuple((name, type_of(inner) or _NOTHING) for name, inner in value.items()))


def _of_time(text: str) -> DataType | None:
    if _DAY.fullmatch(text) and _is_time(text):
        return _DATE
    return _TIMESTAMP if _INSTANT.fullmatch(text) and _is_time(text[:19].replace(" ", "T")) else None


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _type_of_text(text: str) -> DataType:
    if _WHOLE.fullmatch(text):
        has_zeros = len(text) > 1 and text[0] == "0"  # a number of an account, not one to count with
        return _STRING if has_zeros else type_of(int(text)) or _BIGINT
    if _FRACTION.fullmatch(text):
        return _DOUBLE
    if text.lower() in ("true", "false"):
        return _BOOLEAN
    return _of_time(text) or _STRING


# --- several values ---------------------------------------------------------------------------------------------


def common_type(types: Iterable[DataType | None]) -> DataType | None:
    """The type that has the values of all; None without one."""
    found = _common(types)
    return None if found is None else _known(found)


def _common(types: Iterable[DataType | None]) -> DataType | None:
    """As ``common_type``, with _NOTHING for what was always null."""
    found: DataType | None = None
    distinct = list(dict.fromkeys(kind for kind in types if kind is not None))
    if len(distinct) > _KEYS_OF_A_MAP and (map_type := _as_map(distinct)) is not None:
        return map_type
    for kind in distinct:
        found = kind if found is None else _both(found, kind)
    return found


def _as_map(structs: Sequence[DataType]) -> DataType | None:
    """The MAP of objects of many different keys, of which each has few; None where they are no such."""
    if any(kind.name != "STRUCT" for kind in structs):
        return None
    keys = {name for kind in structs for name, _ in kind.fields()}
    if len(keys) <= _KEYS_OF_A_MAP or len(keys) < 2 * max(len(kind.fields()) for kind in structs):
        return None
    inner = _common(member for kind in structs for _, member in kind.fields())
    return DataType("MAP", (_STRING, inner or _NOTHING))


def _both(one: DataType, other: DataType) -> DataType:
    if one == other or other == _NOTHING:
        return one
    if one == _NOTHING:
        return other
    if one in _NUMBERS and other in _NUMBERS:
        return max(one, other, key=_NUMBERS.index)
    match one.name, other.name:
        case "ARRAY", "ARRAY":
            return DataType("ARRAY", (_both(one.inner[0], other.inner[0]),))
        case "STRUCT", "STRUCT":
            members = dict(one.fields())
            for name, kind in other.fields():
                members[name] = _both(members[name], kind) if name in members else kind
            return DataType("STRUCT", tuple(members.items()))
    nested = {"ARRAY", "MAP", "STRUCT", "VARIANT"} & {one.name, other.name}
    return _VARIANT if nested else _STRING


def _known(kind: DataType) -> DataType:
    """The type with STRING for what was always null, and a MAP for objects that never had a field."""
    if kind == _NOTHING:
        return _STRING
    if kind.name == "STRUCT" and not kind.fields():
        return DataType("MAP", (_STRING, _STRING))
    return kind.with_inner(_known)


# --- times ------------------------------------------------------------------------------------------------------


def disorder(column: InferredColumn) -> timedelta:
    """How far the values of a column of times are behind the newest one before them, at most."""
    newest: datetime | None = None
    most = timedelta()
    for value in column.values:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace(" ", "T"))
        time = time.replace(tzinfo=None) - (time.utcoffset() or timedelta())
        newest = time if newest is None else max(newest, time)
        most = max(most, newest - time)
    return most


_SINCE_1970 = {3: range(10**12, 5 * 10**12), 0: range(10**9, 5 * 10**9)}
"""Numbers that are times from 2001 to 2128, in milliseconds and in seconds, by the digits of a second."""


def digits_of_epochs(column: InferredColumn) -> int | None:
    """3 for a column of milliseconds since 1970, 0 for one of seconds; None for others."""
    if column.type != _BIGINT or column.nullable or not column.values:
        return None
    for digits, numbers in _SINCE_1970.items():
        if all(int(value) in numbers for value in column.values):
            return digits
    return None
