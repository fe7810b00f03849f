"""What a trigger is: when the windows of a batch fire, for all window instances at once.

A window instance is a key and one of its windows. Triggers are frozen; what they remember of instances are the
columns of a ``TriggerState``, which methods change in place. All methods work on all instances of the state they get;
whoever means some of them takes those out (``TriggerState.at``) and puts them back.

A firing of the whole ``restart``s a trigger, so that both sides of an OR begin again when one of them fires.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import END_OF_TIME, Domain

NONE = END_OF_TIME
"""No position, no timer."""

LAST_MOMENT = 1000
"""A window is closed by the watermark ``end - 1 ms``."""


@dataclass(frozen=True)
class Windows:
    """The windows of instances, and what time it is. ``end`` and times in microseconds."""

    start: Values
    end: Values
    watermark: int
    processing_time: int
    domain: Domain = Domain.EVENT

    @property
    def last_moment(self) -> Values:
        """The time at which each window closes, in its own domain; for a global window the end of the input."""
        return self.end - LAST_MOMENT

    @property
    def closed(self) -> Values:
        """True where the watermark has reached the window's end. Only windows on event time can be closed."""
        if self.domain is Domain.PROCESSING:
            return np.zeros(len(self.end), bool)
        return self.watermark >= self.last_moment

    def at(self, index: Values) -> Windows:
        return replace(self, start=self.start[index], end=self.end[index])


@dataclass(frozen=True)
class Run:
    """The rows of a batch, by window instance: positions ``starts[i]`` to ``ends[i]`` are those of instance i, in order
    of arrival. ``row`` is the number of the row in the batch at each position; a row has one for each of its windows.
    ``own_start``: the start of the row's own window at each position, where windows merge.
    """

    rows: pa.Table
    row: Values
    starts: Values
    ends: Values
    windows: Windows
    own_start: Values | None = None
    _columns: dict[str, Values] = field(default_factory=dict, compare=False)
    _shared: dict[object, Any] = field(default_factory=dict, compare=False)

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Values:
        return self.ends - self.starts

    def at(self, index: Values) -> Run:
        """Some of the instances; positions stay as they are."""
        return replace(self, starts=self.starts[index], ends=self.ends[index], windows=self.windows.at(index))

    def until(self, ends: Values) -> Run:
        """The same instances with fewer rows each."""
        return replace(self, ends=np.minimum(self.ends, ends))

    def flags(self, name: str) -> Values:
        """A BOOLEAN column by position; NULL is false."""
        return self._cached(name, lambda column: pc.fill_null(column, False).to_numpy())

    def numbers(self, name: str) -> Values:
        """A numeric column by position as DOUBLE; NULL is NaN."""
        return self._cached(name, lambda column: pc.cast(column, pa.float64(), safe=False).to_numpy())

    def times(self, name: str) -> Values:
        """A TIMESTAMP or BIGINT column of microseconds by position."""
        return self._cached(name, lambda column: pc.cast(column, pa.int64()).to_numpy())

    def cached(self, name: str, compute: Callable[[], Values]) -> Values:
        """A value that is computed once for all positions, by name."""
        if name not in self._columns:
            self._columns[name] = compute()
        return self._columns[name]

    def shared(self, key: object, compute: Callable[[], Any]) -> Any:
        """A value that is computed once for all rows, by key."""
        if key not in self._shared:
            self._shared[key] = compute()
        return self._shared[key]

    def _cached(self, name: str, convert: Callable[[pa.ChunkedArray], Values]) -> Values:
        return self.cached(name, lambda: convert(self.rows.column(name))[self.row])


class Fire(NamedTuple):
    """The next firing of each instance: its position, or NONE; whether it purges; and those of a trigger's parts."""

    position: Values
    purge: Values
    parts: tuple[Fire, ...] = ()

    def at(self, index: Values) -> Fire:
        return Fire(self.position[index], self.purge[index], tuple(nested.at(index) for nested in self.parts))


class Fires(NamedTuple):
    """All firings at the rows of a run: their positions, ascending, and whether they purge. ``silent``: those that only
    purge; None for none."""

    position: Values
    purge: Values
    silent: Values | None = None


class Due(NamedTuple):
    """A timer of each instance has come. ``now`` is the clock of the domain, which may be far ahead of ``time``.

    Where ``domain`` is None a barrier was aligned, and the times mean nothing.
    """

    domain: Domain | None
    time: Values
    now: int
    windows: Windows

    def at(self, index: Values) -> Due:
        return Due(self.domain, self.time[index], self.now, self.windows.at(index))


class Answer(NamedTuple):
    """Which instances fire, and which purge what they held."""

    fires: Values
    purges: Values


class Trigger(ABC):
    """When a window fires."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The trigger's own columns of state, without those of nested triggers."""
        return ()

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return ()

    @property
    def looks_at_rows(self) -> bool:
        """True where rows of open windows can fire, or set timers by their own times, so that sessions must merge in
        the order of arrival."""
        return any(nested.looks_at_rows for nested in self.parts)

    @property
    def searches(self) -> bool:
        """True where finding the next firing may cost as much as there are rows."""
        return any(nested.searches for nested in self.parts)

    @property
    def looks_at_windows(self) -> bool:
        """True where rows must find windows as they were when these rows came, and not as they have grown since."""
        return any(nested.looks_at_windows for nested in self.parts)

    @property
    def mergeable(self) -> bool:
        return all(nested.mergeable for nested in self.parts)

    @property
    def uses_processing_time(self) -> bool:
        return any(nested.uses_processing_time for nested in self.parts)

    def fresh(self, count: int) -> TriggerState:
        values = {column.name: column.fresh(count) for column in self.columns}
        return TriggerState(count, values, tuple(nested.fresh(count) for nested in self.parts))

    # --- rows -------------------------------------------------------------------------------------------------

    @abstractmethod
    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        """The first firing of each instance at or after its cursor; the rows before it were taken. Changes nothing."""

    @abstractmethod
    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        """The rows at positions ``start`` to ``stop`` (exclusive) have come; ``fire`` is what was asked before that."""

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        """The whole trigger fired at these positions; this one as well where ``fire.position`` is the same."""
        self.rest(state)

    def quiet(self, run: Run) -> bool:
        """True where no row of this run can fire, whatever came before."""
        return False

    def fires(self, state: TriggerState, run: Run) -> Fires:
        """All firings at the rows of a run, which are taken: the first of every instance, then the second, …"""
        firings: list[Fires] = []
        cursor, active = run.starts.copy(), np.arange(run.count)
        while len(active):
            some, active_state = run.at(active), state.at(active)
            fire = self.fire(active_state, some, cursor[active])
            fired = fire.position != NONE
            stop = np.where(fired, fire.position + 1, some.ends) if fired.any() else some.ends
            self.take(active_state, some, cursor[active], stop, fire)
            firings.append(self._restarted(active_state, some, fire, fired))
            state.put(active, active_state)
            cursor[active] = stop
            active = active[stop < some.ends]
        return in_order(firings)

    def _restarted(self, state: TriggerState, run: Run, fire: Fire, fired: Values) -> Fires:
        chosen, firing = fire.at(fired), state.at(fired)
        self.restart(firing, run.at(fired), chosen.position, chosen)
        state.put(fired, firing)
        return Fires(chosen.position, chosen.purge)

    # --- time -------------------------------------------------------------------------------------------------

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        """The next timer of each instance in a domain, or NONE. Barriers have no timers."""
        return np.full(state.count, NONE, np.int64)

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        """The time of some timer of each instance has come; not necessarily of one of this trigger's."""
        return no_answer(state.count)

    def rest(self, state: TriggerState) -> None:
        """The whole trigger fired, at a timer: what was counted begins again."""
        for nested, of_part in zip(self.parts, state.parts, strict=True):
            nested.rest(of_part)

    # --- merging ----------------------------------------------------------------------------------------------

    def merge(self, state: TriggerState, groups: Values, old: Windows, windows: Windows) -> TriggerState:
        """One state per group, from those of the instances in it; ``old`` are their windows, ``windows`` the merged."""
        count = len(windows.end)
        values = {column.name: column.merged(state[column.name], groups, count) for column in self.columns}
        parts = zip(self.parts, state.parts, strict=True)
        merged = TriggerState(
            count, values, tuple(nested.merge(of_part, groups, old, windows) for nested, of_part in parts)
        )
        self.on_merge(merged, windows)
        return merged

    def on_merge(self, state: TriggerState, windows: Windows) -> None:
        """Sets timers that follow from the merged windows."""
        return

    def clear(self, state: TriggerState, windows: Windows) -> None:
        """Called when the windows of these instances are over."""
        for nested, of_part in zip(self.parts, state.parts, strict=True):
            nested.clear(of_part, windows)


def no_answer(count: int) -> Answer:
    return Answer(np.zeros(count, bool), np.zeros(count, bool))


def fire_at(position: Values) -> Fire:
    return Fire(position, np.zeros(len(position), bool))


def never(count: int) -> Fire:
    return fire_at(np.full(count, NONE, np.int64))


def silence(trigger: Trigger, count: int) -> Fire:
    """No firing, in the structure that the trigger uses."""
    return never(count)._replace(parts=tuple(silence(nested, count) for nested in trigger.parts))


def fires_at(position: Values) -> Fires:
    return Fires(position, np.zeros(len(position), bool))


def in_order(rounds: list[Fires]) -> Fires:
    """Firings of several rounds, by position."""
    if not rounds:
        return fires_at(np.zeros(0, np.int64))
    position = np.concatenate([fires.position for fires in rounds])
    order = np.argsort(position, kind="stable")
    return Fires(position[order], np.concatenate([fires.purge for fires in rounds])[order])


# --- state: one value per window instance and column, nested like the triggers --------------------------------


Values = np.ndarray[Any, np.dtype[Any]]
"""One value per window instance, or per position."""


class Merging(Enum):
    """How the values of a column merge when the windows of several instances do."""

    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"
    FIRST = "first"


@dataclass(frozen=True)
class Column:
    """``default`` is the value of an instance whose trigger has seen nothing; its type is the column's."""

    name: str
    default: int | float | bool | bytes
    merging: Merging

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object) if isinstance(self.default, bytes) else np.dtype(type(self.default))

    def fresh(self, count: int) -> Values:
        return np.full(count, self.default, self.dtype)

    def merged(self, values: Values, groups: Values, count: int) -> Values:
        result = self.fresh(count)
        _MERGE[self.merging](result, values, groups)
        return result


def _first(result: Values, values: Values, groups: Values) -> None:
    """The first value that is not NaN."""
    numbered = np.flatnonzero(values == values)[::-1]
    result[groups[numbered]] = values[numbered]


def _least(result: Values, values: Values, groups: Values) -> None:
    np.minimum.at(result, groups, values)


def _greatest(result: Values, values: Values, groups: Values) -> None:
    np.maximum.at(result, groups, values)


def _sum(result: Values, values: Values, groups: Values) -> None:
    np.add.at(result, groups, values)


_MERGE: Mapping[Merging, Callable[[Values, Values, Values], None]] = {
    Merging.FIRST: _first,
    Merging.LEAST: _least,
    Merging.GREATEST: _greatest,
    Merging.SUM: _sum,
}


@dataclass
class TriggerState:
    """Columns of one trigger, and those of the triggers within it. Arrays are changed in place or replaced."""

    count: int
    values: dict[str, Values] = field(default_factory=dict)
    parts: tuple[TriggerState, ...] = ()

    def __getitem__(self, name: str) -> Values:
        return self.values[name]

    def __setitem__(self, name: str, values: Values) -> None:
        self.values[name] = values

    def at(self, index: Values) -> TriggerState:
        """A copy of the instances of an index, or of those where a mask is true."""
        chosen = int(index.sum()) if index.dtype == bool else len(index)
        values = {name: column[index] for name, column in self.values.items()}
        return TriggerState(chosen, values, tuple(nested.at(index) for nested in self.parts))

    def put(self, index: Values, other: TriggerState) -> None:
        """Takes over the instances of ``other`` at the places of an index or mask."""
        for name, column in other.values.items():
            self.values[name][index] = column
        for nested, of_other in zip(self.parts, other.parts, strict=True):
            nested.put(index, of_other)

    def followed_by(self, other: TriggerState) -> TriggerState:
        values = {name: np.concatenate([column, other[name]]) for name, column in self.values.items()}
        parts = tuple(nested.followed_by(o) for nested, o in zip(self.parts, other.parts, strict=True))
        return TriggerState(self.count + other.count, values, parts)

    def columns(self, prefix: str = "") -> Iterator[tuple[str, Values]]:
        """All arrays, those of parts with the part's number before their names."""
        for name, column in self.values.items():
            yield prefix + name, column
        for number, nested in enumerate(self.parts):
            yield from nested.columns(f"{prefix}{number}.")
