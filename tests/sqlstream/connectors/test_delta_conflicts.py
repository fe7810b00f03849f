"""Commits of other writers between what an upsert reads of a Delta table and its commit; without Spark.

The library compares the files that others have added or removed with the keys of the merge, and commits it as it is
where they cannot hold one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.on_spark.delta_sink import DeltaWriter
from tests.sqlstream.connectors.test_delta_sink import append, stored, table, upsert, writer_of

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")


class Race:
    """Commits of other writers, of which the next one is made before each merge of ours, behind the version that it
    reads. ``merges``: how many we made.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.others: list[Callable[[], Any]] = []
        self.merges, self._is_other = 0, False
        merge = deltalake.DeltaTable.merge

        def late(*arguments: Any, **named: Any) -> Any:
            if not self._is_other:
                self.merges += 1
                if self.others:
                    self._is_other = True
                    self.others.pop(0)()
                    self._is_other = False
            return merge(*arguments, **named)

        monkeypatch.setattr(deltalake.DeltaTable, "merge", late)
        monkeypatch.setattr(CommitRetry, "_pause", lambda self, attempts: 0.0)

    def upsert(self, to: DeltaWriter, number: int, *values: tuple[Any, ...], others: list[Any]) -> int:
        """Upserts while others commit, and returns how many merges that took."""
        self.others, self.merges = [*others], 0
        upsert(to, number, *values)
        return self.merges


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Race:
    return Race(monkeypatch)


def filled(path: Path, kind: str = "BIGINT", **options: str) -> DeltaWriter:
    """A table of two files, with the keys 0 to 9 and 10 to 19."""
    first = writer_of(table(path, f"id {kind}; v STRING", **options), "first")
    for number in (0, 1):
        append(first, number, *((key, "old") for key in range(number * 10, number * 10 + 10)))
    return writer_of(table(path, f"id {kind}; v STRING", keys=["id"], **options))


def expected(**changed: str | None) -> list[tuple[Any, ...]]:
    values: dict[int, str | None] = dict.fromkeys(range(20), "old")
    values |= {int(key[1:]): value for key, value in changed.items()}
    return sorted(((key, value) for key, value in values.items() if value is not None), key=repr)


def add(path: Path, *pairs: tuple[int, str], **more: Any) -> Callable[[], None]:
    ids, values = zip(*pairs, strict=True)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.string())})
    return lambda: deltalake.write_deltalake(path, rows, mode="append", **more)


def test_nothing_is_merged_again_where_others_add_other_keys(tmp_path: Path, race: Race) -> None:
    to = filled(tmp_path)
    merges = race.upsert(to, 0, (3, "new", "+U"), (13, None, "-D"), others=[add(tmp_path, (100, "x"), (200, "y"))])
    assert merges == 1
    assert stored(tmp_path) == sorted([*expected(k3="new", k13=None), (100, "x"), (200, "y")], key=repr)


def test_rows_that_others_add_with_the_same_keys_are_replaced(tmp_path: Path, race: Race) -> None:
    to = filled(tmp_path)
    others = [add(tmp_path, (3, "x"), (30, "x")), add(tmp_path, (3, "y"))]
    assert race.upsert(to, 0, (3, "new", "+U"), others=others) == 3
    assert stored(tmp_path) == expected(k3="new", k30="x")


def test_files_without_statistics_are_merged_again(tmp_path: Path, race: Race) -> None:
    to = filled(tmp_path, delta__dataSkippingNumIndexedCols="0")
    assert race.upsert(to, 0, (3, "new", "+U"), others=[add(tmp_path, (100, "x")), add(tmp_path, (3, "x"))]) == 3
    assert stored(tmp_path) == sorted([*expected(k3="new"), (100, "x")], key=repr)


def test_rows_that_others_remove_are_not_there_again(tmp_path: Path, race: Race) -> None:
    to = filled(tmp_path)
    others = [lambda: deltalake.DeltaTable(tmp_path).delete("id = 4")]
    assert race.upsert(to, 0, (3, "new", "+U"), others=others) == 2
    assert stored(tmp_path) == expected(k3="new", k4=None)
    others = [lambda: deltalake.DeltaTable(tmp_path).delete("id = 15")]
    race.upsert(to, 1, (3, "again", "+U"), others=others)
    assert stored(tmp_path) == expected(k3="again", k4=None, k15=None)
    race.upsert(to, 2, (3, "last", "+U"), others=[lambda: deltalake.DeltaTable(tmp_path).delete()])
    assert stored(tmp_path) == [(3, "last")]


@pytest.mark.parametrize(("keys", "merges"), [(["p", "id"], 1), (["id"], 2)])
def test_partitions_that_others_overwrite(tmp_path: Path, race: Race, keys: list[str], merges: int) -> None:
    """A partition that cannot hold a key does not matter."""
    to = writer_of(table(tmp_path, "id BIGINT!; v STRING; p BIGINT!", keys=keys, partition_by="p"))
    upsert(to, 0, *((key, "old", key // 10, "+I") for key in range(30)))

    def overwrite() -> None:
        own = pa.table({"id": pa.array([13, 3], pa.int64()), "v": ["other"] * 2, "p": pa.array([1, 1], pa.int64())})
        deltalake.write_deltalake(tmp_path, own, mode="overwrite", predicate="p = 1")

    assert race.upsert(to, 1, (3, "new", 0, "+U"), others=[overwrite]) == merges
    others = {(13, "other", 1)} | ({(3, "other", 1)} if "p" in keys else set())
    assert {row for row in stored(tmp_path) if row[1] != "old"} == {(3, "new", 0), *others}
    assert len(stored(tmp_path)) == 20 + len(others)


def test_columns_may_be_added_meanwhile(tmp_path: Path, race: Race) -> None:
    to = filled(tmp_path)

    def evolve() -> None:
        more = pa.table({"id": pa.array([3, 40], pa.int64()), "v": ["x", "x"], "w": pa.array([7, 8], pa.int64())})
        deltalake.write_deltalake(tmp_path, more, mode="append", schema_mode="merge")

    assert race.upsert(to, 0, (3, "new", "+U"), others=[evolve]) == 2
    assert [row for row in stored(tmp_path) if row[1] != "old"] == [(3, "new", None), (40, "x", 8)]
    assert len(stored(tmp_path)) == 21


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 20))])
def test_no_row_is_lost_or_doubled(tmp_path: Path, race: Race, seed: int) -> None:
    chance = random.Random(seed)
    to = writer_of(table(tmp_path, keys=["id"]))
    truth: dict[int, list[str]] = {}

    def appended() -> None:
        own = [(chance.randrange(40), f"x{chance.randrange(100)}") for _ in range(chance.randrange(1, 5))]
        add(tmp_path, *own)()
        for key, value in own:
            truth.setdefault(key, []).append(value)

    def removed() -> None:
        key = chance.randrange(40)
        deltalake.DeltaTable(tmp_path).delete(f"id >= {key} and id < {key + 3}")
        for one in range(key, key + 3):
            truth.pop(one, None)

    def compacted() -> None:
        deltalake.DeltaTable(tmp_path).optimize.compact()

    for number in range(4):
        others = [chance.choice([appended, appended, appended, removed, compacted]) for _ in range(chance.randrange(4))]
        own = {chance.randrange(40): chance.choice(["+U", "+U", "+I", "-D"]) for _ in range(chance.randrange(1, 8))}
        race.upsert(to, number, *((key, f"n{number}", kind) for key, kind in own.items()), others=others)
        for key, kind in own.items():
            truth.pop(key, None)
            if kind != "-D":
                truth[key] = [f"n{number}"]
        assert stored(tmp_path) == sorted(((key, v) for key, values in truth.items() for v in values), key=repr)
