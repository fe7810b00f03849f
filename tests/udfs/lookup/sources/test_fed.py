"""Answers that tests feed: what is found in files of rows, how slowly, and how often it fails at first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.types import BIGINT, INT, STRING
from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.lookup.sources.fed import Behaviour, FedSource, asked

REQUEST = Request((("id", BIGINT),), (("name", STRING), ("ms", INT)))


def write(folder: Path, number: int, *rows: tuple[int | None, str, int]) -> None:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, kind.to_arrow()) for values, kind in zip(columns, (BIGINT, STRING, INT), strict=True)]
    pq.write_table(pa.table(arrays, names=["id", "name", "ms"]), folder / f"{number}.parquet")


def answers(
    folder: Path, *requests: Sequence[Key], behaviour: Behaviour | None = None
) -> list[Sequence[Sequence[Row]]]:
    """What a new client answers to requests, one after the other."""

    async def ask() -> list[Sequence[Sequence[Row]]]:
        client = await FedSource("people", REQUEST, str(folder), behaviour or Behaviour()).open()
        return [await client.ask(keys) for keys in requests]

    return asyncio.run(ask())


def test_rows_are_found_in_the_order_in_which_they_were_fed_and_null_is_no_key(tmp_path):
    write(tmp_path, 1, (1, "a", 0), (None, "b", 0), (2, "c", 0))
    write(tmp_path, 2, (1, "d", 0))
    assert answers(tmp_path, [(1,), (3,)], [(2,)]) == [[[("a", 0), ("d", 0)], []], [[("c", 0)]]]


def test_a_client_sees_rows_that_come_while_it_is_open(tmp_path):
    async def ask() -> list[Sequence[Sequence[Row]]]:
        client = await FedSource("people", REQUEST, str(tmp_path)).open()
        before = await client.ask([(1,)])
        write(tmp_path, 1, (1, "a", 0))
        write(tmp_path, 2, (1, "being written", 0))
        (tmp_path / "2.parquet").rename(tmp_path / ".2.parquet")
        return [before, await client.ask([(1,)])]

    assert asyncio.run(ask()) == [[[]], [[("a", 0)]]]


def test_a_key_fails_and_misses_as_often_as_it_is_told_to_over_all_clients(tmp_path):
    write(tmp_path, 1, (1, "a", 0))
    behaviour = Behaviour(misses=1, fails=1)
    with pytest.raises(ConnectionError, match=r"request 1 for \[1\] fails"):
        answers(tmp_path, [(1,)], behaviour=behaviour)
    assert answers(tmp_path, [(1,)], [(1,)], behaviour=behaviour) == [[[]], [[("a", 0)]]]
    with pytest.raises(ConnectionError, match="request 4"):
        answers(tmp_path, [(1,)], behaviour=Behaviour(fails=None))
    assert list(asked(tmp_path)) == [("1",)] * 4


def test_an_answer_takes_as_long_as_the_slowest_row_says(tmp_path, monkeypatch):
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("sqlstream.udfs.lookup.sources.fed.asyncio.sleep", sleep)
    write(tmp_path, 1, (1, "a", 30), (2, "b", 70))
    answers(tmp_path, [(1,), (2,)], [(3,)], behaviour=Behaviour((10, 10), delay_column="ms"))
    assert slept == [0.07, 0.01]
