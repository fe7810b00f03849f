"""One trigger over some windows of one key: what rows and clocks make fire, the timers that are set, the state kept.

Steps: ``element`` (``expect`` CONTINUE, FIRE or FIRE_AND_PURGE); ``watermark`` and ``processing_time`` (the firings are
``expect_fired``, with more where it is not ``only``; ``model_fired`` are all of them); ``merge``; ``clear``; ``assert``
of ``event_timers``, ``processing_timers`` and ``state_entries``. Times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.testing.case_format import Case
from sqlstream.testing.cases import Different, NotDriven
from sqlstream.udfs.kernel import NO_WATERMARK, Domain
from sqlstream.udfs.triggers import (
    AfterDelay,
    AfterProcessingTime,
    AtWatermark,
    EveryInterval,
    EveryRows,
    Or,
    Purging,
    Trigger,
)
from sqlstream.udfs.triggers.clocks import ARMED
from sqlstream.udfs.triggers.trigger import NONE, Due, Run, TriggerState, Windows
from tests.peers.below_sql.steps import Step, check, play, unknown_step

MS = 1000
EARLIEST_MS = -(2**63)
"""Where clocks begin that nothing has set; microseconds do not reach so far back."""

Window = tuple[int, int]
_TIMERS = {"event_timers": Domain.EVENT, "processing_timers": Domain.PROCESSING}
_TIME = "time"


def run(case: Case) -> None:
    config = case.config["trigger"]
    domain = Domain.PROCESSING if config["type"] == "processing_time" else Domain.EVENT
    play(case.input, TriggeredWindows(trigger_of(config), domain).perform)


def trigger_of(config: dict[str, Any]) -> Trigger:
    match config:
        case {"type": "event_time"}:
            return AtWatermark()
        case {"type": "processing_time"}:
            return AfterProcessingTime()
        case {"type": "count", "n": int(n)}:
            return EveryRows(n)
        case {"type": "continuous_event_time", "interval_ms": int(interval)}:
            return EveryInterval(interval * MS, Domain.EVENT, _TIME)
        case {"type": "processing_timeout", "inner": inner, "timeout_ms": int(ms), "reset_on_new_element": renewed}:
            return Or(trigger_of(inner), AfterDelay(ms * MS, renewed))
        case {"type": "purging", "inner": inner}:
            return Purging(trigger_of(inner))
    raise NotDriven(f'there is no trigger "{config["type"]}"', "docs/dialect.md lists those of the dialect.")


class TriggeredWindows:
    """A trigger's state by window, and the clocks."""

    def __init__(self, trigger: Trigger, domain: Domain) -> None:
        self._trigger = trigger
        self._domain = domain
        self._states: dict[Window, TriggerState] = {}
        self._watermark = NO_WATERMARK
        self._processing_time = 0

    def perform(self, step: Step) -> None:
        match step["op"]:
            case "element":
                check("result", step["expect"], self._element(_bounds(step["window"])))
            case "watermark":
                self._watermark = step["ts"] * MS
                _check_fired(step, self._due(Domain.EVENT, self._watermark))
            case "processing_time":
                self._processing_time = _since_earliest(step["ts"]) * MS
                _check_fired(step, self._due(Domain.PROCESSING, self._processing_time))
            case "merge":
                self._merge(_bounds(step["into"]), [_bounds(window) for window in step["windows"]])
            case "clear":
                self._clear(_bounds(step["window"]))
            case "assert":
                check(step["what"], step["equals"], sum(self._counts(step)))
            case _:
                raise unknown_step(step)

    def _windows(self, *bounds: Window) -> Windows:
        start, end = np.array(bounds, np.int64).T * MS
        return Windows(start, end, self._watermark, self._processing_time, self._domain)

    def _element(self, window: Window) -> str:
        state = self._states.setdefault(window, self._trigger.fresh(1))
        rows = pa.table({_TIME: pa.array([0])})
        run_of_one = Run(rows, np.zeros(1, np.int64), np.array([0]), np.array([1]), self._windows(window))
        fires = self._trigger.fires(state, run_of_one)
        return _result(fires.purge[0]) if len(fires.position) else "CONTINUE"

    def _due(self, domain: Domain, now: int) -> list[Step]:
        """The firings in the order of their timers."""
        fired = [firing for window in self._states for firing in self._due_of(window, domain, now)]
        return [{"window": list(window), "result": result} for _, window, result in sorted(fired, key=lambda f: f[0])]

    def _due_of(self, window: Window, domain: Domain, now: int) -> Iterator[tuple[int, Window, str]]:
        state, windows = self._states[window], self._windows(window)
        while (timer := int(self._trigger.timer(state, domain, windows)[0])) <= now and timer != NONE:
            answer = self._trigger.on_time(state, Due(domain, np.array([timer]), now, windows))
            if answer.fires[0]:
                yield timer, window, _result(answer.purges[0])

    def _merge(self, into: Window, windows: list[Window]) -> None:
        state = self._states.pop(windows[0])
        for window in windows[1:]:
            state = state.followed_by(self._states.pop(window))
        groups = np.zeros(len(windows), np.int64)
        self._states[into] = self._trigger.merge(state, groups, self._windows(*windows), self._windows(into))

    def _clear(self, window: Window) -> None:
        self._trigger.clear(self._states.pop(window), self._windows(window))

    def _counts(self, step: Step) -> Iterator[int]:
        """By window; of the one window where the step names one."""
        for window, state in self._states.items():
            if "window" not in step or _bounds(step["window"]) == window:
                yield self._count(step["what"], window, state)

    def _count(self, what: str, window: Window, state: TriggerState) -> int:
        if what == "state_entries":
            return _entries(self._trigger, state)
        return int(self._trigger.timer(state, _TIMERS[what], self._windows(window))[0] != NONE)


def _bounds(window: list[int]) -> Window:
    start, end = window
    return start, end


def _result(purges: bool) -> str:
    return "FIRE_AND_PURGE" if purges else "FIRE"


def _since_earliest(time: int) -> int:
    """Times near the earliest one are counted from it."""
    return time - EARLIEST_MS if time < EARLIEST_MS // 2 else time


def _entries(trigger: Trigger, state: TriggerState) -> int:
    """What is remembered apart from the timer of the window's end, which is no state in Flink."""
    own = sum(int(state[column.name][0] != column.default) for column in trigger.columns if column is not ARMED)
    return own + sum(_entries(part, of_part) for part, of_part in zip(trigger.parts, state.parts, strict=True))


def _check_fired(step: Step, fired: list[Step]) -> None:
    if "model_fired" in step or step["only"]:
        check("fired", step.get("model_fired", step["expect_fired"]), fired)
    missing = [firing for firing in step["expect_fired"] if firing not in fired]
    if missing:
        raise Different(f"fired {fired}, and not {missing}")
