# ruff: noqa: A002
# mypy: disable-error-code="assignment, arg-type, misc"
"""Errors of process functions say which function, key and row it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sqlstream.testing import ProcessFunctionHarness
from sqlstream.udfs.columnar import FunctionError
from sqlstream.udfs.process import Domain, ListState, ProcessContext, ProcessFunction, Row, Timer, ValueState


class Two(NamedTuple):
    a: int
    b: str


class Wrong(ProcessFunction):
    total = ValueState(int)
    items = ListState(int)

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Two]:  # noqa: C901
        match input.what:
            case "raise":
                raise ValueError("no\nluck")
            case "state":
                self.total.value = "three"
            case "assign":
                self.total = 3
            case "type":
                yield Two("x", "y")
            case "width":
                yield (1, 2, 3)
            case "scalar":
                yield 5
            case "clock":
                yield Two(ctx.processing_time, "")
            case "processing":
                ctx.register_timer("t", 1, Domain.PROCESSING)
            case "time":
                yield Two(ctx.time, "")
            case "event":
                ctx.register_timer(None, 5)
            case "text":
                ctx.register_timer(None, "5")
            case "good":
                yield Two(1, "fine")

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Two]:
        raise KeyError("gone")


def failure(what: str, **options: Any) -> str:
    harness = ProcessFunctionHarness(Wrong, "k INT, what STRING, ts TIMESTAMP(3)", ["k"], **options)
    harness.rows([{"k": 1, "what": "good", "ts": 0}])
    with pytest.raises(FunctionError) as raised:
        harness.rows([{"k": 1, "what": "good", "ts": 0}, {"k": 2, "what": what, "ts": 0}])
        harness.finish()
    return str(raised.value)


ROW = "datetime.datetime(1970, 1, 1, 0, 0, tzinfo=<UTC>)"


def test_what_user_code_raises():
    first, detail = failure("raise").splitlines()
    assert first == 'SS440: process function "wrong" failed in eval: ValueError: no luck'
    assert detail.startswith("DETAIL: It was called for Row(k=2, what='raise', ts=datetime.datetime(1970, 1, 1,")
    lines = Path(__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "raise ValueError" in text)
    assert detail.endswith(f'of the key k = 2. See line {line} of "{__file__}".')
    first, detail = failure("event", on_time="ts").splitlines()
    assert first == "SS440: process function \"wrong\" failed in on_timer: KeyError: 'gone'"
    assert detail.startswith("DETAIL: It was called for timer None of 5 ms of the key k = 2. See line ")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("type", "SS441: process function \"wrong\" returned Two(a='x', b='y'), which is no row of (a, b): "),
        ("width", 'SS441: process function "wrong" returned (1, 2, 3), which is no row of (a, b)\n'),
        ("scalar", 'SS441: process function "wrong" returned 5, which is no row of (a, b)\n'),
        ("state", 'SS442: state "total" of process function "wrong" takes BIGINT, not \'three\'\nDETAIL: The'),
        ("assign", 'SS440: process function "wrong" failed in eval: AttributeError: state "total" is written by'),
        ("clock", 'SS444: processing_time is read in process function "wrong", which does not declare it\nHINT: Write'),
        ("processing", 'SS444: a timer of processing time is set in process function "wrong", which does not declare'),
        ("time", 'SS444: process function "wrong" asks for an event time that there is not\nHINT: Add on_time'),
        ("event", 'SS444: process function "wrong" sets a timer of event time, but the call has no on_time\nHINT: Add'),
        ("text", 'SS440: process function "wrong" failed in eval: TypeError: the time of a timer is milliseconds'),
    ],
)  # fmt: skip
def test_what_user_code_gets_wrong(what, expected):
    actual = failure(what)
    assert actual.startswith(expected)
    assert "k = 2" in actual


class Endless(ProcessFunction):
    def eval(self, ctx: ProcessContext, input: Row) -> None:
        ctx.register_timer("beat", ctx.time)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> list[int]:
        if timer.time < 3 or not ctx.ended:
            ctx.register_timer("beat", timer.time + 1)
        return [timer.time]


def test_timers_register_timers_also_where_time_has_ended():
    harness = ProcessFunctionHarness(Endless, "k INT, ts TIMESTAMP", ["k"], on_time="ts")
    harness.rows([{"k": 1, "ts": 0}])
    harness.finish()
    assert [row["endless"] for row in harness.output()] == [0, 1, 2, 3]


def test_a_chain_of_timers_without_end_is_an_error(monkeypatch):
    class Beat(Endless):
        def on_timer(self, ctx: ProcessContext, timer: Timer) -> list[int]:
            ctx.register_timer("beat", timer.time + 1)
            return []

    Beat.on_timer.__annotations__["return"] = list[int]
    monkeypatch.setattr("sqlstream.udfs.process.timers.MOST_AT_THE_END", 100)
    harness = ProcessFunctionHarness(Beat, "k INT, ts TIMESTAMP", ["k"], on_time="ts")
    harness.rows([{"k": 1, "ts": 0}])
    with pytest.raises(FunctionError, match=r"SS443: the timers of process function .* register timers without end"):
        harness.finish()


class Keeper(ProcessFunction):
    lists = ValueState(list[int], default=[])

    def eval(self, ctx: ProcessContext, input: Row) -> list[int]:
        self.lists.value.append(1)
        if input.write:
            self.lists.update([*self.lists.value, 2])
        return [len(self.lists.value)]


def test_what_was_not_written_is_not_kept():
    harness = ProcessFunctionHarness(Keeper, "k INT, write BOOLEAN", ["k"], restarts=True)
    harness.rows([{"k": 1, "write": False}, {"k": 1, "write": True}, {"k": 1, "write": False}])
    harness.rows([{"k": 1, "write": True}])
    assert [row["keeper"] for row in harness.output()] == [0, 1, 1, 2]


def test_state_is_there_while_the_function_runs():
    with pytest.raises(AttributeError, match='state "total" is that of a key'):
        Wrong().total  # noqa: B018


def test_a_failed_call_leaves_state_as_it_was():
    harness = ProcessFunctionHarness(Wrong, "k INT, what STRING", ["k"])
    harness.rows([{"k": 1, "what": "good"}])
    before = harness.snapshot()
    with pytest.raises(FunctionError):
        harness.rows([{"k": 1, "what": "raise"}])
    assert harness.snapshot() == before
