"""Commits of other writers between what an upsert reads of a Delta table and its commit; without Spark.

The library compares the files that others have added or removed with the keys of the merge, and commits it as it is
where they cannot hold one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.on_spark.delta_sink import DeltaWriter
from tests.depth import usually
from tests.sqlstream.connectors.lakes import Race, SharedTable, expected
from tests.sqlstream.connectors.test_delta_sink import append, stored, table, upsert, writer_of

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")


class DeltaRace(Race):
    """Others commit before each merge of ours, behind the version that it reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch, deltalake.DeltaTable, "merge")

    def upsert(self, to: DeltaWriter, number: int, *values: tuple[Any, ...], others: list[Any]) -> int:
        """Upserts while others commit, and returns how many merges that took."""
        self.begin(*others)
        upsert(to, number, *values)
        return self.calls


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> DeltaRace:
    return DeltaRace(monkeypatch)


def filled(path: Path, kind: str = "BIGINT", **options: str) -> DeltaWriter:
    """A table of two files, with the keys 0 to 9 and 10 to 19."""
    first = writer_of(table(path, f"id {kind}; v STRING", **options), "first")
    for number in (0, 1):
        append(first, number, *((key, "old") for key in range(number * 10, number * 10 + 10)))
    return writer_of(table(path, f"id {kind}; v STRING", keys=["id"], **options))


def add(path: Path, *pairs: tuple[int, str], **more: Any) -> Callable[[], None]:
    ids, values = zip(*pairs, strict=True)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.string())})
    return lambda: deltalake.write_deltalake(path, rows, mode="append", **more)


def test_nothing_is_merged_again_where_others_add_other_keys(tmp_path: Path, race: DeltaRace) -> None:
    to = filled(tmp_path)
    merges = race.upsert(to, 0, (3, "new", "+U"), (13, None, "-D"), others=[add(tmp_path, (100, "x"), (200, "y"))])
    assert merges == 1
    assert stored(tmp_path) == sorted([*expected(k3="new", k13=None), (100, "x"), (200, "y")], key=repr)


def test_rows_that_others_add_with_the_same_keys_are_replaced(tmp_path: Path, race: DeltaRace) -> None:
    to = filled(tmp_path)
    others = [add(tmp_path, (3, "x"), (30, "x")), add(tmp_path, (3, "y"))]
    assert race.upsert(to, 0, (3, "new", "+U"), others=others) == 3
    assert stored(tmp_path) == expected(k3="new", k30="x")


def test_keys_that_two_add_to_an_empty_table_are_there_once(tmp_path: Path, race: DeltaRace) -> None:
    """Neither merge finds a row of theirs to replace."""
    to = writer_of(table(tmp_path, keys=["id"]))
    other = writer_of(table(tmp_path, keys=["id"]), "other")
    others = [lambda: upsert(other, 0, (1, "x", "+I"), (2, "x", "+I"))]
    assert race.upsert(to, 0, (1, "new", "+I"), (3, "new", "+I"), others=others) == 2
    assert stored(tmp_path) == [(1, "new"), (2, "x"), (3, "new")]


def test_files_without_statistics_are_merged_again(tmp_path: Path, race: DeltaRace) -> None:
    to = filled(tmp_path, delta__dataSkippingNumIndexedCols="0")
    assert race.upsert(to, 0, (3, "new", "+U"), others=[add(tmp_path, (100, "x")), add(tmp_path, (3, "x"))]) == 3
    assert stored(tmp_path) == sorted([*expected(k3="new"), (100, "x")], key=repr)


def test_rows_that_others_remove_are_not_there_again(tmp_path: Path, race: DeltaRace) -> None:
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
def test_partitions_that_others_overwrite(tmp_path: Path, race: DeltaRace, keys: list[str], merges: int) -> None:
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


def test_columns_may_be_added_meanwhile(tmp_path: Path, race: DeltaRace) -> None:
    to = filled(tmp_path)

    def evolve() -> None:
        more = pa.table({"id": pa.array([3, 40], pa.int64()), "v": ["x", "x"], "w": pa.array([7, 8], pa.int64())})
        deltalake.write_deltalake(tmp_path, more, mode="append", schema_mode="merge")

    assert race.upsert(to, 0, (3, "new", "+U"), others=[evolve]) == 2
    assert [row for row in stored(tmp_path) if row[1] != "old"] == [(3, "new", None), (40, "x", 8)]
    assert len(stored(tmp_path)) == 21


@pytest.mark.parametrize("seed", usually(range(20), 0, 1, 2))
def test_no_row_is_lost_or_doubled(tmp_path: Path, race: DeltaRace, seed: int) -> None:
    """Other writers append, delete and put together between attempts."""
    to = writer_of(table(tmp_path, keys=["id"]))
    shared = SharedTable(
        seed,
        lambda rows: add(tmp_path, *rows)(),
        lambda condition: deltalake.DeltaTable(tmp_path).delete(condition),
        lambda: deltalake.DeltaTable(tmp_path).optimize.compact(),
    )
    for number in range(4):
        others, changes = shared.others(), shared.changes(number)
        race.upsert(to, number, *changes, others=others)
        shared.upserted(changes)
        assert stored(tmp_path) == shared.rows


def test_all_rows_are_removed_while_others_change_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others add is not removed where it need not be, as with INSERT OVERWRITE of two jobs."""
    filled(tmp_path)
    race = Race(monkeypatch, deltalake.DeltaTable, "delete")
    race.begin(lambda: deltalake.DeltaTable(tmp_path).delete("id = 3"))
    delta: Any = connector("delta")
    delta.truncate(tmp_path, table(tmp_path))
    assert (race.calls, stored(tmp_path)) == (2, [])
