"""The signature of a user's function: read from annotations and decorators, without calling it."""

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
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TypeVar

from sqlstream.types import INTERVAL, TIMESTAMP, DataType


class FunctionKind(Enum):
    """What a function that a user wrote is for, which determines how SQL may call it. SQL: its body is SQL. ASYNC: a
    lookup function, called by LOOKUP ASYNC. ASSIGNER, TRIGGER and EVICTOR belong to window operators.
    """

    SCALAR = "scalar"
    SQL = "sql"
    AGGREGATE = "aggregate"
    TABLE = "table"
    ASYNC = "asynchronous"
    PROCESS = "process"
    ASSIGNER = "assigner"
    TRIGGER = "trigger"
    EVICTOR = "evictor"


@dataclass(frozen=True)
class TableParameter:
    """A table parameter of a process function. ``columns``: names and types of the columns that the function reads;
    None if it accepts any table.
    """

    name: str
    columns: tuple[tuple[str, DataType], ...] | None = None


@dataclass(frozen=True)
class ProcessSignature:
    """The signature of a process function, except for its constants, which are the parameters of ``Function``.

    ``parameters``: the names of all parameters, in order; ``optional``: those with defaults. ``keyed``: it has state or
    timers, so its tables need PARTITION BY. ``clock``: it needs processing time. ``timeless``: some of its rows may
    have no event time. ``pass_through``: the columns of its input are emitted with its rows.
    """

    parameters: tuple[str, ...]
    tables: tuple[TableParameter, ...]
    descriptors: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    keyed: bool = False
    timers: bool = False
    clock: bool = False
    timeless: bool = False
    pass_through: bool = False


@dataclass(frozen=True)
class Function:
    """A function from CREATE FUNCTION. ``target`` is ``package.module:name``; for a function written in SQL it is the
    body, for Python code in the statement (``in_place``) the code.

    ``returns`` is the type of the result; for a table function the STRUCT of its row. ``parameters`` are (name, type)
    where declared; ``min_arguments``/``max_arguments`` bound the number of arguments of a call (None: any).
    ``deterministic`` functions may be computed once and reused, or not at all where the result is unused. ``process``
    is the signature of a process function. ``defaults``: the SQL expressions of optional parameters, by name.
    ``declared``: the type of the result as written, with its length, as in ``VARCHAR(3)``; None without a length.
    """

    name: str
    target: str
    kind: FunctionKind
    returns: DataType
    parameters: tuple[tuple[str, DataType], ...] = ()
    min_arguments: int = 0
    max_arguments: int | None = None
    deterministic: bool = True
    process: ProcessSignature | None = None
    defaults: tuple[tuple[str, str], ...] = ()
    in_place: bool = False
    declared: str | None = None


# --- SQL types of Python annotations --------------------------------------------------------------------------


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
    """The type ``X`` of ``Iterator[X]``, ``Iterable[X]`` and ``Generator[X, …]``; None for any other annotation."""
    return _first_argument(annotation, (Iterator, Iterable, Generator))


def element_of(annotation: object) -> object | None:
    """The type ``X`` of lists and asynchronous iterators of ``X`` or ``X | None``; None for any other annotation."""
    return _first_argument(_without_none(annotation), (list, Sequence, AsyncIterator, AsyncIterable, AsyncGenerator))


def _first_argument(annotation: object, origins: tuple[object, ...]) -> object | None:
    """None also where the annotation has none, as in ``-> Iterator``."""
    if typing.get_origin(annotation) not in origins:
        return None
    return typing.cast(object, next(iter(typing.get_args(annotation)), None))


def annotations_of(function: Callable[..., object]) -> dict[str, object]:
    """The annotations of a function as types; those that cannot be resolved are omitted."""
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


# --- decorators, for what annotations cannot express ----------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """What a decorator of ``sqlstream.udfs.functions`` says about a function. ``returns`` is a type in SQL, such as
    ``STRUCT<a: INT>``.
    """

    returns: str | None = None
    vectorized: bool = False
    deterministic: bool = True
    asynchronous: bool = False
    batch: bool = False


_F = TypeVar("_F", bound=Callable[..., object])


def scalar(*, returns: str | None = None, vectorized: bool = False, deterministic: bool = True) -> Callable[[_F], _F]:
    """Decorator of a scalar function, with one result per row. ``vectorized`` functions get and return Arrow arrays or
    pandas Series of equal length.
    """
    return _marked(Options(returns, vectorized, deterministic))


def aggregate(*, returns: str) -> Callable[[_F], _F]:
    """Decorator of an aggregate function whose result type no annotation can express."""
    return _marked(Options(returns))


def table(*, returns: str) -> Callable[[_F], _F]:
    """Decorator of a table function, with any number of result rows per row; ``returns`` is the STRUCT of a row."""
    return _marked(Options(returns))


def lookup(*, returns: str | None = None, batch: bool = False) -> Callable[[_F], _F]:
    """Decorator of a coroutine for LOOKUP ASYNC; ``returns`` is the STRUCT of a row, or the type of a row's one value.

    With ``batch`` it gets a list per parameter, of equal lengths, and returns a list with an answer per key.
    """
    return _marked(Options(returns, asynchronous=True, batch=batch))


def _marked(options: Options) -> Callable[[_F], _F]:
    def mark(function: _F) -> _F:
        function.__sqlstream__ = options  # type: ignore[attr-defined]
        return function

    return mark


def options_of(implementation: object) -> Options:
    """The options of a decorated function or class; defaults if it is not decorated."""
    options = getattr(implementation, "__sqlstream__", None)
    return options if isinstance(options, Options) else Options()
