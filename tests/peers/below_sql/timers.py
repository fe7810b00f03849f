"""Timers of a key and namespace in two domains: what fires when time advances, how many are left, when to wake up.

Steps: ``register``, ``delete``, ``advance`` (``expect_fired``, in any order among equal times), ``on_fire_register``
(what the next firing registers), ``checkpoint``, ``restore``, ``assert_timer_count``, ``assert_scheduled_physical``;
of queues ``add`` (an element with a priority is a timer in event time), ``assert_size``, ``assert_contents_set``.
Each case is run twice, the second time with nothing but what is stored going from one step to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from sqlstream.testing.case_format import Case
from sqlstream.testing.cases import Different
from sqlstream.udfs.kernel import END_OF_TIME, Domain, MemoryStore
from sqlstream.udfs.state.timers import Timer, TimerService
from tests.peers.below_sql.steps import Step, check, play, unknown_step

_COLUMNS = pa.schema([("value", pa.string())])
_NO_NAMESPACE = ""


def run(case: Case) -> None:
    play(case.input, Timers().perform)
    try:
        play(case.input, Timers(stored=True).perform)
    except Different as different:
        raise Different(f"with restarts, {different}") from different


class Timers:
    """A timer service; with ``stored`` opened anew for each step."""

    def __init__(self, *, stored: bool = False) -> None:
        self._stored = stored
        self._store = MemoryStore()
        self._kept = self._store.snapshot()
        self._on_fire: list[tuple[Domain, Timer]] = []
        self._reopen()

    def perform(self, step: Step) -> None:
        if self._stored:
            self._timers.flush()
            self._reopen()
        perform = _PERFORM.get(step["op"])
        if perform is None:
            raise unknown_step(step)
        perform(self, step)

    def _reopen(self) -> None:
        self._timers = TimerService(self._store, "timers", _COLUMNS, _COLUMNS)

    def _register(self, step: Step) -> None:
        self._timers.register(_domain(step), _timer(step))

    def _delete(self, step: Step) -> None:
        self._timers.delete(_domain(step), _timer(step))

    def _on_fire_register(self, step: Step) -> None:
        self._on_fire.append((_domain(step), _timer(step)))

    def _advance(self, step: Step) -> None:
        fired = []
        for timer in self._timers.due(_domain(step), step["ts"]):
            fired.append(timer)
            while self._on_fire:
                self._timers.register(*self._on_fire.pop())
        times = [timer.time for timer in fired]
        check("times in order", sorted(times), times)
        if "expect_fired" in step:
            check("fired", sorted(_spelled(_timer(f)) for f in step["expect_fired"]), sorted(map(_spelled, fired)))

    def _assert_timer_count(self, step: Step) -> None:
        found = self._timers.registered(_domain(step))
        counted = [timer for timer in found if step.get("namespace") in (None, *timer.namespace)]
        check("timers", step["equals"], len(counted))

    def _assert_scheduled_physical(self, step: Step) -> None:
        earliest = self._timers.next_timer(_domain(step))
        check("wake-ups", step["equals"], [] if earliest == END_OF_TIME else [earliest])

    def _checkpoint(self, step: Step) -> None:
        self._timers.flush()
        self._kept = self._store.snapshot()

    def _restore(self, step: Step) -> None:
        self._store.restore(self._kept)
        self._reopen()

    def _add(self, step: Step) -> None:
        self._timers.register(Domain.EVENT, _element(step["key"], step["prio"]))

    def _assert_size(self, step: Step) -> None:
        check("size", step["equals"], len(self._timers.registered(Domain.EVENT)))

    def _assert_contents_set(self, step: Step) -> None:
        expected = {_spelled(_element(key, priority)) for key, priority in step["equals"]}
        check("contents", sorted(expected), sorted(map(_spelled, self._timers.registered(Domain.EVENT))))


_PERFORM: Mapping[str, Callable[[Timers, Step], None]] = {
    "register": Timers._register,
    "delete": Timers._delete,
    "on_fire_register": Timers._on_fire_register,
    "advance": Timers._advance,
    "assert_timer_count": Timers._assert_timer_count,
    "assert_scheduled_physical": Timers._assert_scheduled_physical,
    "checkpoint": Timers._checkpoint,
    "restore": Timers._restore,
    "add": Timers._add,
    "assert_size": Timers._assert_size,
    "assert_contents_set": Timers._assert_contents_set,
}


def _domain(step: Step) -> Domain:
    return Domain(step["domain"])


def _timer(step: Step) -> Timer:
    return Timer(step["ts"], (step["key"],), (step["namespace"],))


def _element(key: int, priority: int) -> Timer:
    return Timer(priority, (str(key),), (_NO_NAMESPACE,))


def _spelled(timer: Timer) -> tuple[int, str, str]:
    return timer.time, timer.key[0], timer.namespace[0]
