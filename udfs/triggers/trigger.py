"""The interface of triggers: when the windows of a batch fire, for all window instances at once.

A window instance is a key and one of its windows. Triggers are frozen; their state per instance is in the columns of a
``TriggerState``, which methods change in place. All methods apply to all instances of the state that they get. To apply
them to some of them, extract those (``TriggerState.at``) and put them back.

When the whole trigger fires, all its parts are restarted (``restart``), so that both sides of an OR begin anew when one
of them fires.
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
"""The watermark ``end - 1 ms`` closes a window."""


@dataclass(frozen=True)
class Windows:
    """The windows of instances (an instance is the state of one window of one key), and the clocks. ``end`` and all
    times are in microseconds.
    """

    start: Values
    end: Values
    watermark: int
    processing_time: int
    domain: Domain = Domain.EVENT

    @property
    def last_moment(self) -> Values:
        """For each window the time at which it closes, in microseconds on its own clock; for a global window the end of
        the input.
        """
        return self.end - LAST_MOMENT

    @property
    def closed(self) -> Values:
        """One boolean per window: true if the watermark has reached its end. Only event-time windows can be closed."""
        if self.domain is Domain.PROCESSING:
            return np.zeros(len(self.end), bool)
        return self.watermark >= self.last_moment

    def at(self, index: Values) -> Windows:
        """The windows with these indices, or for which this mask is true."""
        return replace(self, start=self.start[index], end=self.end[index])


@dataclass(frozen=True)
class Run:
    """The rows of a batch, arranged by window instance: the positions ``starts[i]`` to ``ends[i]`` (exclusive) are the
    rows of instance i, in order of arrival. ``row``: for each position the index of the row in the batch; a row has one
    position for each window that contains it. ``own_start``: for each position the start of the row's own window, where
    windows merge.
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
        """The number of instances."""
        return len(self.starts)

    @property
    def lengths(self) -> Values:
        """The number of rows of each instance, as an array."""
        return self.ends - self.starts

    def at(self, index: Values) -> Run:
        """The run of the instances with these indices, or for which this mask is true; positions are the same."""
        return replace(self, starts=self.starts[index], ends=self.ends[index], windows=self.windows.at(index))

    def until(self, ends: Values) -> Run:
        """The run without the rows from position ``ends[i]`` on of each instance i."""
        return replace(self, ends=np.minimum(self.ends, ends))

    def flags(self, name: str) -> Values:
        """The values of the BOOLEAN column ``name`` as an array, false for NULL. It has one value per position of the
        run, which is a row in one of its windows.
        """
        return self._cached(name, lambda column: pc.fill_null(column, False).to_numpy())

    def numbers(self, name: str) -> Values:
        """The values of the numeric column ``name`` as float64, NaN for NULL. The array has one value per position of
        the run, which is a row in one of its windows.
        """
        return self._cached(name, lambda column: pc.cast(column, pa.float64(), safe=False).to_numpy())

    def times(self, name: str) -> Values:
        """The values of the TIMESTAMP or BIGINT column ``name`` as int64 microseconds. The array has one value per
        position of the run, which is a row in one of its windows.
        """
        return self._cached(name, lambda column: pc.cast(column, pa.int64()).to_numpy())

    def cached(self, name: str, compute: Callable[[], Values]) -> Values:
        """The result of ``compute``, an array with one value per position, which is computed once per name."""
        if name not in self._columns:
            self._columns[name] = compute()
        return self._columns[name]

    def shared(self, key: object, compute: Callable[[], Any]) -> Any:
        """The result of ``compute``, a value about all rows of the batch, which is computed once per key, also for
        parts of the run.
        """
        if key not in self._shared:
            self._shared[key] = compute()
        return self._shared[key]

    def _cached(self, name: str, convert: Callable[[pa.ChunkedArray], Values]) -> Values:
        return self.cached(name, lambda: convert(self.rows.column(name))[self.row])


class Fire(NamedTuple):
    """The next firing of each window instance at the rows of a ``Run``: its ``position``, NONE if the instance does not
    fire; whether it also clears the window (``purge``); and the same for the nested triggers (``parts``).
    """

    position: Values
    purge: Values
    parts: tuple[Fire, ...] = ()

    def at(self, index: Values) -> Fire:
        """The firings of the instances with these indices, or for which this mask is true."""
        return Fire(self.position[index], self.purge[index], tuple(nested.at(index) for nested in self.parts))


class Fires(NamedTuple):
    """All firings at the rows of a run: their ascending positions in the run, and whether they clear the window
    (``purge``). ``silent``: true for firings that clear the window without emitting a result; None if there are none.
    """

    position: Values
    purge: Values
    silent: Values | None = None


class Due(NamedTuple):
    """The arguments of ``Trigger.on_time``: for each instance the time of a timer that has been reached. ``now`` is the
    clock of the timer's domain, in microseconds, which may be far ahead of ``time``.

    ``domain`` None: a barrier was aligned, and the times have no meaning.
    """

    domain: Domain | None
    time: Values
    now: int
    windows: Windows

    def at(self, index: Values) -> Due:
        """The timers of the instances with these indices, or for which this mask is true."""
        return Due(self.domain, self.time[index], self.now, self.windows.at(index))


class Answer(NamedTuple):
    """The decision of a trigger at a timer: for each window instance whether it fires, and whether the window is
    cleared (``purges``).
    """

    fires: Values
    purges: Values


class Trigger(ABC):
    """Decides when windows fire. Its methods work on many window instances at once; their state is in arrays."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of this trigger's own state, without those of nested triggers."""
        return ()

    @property
    def parts(self) -> tuple[Trigger, ...]:
        """The nested triggers, such as the operands of AND."""
        return ()

    @property
    def looks_at_rows(self) -> bool:
        """True if rows of open windows can fire, or set timers by their own times, so that session windows must be
        merged in the order in which their rows arrive.
        """
        return any(nested.looks_at_rows for nested in self.parts)

    @property
    def searches(self) -> bool:
        """True if ``fire`` may look at many rows, so that its time is proportional to their number. A composite trigger
        then asks its other trigger first, to limit the rows.
        """
        return any(nested.searches for nested in self.parts)

    @property
    def looks_at_windows(self) -> bool:
        """True if the trigger must see each session window with the bounds that it had when a row arrived, before later
        rows extended it.
        """
        return any(nested.looks_at_windows for nested in self.parts)

    @property
    def mergeable(self) -> bool:
        """True if the states of windows can be merged, so that the trigger can be used for session windows."""
        return all(nested.mergeable for nested in self.parts)

    @property
    def uses_processing_time(self) -> bool:
        """True if the trigger sets processing-time timers."""
        return any(nested.uses_processing_time for nested in self.parts)

    def fresh(self, count: int) -> TriggerState:
        """The initial state of ``count`` new instances."""
        values = {column.name: column.fresh(count) for column in self.columns}
        return TriggerState(count, values, tuple(nested.fresh(count) for nested in self.parts))

    # --- rows -------------------------------------------------------------------------------------------------

    @abstractmethod
    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        """For each instance its first firing at or after ``cursor``, without changing the state.

        ``run`` arranges the rows of a micro-batch by instance. ``cursor`` and the positions in the result are positions
        in this arrangement, one per instance; the result has NONE where an instance does not fire. The rows before the
        cursor are in the state already (see ``take``).
        """

    @abstractmethod
    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        """Updates the state for the rows at positions ``start`` to ``stop`` (exclusive); ``fire`` is the result of the
        preceding call of ``fire``.
        """

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        """Called when the outermost trigger, in which this one may be nested, has fired at these positions, so that
        counts start again. This trigger itself fired there if ``fire.position`` is the same.
        """
        self.rest(state)

    def quiet(self, run: Run) -> bool:
        """True if no row of this run can fire, whatever the state is."""
        return False

    def fires(self, state: TriggerState, run: Run) -> Fires:
        """Updates the state for all rows of a run and returns all firings, sorted by position."""
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
        """For each instance (one window of one key) the time of its next timer on the clock ``domain``, in
        microseconds, or NONE. In the domain of barriers there are no timers.
        """
        return np.full(state.count, NONE, np.int64)

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        """The decision when a timer of each instance is reached, which is not necessarily a timer of this trigger."""
        return no_answer(state.count)

    def rest(self, state: TriggerState) -> None:
        """Called when the outermost trigger, in which this one may be nested, has fired, so that counts start again."""
        for nested, of_part in zip(self.parts, state.parts, strict=True):
            nested.rest(of_part)

    # --- merging ----------------------------------------------------------------------------------------------

    def merge(self, state: TriggerState, groups: Values, old: Windows, windows: Windows) -> TriggerState:
        """Merges the states of instances whose windows merge: returns one state per group. ``groups``: the group index
        of each instance; ``old``: their windows; ``windows``: the merged ones.
        """
        count = len(windows.end)
        values = {column.name: column.merged(state[column.name], groups, count) for column in self.columns}
        parts = zip(self.parts, state.parts, strict=True)
        merged = TriggerState(
            count, values, tuple(nested.merge(of_part, groups, old, windows) for nested, of_part in parts)
        )
        self.on_merge(merged, windows)
        return merged

    def on_merge(self, state: TriggerState, windows: Windows) -> None:
        """Called after windows were merged; sets the timers that the new bounds require."""
        return

    def clear(self, state: TriggerState, windows: Windows) -> None:
        """Called when the windows of these instances have expired and their state is dropped."""
        for nested, of_part in zip(self.parts, state.parts, strict=True):
            nested.clear(of_part, windows)


def no_answer(count: int) -> Answer:
    """The ``Answer`` in which none of ``count`` instances fires."""
    return Answer(np.zeros(count, bool), np.zeros(count, bool))


def fire_at(position: Values) -> Fire:
    """The ``Fire`` with firings at these positions, NONE for instances that do not fire; none clears the window."""
    return Fire(position, np.zeros(len(position), bool))


def never(count: int) -> Fire:
    """The ``Fire`` in which none of ``count`` instances fires."""
    return fire_at(np.full(count, NONE, np.int64))


def silence(trigger: Trigger, count: int) -> Fire:
    """The ``Fire`` in which no instance fires, also of the nested triggers of ``trigger``."""
    return never(count)._replace(parts=tuple(silence(nested, count) for nested in trigger.parts))


def fires_at(position: Values) -> Fires:
    """The ``Fires`` at these positions, none of which clears the window."""
    return Fires(position, np.zeros(len(position), bool))


def in_order(rounds: list[Fires]) -> Fires:
    """The firings of several rounds in one ``Fires``, sorted by position."""
    if not rounds:
        return fires_at(np.zeros(0, np.int64))
    position = np.concatenate([fires.position for fires in rounds])
    order = np.argsort(position, kind="stable")
    return Fires(position[order], np.concatenate([fires.purge for fires in rounds])[order])


# --- state: one value per window instance and column, nested like the triggers --------------------------------


Values = np.ndarray[Any, np.dtype[Any]]
"""One value per window instance, or per position."""


class Merging(Enum):
    """How a state column is merged when windows merge: for instance as the sum or the minimum of the values."""

    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"
    FIRST = "first"


@dataclass(frozen=True)
class Column:
    """A column of a trigger's state. ``default`` is the value for a new instance; its type is that of the column."""

    name: str
    default: int | float | bool | bytes
    merging: Merging

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the values."""
        return np.dtype(object) if isinstance(self.default, bytes) else np.dtype(type(self.default))

    def fresh(self, count: int) -> Values:
        """The initial values of ``count`` new instances."""
        return np.full(count, self.default, self.dtype)

    def merged(self, values: Values, groups: Values, count: int) -> Values:
        """One value for each of ``count`` groups, merged from those of its instances; ``groups`` has the group index of
        each instance.
        """
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
    """The state of a trigger for many window instances: one array per column, and the states of nested triggers. Arrays
    are changed in place or replaced.
    """

    count: int
    values: dict[str, Values] = field(default_factory=dict)
    parts: tuple[TriggerState, ...] = ()

    def __getitem__(self, name: str) -> Values:
        return self.values[name]

    def __setitem__(self, name: str, values: Values) -> None:
        self.values[name] = values

    def at(self, index: Values) -> TriggerState:
        """A copy of the state of the instances with these indices, or for which this mask is true."""
        chosen = int(index.sum()) if index.dtype == bool else len(index)
        values = {name: column[index] for name, column in self.values.items()}
        return TriggerState(chosen, values, tuple(nested.at(index) for nested in self.parts))

    def put(self, index: Values, other: TriggerState) -> None:
        """Replaces the state of the instances with these indices (or for which this mask is true) by ``other``."""
        for name, column in other.values.items():
            self.values[name][index] = column
        for nested, of_other in zip(self.parts, other.parts, strict=True):
            nested.put(index, of_other)

    def followed_by(self, other: TriggerState) -> TriggerState:
        """The states of these instances, followed by those of ``other``."""
        values = {name: np.concatenate([column, other[name]]) for name, column in self.values.items()}
        parts = tuple(nested.followed_by(o) for nested, o in zip(self.parts, other.parts, strict=True))
        return TriggerState(self.count + other.count, values, parts)

    def columns(self, prefix: str = "") -> Iterator[tuple[str, Values]]:
        """Yields pairs of a name and an array, for all arrays. The name of an array of a nested trigger starts with the
        trigger's index, such as ``0.count``.
        """
        for name, column in self.values.items():
            yield prefix + name, column
        for number, nested in enumerate(self.parts):
            yield from nested.columns(f"{prefix}{number}.")
