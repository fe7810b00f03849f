# ruff: noqa: A002
# mypy: disable-error-code="empty-body"
"""What CREATE FUNCTION learns of process functions from their annotations, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.testing import ProcessFunctionHarness
from sqlstream.types import parse_type
from sqlstream.udfs.functions import describe
from sqlstream.udfs.process import Descriptor, MapState, ProcessContext, ProcessFunction, Row, Timer, ValueState
from sqlstream.udfs.process.function import milliseconds_of
from sqlstream.udfs.signature import FunctionKind, ProcessSignature, TableParameter
from tests.udfs.process.process_examples import Above, Clock, Convert, Distinct, Silence


class Pair(NamedTuple):
    a: int
    b: str


@dataclass
class Other:
    a: int


def test_signatures_come_from_annotations():
    silence = describe("silence", Silence, "m:Silence")
    assert silence.kind is FunctionKind.PROCESS
    assert silence.returns == parse_type("STRUCT<last_seen: BIGINT, seen: BIGINT>")
    assert silence.parameters == (("seconds", parse_type("BIGINT")),)
    assert silence.process == ProcessSignature(
        ("input", "seconds"), (TableParameter("input"),), optional=("seconds",), keyed=True, timers=True
    )
    above = describe("above", Above, "m:Above")
    assert above.returns == parse_type("STRUCT<above: BOOLEAN>")
    assert above.process is not None
    assert (above.process.descriptors, above.process.pass_through, above.process.keyed) == (("column",), True, False)
    convert = describe("convert", Convert, "m:Convert").process
    assert convert is not None
    rated = (("currency", parse_type("STRING")), ("amount", parse_type("DOUBLE")))
    assert convert.tables == (TableParameter("orders", rated), TableParameter("rates"))


def test_clocks_are_asked_for_where_they_are_needed():
    collected = {kind: describe("f", kind, "m:f").process for kind in (Silence, Distinct, Clock)}
    assert [(p.clock, p.timeless) for p in collected.values() if p] == [(False, False), (True, False), (True, True)]


def _refused(**members: Any) -> str:
    kind = type("F", (ProcessFunction,), members)
    with pytest.raises(ConnectorError) as raised:
        describe("f", kind, "m:F")
    return str(raised.value)


def test_what_is_no_process_function_is_refused_with_the_reason():  # noqa: C901
    def nothing(self, ctx: ProcessContext, input: Row) -> None: ...
    def good(self, ctx: ProcessContext, input: Row) -> Iterator[Pair]: ...
    def number(self, ctx: ProcessContext, input: int) -> Iterator[Pair]: ...
    def scalar_rows(self, ctx: ProcessContext, input: Row[int]) -> Iterator[Pair]: ...
    def untyped(self, ctx: ProcessContext, input: Row, limit) -> Iterator[Pair]: ...
    def taken(self, ctx: ProcessContext, input: Row, uid: str) -> Iterator[Pair]: ...
    def wide(self, ctx: ProcessContext, *rows: Row) -> Iterator[Pair]: ...
    def odd(self, ctx: ProcessContext, input: Row) -> Iterator[object]: ...
    def timer(self, ctx: ProcessContext, timer: Timer) -> Iterator[Other]: ...
    def two(self, ctx: ProcessContext, left: Row | None, right: Row | None) -> Iterator[Pair]: ...
    def init(self, size: int) -> None: ...

    assert "has no method eval" in _refused()
    assert "does not say what it returns" in _refused(eval=nothing)
    assert "SS554" in _refused(eval=odd)
    assert "must be a Row" in _refused(eval=number)
    assert "which is no SQL row" in _refused(eval=scalar_rows)
    assert 'parameter "limit" of process function "m:F" has no SQL type' in _refused(eval=untyped)
    assert 'parameter "uid" of process function "m:F" has the name of an argument' in _refused(eval=taken)
    assert "must name its parameters" in _refused(eval=wide)
    assert "return rows of different types" in _refused(eval=good, on_timer=timer)
    assert "passes columns through and has on_timer" in _refused(eval=good, on_timer=good, pass_through=True)
    assert "passes columns through and has several tables" in _refused(eval=two, pass_through=True)
    assert "cannot be made without arguments" in _refused(eval=good, __init__=init)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250 ms", 250), ("1s", 1000), ("2 Minutes", 120_000), ("1 hour", 3_600_000), ("7 days", 604_800_000)],
)
def test_times_to_live(text, expected):
    assert milliseconds_of(text) == expected == milliseconds_of(timedelta(milliseconds=expected))


@pytest.mark.parametrize("text", ["soon", "1", "1 year", "0 s", "-1 s"])
def test_what_is_no_time_to_live_is_refused(text):
    with pytest.raises(ValueError, match=re.escape(text) + "|longer than nothing"):
        ValueState(int, ttl=text)


def test_state_without_a_type_is_refused():
    for kind in (object, set, "NOTHING"):
        with pytest.raises(TypeError, match=r"SQL type|NOTHING"):
            MapState(str, kind)


class Columns(ProcessFunction):
    def eval(self, ctx: ProcessContext, input: Row, columns: Descriptor) -> Iterator[str]:
        yield ", ".join(str(getattr(input, name)) for name in columns)


def test_the_harness_refuses_wrong_calls():
    with pytest.raises(TypeError, match="takes the arguments columns, not none"):
        ProcessFunctionHarness(Columns, "a INT")
    with pytest.raises(TypeError, match="takes the tables input, not table"):
        ProcessFunctionHarness(Columns, {"table": "a INT"}, columns="a")
    with pytest.raises(TypeError, match="needs partition_by"):
        ProcessFunctionHarness(Silence, "a INT")
    harness = ProcessFunctionHarness(Columns, "a INT, b DECIMAL(10, 2)", columns=["a", "b"])
    with pytest.raises(TypeError, match='table "input" has no column c'):
        harness.rows([{"c": 1}])
    harness.rows([{"a": 1}])
    assert harness.output() == [{"columns": "1, None"}]
