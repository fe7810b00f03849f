"""Cases of Flink's trigger tests, where they are at hand: one trigger, its windows, its timers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs.kernel import NO_WATERMARK, Domain
from sqlstream.udfs.triggers import AfterDelay, AfterProcessingTime, AtWatermark, EveryInterval, EveryRows, Or, Trigger
from sqlstream.udfs.triggers.state import TriggerState
from sqlstream.udfs.triggers.trigger import NONE, Due, Run, Windows

PEERS = Path(os.environ.get("SQLSTREAM_PEERS") or Path(__file__).parents[3] / ".." / "shared" / "peers").resolve()
CASES = sorted((PEERS / "flink-trigger").glob("*.json"))

MS = 1000
EARLIEST_MS = -(2**63)
Window = tuple[int, int]


def trigger_of(config: dict[str, Any]) -> Trigger:
    match config:
        case {"type": "event_time"}:
            return AtWatermark()
        case {"type": "processing_time"}:
            return AfterProcessingTime()
        case {"type": "count", "n": n}:
            return EveryRows(n)
        case {"type": "continuous_event_time", "interval_ms": interval}:
            return EveryInterval(interval * MS, Domain.EVENT, "time")
        case {"type": "processing_timeout", "inner": inner, "timeout_ms": timeout, "reset_on_new_element": renewed}:
            return Or(trigger_of(inner), AfterDelay(timeout * MS, renewed))
    raise AssertionError(config)


@dataclass
class Windowed:
    """The trigger's state of some windows; times in milliseconds, counted from the earliest where they are minimal."""

    trigger: Trigger
    domain: Domain
    states: dict[Window, TriggerState] = field(default_factory=dict)
    watermark: int = NO_WATERMARK
    processing_time: int = 0

    def windows(self, *bounds: Window) -> Windows:
        start, end = (np.array([b[i] * MS for b in bounds], np.int64) for i in (0, 1))
        return Windows(start, end, self.watermark, self.processing_time, self.domain)

    def element(self, window: Window) -> str:
        state = self.states.setdefault(window, self.trigger.fresh(1))
        rows = pa.table({"time": pa.array([0])})
        run = Run(rows, np.zeros(1, np.int64), np.array([0]), np.array([1]), self.windows(window))
        return "FIRE" if len(self.trigger.fires(state, run).position) else "CONTINUE"

    def due(self, domain: Domain, now: int) -> list[Window]:
        fired = []
        for window, state in self.states.items():
            windows = self.windows(window)
            while (timer := int(self.trigger.timer(state, domain, windows)[0])) <= now and timer != NONE:
                if self.trigger.on_time(state, Due(domain, np.array([timer]), now, windows)).fires[0]:
                    fired.append(window)
        return fired

    def merge(self, into: Window, windows: list[Window]) -> None:
        state = self.states.pop(windows[0])
        for window in windows[1:]:
            state = state.followed_by(self.states.pop(window))
        groups = np.zeros(len(windows), np.int64)
        self.states[into] = self.trigger.merge(state, groups, self.windows(*windows), self.windows(into))

    def counted(self, what: str, window: Window | None) -> int:
        chosen = [w for w in self.states if window is None or w == window]
        return sum(self._counted(what, w) for w in chosen)

    def _counted(self, what: str, window: Window) -> int:
        state = self.states[window]
        if what == "state_entries":
            own = {name.rpartition(".")[2]: values[0] for name, values in state.columns()}
            return int(own.get("count", 0) != 0) + int(own.get("next", NONE) != NONE)
        domain = Domain.EVENT if what == "event_timers" else Domain.PROCESSING
        return int(self.trigger.timer(state, domain, self.windows(window))[0] != NONE)


def since_earliest(time: int) -> int:
    return time - EARLIEST_MS if time < EARLIEST_MS // 2 else time


def play(windowed: Windowed, step: dict[str, Any]) -> None:
    window = tuple(step["window"]) if "window" in step else None
    match step["op"]:
        case "element":
            assert windowed.element(window) == step["expect"], step
        case "assert":
            assert windowed.counted(step["what"], window) == step["equals"], step
        case "clear":
            windowed.states.pop(window)
        case "merge":
            windowed.merge(tuple(step["into"]), [tuple(w) for w in step["windows"]])
        case "watermark":
            windowed.watermark = step["ts"] * MS
            assert windowed.due(Domain.EVENT, windowed.watermark) == expected_firings(step), step
        case "processing_time":
            windowed.processing_time = since_earliest(step["ts"]) * MS
            assert windowed.due(Domain.PROCESSING, windowed.processing_time) == expected_firings(step), step
        case other:
            raise AssertionError(other)


def expected_firings(step: dict[str, Any]) -> list[Window]:
    return [tuple(firing["window"]) for firing in step["model_fired"]]


@pytest.mark.skipif(not CASES, reason=f"no cases of peers at {PEERS}")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_triggers_do_as_flinks_do(path):
    case = json.loads(path.read_text())
    config = case["config"]["trigger"]
    domain = Domain.PROCESSING if config["type"] == "processing_time" else Domain.EVENT
    windowed = Windowed(trigger_of(config), domain)
    for step in case["input"]:
        play(windowed, step)
