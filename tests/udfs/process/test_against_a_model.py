# ruff: noqa: A002
"""Process functions against a plain model: dictionaries, a set of timers, and one key at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.testing import ProcessFunctionHarness
from sqlstream.udfs.process import Domain, ListState, MapState, ProcessContext, ProcessFunction, Row, Timer, ValueState

TTL = 10
COLUMNS = "k INT, verb STRING, name STRING, at BIGINT, processing BOOLEAN, ts TIMESTAMP(3)"


class Told(NamedTuple):
    what: str
    at: int


class Script(ProcessFunction):
    """Does what its rows say."""

    processing_time = True
    last = ValueState(int, default=-1)
    names = ListState(str, ttl="10 ms")
    times = MapState(str, int, ttl="10 ms")

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Told]:
        domain = Domain.PROCESSING if input.processing else Domain.EVENT
        match input.verb:
            case "register":
                ctx.register_timer(input.name, input.at, domain)
            case "delete":
                ctx.delete_timer(input.name, input.at, domain)
            case "put":
                self.times[input.name] = input.at
                self.names.add(input.name)
                self.last.value = input.at
            case "clear":
                self.times.clear()
                self.last.clear()
            case "tell":
                yield Told(f"last {self.last.value}", len(self.names))
                yield Told(",".join([*self.names, *sorted(f"{k}={v}" for k, v in self.times.items())]), 0)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Told]:
        yield Told(f"{timer.domain.value} {timer.name}", timer.time)
        if timer.name == "chain" and timer.time % 3:
            ctx.register_timer("chain", timer.time + 1, timer.domain)
        if timer.name == "back":
            ctx.register_timer("past", timer.time - 5, timer.domain)
        if timer.name == "cancel":
            ctx.delete_timer("chain", timer.time + 2, timer.domain)


@dataclass
class Model:
    """What the function does for one key."""

    clocks: dict[Domain, int]
    timers: dict[Domain, list[tuple[int, str | None]]] = field(default_factory=lambda: {d: [] for d in Domain})
    last: int = -1
    names: list[tuple[str, int]] = field(default_factory=list)
    times: dict[str, tuple[int, int]] = field(default_factory=dict)
    told: list[tuple[str, int]] = field(default_factory=list)

    def row(self, verb: str, name: str, at: int, domain: Domain) -> None:
        now = self.clocks[Domain.PROCESSING]
        if verb == "register":
            self.register(domain, at, name)
        elif verb == "delete":
            self.delete(domain, at, name)
        elif verb == "put":
            self.times[name] = at, now
            self.names.append((name, now))
            self.last = at
        elif verb == "clear":
            self.times.clear()
            self.last = -1
        elif verb == "tell":
            names = [n for n, written in self.names if now < written + TTL]
            times = [f"{n}={v}" for n, (v, written) in self.times.items() if now < written + TTL]
            self.told += [(f"last {self.last}", len(names)), (",".join([*names, *sorted(times)]), 0)]
        self.fire()

    def register(self, domain: Domain, at: int, name: str | None) -> None:
        if (at, name) not in self.timers[domain]:
            self.timers[domain].append((at, name))

    def delete(self, domain: Domain, at: int, name: str | None) -> None:
        if (at, name) in self.timers[domain]:
            self.timers[domain].remove((at, name))

    def fire(self) -> None:
        for domain, now in self.clocks.items():
            while due := [t for t in self.timers[domain] if t[0] <= now]:
                first = min(due, key=lambda timer: timer[0])
                self.timers[domain].remove(first)
                self.on_timer(domain, *first)

    def on_timer(self, domain: Domain, at: int, name: str | None) -> None:
        self.told.append((f"{domain.value} {name}", at))
        if name == "chain" and at % 3:
            self.register(domain, at + 1, "chain")
        if name == "back":
            self.register(domain, at - 5, "past")
        if name == "cancel":
            self.delete(domain, at + 2, "chain")


ROWS = st.tuples(
    st.integers(1, 3),
    st.sampled_from(["register", "register", "delete", "put", "clear", "tell"]),
    st.sampled_from(["a", "b", "chain", "back", "cancel"]),
    st.integers(0, 40),
    st.booleans(),
)
STEPS = st.lists(
    st.one_of(
        st.lists(ROWS, min_size=1, max_size=6),
        st.tuples(st.sampled_from(list(Domain)), st.sampled_from([0, 1, 5, 10])),
    ),
    max_size=12,
)


@settings(max_examples=120)
@given(STEPS, st.booleans(), st.sampled_from([1, 3]))
def test_state_and_timers_do_what_dictionaries_do(steps, restarts, groups):
    harness = ProcessFunctionHarness(
        Script, COLUMNS, ["k"], on_time="ts", groups=groups, restarts=restarts, processing_time=1
    )
    clocks = {Domain.EVENT: -1, Domain.PROCESSING: 1}
    models = {k: Model(clocks) for k in (1, 2, 3)}
    for step in [*steps, [(k, "tell", "a", 0, False) for k in models]]:
        if isinstance(step, list):
            names = ("k", "verb", "name", "at", "processing")
            harness.rows([{**dict(zip(names, row, strict=True)), "ts": 0} for row in step])
            for k, verb, name, at, processing in step:
                models[k].row(verb, name, at, Domain.PROCESSING if processing else Domain.EVENT)
        else:
            domain, by = step
            clocks[domain] += by
            (harness.watermark if domain is Domain.EVENT else harness.processing_time)(clocks[domain])
            for model in models.values():
                model.fire()
        output = harness.output()
        for k, model in models.items():
            assert [(row["what"], row["at"]) for row in output if row["k"] == k] == model.told
            model.told.clear()


EVENTS = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 30), st.integers(0, 9)), max_size=15)


class Ordered(ProcessFunction):
    """A timer a while after each row."""

    seen = ListState(int)

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Told]:
        self.seen.add(input.v)
        ctx.register_timer(None, ctx.time + input.v)
        yield Told(f"row {list(self.seen)}", ctx.time)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Told]:
        yield Told(f"timer {list(self.seen)}", timer.time)


def _in_order(events: list[tuple[int, int, int]], key: int) -> list[tuple[str, int]]:
    """Rows by time, timers after the rows of their time."""
    waiting = sorted((time, position, v) for position, (k, time, v) in enumerate(events) if k == key)
    timers: set[int] = set()
    seen: list[int] = []
    told: list[tuple[str, int]] = []
    while waiting or timers:
        if waiting and (not timers or waiting[0][0] <= min(timers)):
            time, _, v = waiting.pop(0)
            seen.append(v)
            timers.add(time + v)
            told.append((f"row {seen}", time))
        else:
            first = min(timers)
            timers.remove(first)
            told.append((f"timer {seen}", first))
    return told


@settings(max_examples=60)
@given(EVENTS, st.lists(st.integers(0, 8), max_size=5), st.booleans())
def test_rows_in_order_of_time_do_not_depend_on_the_pace_of_watermarks(events, pace, restarts):
    harness = ProcessFunctionHarness(
        Ordered, "k INT, v INT, ts TIMESTAMP", ["k"], on_time="ts", in_order=True, restarts=restarts
    )
    rows: list[dict[str, Any]] = [{"k": k, "ts": time, "v": v} for k, time, v in events]
    if rows:
        harness.rows(rows)
    for time in sorted(pace):
        harness.watermark(time)
    harness.finish()
    output = harness.output()
    for key in (1, 2):
        assert [(row["what"], row["at"]) for row in output if row["k"] == key] == _in_order(events, key)
