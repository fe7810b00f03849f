"""Triggers of users: ``TRIGGER USING f(args)``.

A class that is asked at each row and each timer of a window whether the window fires::

    from sqlstream.udfs.triggers.user import TriggerContext, TriggerResult, Window

    class AtLeast:
        def __init__(self, total: int) -> None:               # the constant arguments of the call
            self.total = total

        def on_element(self, row, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
            ctx.state["sum"] = ctx.state.get("sum", 0) + row.amount
            if ctx.state["sum"] >= self.total:
                ctx.state["sum"] = 0
                return TriggerResult.FIRE
            ctx.register_event_time_timer(window.end - 1)
            return TriggerResult.CONTINUE

        def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
            return TriggerResult.FIRE

``on_element`` must be there. ``on_event_time`` and ``on_processing_time`` answer timers, CONTINUE where they are left
out. ``on_merge(window, ctx)`` makes ``ctx.state`` of the merged window from ``ctx.merged_states``, and registers its
timers; without it windows cannot merge. ``clear(window, ctx)`` is called when a window is over.

Times and bounds are whole milliseconds since 1970 (UTC). ``row`` has the columns of the query's input as attributes,
with SQL's NULL as None; ``time`` is its event time, or now for windows on processing time. What is to be remembered
belongs in ``ctx.state``, which is that of one key and window, must pickle and survives restarts: instances of the class
are made anew whenever a worker starts. Errors: SS411 where a method raises, SS412 where it returns something else.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from sqlstream.udfs.assigners.user import Window
from sqlstream.udfs.columnar import WRONG_RESULT, FunctionError, called
from sqlstream.udfs.kernel import END_OF_TIME, Domain
from sqlstream.udfs.triggers.trigger import (
    NONE,
    Answer,
    Column,
    Due,
    Fire,
    Fires,
    Merging,
    Run,
    Trigger,
    TriggerState,
    Values,
    Windows,
)
from sqlstream.udfs.user_rows import MILLISECOND, clock_ms, microseconds, milliseconds, user_rows, watermark_ms

__all__ = ["MergeContext", "TriggerContext", "TriggerResult", "User", "Window"]


class TriggerResult(Enum):
    """What a user's trigger returns. FIRE: a result is emitted. PURGE: the contents of the window are cleared."""

    CONTINUE = 0
    FIRE = 1
    PURGE = 2
    FIRE_AND_PURGE = 3

    @property
    def is_fire(self) -> bool:
        """True for FIRE and FIRE_AND_PURGE."""
        return self in (TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE)

    @property
    def is_purge(self) -> bool:
        """True for PURGE and FIRE_AND_PURGE."""
        return self in (TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE)


@dataclass
class TriggerContext:
    """What a user's trigger can use for one window: its ``state``, its timers and the clocks, in milliseconds since
    1970.

    ``watermark`` is None before the first watermark. A timer exists once per time, and is deleted when it has fired.
    """

    state: dict[str, Any]
    processing_time: int
    watermark: int | None
    _timers: dict[Domain, set[int]]
    _latest: dict[Domain, int]

    def register_event_time_timer(self, time: int) -> None:
        """Registers a call of ``on_event_time`` when the watermark reaches ``time``, in milliseconds since 1970."""
        self._register(Domain.EVENT, time)

    def register_processing_time_timer(self, time: int) -> None:
        """Registers a call of ``on_processing_time`` when the clock reaches ``time``, in milliseconds since 1970."""
        self._register(Domain.PROCESSING, time)

    def delete_event_time_timer(self, time: int) -> None:
        """Deletes the event-time timer for ``time`` (milliseconds), if there is one."""
        self._timers[Domain.EVENT].discard(_timer(Domain.EVENT, time))

    def delete_processing_time_timer(self, time: int) -> None:
        """Deletes the processing-time timer for ``time`` (milliseconds), if there is one."""
        self._timers[Domain.PROCESSING].discard(_timer(Domain.PROCESSING, time))

    def _register(self, domain: Domain, time: int) -> None:
        timer = _timer(domain, time)
        if timer <= self._latest[domain]:
            self._timers[domain].add(timer)


def _timer(domain: Domain, ms: int) -> int:
    """The time that must have passed for a timer to fire. The clock of processing time is one millisecond ahead of the
    passed time."""
    return microseconds(ms) if domain is Domain.EVENT else microseconds(ms - 1)


@dataclass
class MergeContext(TriggerContext):
    """The context of a user trigger's ``on_merge``: ``state`` is the empty state of the merged window,
    ``merged_states`` are those of the windows that merged, whose timers were deleted.
    """

    merged_states: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Memory:
    """The state of one window."""

    state: dict[str, Any] = field(default_factory=dict)
    timers: dict[Domain, set[int]] = field(default_factory=lambda: {domain: set() for domain in Domain})

    @staticmethod
    def from_bytes(data: bytes) -> _Memory:
        return _Memory(*pickle.loads(data)) if data else _Memory()

    def to_bytes(self) -> bytes:
        return pickle.dumps((self.state, self.timers)) if self.state or any(self.timers.values()) else b""

    def next(self, domain: Domain) -> int:
        return min(self.timers[domain], default=NONE)


@dataclass(frozen=True)
class User(Trigger):
    """The trigger that calls an instance of the user's class ``implementation``, created with ``arguments``.

    ``columns_of_row`` are the columns of the rows that the user's code gets, ``time`` the one with the event times;
    None for processing-time windows.
    """

    name: str
    implementation: type
    arguments: tuple[object, ...]
    columns_of_row: tuple[str, ...]
    time: str | None

    @property
    def columns(self) -> tuple[Column, ...]:
        timers = (Column(domain.value, NONE, Merging.LEAST) for domain in Domain)
        return Column("memory", b"", Merging.FIRST), *timers

    @property
    def looks_at_rows(self) -> bool:
        return True

    @property
    def looks_at_windows(self) -> bool:
        return True

    @property
    def mergeable(self) -> bool:
        return hasattr(self.implementation, "on_merge")

    @property
    def uses_processing_time(self) -> bool:
        return True

    # --- rows -------------------------------------------------------------------------------------------------

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        """For each window instance its first firing at or after the position ``cursor``. The user's class is called
        with a copy of its state; ``take`` calls it for the same rows again and keeps the changes.
        """
        firings = [
            self._first_fire(memory, run, instance, int(cursor[instance]))
            for instance, memory in enumerate(_memories(state))
        ]
        position, purge = zip(*firings, strict=True) if firings else ((), ())
        return Fire(np.array(position, np.int64), np.array(purge, bool))

    def _first_fire(self, memory: _Memory, run: Run, instance: int, cursor: int) -> tuple[int, bool]:
        for position in range(cursor, int(run.ends[instance])):
            result = self._on_element(memory, run, instance, position)
            if result.is_fire:
                return position, result.is_purge
        return NONE, False

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        memories = _memories(state)
        for instance, memory in enumerate(memories):
            for position in range(int(start[instance]), int(stop[instance])):
                self._on_element(memory, run, instance, position)
        _remember(state, memories)

    def rest(self, state: TriggerState) -> None:
        """Does nothing: the user's class itself changes its state when it fires."""

    def fires(self, state: TriggerState, run: Run) -> Fires:
        memories = _memories(state)
        owner = np.repeat(np.arange(run.count), run.lengths)
        position = np.concatenate([np.arange(s, e) for s, e in zip(run.starts, run.ends, strict=True)] or [owner])
        firings = []
        for i in np.argsort(run.row[position], kind="stable"):
            result = self._on_element(memories[owner[i]], run, int(owner[i]), int(position[i]))
            if result is not TriggerResult.CONTINUE:
                firings.append((int(position[i]), result.is_purge, not result.is_fire))
        _remember(state, memories)
        columns = zip(*sorted(firings), strict=True) if firings else ((), (), ())
        at, purge, silent = (np.array(column) for column in columns)
        return Fires(at.astype(np.int64), purge.astype(bool), silent.astype(bool))

    def _on_element(self, memory: _Memory, run: Run, instance: int, position: int) -> TriggerResult:
        row = self._row(run, int(run.row[position]))
        windows = run.windows
        context = self._context(memory, windows, instance)
        time = context.processing_time if self.time is None else milliseconds(int(run.times(self.time)[position]))
        return self._asked("on_element", row, time, _window(windows, instance), context)

    def _row(self, run: Run, row: int) -> object:
        return run.shared(("rows", self.columns_of_row), lambda: user_rows(run.rows, self.columns_of_row))[row]

    # --- time -------------------------------------------------------------------------------------------------

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        return state[domain.value]

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        memories = _memories(state)
        results = [self._on_timer(memory, due, instance) for instance, memory in enumerate(memories)]
        _remember(state, memories)
        fires, purges = ([getattr(r, name) for r in results] for name in ("is_fire", "is_purge"))
        return Answer(np.array(fires, bool), np.array(purges, bool))

    def _on_timer(self, memory: _Memory, due: Due, instance: int) -> TriggerResult:
        time = int(due.time[instance])
        if due.domain is None or time not in memory.timers[due.domain]:
            return TriggerResult.CONTINUE
        memory.timers[due.domain].discard(time)
        method = "on_event_time" if due.domain is Domain.EVENT else "on_processing_time"
        shown = milliseconds(time) if due.domain is Domain.EVENT else clock_ms(time)
        context = self._context(memory, due.windows, instance)
        return self._asked(method, shown, _window(due.windows, instance), context)

    # --- windows ----------------------------------------------------------------------------------------------

    def merge(self, state: TriggerState, groups: Values, old: Windows, windows: Windows) -> TriggerState:
        merged = self.fresh(len(windows.end))
        memories, before = _memories(merged), _memories(state)
        for group in np.unique(groups):
            members = np.flatnonzero(groups == group)
            memories[group] = self._merged([before[m] for m in members], members, int(group), old, windows)
        _remember(merged, memories)
        return merged

    def _merged(
        self, before: list[_Memory], members: Values, group: int, old: Windows, windows: Windows
    ) -> _Memory:  # fmt: skip
        first = members[0]
        if len(before) == 1 and (old.start[first], old.end[first]) == (windows.start[group], windows.end[group]):
            return before[0]
        memory = _Memory()
        plain = self._context(memory, windows, group)
        context = MergeContext(**vars(plain), merged_states=[m.state for m in before])
        called(self.name, self._instance.on_merge, (_window(windows, group), context))
        for member, of_member in zip(members, before, strict=True):
            self._clear(of_member, old, int(member))
        return memory

    def clear(self, state: TriggerState, windows: Windows) -> None:
        for instance, memory in enumerate(_memories(state)):
            self._clear(memory, windows, instance)

    def _clear(self, memory: _Memory, windows: Windows, instance: int) -> None:
        if hasattr(self.implementation, "clear"):
            context = self._context(memory, windows, instance)
            called(self.name, self._instance.clear, (_window(windows, instance), context))

    # --- calls ------------------------------------------------------------------------------------------------

    def _asked(self, method: str, *arguments: object) -> TriggerResult:
        if not hasattr(self.implementation, method):
            return TriggerResult.CONTINUE
        result = called(self.name, getattr(self._instance, method), arguments)
        if not isinstance(result, TriggerResult):
            raise FunctionError(f'{WRONG_RESULT}: trigger "{self.name}" returned {result!r}, which is no TriggerResult')
        return result

    def _context(self, memory: _Memory, windows: Windows, instance: int) -> TriggerContext:
        clocks = {Domain.EVENT: windows.watermark, Domain.PROCESSING: windows.processing_time}
        last = int(windows.last_moment[instance])
        latest = {domain: _latest(clocks[domain], last, domain is windows.domain) for domain in Domain}
        watermark = watermark_ms(windows.watermark)
        return TriggerContext(memory.state, clock_ms(windows.processing_time), watermark, memory.timers, latest)

    @cached_property
    def _instance(self) -> Any:
        return called(self.name, self.implementation, self.arguments)

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the user's instance, which need not be picklable."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _latest(clock: int, last_moment: int, is_own: bool) -> int:
    """The latest time for which a timer makes sense: when time has ended, the window's last moment."""
    if clock != END_OF_TIME:
        return END_OF_TIME - 1
    return last_moment if is_own else -1


def _window(windows: Windows, instance: int) -> Window:
    start, end = int(windows.start[instance]), int(windows.end[instance])
    return Window(start // MILLISECOND, end // MILLISECOND)


def _memories(state: TriggerState) -> list[_Memory]:
    return [_Memory.from_bytes(data) for data in state["memory"]]


def _remember(state: TriggerState, memories: Iterable[_Memory]) -> None:
    memories = list(memories)
    state["memory"] = np.array([None, *(memory.to_bytes() for memory in memories)], object)[1:]
    for domain in Domain:
        state[domain.value] = np.array([memory.next(domain) for memory in memories], np.int64)
