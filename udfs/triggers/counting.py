"""Triggers that depend on rows: EVERY n ROWS, WHEN, DELTA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.triggers.trigger import (
    NONE,
    Column,
    Fire,
    Fires,
    Merging,
    Run,
    Trigger,
    TriggerState,
    Values,
    fire_at,
    fires_at,
)


@dataclass(frozen=True)
class EveryRows(Trigger):
    """Flink's CountTrigger: fires every ``rows`` rows. When windows merge, their counts are added."""

    rows: int

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("count", 0, Merging.SUM),)

    @property
    def looks_at_rows(self) -> bool:
        return True

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        position = self._next(state, cursor)
        return fire_at(np.where(position < run.ends, position, NONE))

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        state["count"] = state["count"] + (stop - start)

    def rest(self, state: TriggerState) -> None:
        state["count"] = np.zeros(state.count, np.int64)

    def fires(self, state: TriggerState, run: Run) -> Fires:
        first = self._next(state, run.starts)
        times = np.where(first < run.ends, (run.ends - 1 - first) // self.rows + 1, 0)
        position, owner = spread(np.zeros(run.count, np.int64), times)
        rest = run.ends - 1 - (first + (times - 1) * self.rows)
        state["count"] = np.where(times > 0, rest, state["count"] + run.lengths)
        return fires_at(np.sort(first[owner] + position * self.rows))

    def _next(self, state: TriggerState, cursor: Values) -> Values:
        position: Values = cursor + np.maximum(self.rows - 1 - state["count"], 0)
        return position


@dataclass(frozen=True)
class When(Trigger):
    """Fires at each row for which a BOOLEAN column is true."""

    condition: str

    @property
    def looks_at_rows(self) -> bool:
        return True

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        position = self._next(run)[cursor]
        return fire_at(np.where(position < run.ends, position, NONE))

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        pass

    def fires(self, state: TriggerState, run: Run) -> Fires:
        position, _ = spread(run.starts, run.lengths)
        return fires_at(np.sort(position[run.flags(self.condition)[position]]))

    def _next(self, run: Run) -> Values:
        """The first position from each on at which the condition is true."""
        return run.cached(f"next {self.condition}", lambda: _next_true(run.flags(self.condition)))


def _next_true(flags: Values) -> Values:
    position = np.where(flags, np.arange(len(flags)), NONE)
    return np.append(np.minimum.accumulate(position[::-1])[::-1], NONE)


@dataclass(frozen=True)
class Delta(Trigger):
    """Flink's DeltaTrigger: fires if a value exceeds that of the row of the last firing by more than a threshold.

    The first row with a value sets the reference, which is NaN before. NULL never fires. When windows merge, the
    reference is that of the earliest window that has one.
    """

    value: str
    threshold: str
    absolute: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("reference", float("nan"), Merging.FIRST),)

    @property
    def looks_at_rows(self) -> bool:
        return True

    @property
    def searches(self) -> bool:
        return True

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        reference, start = self._referenced(state, run, cursor, run.ends)
        return fire_at(self._first(run, reference, start, run.ends))

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        """Updates the reference value for the rows at positions ``start`` to ``stop`` (exclusive). Inside AND and THEN
        this trigger may fire several times before the composite trigger does; each time the reference becomes the value
        of that row.
        """
        reference, _ = self._referenced(state, run, start, stop)
        position, value = fire.position, run.numbers(self.value)
        while (fired := position < stop).any():
            reference = np.where(fired, value[np.where(fired, position, 0)], reference)
            position = self._first(run, reference, np.where(fired, position + 1, stop), stop)
        state["reference"] = reference

    def _first(self, run: Run, reference: Values, start: Values, stop: Values) -> Values:
        """The first position whose value exceeds the reference."""
        value, threshold = run.numbers(self.value), run.numbers(self.threshold)

        def exceeds(position: Values, owner: Values) -> Values:
            delta = value[position] - reference[owner]
            return (np.abs(delta) if self.absolute else delta) > threshold[position]

        return first_where(start, stop, exceeds)

    def restart(self, state: TriggerState, run: Run, position: Values, fire: Fire) -> None:
        value = run.numbers(self.value)[position]
        state["reference"] = np.where(np.isnan(value), state["reference"], value)

    def _referenced(self, state: TriggerState, run: Run, start: Values, stop: Values) -> tuple[Values, Values]:
        """The reference, NaN for none, once these rows were seen, and the first position that is compared with it."""
        reference = state["reference"]
        unknown = np.isnan(reference)
        if not unknown.any():
            return reference, start
        value = run.numbers(self.value)

        def has_value(position: Values, owner: Values) -> Values:
            present: Values = ~np.isnan(value[position])
            return present

        first = first_where(np.where(unknown, start, stop), stop, has_value)
        has_first = first != NONE
        reference = np.where(has_first, value[np.where(has_first, first, 0)], reference)
        return reference, np.where(unknown, np.where(has_first, first + 1, stop), start)


# --- search in the positions of many window instances at once -------------------------------------------------


FIRST_STRETCH = 16


def spread(starts: Values, lengths: Values) -> tuple[Values, Values]:
    """Returns all positions of ranges, which are given by start and length, and for each position the index of its
    range. For starts 3, 8 and lengths 2, 1 these are the positions 3, 4, 8 and the indices 0, 0, 1.
    """
    owner = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(owner)) - before[owner] + starts[owner], owner


def first_where(starts: Values, ends: Values, holds: Callable[[Values, Values], Values]) -> Values:
    """For each range, from ``starts`` to ``ends`` (exclusive), the first position at which ``holds(positions,
    range_indices)`` is true; NONE if there is none.

    It examines intervals of doubling length, so the cost is proportional to the distance of the result.
    """
    first = np.full(len(starts), NONE, np.int64)
    cursor, active, length = starts.copy(), np.flatnonzero(starts < ends), FIRST_STRETCH
    while len(active):
        stretch = np.minimum(ends[active] - cursor[active], length)
        position, owner = spread(cursor[active], stretch)
        hits = np.flatnonzero(holds(position, active[owner]))
        np.minimum.at(first, active[owner[hits]], position[hits])
        cursor[active] += stretch
        active = active[(first[active] == NONE) & (cursor[active] < ends[active])]
        length *= 2
    return first
