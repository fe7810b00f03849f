"""Process functions: ``SELECT * FROM f(input => TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts))``.

A class that is called at each row of a table and at each timer, with state and timers of the row's key::

    from collections.abc import Iterator
    from typing import NamedTuple
    from sqlstream.udfs.process import ProcessContext, ProcessFunction, Row, Timer, ValueState

    class Alert(NamedTuple):
        silent_since: int

    class Silence(ProcessFunction):
        deadline = ValueState(int)

        def eval(self, ctx: ProcessContext, input: Row, seconds: int = 60) -> None:
            if self.deadline.value is not None:
                ctx.delete_timer("silence", self.deadline.value)
            self.deadline.value = ctx.time + seconds * 1000
            ctx.register_timer("silence", self.deadline.value)

        def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Alert]:
            yield Alert(timer.time)

The parameters of ``eval`` after ``ctx`` are those of the call: tables (``Row``, or ``Row[T]`` of a NamedTuple or
dataclass, whose fields are then all that is read), columns that a DESCRIPTOR names (``Descriptor``), and constants of
any type that has a counterpart in SQL. With several tables one of them has a row, the others are None.

Times are whole milliseconds since 1970 (UTC). Both methods return rows, or yield them, of the annotated type. What is
to be remembered belongs in declared state: instances are made anew whenever a worker starts, without arguments.
"""

from __future__ import annotations

import datetime
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, overload

from sqlstream.errors import SqlStreamError
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.process.cells import Cell, ListCell, MapCell, Slots, ValueCell
from sqlstream.udfs.signature import sql_type

T = TypeVar("T")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class ProcessFunction:
    """The base class of process functions. ``eval`` is required, ``on_timer(self, ctx, timer)`` if timers are set.

    ``processing_time``: True where the function reads the clock or sets timers of processing time. ``pass_through``:
    True where each result row has the columns of the row that it was made for; such a function has no timers.
    """

    __process_function__: ClassVar[bool] = True
    processing_time: ClassVar[bool] = False
    pass_through: ClassVar[bool] = False

    eval: Callable[..., Any]


class Row(Generic[T]):
    """A table argument in the annotation of ``eval``; its values have the columns as attributes, NULL as None."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Descriptor(tuple[str, ...]):
    """The names of the columns of a DESCRIPTOR argument."""


class Timer(NamedTuple):
    """A registered timer of a process function. ``time`` is in milliseconds since 1970."""

    name: str | None
    time: int
    domain: Domain


class ProcessContext:
    """What a process function can read besides the row: the key, the clocks, and the timers of the key. All times are
    in milliseconds since 1970.

    ``key`` is a named tuple of the columns of PARTITION BY. ``input`` is the name of the parameter to which the row
    belongs, None at a timer. ``watermark`` is None before the first one. ``ended`` is True once the input has ended:
    then every timer fires, also those that timers register.
    """

    def __init__(self, timers: TimerAccess) -> None:
        self._timers = timers
        self.key: Any = ()
        self.input: str | None = None
        self.row_time: int | None = None
        self.watermark: int | None = None
        self.ended = False

    @property
    def time(self) -> int:
        """The event time of the row or of the timer, in milliseconds since 1970. Raises FunctionError if the call of
        the function in SQL has no ``on_time``, and at timers of processing time.
        """
        return self._timers.time(self.row_time)

    @property
    def processing_time(self) -> int:
        """The current processing time in milliseconds. Only for classes with ``processing_time = True``."""
        return self._timers.clock()

    def register_timer(self, name: str | None, time: int | datetime.datetime, domain: Domain = Domain.EVENT) -> None:
        """Registers a call of ``on_timer`` at a time, in milliseconds or as a datetime; at once if it has passed. A
        timer exists once per name and time.
        """
        self._timers.register(Timer(name, _ms(time), domain))

    def delete_timer(self, name: str | None, time: int | datetime.datetime, domain: Domain = Domain.EVENT) -> None:
        """Deletes the timer with this name and time, if there is one."""
        self._timers.delete(Timer(name, _ms(time), domain))


class TimerAccess:
    """The interface by which a ``ProcessContext`` accesses the timers of the current key."""

    def time(self, event_time: int | None) -> int:
        """Returns ``event_time``, that of the current row or timer in milliseconds; raises FunctionError if it is None,
        because the row or timer has none.
        """
        raise NotImplementedError

    def clock(self) -> int:
        """The current processing time in milliseconds."""
        raise NotImplementedError

    def register(self, timer: Timer) -> None:
        """Registers a timer of the current key."""
        raise NotImplementedError

    def delete(self, timer: Timer) -> None:
        """Deletes a timer of the current key, if there is one."""
        raise NotImplementedError


def _ms(time: int | datetime.datetime) -> int:
    """An instant in milliseconds; without a time zone it is in UTC."""
    if isinstance(time, datetime.datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
        return (aware - _EPOCH) // _MILLISECOND
    if isinstance(time, bool) or not isinstance(time, int):
        raise TypeError(f"the time of a timer is milliseconds (int) or a datetime, not {time!r}")
    return time


# --- declared state: a value, a list or a map per key, each entry with its own time to live -------------------


K = TypeVar("K")
C = TypeVar("C", bound=Cell)

Kind = type[T] | str
"""The type of a state: a Python type that has a counterpart in SQL, or the SQL type as text."""

CELLS = "__cells"
"""Where an instance has the cells of the key that it is called for."""

_UNITS = {"ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "min": 60_000, "minute": 60_000,
          "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000}  # fmt: skip
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+?)s?\s*", re.IGNORECASE)


class State(Generic[C]):
    """A keyed state, declared as an attribute of a process function's class. In an instance the attribute is the
    ``Cell`` of the key for which the instance is called.

    ``ttl``: an entry expires this long after its last write, in processing time.
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
        """The ``Cell`` by which user code accesses the entries of one key."""


class ValueState(State[ValueCell[T]], Generic[T]):
    """One value per key: ``count = ValueState(int, default=0)``."""

    def __init__(self, kind: Kind[T], *, default: Any = None, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(kind, ttl)
        self.default = default

    def cell(self, slots: Slots) -> ValueCell[T]:
        """The ``ValueCell`` by which user code accesses the entry of one key."""
        return ValueCell(slots, self.default)


class ListState(State[ListCell[T]], Generic[T]):
    """Values in the order in which they were added: ``rows = ListState(Bid)``."""

    def __init__(self, kind: Kind[T], *, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(kind, ttl)

    def cell(self, slots: Slots) -> ListCell[T]:
        """The ``ListCell`` by which user code accesses the entries of one key."""
        return ListCell(slots)


class MapState(State[MapCell[K, T]], Generic[K, T]):
    """A dictionary per key: ``seen = MapState(str, int, ttl="1 hour")``."""

    def __init__(self, key: Kind[K], kind: Kind[T], *, ttl: str | datetime.timedelta | None = None) -> None:
        super().__init__(kind, ttl)
        self.key_kind = key
        self.key_type = type_of(key)

    def cell(self, slots: Slots) -> MapCell[K, T]:
        """The ``MapCell`` by which user code accesses the entries of one key."""
        return MapCell(slots)


def states_of(function: type) -> tuple[State[Any], ...]:
    """The states that a process function's class and its base classes declare, sorted by name."""
    members = {name: value for c in reversed(function.__mro__) for name, value in vars(c).items()}
    return tuple(value for _, value in sorted(members.items()) if isinstance(value, State))


def type_of(kind: object) -> DataType:
    """The SQL type for the Python type or SQL type name with which a state was declared. Raises TypeError if there is
    none.
    """
    try:
        sql = parse_type(kind) if isinstance(kind, str) else sql_type(kind)
    except SqlStreamError as error:
        raise TypeError(str(error)) from error
    if sql is None or sql.is_unknown:
        raise TypeError(f"{kind} is no SQL type: state holds int, float, str, datetime, list[…], NamedTuple and so on")
    return sql


def milliseconds_of(duration: str | datetime.timedelta) -> int:
    """A duration in milliseconds: a ``timedelta``, or a text such as "90 s", "1 hour" or "7 days". Raises ValueError
    for other texts.
    """
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
    """The names of states."""
    return tuple(state.name for state in states)
