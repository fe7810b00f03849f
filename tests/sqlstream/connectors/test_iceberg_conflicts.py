"""Commits of other writers between what a micro-batch reads of an Iceberg table and its commit; without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes import iceberg_merge
from sqlstream.connectors.on_spark.iceberg_sink import IcebergWriter
from sqlstream.errors import ConnectorError
from tests.depth import usually
from tests.sqlstream.connectors.lakes import Race, SharedTable, batches_of, expected, materialized
from tests.sqlstream.connectors.test_iceberg import (
    append,
    catalog,
    declared,
    rows,
    settings,
    stored,
    table_of,
    upsert,
    writer_of,
)

pyiceberg: Any = pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")

__all__ = ["catalog"]  # a fixture


class IcebergRace(Race):
    """Others commit before each commit of ours. ``read``: the data files that we read, in order and each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch, pyiceberg.table.Table, "_do_commit")
        self.read: list[str] = []
        scan = iceberg_merge.rows_of

        def scanned(table: Any, file: Any, *arguments: Any) -> pa.Table:
            if not self.is_other:
                self.read.append(file.file_path)
            return scan(table, file, *arguments)

        monkeypatch.setattr(iceberg_merge, "rows_of", scanned)

    def begin(self, *others: Callable[[], Any]) -> None:
        super().begin(*others)
        self.read = []

    def upsert(self, to: IcebergWriter, number: int, *values: tuple[Any, ...], others: list[Any]) -> set[str]:
        """Upserts while others commit, and returns the files that were read; none is read again after a conflict."""
        self.begin(*others)
        upsert(to, number, *values)
        assert self.calls == len(others) + 1
        assert all(self.read.count(path) <= 2 for path in self.read)  # its keys, then all columns
        return {*self.read}


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> IcebergRace:
    return IcebergRace(monkeypatch)


def filled(catalog: dict[str, str], **options: str) -> IcebergWriter:
    """A table of two files, with the keys 0 to 9 and 10 to 19."""
    first = writer_of(declared(catalog, **options), "first")
    for number in (0, 1):
        append(first, number, *((key, "old") for key in range(number * 10, number * 10 + 10)))
    return writer_of(declared(catalog, keys=["id"], **options))


def files(catalog: dict[str, str]) -> list[str]:
    return [task.file.file_path for task in table_of(catalog).scan().plan_files()]


# --- what is computed again -----------------------------------------------------------------------------------


def test_nothing_is_merged_again_where_others_add_other_keys(catalog: dict[str, str], race: IcebergRace) -> None:
    to = filled(catalog)
    others = [lambda: table_of(catalog).append(rows((100, "x"), (200, "y")))] * 3
    read = race.upsert(to, 0, (3, "new", "+U"), (13, "old", "-D"), (50, "new", "+I"), others=others)
    assert len(read) == 2
    assert len(race.read) == 4
    found = stored(catalog)
    assert [row for row in found if row[0] < 100] == [r for r in expected(k3="new", k13=None, k50="new") if r[0] < 100]
    assert [row for row in found if row[0] >= 100] == [(100, "x")] * 3 + [(200, "y")] * 3


def test_rows_that_others_add_with_the_same_keys_are_replaced(catalog: dict[str, str], race: IcebergRace) -> None:
    """After each conflict only the file is read that is new."""
    to = filled(catalog)
    others = [
        lambda: table_of(catalog).append(rows((3, "x"), (30, "x"))),
        lambda: table_of(catalog).append(rows((3, "y"), (31, "y"))),
        lambda: table_of(catalog).append(rows((3, "z"))),
    ]
    read = race.upsert(to, 0, (3, "new", "+U"), others=others)
    assert len(read) == 3  # that of the key 3 alone is removed unread
    assert stored(catalog) == expected(k3="new", k30="x", k31="y")


def test_files_without_statistics_are_read_but_not_written_again(catalog: dict[str, str], race: IcebergRace) -> None:
    to = filled(catalog, **{"table__write.metadata.metrics.default": "none"})
    kept: list[str] = []

    def other() -> None:
        before = {*files(catalog)}
        table_of(catalog).append(rows((100, "x")))
        kept.extend({*files(catalog)} - before)

    read = race.upsert(to, 0, (3, "new", "+U"), others=[other, other])
    assert len(read) == 4
    assert {*kept} < {*read}
    assert {*kept} < {*files(catalog)}
    assert stored(catalog) == sorted([*expected(k3="new"), (100, "x"), (100, "x")], key=repr)


def test_what_was_written_for_files_that_others_replace_is_left_out(catalog: dict[str, str], race: IcebergRace) -> None:
    to = filled(catalog)
    others = [lambda: table_of(catalog).delete("id = 4"), lambda: table_of(catalog).delete("id = 15")]
    race.upsert(to, 0, (3, "new", "+U"), others=others)
    assert stored(catalog) == expected(k3="new", k4=None, k15=None)


def test_rows_that_others_remove_are_not_there_again(catalog: dict[str, str], race: IcebergRace) -> None:
    to = filled(catalog)
    race.upsert(to, 0, (3, "new", "+U"), others=[lambda: table_of(catalog).delete("id < 10")])
    assert stored(catalog) == [row for row in expected(k3="new") if row[0] >= 10 or row[0] == 3]
    race.upsert(to, 1, (13, "new", "+U"), others=[lambda: table_of(catalog).delete()])
    assert stored(catalog) == [(13, "new")]


def test_partitions_that_others_overwrite_are_merged_as_they_are_then(
    catalog: dict[str, str], race: IcebergRace
) -> None:
    columns = "id BIGINT; v STRING; p DATE"
    days = [date(2024, 1, number) for number in (1, 2, 3)]
    to = writer_of(declared(catalog, columns, keys=["id"], partition_by="p"))
    upsert(to, 0, *((key, "old", days[key // 10], "+I") for key in range(30)))

    def overwrite(day: date, *keys: int) -> Any:
        own = [{"id": key, "v": "other", "p": day} for key in keys]
        return lambda: table_of(catalog).dynamic_partition_overwrite(pa.Table.from_pylist(own))

    others = [overwrite(days[0], 3, 5), overwrite(days[2], 3, 25), overwrite(days[1], 11, 12)]
    race.upsert(to, 1, (3, "new", days[1], "+U"), (12, "new", days[1], "+U"), others=others)
    assert stored(catalog) == [
        (11, "other", days[1]), (12, "new", days[1]), (25, "other", days[2]), (3, "new", days[1]),
        (5, "other", days[0]),
    ]  # fmt: skip


def test_partitions_without_keys_are_not_read(catalog: dict[str, str], race: IcebergRace) -> None:
    to = writer_of(declared(catalog, "id BIGINT; v STRING; p BIGINT", keys=["p", "id"], partition_by="p"))
    upsert(to, 0, *((key, "old", key // 10, "+I") for key in range(30)))
    own = pa.Table.from_pylist([{"id": 13, "v": "other", "p": 1}])
    read = race.upsert(to, 1, (3, "new", 0, "+U"), others=[lambda: table_of(catalog).dynamic_partition_overwrite(own)])
    assert len(read) == 1
    assert [row for row in stored(catalog) if row[1] != "old"] == [(13, "other", 1), (3, "new", 0)]
    assert len(stored(catalog)) == 21


def test_columns_and_partitions_may_change_meanwhile(catalog: dict[str, str], race: IcebergRace) -> None:
    to = filled(catalog)

    def add_column() -> None:
        with table_of(catalog).update_schema() as update:
            update.add_column("w", pyiceberg.types.LongType())
        more = pa.table({"id": pa.array([3, 40], pa.int64()), "v": ["x", "x"], "w": pa.array([7, 8], pa.int64())})
        table_of(catalog).append(more)

    def add_partition() -> None:
        with table_of(catalog).update_spec() as update:
            update.add_identity("v")
        more = pa.table({"id": pa.array([3], pa.int64()), "v": ["y"], "w": pa.array([9], pa.int64())})
        table_of(catalog).append(more)

    race.begin(add_column, add_partition)
    upsert(to, 0, (3, "new", "+U"))
    assert race.calls == 3
    assert stored(catalog) == sorted([*((*row, None) for row in expected(k3="new")), (40, "x", 8)], key=repr)
    assert {task.file.spec_id for task in table_of(catalog).scan().plan_files()} == {0, 1}
    upsert(to, 1, (3, "again", "+U"), (12, None, "-D"))
    assert [row for row in stored(catalog) if row[0] in (3, 12)] == [(3, "again", None)]


def test_appended_files_keep_the_partitions_that_they_were_written_for(catalog: dict[str, str]) -> None:
    to = writer_of(declared(catalog))
    append(to, 0, (1, "a"))
    made = to.files(to.opened()).rows(iter([pa.record_batch({"id": pa.array([2, 3], pa.int64()), "v": ["a", "b"]})]))
    texts = [text for batch in made for text in batch["file"].to_pylist()]
    with table_of(catalog).update_spec() as update:
        update.add_identity("v")
    to.append(texts, 1)
    append(to, 2, (4, "a"), (5, "b"))
    assert stored(catalog) == [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "b")]
    assert len(table_of(catalog).scan("v = 'a'").to_arrow()) == 3


def test_appends_are_repeated_as_they_are(catalog: dict[str, str], race: IcebergRace) -> None:
    to = writer_of(declared(catalog))
    race.begin(*[lambda: table_of(catalog).append(rows((9, "x")))] * 2)
    append(to, 0, (1, "a"))
    assert (race.calls, race.read) == (3, [])
    assert stored(catalog) == [(1, "a"), (9, "x"), (9, "x")]


def test_a_job_of_the_same_checkpoint_may_be_first(catalog: dict[str, str], race: IcebergRace) -> None:
    one, two = filled(catalog), writer_of(declared(catalog, keys=["id"]))
    race.begin(lambda: upsert(two, 0, (3, "new", "+U")))
    upsert(one, 0, (3, "new", "+U"))
    assert stored(catalog) == expected(k3="new")
    assert race.calls == 1


def test_a_job_that_was_replaced_counts_no_more(catalog: dict[str, str], race: IcebergRace) -> None:
    """Its last micro-batch, too, which changes no row, would let its successor repeat the one after it."""
    one, two = filled(catalog), writer_of(declared(catalog, keys=["id"]))

    def successor() -> None:
        upsert(two, 0, (77, None, "-D"))
        upsert(two, 1, (3, "new", "+U"))

    race.begin(successor)
    upsert(one, 0, (77, None, "-D"))
    assert one.is_committed(one.opened(), 1)


def test_all_rows_are_removed_while_others_add_some(catalog: dict[str, str], race: IcebergRace, tmp_path: Path) -> None:
    filled(catalog)
    race.begin(*[lambda: table_of(catalog).append(rows((9, "x")))] * 2)
    iceberg: Any = connector("iceberg")
    iceberg.truncate(tmp_path, declared(catalog))
    assert (race.calls, stored(catalog)) == (3, [])
    iceberg.truncate(tmp_path, declared(catalog))
    assert len(table_of(catalog).snapshots()) == 5


# --- what a commit leaves -------------------------------------------------------------------------------------


def test_an_upsert_is_one_snapshot(catalog: dict[str, str]) -> None:
    """Also for readers of changes, who never see a key without a row."""
    to = filled(catalog)
    upsert(to, 0, (100, "new", "+I"))
    upsert(to, 1, (3, "new", "+U"), (4, "old", "-D"), (101, "new", "+I"))
    upsert(to, 2, *((key, None, "-D") for key in range(10, 20)))
    upsert(to, 3, (77, None, "-D"))
    snapshots = table_of(catalog).snapshots()
    operations = [snapshot.summary.operation.value for snapshot in snapshots]
    assert operations == ["append", "append", "append", "overwrite", "delete", "append"]  # the last one of no file
    totals = [snapshot.summary.additional_properties["total-records"] for snapshot in snapshots]
    assert totals == ["10", "20", "21", "21", "11", "11"]
    assert [s.summary.additional_properties["sqlstream.epoch"] for s in snapshots[2:]] == ["0", "1", "2", "3"]
    assert to.is_committed(to.opened(), 3)
    changes = batches_of(settings(catalog, bounded=False, start="earliest", changes=True))
    assert sorted(materialized(changes), key=repr) == stored(catalog)


@pytest.mark.parametrize("partition_by", ["", "bucket(2, id)"])
def test_many_small_manifests_become_one(catalog: dict[str, str], race: IcebergRace, partition_by: str) -> None:
    """Else each commit would take longer than the one before it. Readers of changes see nothing of it."""
    options = {"partition_by": partition_by} if partition_by else {}
    to = writer_of(declared(catalog, **{"table__commit.manifest.min-count-to-merge": "4"}, **options))
    for number in range(11):
        race.begin(*[lambda: table_of(catalog).append(rows((100, "x")))] * (number == 5))
        append(to, number, (number, "a"))
    table = table_of(catalog)
    assert len(table.current_snapshot().manifests(table.io)) <= 4
    whole = [*((number, "a") for number in range(11)), (100, "x")]
    assert stored(catalog) == sorted(whole, key=repr)
    upsert(writer_of(declared(catalog, keys=["id"]), "other"), 0, (3, "b", "+U"), (100, "y", "+U"))
    assert stored(catalog) == sorted(
        [row for row in whole if row[0] not in (3, 100)] + [(3, "b"), (100, "y")], key=repr
    )
    changes = batches_of(settings(catalog, bounded=False, start="earliest", changes=True))
    assert sorted(materialized(changes), key=repr) == stored(catalog)
    assert [row for batch in changes for row in batch][:6] == [*((*row, "+I") for row in whole[:5]), (100, "x", "+I")]


def test_manifests_are_left_as_they_are_where_the_table_says_so(catalog: dict[str, str]) -> None:
    options = {"table__commit.manifest.min-count-to-merge": "2", "table__commit.manifest-merge.enabled": "false"}
    to = writer_of(declared(catalog, **options))
    for number in range(4):
        append(to, number, (number, "a"))
    table = table_of(catalog)
    assert len(table.current_snapshot().manifests(table.io)) == 4


def test_a_commit_that_fails_leaves_no_metadata(catalog: dict[str, str], race: IcebergRace, tmp_path: Path) -> None:
    to = filled(catalog)
    before = {*tmp_path.rglob("*.avro")}
    race.begin(*[lambda: table_of(catalog).append(rows((100, "x")))] * 3)
    upsert(to, 0, (3, "new", "+U"))
    made = {*tmp_path.rglob("*.avro")} - before
    lists = {s.manifest_list.removeprefix("file://") for s in table_of(catalog).snapshots()}
    assert {str(path) for path in made if path.name.startswith("snap-")} <= lists
    assert len(made) == 3 * 2 + 3  # of each append, and a list, new files and removed ones of the upsert


def test_a_commit_waits_for_a_gap_only_as_long_as_it_may(catalog: dict[str, str], race: IcebergRace) -> None:
    to = filled(catalog, **{"sink__commit-timeout": "1 ms"})
    race.begin(*[lambda: table_of(catalog).append(rows((100, "x")))] * 1000)
    with pytest.raises(ConnectorError, match='SS550: rows are not committed to Iceberg table "t" after'):
        upsert(to, 0, (3, "new", "+U"))


def test_many_keys_of_several_columns_are_compared_by_column(catalog: dict[str, str], race: IcebergRace) -> None:
    columns = "a BIGINT; b STRING; v STRING"
    first = writer_of(declared(catalog, columns), "first")
    for number in range(4):
        append(first, number, *((number * 1000 + n, f"b{n % 7}", "old") for n in range(500)))
    to = writer_of(declared(catalog, columns, keys=["a", "b"]))
    keys = [(1000 + n, f"b{n % 5}") for n in range(300)]
    read = race.upsert(to, 0, *((*key, "new", "+U") for key in keys), others=[])
    assert len(read) == 1
    old = {(number * 1000 + n, f"b{n % 7}") for number in range(4) for n in range(500)}
    assert {row[:2] for row in stored(catalog) if row[2] == "old"} == old - {*keys}
    assert len(stored(catalog)) == len(old | {*keys})


def test_nan_is_a_key(catalog: dict[str, str]) -> None:
    nan = float("nan")
    to = writer_of(declared(catalog, "id DOUBLE; v STRING", keys=["id"]))
    for number, value in enumerate("abc"):
        upsert(to, number, (nan, value, "+U"), (None, value, "+U"), (1.5, value, "+U"))
    assert sorted(map(repr, stored(catalog))) == ["(1.5, 'c')", "(None, 'c')", "(nan, 'c')"]


# --- against rows that are known ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("seed", usually(range(20), 0, 1))
@pytest.mark.parametrize("partition_by", ["", "bucket(3, id)"])
def test_no_row_is_lost_or_doubled(catalog: dict[str, str], race: IcebergRace, seed: int, partition_by: str) -> None:
    """Other writers append, delete and overwrite between attempts."""
    options = {"partition_by": partition_by} if partition_by else {}
    to = writer_of(declared(catalog, keys=["id"], **options))
    shared = SharedTable(
        seed,
        lambda own: table_of(catalog).append(rows(*own)),
        lambda condition: table_of(catalog).delete(condition),
        lambda: table_of(catalog).overwrite(table_of(catalog).scan().to_arrow()),
    )
    for number in range(4):
        others, changes = shared.others(), shared.changes(number)
        race.begin(*others)
        upsert(to, number, *changes)
        shared.upserted(changes)
        assert stored(catalog) == shared.rows


@contextmanager
def another_writer(catalog: dict[str, str], pause_s: float) -> Iterator[list[tuple[int, str]]]:
    """Appends a row with a key of its own, and one with a key of ours, again and again. Returns the former."""
    own: list[tuple[int, str]] = []
    stopped = Event()

    def write() -> None:
        while not stopped.is_set():
            row = (1000 + len(own), "other")
            with suppress(pyiceberg.exceptions.CommitFailedException):
                table_of(catalog).append(rows(row, (len(own) % 20, "other")))
                own.append(row)
            stopped.wait(pause_s)

    thread = Thread(target=write)
    thread.start()
    try:
        yield own
    finally:
        stopped.set()
        thread.join()


def test_a_merge_that_takes_longer_than_the_pauses_of_others_is_committed(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a file of ours takes longer than the other writer needs for several commits."""
    to = filled(catalog)
    slow = {*files(catalog)}
    scan = iceberg_merge.rows_of

    def scanned(table: Any, file: Any, *arguments: Any) -> pa.Table:
        if file.file_path in slow:
            time.sleep(0.4)
        return scan(table, file, *arguments)

    monkeypatch.setattr(iceberg_merge, "rows_of", scanned)
    with another_writer(catalog, 0.15) as own:
        upsert(to, 0, *((key, "new", "+U") for key in range(5, 15)))
        committed = len(own)
    assert committed >= 4
    found = stored(catalog)
    assert [row for row in found if row[0] >= 1000] == own
    assert {(key, v) for key, v in found if 5 <= key < 15 and v != "other"} == {(key, "new") for key in range(5, 15)}
    upsert(to, 1, *((key, "last", "+U") for key in range(20)))
    assert [row for row in stored(catalog) if row[0] < 1000] == sorted(((k, "last") for k in range(20)), key=repr)
