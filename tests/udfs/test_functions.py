"""What is read off Python functions, and the errors of those that are none."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.types import UNKNOWN, parse_type
from sqlstream.udfs.functions import (
    Function,
    FunctionKind,
    aggregate,
    describe,
    describe_function,
    lookup,
    scalar,
    table,
)


class Word(NamedTuple):
    word: str
    length: int


@dataclasses.dataclass
class Point:
    x: float
    y: float | None


def fee(price: float, country: str = "NL") -> float:
    return price


def words(text: str) -> Iterator[Word]:
    yield Word(text, len(text))


def letters(text: str) -> Iterator[str]:
    yield from text


async def geo(ip: str) -> str:
    return ip


class Median:
    def create(self) -> list[float]:
        return []

    def accumulate(self, state: list[float], value: float, weight: int) -> None: ...

    def merge(self, state: list[float], other: list[float]) -> None: ...

    def finish(self, state: list[float]) -> float | None: ...


class Split:
    def eval(self, text: str, *separators: str) -> Iterator[str]:
        yield text


def test_a_scalar_function_is_described_by_its_signature():
    assert describe("Fee", fee, "m:fee") == Function(
        "Fee",
        "m:fee",
        FunctionKind.SCALAR,
        parse_type("DOUBLE"),
        (("price", parse_type("DOUBLE")), ("country", parse_type("STRING"))),
        1,
        2,
    )


def test_table_functions_return_the_struct_of_their_row():
    assert describe("words", words, "m:words").returns == parse_type("STRUCT<word: STRING, length: BIGINT>")
    assert describe("l", letters, "m:letters").returns == parse_type("STRUCT<l: STRING>")
    split = describe("split", Split, "m:Split")
    assert (split.kind, split.min_arguments, split.max_arguments) == (FunctionKind.TABLE, 1, None)
    assert split.parameters == (("text", parse_type("STRING")),)


def test_an_aggregate_takes_its_arguments_behind_the_state():
    described = describe("median", Median, "m:Median")
    assert (described.kind, described.returns) == (FunctionKind.AGGREGATE, parse_type("DOUBLE"))
    assert described.parameters == (("value", parse_type("DOUBLE")), ("weight", parse_type("BIGINT")))
    assert (described.min_arguments, described.max_arguments) == (2, 2)


def test_a_coroutine_is_an_asynchronous_function():
    described = describe("geo", geo, "m:geo")
    assert (described.kind, described.returns) == (FunctionKind.ASYNC, parse_type("STRUCT<geo: STRING>"))
    assert described.parameters == (("ip", parse_type("STRING")),)


def test_answers_of_coroutines_are_one_row_or_several():
    async def one(ip: str) -> Word | None:
        return None

    async def listed(ip: str) -> list[Word]:
        return []

    async def yielded(ip: str) -> AsyncIterator[Word]:
        yield Word(ip, 1)

    @lookup(batch=True)
    async def batched(ips: list[str], day: list[date]) -> list[Word | None]:
        return []

    @lookup(batch=True)
    async def lists(ips: list[str]) -> list[list[Word]]:
        return []

    class Opened:
        async def eval(self, ip: str) -> Word | None:
            return None

    row = parse_type("STRUCT<word: STRING, length: BIGINT>")
    for implementation in (one, listed, yielded, batched, lists, Opened):
        described = describe("f", implementation, "m:f")
        assert (described.kind, described.returns) == (FunctionKind.ASYNC, row), implementation
        assert described.parameters[0][1] == parse_type("STRING")
    assert describe("f", batched, "m:f").parameters[1] == ("day", parse_type("DATE"))


def test_coroutines_that_cannot_be_called_are_refused():
    @lookup(batch=True)
    async def no_list(ip: str) -> list[Word]:
        return []

    @lookup(batch=True)
    def plain(ips: list[str]) -> list[Word]:
        return []

    async def untyped(ip: str): ...

    class Connected:
        def __init__(self, url: str) -> None: ...

        async def eval(self, ip: str) -> Word:
            return Word(ip, 1)

    for implementation, code, message in (
        (no_list, "SS554", 'parameter "ip" of batched function "m:f" is no list\nHINT: It gets the values of many'),
        (plain, "SS555", '"m:f" is decorated with @lookup and is no coroutine\nHINT: Write "async def".'),
        (untyped, "SS554", 'asynchronous function "m:f" does not say what it returns\nHINT: Annotate it "-> Row | No'),
        (Connected, "SS555", 'class "m:f" cannot be made without arguments\nHINT: Give the parameters of __init__'),
    ):
        with pytest.raises(ConnectorError) as caught:
            describe("f", implementation, "m:f")
        assert str(caught.value).startswith(f"{code}: {message}")


def test_decorators_say_what_annotations_cannot():
    @scalar(returns="DECIMAL(10, 2)", vectorized=True, deterministic=False)
    def net(price):
        return price

    described = describe("net", net, "m:net")
    assert (described.returns, described.parameters) == (parse_type("DECIMAL(10, 2)"), (("price", UNKNOWN),))
    assert not described.deterministic

    @table(returns="STRUCT<a: INT>")
    def rows(n: int):
        yield {"a": n}

    assert describe("rows", rows, "m:rows").returns == parse_type("STRUCT<a: INT>")

    @aggregate(returns="INT")
    class Count(Median):
        pass

    assert describe("m", Count, "m:Count").returns == parse_type("INT")


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (bool, "BOOLEAN"),
        (bytes, "BINARY"),
        (date, "DATE"),
        (datetime, "TIMESTAMP"),
        (timedelta, "INTERVAL DAY TO SECOND"),
        (Decimal, "DECIMAL(38, 18)"),
        (list[int | None], "ARRAY<BIGINT>"),
        (dict[str, list[float]], "MAP<STRING, ARRAY<DOUBLE>>"),
        (Point, "STRUCT<x: DOUBLE, y: DOUBLE>"),
        (Word | None, "STRUCT<word: STRING, length: BIGINT>"),
    ],
    ids=str,
)
def test_types_of_annotations(annotation, kind):
    def function():
        return None

    function.__annotations__["return"] = annotation
    assert describe("f", function, "m:f").returns == parse_type(kind)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user beside the script."""
    (tmp_path / "shop_functions.py").write_text(
        "def discount(price: float) -> float:\n    return price * 0.9\n\nRATE = 3\n"
    )
    (tmp_path / "broken_functions.py").write_text("raise ValueError('no luck')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "shop_functions"
    for name in ("shop_functions", "broken_functions"):
        sys.modules.pop(name, None)


def test_a_function_is_found_by_module_and_name(module):
    assert describe_function("d", f"{module}:discount").returns == parse_type("DOUBLE")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("shop_functions", 'SS551: "shop_functions" names no Python function'),
        ("shop_funktions:discount", 'SS552: module "shop_funktions" of function "shop_funktions:discount" not found'),
        ("broken_functions:x", 'SS552: importing module "broken_functions" failed\nDETAIL: ValueError: no luck'),
        ("shop_functions:discont", 'SS553: "discont" of function "shop_functions:discont" does not exist\nHINT'),
        ("shop_functions:RATE", 'SS555: "shop_functions:RATE" is neither a function nor a class'),
    ],
)  # fmt: skip
def test_targets_that_are_no_function_are_errors_that_say_why(module, target, message):
    with pytest.raises(ConnectorError) as caught:
        describe_function("f", target)
    assert str(caught.value).startswith(message)


def test_functions_that_do_not_say_what_they_return_are_refused():
    def plain(x):
        return x

    def odd(x: int) -> complex:
        return x

    for function, words in ((plain, "does not say what it returns"), (odd, "returns <class 'complex'>")):
        with pytest.raises(ConnectorError, match=words) as caught:
            describe("f", function, "m:f")
        assert caught.value.code == "SS554"
        assert "Annotate it" in str(caught.value)


def test_classes_that_are_no_function_are_refused():
    class Sum:
        def accumulate(self, state: int, value: int) -> None: ...

    class Alarm:
        def on_timer(self, ctx: object, timer: object) -> None: ...

    class Nothing:
        pass

    for kind, words in (
        (Sum, 'has no method "create"'),
        (Alarm, 'class "m:C" has on_timer and is no ProcessFunction'),
        (Nothing, 'class "m:C" is no function'),
    ):
        with pytest.raises(ConnectorError, match=words):
            describe("f", kind, "m:C")
