"""The timer service judged by the cases of Flink's, where they are at hand (``SQLSTREAM_PEERS``)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.udfs.kernel import END_OF_TIME, Domain
from sqlstream.udfs.state.memory import MemoryStore
from sqlstream.udfs.state.timers import Timer, TimerService

PEERS = Path(os.environ.get("SQLSTREAM_PEERS") or Path(__file__).parents[3] / ".." / "shared" / "peers").resolve()
CASES = sorted((PEERS / "flink-timers").glob("*.json"))

pytestmark = pytest.mark.skipif(not CASES, reason=f"no cases of peers at {PEERS}")

Step = dict[str, Any]


class Driver:
    """Runs the steps of a case. Queue cases add elements with a key and a priority, which are timers in event time."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.on_fire: list[tuple[Domain, Timer]] = []
        self.reopen()

    def reopen(self) -> None:
        columns = pa.schema([("value", pa.string())])
        self.timers = TimerService(self.store, "timers", columns, columns)

    def run(self, step: Step) -> None:
        operation: str = step["op"]
        getattr(self, operation)(step)

    def register(self, step: Step) -> None:
        self.timers.register(_domain(step), _timer(step))

    def delete(self, step: Step) -> None:
        self.timers.delete(_domain(step), _timer(step))

    def on_fire_register(self, step: Step) -> None:
        self.on_fire = [(_domain(step), _timer(step))]

    def advance(self, step: Step) -> None:
        found = []
        for timer in self.timers.due(_domain(step), step["ts"]):
            found.append({"key": timer.key[0], "namespace": timer.namespace[0], "ts": timer.time})
            for domain, other in self.on_fire:
                self.timers.register(domain, other)
        self.on_fire = []
        assert [timer["ts"] for timer in found] == sorted(timer["ts"] for timer in found)
        if "expect_fired" in step:
            assert sorted(map(_sortable, found)) == sorted(map(_sortable, step["expect_fired"]))

    def assert_timer_count(self, step: Step) -> None:
        found = self.timers.registered(_domain(step))
        assert len([t for t in found if step.get("namespace") in (None, t.namespace[0])]) == step["equals"]

    def assert_scheduled_physical(self, step: Step) -> None:
        earliest = self.timers.next_timer(_domain(step))
        assert [time for time in [earliest] if time != END_OF_TIME] == step["equals"]

    def checkpoint(self, step: Step) -> None:
        self.timers.flush()
        self.kept = self.store.snapshot()

    def restore(self, step: Step) -> None:
        self.store.restore(self.kept)
        self.reopen()

    def add(self, step: Step) -> None:
        self.timers.register(Domain.EVENT, _element(step["key"], step["prio"]))

    def assert_size(self, step: Step) -> None:
        assert len(self.timers.registered(Domain.EVENT)) == step["equals"]

    def assert_contents_set(self, step: Step) -> None:
        expected = {_element(key, priority) for key, priority in step["equals"]}
        assert set(self.timers.registered(Domain.EVENT)) == expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("restarts", [False, True])
def test_case(path, restarts):
    driver = Driver()
    for step in json.loads(path.read_text(encoding="utf-8"))["input"]:
        if restarts:
            driver.timers.flush()
            driver.reopen()
        driver.run(step)


def _domain(step: Step) -> Domain:
    return Domain(step["domain"])


def _timer(step: Step) -> Timer:
    return Timer(step["ts"], (step["key"],), (step["namespace"],))


def _element(key: int, priority: int) -> Timer:
    return Timer(priority, (str(key),), ("",))


def _sortable(timer: Step) -> tuple[object, ...]:
    return timer["ts"], timer["key"], timer["namespace"]
