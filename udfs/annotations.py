"""SQL types of Python's annotations."""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from decimal import Decimal

from sqlstream.types import INTERVAL, TIMESTAMP, DataType

_SIMPLE: dict[object, DataType] = {
    bool: DataType("BOOLEAN"),
    int: DataType("BIGINT"),
    float: DataType("DOUBLE"),
    str: DataType("STRING"),
    bytes: DataType("BINARY"),
    datetime.date: DataType("DATE"),
    datetime.datetime: TIMESTAMP,
    datetime.timedelta: INTERVAL,
    Decimal: DataType("DECIMAL", (38, 18)),
}


def sql_type(annotation: object) -> DataType | None:
    """The SQL type of an annotation; ``X | None`` is ``X``. None for annotations without an SQL type."""
    if type(annotation).__hash__ is None:  # a list in place of list[…]
        return None
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    annotation = _without_none(annotation)
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    arguments = typing.get_args(annotation)
    match typing.get_origin(annotation), len(arguments):
        case (origin, 1) if origin in (list, Sequence):
            return _nested("ARRAY", arguments)
        case (origin, 2) if origin in (dict, Mapping):
            return _nested("MAP", arguments)
    return _struct(annotation) if isinstance(annotation, type) else None


def row_of_iterable(annotation: object) -> object | None:
    """``X`` of ``Iterator[X]``, ``Iterable[X]`` and ``Generator[X, …]``; None for any other annotation."""
    return _first_argument(annotation, (Iterator, Iterable, Generator))


def element_of(annotation: object) -> object | None:
    """``X`` of lists and asynchronous iterators of ``X``, without a None among its types; None for any other
    annotation."""
    return _first_argument(_without_none(annotation), (list, Sequence, AsyncIterator, AsyncIterable, AsyncGenerator))


def _first_argument(annotation: object, origins: tuple[object, ...]) -> object | None:
    """None also where the annotation has none, as in ``-> Iterator``."""
    if typing.get_origin(annotation) not in origins:
        return None
    return typing.cast(object, next(iter(typing.get_args(annotation)), None))


def annotations_of(function: Callable[..., object]) -> dict[str, object]:
    """The resolved annotations of a function; annotations that cannot be resolved are omitted."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):
        return {}


def _without_none(annotation: object) -> object:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [a for a in typing.get_args(annotation) if a is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation


def _nested(name: str, annotations: tuple[object, ...]) -> DataType | None:
    members = [sql_type(a) for a in annotations]
    return None if None in members else DataType(name, tuple(members))


def _struct(kind: type) -> DataType | None:
    """STRUCT of a NamedTuple or a dataclass."""
    if not (dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))):
        return None
    members = [(name, sql_type(a)) for name, a in annotations_of(kind).items()]
    return None if any(t is None for _, t in members) else DataType("STRUCT", tuple(members))
