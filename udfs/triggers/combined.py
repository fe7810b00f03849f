"""Composite triggers: PURGING, OR, AND, THEN, and AFTER WATERMARK with EARLY and LATE."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.triggers.clocks import ARMED, AtOnce, Never
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
    in_order,
    silence,
)


@dataclass(frozen=True)
class Purging(Trigger):
    """Flink's PurgingTrigger: each firing of ``inner`` clears the contents of the window."""

    inner: Trigger

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.inner,)

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        inner_fire = self.inner.fire(state.parts[0], run, cursor)
        return Fire(inner_fire.position, np.ones_like(inner_fire.purge), (inner_fire,))

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        self.inner.take(state.parts[0], run, start, stop, fire.parts[0])

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        self.inner.restart(state.parts[0], run, position, fire.parts[0])

    def quiet(self, run: Run) -> bool:
        return self.inner.quiet(run)

    def fires(self, state: TriggerState, run: Run) -> Fires:
        inner_fires = self.inner.fires(state.parts[0], run)
        return inner_fires._replace(purge=np.ones_like(inner_fires.purge))

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        return self.inner.timer(state.parts[0], domain, windows)

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        inner_answer = self.inner.on_time(state.parts[0], due)
        return inner_answer._replace(purges=inner_answer.fires)


class _Pair(Trigger):
    left: Trigger
    right: Trigger

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.left, self.right

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        for trigger, of_part, its in zip(self.parts, state.parts, fire.parts, strict=True):
            trigger.take(of_part, run, start, stop, its)

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        for trigger, of_part, its in zip(self.parts, state.parts, fire.parts, strict=True):
            trigger.restart(of_part, run, position, its)

    def quiet(self, run: Run) -> bool:
        return all(trigger.quiet(run) for trigger in self.parts)

    def _fires(self, state: TriggerState, run: Run, cursor: Values) -> tuple[Fire, Fire]:
        left, right = (p.fire(s, run, cursor) for p, s in zip(self.parts, state.parts, strict=True))
        return left, right

    def _timers(self, state: TriggerState, domain: Domain, windows: Windows) -> tuple[Values, Values]:
        left, right = (p.timer(s, domain, windows) for p, s in zip(self.parts, state.parts, strict=True))
        return left, right


@dataclass(frozen=True)
class Or(_Pair):
    """Fires when either trigger fires; then the states of both are reset."""

    left: Trigger
    right: Trigger

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        left, right = self._first_fires(state, run, cursor)
        position = np.minimum(left.position, right.position)
        purge = (left.purge & (left.position == position)) | (right.purge & (right.position == position))
        return Fire(position, purge, (left, right))

    def _first_fires(self, state: TriggerState, run: Run, cursor: Values) -> tuple[Fire, Fire]:
        """The side that is asked last need not look beyond the first firing of the other."""
        first, last = (1, 0) if self.left.searches else (0, 1)
        early = self.parts[first].fire(state.parts[first], run, cursor)
        until = np.minimum(early.position, NONE - 1) + 1
        late = self.parts[last].fire(state.parts[last], run.until(until), cursor)
        return (early, late) if first == 0 else (late, early)

    def fires(self, state: TriggerState, run: Run) -> Fires:
        """All firings at the rows of a run. If no row can fire one of the two triggers, the other one alone decides."""
        for quiet, loud in ((1, 0), (0, 1)):
            if self.parts[quiet].quiet(run):
                loud_fires = self.parts[loud].fires(state.parts[loud], run)
                _watch(self.parts[quiet], state.parts[quiet], run, loud_fires)
                return loud_fires
        return super().fires(state, run)

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        return np.minimum(*self._timers(state, domain, windows))

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        left, right = (p.on_time(s, due) for p, s in zip(self.parts, state.parts, strict=True))
        for trigger, of_part, own in zip(self.parts, state.parts, (left, right), strict=True):
            _rest_where(trigger, of_part, (left.fires | right.fires) & ~own.fires)
        return Answer(left.fires | right.fires, left.purges | right.purges)


@dataclass(frozen=True)
class And(_Pair):
    """Fires when both triggers have fired since the last firing. For each of them a state column (``left``, ``right``)
    is 0 if it has not fired, 1 if it has, 2 if it would also clear the window.
    """

    left: Trigger
    right: Trigger

    @property
    def columns(self) -> tuple[Column, ...]:
        return Column("left", 0, Merging.GREATEST), Column("right", 0, Merging.GREATEST)

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        parts = self._fires(state, run, cursor)
        at, purge = [], np.zeros(run.count, bool)
        for name, its in zip(("left", "right"), parts, strict=True):
            at.append(np.where(state[name] > 0, -1, its.position))
            purge |= np.where(state[name] > 0, state[name] == 2, its.purge)
        # After merging sessions, each of which had one side fired, both have fired: the next row fires.
        next_row = np.where(cursor < run.ends, cursor, NONE)
        return Fire(np.maximum(np.maximum(*at), next_row), purge, parts)

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        super().take(state, run, start, stop, fire)
        for name, its in zip(("left", "right"), fire.parts, strict=True):
            fired = (state[name] == 0) & (its.position < stop)
            state[name] = np.where(fired, 1 + its.purge, state[name])

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        super().restart(state, run, position, fire)
        self._forget(state)

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        left, right = self._timers(state, domain, windows)
        return np.minimum(np.where(state["left"] > 0, NONE, left), np.where(state["right"] > 0, NONE, right))

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        for name, trigger, of_part in zip(("left", "right"), self.parts, state.parts, strict=True):
            answer = trigger.on_time(of_part, due)
            state[name] = np.where((state[name] == 0) & answer.fires, 1 + answer.purges, state[name])
        fires = (state["left"] > 0) & (state["right"] > 0)
        purges = fires & ((state["left"] == 2) | (state["right"] == 2))
        _rest_where(self, state, fires)
        return Answer(fires, purges)

    def rest(self, state: TriggerState) -> None:
        super().rest(state)
        self._forget(state)

    def _forget(self, state: TriggerState) -> None:
        for name in ("left", "right"):
            state[name] = np.zeros(state.count, np.int64)


@dataclass(frozen=True)
class Then(_Pair):
    """The trigger ``left`` fires once; from then on ``right`` decides. The state column ``moved`` is true once ``left``
    has fired.
    """

    left: Trigger
    right: Trigger

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("moved", False, Merging.GREATEST),)

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        left, right = self._fires(state, run, cursor)
        moved = state["moved"]
        position = np.where(moved, right.position, left.position)
        return Fire(position, np.where(moved, right.purge, left.purge), (left, right))

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        super().restart(state, run, position, fire)
        state["moved"] = state["moved"] | (fire.position == position)

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        left, right = self._timers(state, domain, windows)
        return np.where(state["moved"], right, left)

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        moved = state["moved"].copy()
        left, right = (p.on_time(s, due) for p, s in zip(self.parts, state.parts, strict=True))
        fires = np.where(moved, right.fires, left.fires)
        _rest_where(self.right, state.parts[1], fires & ~moved)
        state["moved"] = moved | fires
        return Answer(fires, np.where(moved, right.purges, left.purges))


@dataclass(frozen=True)
class AfterWatermark(Trigger):
    """Fires at the end of the window; before it as ``early`` specifies, and after it as ``late`` does, by default at
    each row."""

    early: Trigger = field(default_factory=Never)
    late: Trigger = field(default_factory=AtOnce)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (ARMED,)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.early, self.late

    @property
    def looks_at_rows(self) -> bool:
        return self.early.looks_at_rows

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        early, late = (p.fire(s, run, cursor) for p, s in zip(self.parts, state.parts, strict=True))
        closed = run.windows.closed
        position = np.where(closed, late.position, early.position)
        return Fire(position, np.where(closed, late.purge, early.purge), (early, late))

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        state["armed"] = ~run.windows.closed
        for number, chosen in enumerate((~run.windows.closed, run.windows.closed)):
            own_state = state.parts[number].at(chosen)
            its = fire.parts[number].at(chosen)
            self.parts[number].take(own_state, run.at(chosen), start[chosen], stop[chosen], its)
            state.parts[number].put(chosen, own_state)

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        for trigger, of_part, its in zip(self.parts, state.parts, fire.parts, strict=True):
            trigger.restart(of_part, run, position, its)

    def quiet(self, run: Run) -> bool:
        return not run.windows.closed.any() and self.early.quiet(run)

    def fires(self, state: TriggerState, run: Run) -> Fires:
        closed = run.windows.closed
        state["armed"] = ~closed
        firings = []
        for number, chosen in enumerate((~closed, closed)):
            own_state = state.parts[number].at(chosen)
            firings.append(self.parts[number].fires(own_state, run.at(chosen)))
            state.parts[number].put(chosen, own_state)
        return in_order(firings)

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        early, late = (p.timer(s, domain, windows) for p, s in zip(self.parts, state.parts, strict=True))
        end = np.where(state["armed"] & (domain is Domain.EVENT), windows.last_moment, NONE)
        return np.minimum(end, np.where(windows.closed, late, early))

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        ends = state["armed"] & (due.windows.last_moment == due.time) & (due.domain is Domain.EVENT)
        state["armed"] = state["armed"] & ~ends
        early, late = (p.on_time(s, due) for p, s in zip(self.parts, state.parts, strict=True))
        closed = due.windows.closed & ~ends
        _rest_where(self, state, ends)
        fires = np.where(closed, late.fires, early.fires) | ends
        return Answer(fires, np.where(closed, late.purges, early.purges) & ~ends)

    def on_merge(self, state: TriggerState, windows: Windows) -> None:
        state["armed"] = ~windows.closed


def _rest_where(trigger: Trigger, state: TriggerState, chosen: Values) -> None:
    if chosen.any():
        some = state.at(chosen)
        trigger.rest(some)
        state.put(chosen, some)


def _watch(trigger: Trigger, state: TriggerState, run: Run, fires: Fires) -> None:
    """A trigger that fires at no row sees the rows, beginning again at the last firing of another one."""
    silent = silence(trigger, run.count)
    last = np.searchsorted(fires.position, run.ends) - 1
    fired = np.zeros(run.count, bool)
    stop = run.starts.copy()
    if len(fires.position):
        at = fires.position[np.maximum(last, 0)]
        fired = (last >= 0) & (at >= run.starts)
        stop = np.where(fired, at + 1, run.starts)
        some, own_state = run.at(fired), state.at(fired)
        trigger.take(own_state, some, some.starts, stop[fired], silent.at(fired))
        trigger.restart(own_state, some, stop[fired] - 1, silent.at(fired))
        state.put(fired, own_state)
    trigger.take(state, run, stop, run.ends, silent)
