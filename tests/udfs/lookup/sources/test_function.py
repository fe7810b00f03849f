"""Coroutines as lookup sources: what they may return, classes, batches, and what is no answer."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from sqlstream.types import DataType
from sqlstream.udfs.functions import describe, lookup
from sqlstream.udfs.lookup.source import Request
from sqlstream.udfs.lookup.sources.function import FunctionSource, function_source


class Place(NamedTuple):
    city: str
    people: int


@dataclasses.dataclass
class Point:
    x: float
    tags: list[str] | None = None


PLACES = {"a": Place("Delft", 100), "b": Place("Gouda", 70)}


async def geo(ip: str) -> Place | None:
    return PLACES.get(ip)


async def city(ip: str) -> str | None:
    return PLACES[ip].city if ip in PLACES else None


async def points(n: int) -> list[Point]:
    return [Point(float(i), ["t"] * i) for i in range(n)]


async def count_up(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i


async def labels(ip: str) -> dict[str, int]:
    return {ip: 1}


@lookup(returns="STRUCT<city: STRING, people: BIGINT>")
async def as_dict(ip: str):
    return {"people": 3, "city": ip}


@lookup(batch=True)
async def many(ips: list[str], least: list[int]) -> list[Place | None]:
    collected = [PLACES.get(ip) for ip in ips]
    return [p if p is not None and p.people >= n else None for p, n in zip(collected, least, strict=True)]


@lookup(batch=True)
async def few(ips: list[str]) -> list[list[str]]:
    return [["x"]]


async def odd(ip: str) -> Place:
    return {"bare": 3, "short": (1,)}[ip]  # type: ignore[return-value]


async def fails(ip: str) -> Place:
    raise KeyError(ip)


class Counting:
    """Answers how often it was asked since it was opened."""

    closed = 0

    async def open(self) -> None:
        self.asked = 100

    async def eval(self, ip: str) -> int:
        self.asked += 1
        return self.asked

    async def close(self) -> None:
        Counting.closed += 1


def source_of(function, *columns: str) -> FunctionSource:
    described = describe(function.__name__, function, f"m:{function.__name__}")
    row: dict[str, DataType] = dict(described.returns.args)  # type: ignore[arg-type]
    read = tuple((c, row[c]) for c in columns or row)
    return function_source(described, function, Request(described.parameters, read))


def ask(source, *keys):
    async def answers():
        client = await source.open()
        try:
            return await client.ask(keys)
        finally:
            await client.close()

    return asyncio.run(answers())


@pytest.mark.parametrize(
    ("function", "key", "rows"),
    [
        (geo, ("a",), [("Delft", 100)]),
        (geo, ("z",), []),
        (city, ("b",), [("Gouda",)]),
        (city, ("z",), []),
        (points, (2,), [(0.0, []), (1.0, ["t"])]),
        (points, (0,), []),
        (count_up, (3,), [(0,), (1,), (2,)]),
        (labels, ("a",), [([("a", 1)],)]),
        (as_dict, ("a",), [("a", 3)]),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_answers_are_rows_none_or_lists_of_rows(function, key, rows):
    assert ask(source_of(function), key) == [rows]


def test_only_the_columns_asked_for_are_given_in_their_order():
    assert ask(source_of(geo, "people"), ("a",)) == [[(100,)]]
    assert ask(source_of(geo, "people", "city"), ("a",)) == [[(100, "Delft")]]


def test_keys_of_a_batch_are_asked_at_the_same_time():
    assert ask(source_of(geo), ("a",), ("z",), ("b",)) == [[("Delft", 100)], [], [("Gouda", 70)]]


def test_a_batched_function_gets_a_list_per_parameter():
    assert ask(source_of(many), ("a", 90), ("b", 90), ("b", 10)) == [[("Delft", 100)], [], [("Gouda", 70)]]
    assert ask(source_of(few), ("a",)) == [[("x",)]]


def test_an_object_is_opened_once_and_closed():
    before = Counting.closed
    assert ask(source_of(Counting), ("a",), ("a",)) == [[(101,)], [(102,)]]
    assert Counting.closed == before + 1


@pytest.mark.parametrize(
    ("function", "keys", "message"),
    [
        (odd, [("bare",)], 'function "odd" returned 3, which is no row of (city, people)'),
        (odd, [("short",)], 'function "odd" returned (1,), which is no row of (city, people)'),
        (few, [("a",), ("b",)], 'function "few" returned 1 answers for 2 keys'),
    ],
)
def test_what_is_no_answer_is_an_error_that_says_why(function, keys, message):
    with pytest.raises(ValueError) as caught:
        ask(source_of(function), *keys)
    assert str(caught.value).startswith(message)


def test_errors_of_the_function_are_errors_of_the_lookup():
    with pytest.raises(RuntimeError, match="KeyError: 'a'"):
        ask(source_of(fails), ("a",))
    with pytest.raises(RuntimeError, match="KeyError: 'a'"):
        ask(source_of(fails), ("a",), ("b",))


def test_sources_of_one_function_are_equal_wherever_they_travelled():
    source = source_of(geo)
    assert pickle.loads(pickle.dumps(source)) == source == source_of(geo)
    assert hash(source) == hash(source_of(geo))
    assert source != source_of(geo, "city")
    assert source != source_of(city)
