# ruff: noqa: A002
# mypy: disable-error-code="assignment, arg-type, misc, index"
"""Rows and timers for which a process function fails, where the job goes on without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.testing import ProcessFunctionHarness
from sqlstream.udfs.columnar import FunctionError
from sqlstream.udfs.process import Domain, ListState, MapState, ProcessContext, ProcessFunction, Row, Timer, ValueState
from sqlstream.udfs.process.memories import fits

VERBS = ("put", "overwrite", "remove", "clear", "add", "replace", "count", "register", "delete")


class Told(NamedTuple):
    what: str


class Script(ProcessFunction):
    """Does what its rows say, then fails where they say so."""

    processing_time = True
    count = ValueState(int, default=0, ttl="20 ms")
    names = ListState(str)
    places = MapState(str, int, ttl="20 ms")

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Told]:
        for verb, name in zip(input.verbs, input.names, strict=True):
            self.do(ctx, verb, name)
            yield Told(self.state())
        if input.how == "raise":
            raise ValueError(input.how)
        if input.how == "row":
            yield (1, 2)
        if input.how == "type":
            yield Told(b"\xff")
        if input.how == "state":
            self.count.value = "many"
        if input.how == "key":
            self.places[5] = 5

    def do(self, ctx: ProcessContext, verb: str, name: str) -> None:
        match verb:
            case "put" | "overwrite":
                self.places[name] = len(self.places)
            case "remove":
                self.places.pop(name, None)
            case "clear":
                self.places.clear()
            case "add":
                self.names.add(name)
            case "replace":
                self.names.update([name, name])
            case "count":
                self.count.value += 1
            case "register":
                ctx.register_timer(name, ctx.time + 5)
                ctx.register_timer(name, ctx.processing_time + 5, Domain.PROCESSING)
            case "delete":
                ctx.delete_timer(name, ctx.time + 5)

    def state(self) -> str:
        return f"{self.count.value} {list(self.names)} {list(self.places.items())}"

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Told]:
        yield Told(f"{timer.domain.value} {timer.name} {timer.time} {self.state()}")


COLUMNS = "k INT, verbs ARRAY<STRING>, names ARRAY<STRING>, how STRING, ts TIMESTAMP(3)"

scripts = st.lists(
    st.fixed_dictionaries({
        "k": st.integers(0, 1),
        "script": st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from("abc")), max_size=5),
        "how": st.sampled_from(["good", "good", "raise", "row", "type", "state", "key"]),
        "ts": st.integers(0, 30),
    }),
    max_size=12,
)  # fmt: skip


@settings(max_examples=60)
@given(batches=st.lists(scripts, max_size=4), restarts=st.booleans(), in_order=st.booleans())
def test_failed_rows_leave_everything_as_if_they_had_not_come(batches, restarts, in_order):
    def run(*, with_failing: bool) -> tuple[list[Any], int, int]:
        harness = ProcessFunctionHarness(
            Script, COLUMNS, ["k"], on_time="ts", in_order=in_order, restarts=restarts, on_error="skip"
        )
        failing = 0
        for number, batch in enumerate(batches):
            wanted = [row for row in batch if with_failing or row["how"] == "good"]
            failing += sum(row["how"] != "good" and (not in_order or row["ts"] > number * 10 - 10) for row in wanted)
            harness.rows([_row(row) for row in wanted])
            harness.watermark(number * 10)
            harness.processing_time(number * 7)
        harness.finish()
        return harness.output(), failing, harness.failed_rows

    actual, failing, counted = run(with_failing=True)
    assert actual == run(with_failing=False)[0]
    assert counted == failing


def _row(row: dict[str, Any]) -> dict[str, Any]:
    verbs, names = [v for v, _ in row["script"]], [n for _, n in row["script"]]
    return {"k": row["k"], "verbs": verbs, "names": names, "how": row["how"], "ts": row["ts"]}


def harness(function: type[ProcessFunction], columns: Any, **options: Any) -> ProcessFunctionHarness:
    return ProcessFunctionHarness(function, columns, ["k"], **{"on_error": "dead-letter", **options})


class Timed(ProcessFunction):
    fired = ValueState(int, default=0)

    def eval(self, ctx: ProcessContext, input: Row) -> None:
        if input.v < 0:
            raise ValueError(f"{input.v} is\nnegative")
        ctx.register_timer("even" if input.v % 2 == 0 else "odd", ctx.time)

    def on_timer(self, ctx: ProcessContext, timer: Timer) -> list[int]:
        self.fired.value += 1
        ctx.register_timer("more", timer.time + 1)
        if timer.name == "odd":
            raise KeyError(timer.name)
        if timer.name == "more":
            ctx.delete_timer("more", timer.time + 1)
        return [self.fired.value]


def test_dead_letters_of_rows_and_timers():
    driven = harness(Timed, "k STRING, v INT, ts TIMESTAMP(3)", on_time="ts")
    rows = [{"k": "a", "v": v, "ts": ts} for v, ts in ((1, 1_000), (-3, 2_000), (2, 3_000))]
    driven.rows(rows)
    driven.finish()
    assert [(row["timed"], row["rowtime"]) for row in driven.output()] == [(1, 3_000), (2, 3_001)]
    row, timer = driven.dead_letters()
    assert row.pop("place").endswith(" in eval")
    assert timer.pop("place").endswith(" in on_timer")
    assert row == {
        "source": "timed",
        "record": '{"key":{"k":"a"},"input":"input","row":{"k":"a","v":-3,"ts":"1970-01-01T00:00:02+00:00"}}',
        "error": 'SS440: process function "timed" failed in eval: ValueError: -3 is negative',
    }
    assert timer == {
        "source": "timed",
        "record": '{"key":{"k":"a"},"timer":{"name":"odd","time":1000,"domain":"event"}}',
        "error": "SS440: process function \"timed\" failed in on_timer: KeyError: 'odd'",
    }
    assert driven.failed_rows == 2
    assert driven.dead_letters() == []


def test_the_place_is_that_of_the_user():
    driven = harness(Timed, "k STRING, v INT, ts TIMESTAMP(3)", on_time="ts")
    driven.rows([{"k": "a", "v": -1, "ts": 0}])
    assert f"{Path(__file__).name}:" in driven.dead_letters()[0]["place"]


def test_what_is_skipped_is_only_counted():
    driven = harness(Timed, "k STRING, v INT, ts TIMESTAMP(3)", on_time="ts", on_error="skip")
    driven.rows([{"k": "a", "v": -1, "ts": 0}, {"k": "b", "v": -2, "ts": 0}])
    assert (driven.failed_rows, driven.dead_letters(), driven.output()) == (2, [], [])
    assert driven.state_size == 0


def test_by_default_an_error_is_an_error():
    with pytest.raises(FunctionError, match="SS440"):
        harness(Timed, "k STRING, v INT, ts TIMESTAMP(3)", on_error="fail").rows([{"k": "a", "v": -1}])
    with pytest.raises(ValueError, match="ignore"):
        harness(Timed, "k STRING, v INT, ts TIMESTAMP(3)", on_error="ignore")


@dataclass
class Amount:
    amount: float

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("less than nothing")


class Both(ProcessFunction):
    rate = ValueState(float)

    def eval(self, ctx: ProcessContext, orders: Row[Amount] | None, rates: Row | None) -> list[float]:
        if rates is not None:
            self.rate.value = rates.rate
        return [] if orders is None else [1 / self.rate.value * orders.amount]


def test_several_tables_and_rows_that_a_class_refuses():
    tables = {"orders": "k INT, amount DOUBLE", "rates": "k INT, rate DOUBLE"}
    driven = harness(Both, {**tables, "orders": "k INT, amount DOUBLE"})
    driven.rows([{"k": 1, "rate": 0.0}], "rates")
    driven.rows([{"k": 1, "amount": 4.0}, {"k": 1, "amount": -1.0}], "orders")
    driven.rows([{"k": 1, "rate": float("nan")}, {"k": 1, "rate": 2.0}], "rates")
    driven.rows([{"k": 1, "amount": 4.0}], "orders")
    assert [row["both"] for row in driven.output()] == [2.0]
    letters = driven.dead_letters()
    assert [json.loads(letter["record"])["row"] for letter in letters] == [
        {"k": 1, "amount": 4.0},
        {"k": 1, "amount": -1.0},
    ]
    assert [letter["error"].partition("failed in ")[2] for letter in letters] == [
        "eval: ZeroDivisionError: float division by zero",
        "Amount: ValueError: less than nothing",
    ]


class Over(ProcessFunction):
    pass_through = True

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[int]:
        yield 1
        yield 10 // input.v


def test_columns_that_are_passed_through_are_those_of_the_rows_that_are_left():
    driven = harness(Over, "k INT, v INT")
    driven.rows([{"k": 1, "v": 5}, {"k": 1, "v": 0}, {"k": 2, "v": 2}])
    assert driven.output() == [
        {"k": k, "v": v, "over": over} for k, v, over in ((1, 5, 1), (1, 5, 2), (2, 2, 1), (2, 2, 5))
    ]
    assert [letter["record"] for letter in driven.dead_letters()] == [
        '{"key":{"k":1},"input":"input","row":{"k":1,"v":0}}'
    ]


class Undeclared(ProcessFunction):
    def eval(self, ctx: ProcessContext, input: Row) -> list[int]:
        return [ctx.time]


class Unmakable(Undeclared):
    def __init__(self) -> None:
        raise OSError("no file")


@pytest.mark.parametrize(("function", "code"), [(Undeclared, "SS444"), (Unmakable, "SS440")])
def test_what_is_wrong_with_the_class_fails_the_job_whatever_the_setting(function, code):
    with pytest.raises(FunctionError, match=code):
        harness(function, "k INT").rows([{"k": 1}])


def test_values_in_dead_letters():
    columns = "k DECIMAL(5, 2), v INT, b BYTES, f DOUBLE, m MAP<STRING, INT>, s STRUCT<d: DATE>, n STRING"
    driven = harness(Over, columns)
    driven.rows([{"k": None, "v": 0, "b": b"\x00", "f": float("inf"), "m": [("a", 1)], "s": {"d": None}, "n": "é"}])
    (letter,) = driven.dead_letters()
    assert letter["record"] == (
        '{"key":{"k":null},"input":"input","row":{"k":null,"v":0,"b":"AA==","f":"inf","m":{"a":1},"s":{"d":null},"n":"é"}}'
    )


@pytest.mark.parametrize(
    ("kind", "good", "unsure"),
    [
        (pa.int64(), [None, 0, 2**63 - 1, -(2**63)], [True, 2**63, 1.0, "1"]),
        (pa.int32(), [2**31 - 1], [2**31]),
        (pa.string(), ["", "a"], ["\ud800", b"a", 1]),
        (pa.float64(), [1.5, float("nan")], [1, "1"]),
        (pa.bool_(), [True, None], [1]),
        (pa.list_(pa.int64()), [None], [[1], ["x"]]),
    ],
)
def test_a_look_at_the_class_tells_which_values_surely_fit(kind, good, unsure):
    assert all(fits(kind)(value) and pa.array([value], kind) is not None for value in good)
    assert not any(fits(kind)(value) for value in unsure)
