"""State that process functions declare: a value, a list or a map per key, each entry with its own time to live."""

from __future__ import annotations

import datetime
import re
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar, overload

from sqlstream.errors import SqlStreamError
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.annotations import sql_type
from sqlstream.udfs.process.cells import Cell, ListCell, MapCell, Slots, ValueCell

T = TypeVar("T")
K = TypeVar("K")
C = TypeVar("C", bound=Cell)

Kind = type[T] | str
"""The type of what is kept: a Python type that has a counterpart in SQL, or the SQL type as text."""

CELLS = "__cells"
"""Where an instance has the cells of the key that it is called for."""

_UNITS = {"ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "min": 60_000, "minute": 60_000,
          "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000}  # fmt: skip
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+?)s?\s*", re.IGNORECASE)


class State(Generic[C]):
    """A declared state; as an attribute of an instance it is the cell of the key that the instance is called for.

    ``ttl``: an entry is gone that long after it was last written, by the clock of processing time.
    """

    name = ""
    key_type: DataType | None = None

    def __init__(self, kind: object, ttl: str | datetime.timedelta | None) -> None:
        self.kind = kind
        self.type = type_of(kind)
        self.ttl_ms = None if ttl is None else milliseconds_of(ttl)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> State[C]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> C: ...

    def __get__(self, instance: object | None, owner: type) -> State[C] | C:
        if instance is None:
            return self
        cells = vars(instance).get(CELLS)
        if cells is None:
            raise AttributeError(f'state "{self.name}" is that of a key: it is there while eval or on_timer runs')
        cell: C = cells[self.name]
        return cell

    def __set__(self, instance: object, value: object) -> None:
        raise AttributeError(f'state "{self.name}" is written by its methods, as in self.{self.name}.update(…)')

    @abstractmethod
    def cell(self, slots: Slots) -> C:
        """The cell over the entries of a key."""


class ValueState(State[ValueCell[T]], Generic[T]):
    """One value per key: ``count = ValueState(int, default=0)``."""

    def __init__(self, kind: Kind[T], *, default: Any = None, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(kind, ttl)
        self.default = default

    def cell(self, slots: Slots) -> ValueCell[T]:
        return ValueCell(slots, self.default)


class ListState(State[ListCell[T]], Generic[T]):
    """Values in the order in which they were added: ``rows = ListState(Bid)``."""

    def __init__(self, kind: Kind[T], *, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(kind, ttl)

    def cell(self, slots: Slots) -> ListCell[T]:
        return ListCell(slots)


class MapState(State[MapCell[K, T]], Generic[K, T]):
    """A dictionary per key: ``seen = MapState(str, int, ttl="1 hour")``."""

    def __init__(self, key: Kind[K], kind: Kind[T], *, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(kind, ttl)
        self.key_kind = key
        self.key_type = type_of(key)

    def cell(self, slots: Slots) -> MapCell[K, T]:
        return MapCell(slots)


def states_of(function: type) -> tuple[State[Any], ...]:
    """The states that a class and its base classes declare, sorted by name."""
    members = {name: value for c in reversed(function.__mro__) for name, value in vars(c).items()}
    return tuple(value for _, value in sorted(members.items()) if isinstance(value, State))


def type_of(kind: object) -> DataType:
    """The SQL type of a declaration. TypeError where it has none."""
    try:
        sql = parse_type(kind) if isinstance(kind, str) else sql_type(kind)
    except SqlStreamError as error:
        raise TypeError(str(error)) from error
    if sql is None or sql.is_unknown:
        raise TypeError(f"{kind} is no SQL type: state holds int, float, str, datetime, list[…], NamedTuple and so on")
    return sql


def milliseconds_of(duration: str | datetime.timedelta) -> int:
    """A ``timedelta``, or a text such as "90 s", "1 hour" or "7 days", in milliseconds. ValueError for others."""
    if isinstance(duration, datetime.timedelta):
        milliseconds = round(duration.total_seconds() * 1000)
    else:
        match = _DURATION.fullmatch(duration)
        unit = _UNITS.get(match[2].lower()) or _UNITS.get(match[2].lower() + "s") if match else None
        if match is None or unit is None:
            raise ValueError(f'"{duration}" is no duration: write "30 seconds", "1 hour" or "7 days"')
        milliseconds = int(match[1]) * unit
    if milliseconds <= 0:
        raise ValueError(f"a duration is longer than nothing, not {duration}")
    return milliseconds


def names_of(states: Iterable[State[Any]]) -> tuple[str, ...]:
    return tuple(state.name for state in states)
