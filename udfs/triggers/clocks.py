"""Triggers on a clock: ends of windows, intervals, silence; and triggers without any condition.

The value NONE in a column ``next`` means that no timer is set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.triggers.counting import spread
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
    fire_at,
    fires_at,
    never,
    no_answer,
)

MILLISECOND = 1000

ARMED = Column("armed", False, Merging.GREATEST)


class _Silent(Trigger):
    """The base of triggers that no row fires."""

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        return never(run.count)

    def quiet(self, run: Run) -> bool:
        return True

    def fires(self, state: TriggerState, run: Run) -> Fires:
        self.take(state, run, run.starts, run.ends, never(run.count))
        return fires_at(np.zeros(0, np.int64))


@dataclass(frozen=True)
class Never(_Silent):
    """Flink's NeverTrigger: never fires."""

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        pass


@dataclass(frozen=True)
class OnBarrier(Never):
    """Fires all windows that are not empty whenever a barrier is aligned on all channels."""

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        fires = np.full(state.count, due.domain is None)
        return Answer(fires, np.zeros_like(fires))


@dataclass(frozen=True)
class EachBatch(Never):
    """EMIT CHANGES: fires every window to which a call of the operator added rows, once. The window operator does this
    itself; the methods of this trigger never fire.
    """


@dataclass(frozen=True)
class AtOnce(Trigger):
    """Fires at each row, when it arrives."""

    @property
    def looks_at_rows(self) -> bool:
        return True

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        return fire_at(np.where(cursor < run.ends, cursor, NONE))

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        pass

    def fires(self, state: TriggerState, run: Run) -> Fires:
        return fires_at(np.sort(spread(run.starts, run.lengths)[0]))


class _LateAtOnce(Trigger):
    """Fires at each row of a window that the watermark has closed."""

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        return fire_at(np.where(run.windows.closed & (cursor < run.ends), cursor, NONE))

    def quiet(self, run: Run) -> bool:
        return not run.windows.closed.any()

    def fires(self, state: TriggerState, run: Run) -> Fires:
        self.take(state, run, run.starts, run.ends, never(run.count))
        closed = run.windows.closed
        return fires_at(np.sort(spread(run.starts[closed], run.lengths[closed])[0]))


@dataclass(frozen=True)
class AtWatermark(_LateAtOnce):
    """Flink's EventTimeTrigger: fires when the watermark closes the window, then at each late row."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return (ARMED,)

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        state["armed"] = ~run.windows.closed

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        return np.where(state["armed"] & (domain is Domain.EVENT), windows.last_moment, NONE)

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        if due.domain is None:
            return no_answer(state.count)
        fires = self.timer(state, due.domain, due.windows) == due.time
        state["armed"] = state["armed"] & ~fires
        return Answer(fires, np.zeros_like(fires))

    def rest(self, state: TriggerState) -> None:
        pass

    def on_merge(self, state: TriggerState, windows: Windows) -> None:
        state["armed"] = ~windows.closed


@dataclass(frozen=True)
class AfterProcessingTime(_Silent):
    """Flink's ProcessingTimeTrigger: fires when the clock reaches the end of the window."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return (ARMED,)

    @property
    def uses_processing_time(self) -> bool:
        return True

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        state["armed"] = np.ones(state.count, bool)

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        return np.where(state["armed"] & (domain is Domain.PROCESSING), windows.last_moment, NONE)

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        if due.domain is None:
            return no_answer(state.count)
        fires = self.timer(state, due.domain, due.windows) == due.time
        state["armed"] = state["armed"] & ~fires
        return Answer(fires, np.zeros_like(fires))

    def rest(self, state: TriggerState) -> None:
        pass

    def on_merge(self, state: TriggerState, windows: Windows) -> None:
        state["armed"] = windows.processing_time < windows.last_moment


@dataclass(frozen=True)
class AfterDelay(_Silent):
    """EARLY and LATE EVERY interval: fires ``interval`` microseconds of processing time after the first row since the
    last firing.

    With ``renewed`` it fires that long after the last row: AFTER interval OF SILENCE, Flink's ProcessingTimeoutTrigger.
    """

    interval: int
    renewed: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("next", NONE, Merging.GREATEST if self.renewed else Merging.LEAST),)

    @property
    def uses_processing_time(self) -> bool:
        return True

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        starts = (stop > start) if self.renewed else (stop > start) & (state["next"] == NONE)
        state["next"] = np.where(starts, run.windows.processing_time + self.interval, state["next"])

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        return state["next"] if domain is Domain.PROCESSING else super().timer(state, domain, windows)

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        if due.domain is not Domain.PROCESSING:
            return no_answer(state.count)
        fires = state["next"] == due.time
        state["next"] = np.where(fires, NONE, state["next"])
        return Answer(fires, np.zeros_like(fires))

    def rest(self, state: TriggerState) -> None:
        state["next"] = np.full(state.count, NONE)

    def merge(self, state: TriggerState, groups: Values, old: Windows, windows: Windows) -> TriggerState:
        """Merges the states of windows that merge; if every row renews the timer, the merged timer is the latest
        one.
        """
        if not self.renewed:
            return super().merge(state, groups, old, windows)
        latest = np.full(len(windows.end), np.iinfo(np.int64).min)
        is_set = state["next"] != NONE
        np.maximum.at(latest, groups[is_set], state["next"][is_set])
        return TriggerState(len(latest), {"next": np.where(latest == np.iinfo(np.int64).min, NONE, latest)})


@dataclass(frozen=True)
class EveryInterval(_LateAtOnce):
    """Flink's continuous triggers: fires at the multiples of ``interval`` (microseconds) while the window is open, and
    at its end.

    ``domain`` is the clock of the multiples. In event time they begin with the next multiple after the first row's
    time, which the column ``time`` has; if the watermark has already passed it, it fires when the watermark advances.
    In processing time a multiple is reached when the millisecond before it has passed. There are no multiples after the
    last moment of the window on that clock; rows that arrive later wait for the next multiple.

    The state column ``next`` has the timer of the next multiple, even if the window ends before it, because merging
    sessions may extend the window. In processing time the state column ``clipped`` is true if the window's last moment
    was still in the future; that moment ends the multiples.
    """

    interval: int
    domain: Domain
    time: str | None = None

    def __post_init__(self) -> None:
        assert self.domain is Domain.PROCESSING or self.time is not None, "multiples of event time follow rows"

    @property
    def columns(self) -> tuple[Column, ...]:
        clipped = (Column("clipped", False, Merging.GREATEST),) if self.domain is Domain.PROCESSING else ()
        return ARMED, Column("next", NONE, Merging.LEAST), *clipped

    @property
    def looks_at_rows(self) -> bool:
        """True in event time, where the first row of a session sets its timer by its own time."""
        return self.domain is Domain.EVENT

    @property
    def uses_processing_time(self) -> bool:
        return self.domain is Domain.PROCESSING

    def fire(self, state: TriggerState, run: Run, cursor: Values) -> Fire:
        return never(run.count) if self.domain is Domain.PROCESSING else super().fire(state, run, cursor)

    def quiet(self, run: Run) -> bool:
        return self.domain is Domain.PROCESSING or super().quiet(run)

    def fires(self, state: TriggerState, run: Run) -> Fires:
        firings = super().fires(state, run)
        return firings if self.domain is Domain.EVENT else fires_at(np.zeros(0, np.int64))

    def take(self, state: TriggerState, run: Run, start: Values, stop: Values, fire: Fire) -> None:
        closed = run.windows.closed
        state["armed"] = ~closed
        waits = (state["next"] == NONE) & (stop > start)
        if self.domain is Domain.EVENT:
            waits &= ~closed
        else:
            state["clipped"] = np.where(waits, self._is_to_come(run.windows), state["clipped"])
        state["next"] = np.where(waits, self._following(self._times(run, start)), state["next"])

    def _times(self, run: Run, start: Values) -> Values:
        """The times after which multiples count: those of the first rows, or now."""
        if self.domain is Domain.PROCESSING:
            return np.full(run.count, run.windows.processing_time)
        assert self.time is not None
        return np.append(run.times(self.time), run.windows.watermark)[start]

    def _following(self, time: Values) -> Values:
        """The timer of the multiple after a time that has passed."""
        now = time + self._ahead
        following: Values = now - now % self.interval + self.interval - self._ahead
        return following

    @property
    def _ahead(self) -> int:
        """Moves from the timer of a multiple to the multiple itself: the millisecond before it must have passed."""
        return MILLISECOND if self.domain is Domain.PROCESSING else 0

    def _is_to_come(self, windows: Windows) -> Values:
        """True where the clock of the multiples has not reached the last moment of the window."""
        is_to_come: Values = windows.processing_time < windows.last_moment - self._ahead
        return is_to_come

    def _timer(self, state: TriggerState, windows: Windows) -> Values:
        """The timer of the multiple, or of the window's last moment where that comes before it; NONE where none is
        set."""
        last = np.minimum(state["next"], windows.last_moment - self._ahead)
        clipped = state["clipped"] if self.domain is Domain.PROCESSING else True
        return np.where((state["next"] != NONE) & clipped, last, state["next"])

    def timer(self, state: TriggerState, domain: Domain, windows: Windows) -> Values:
        end = np.where(state["armed"] & (domain is windows.domain), windows.last_moment, NONE)
        return np.minimum(end, self._timer(state, windows)) if domain is self.domain else end

    def on_time(self, state: TriggerState, due: Due) -> Answer:
        multiple = (self._timer(state, due.windows) == due.time) & (due.domain is self.domain)
        last = due.time + (self._ahead * multiple)
        ends = state["armed"] & (due.windows.last_moment == last) & (due.domain is due.windows.domain)
        state["armed"] = state["armed"] & ~ends
        state["next"] = np.where(multiple, self._again(due), state["next"])
        if self.domain is Domain.PROCESSING:
            state["clipped"] = state["clipped"] | multiple
        return Answer(ends | multiple, np.zeros_like(ends))

    def _again(self, due: Due) -> Values:
        """The multiple after the one that fired; none after the window's end, nor when time itself has ended."""
        last = due.windows.last_moment
        ended = due.now == NONE
        over = (due.time + self._ahead >= last) | (
            ended & ((last >= NONE - MILLISECOND) | (self.domain is Domain.PROCESSING))
        )
        return np.where(over, NONE, self._following(due.time))

    def rest(self, state: TriggerState) -> None:
        state["next"] = np.full(state.count, NONE)

    def on_merge(self, state: TriggerState, windows: Windows) -> None:
        state["armed"] = ~windows.closed
        if self.domain is Domain.PROCESSING:
            state["clipped"] = self._is_to_come(windows)
