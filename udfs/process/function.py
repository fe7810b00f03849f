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

The parameters of ``eval`` behind ``ctx`` are those of the call: tables (``Row``, or ``Row[T]`` of a NamedTuple or
dataclass, whose fields are then all that is read), columns that a DESCRIPTOR names (``Descriptor``), and constants of
any type that has a counterpart in SQL. With several tables one of them has a row, the others are None.

Times are whole milliseconds since 1970 (UTC). Both methods return rows, or yield them, of the annotated type. What is
to be remembered belongs in declared state: instances are made anew whenever a worker starts, without arguments.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from sqlstream.udfs.kernel import Domain

T = TypeVar("T")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class ProcessFunction:
    """What process functions extend. ``eval`` must be there; ``on_timer(self, ctx, timer)`` where timers are set.

    ``processing_time``: True where the function reads the clock or sets timers of processing time. ``pass_through``:
    True where each row that comes out has the columns of the row that it was made for; such a function has no timers.
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
    """Names of columns that a DESCRIPTOR argument gives."""


class Timer(NamedTuple):
    """``time`` in milliseconds; what was registered."""

    name: str | None
    time: int
    domain: Domain


class ProcessContext:
    """What a function can ask beside the row: the key, the clocks, and the timers of the key.

    ``key`` is a named tuple of the columns of PARTITION BY. ``input`` is the parameter that the row belongs to, None at
    a timer. ``watermark`` is None before the first one. ``ended`` is True once the input has ended: every timer fires
    then, also those that timers register.
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
        """The event time of the row or of the timer. Only where the call has ``on_time``."""
        return self._timers.time(self.row_time)

    @property
    def processing_time(self) -> int:
        """The clock. Only where the class says ``processing_time = True``."""
        return self._timers.clock()

    def register_timer(self, name: str | None, time: int | datetime.datetime, domain: Domain = Domain.EVENT) -> None:
        """Calls ``on_timer`` when time gets there, at once where it is there. A timer exists once per name and time."""
        self._timers.register(Timer(name, _ms(time), domain))

    def delete_timer(self, name: str | None, time: int | datetime.datetime, domain: Domain = Domain.EVENT) -> None:
        """Deletes a timer, if there is one."""
        self._timers.delete(Timer(name, _ms(time), domain))


class TimerAccess:
    """The interface behind a context's timers, for the current key."""

    def time(self, event_time: int | None) -> int:
        raise NotImplementedError

    def clock(self) -> int:
        raise NotImplementedError

    def register(self, timer: Timer) -> None:
        raise NotImplementedError

    def delete(self, timer: Timer) -> None:
        raise NotImplementedError


def _ms(time: int | datetime.datetime) -> int:
    """An instant in milliseconds; without a time zone it is in UTC."""
    if isinstance(time, datetime.datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
        return (aware - _EPOCH) // _MILLISECOND
    if isinstance(time, bool) or not isinstance(time, int):
        raise TypeError(f"the time of a timer is milliseconds (int) or a datetime, not {time!r}")
    return time
