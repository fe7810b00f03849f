"""What is read of Delta tables, in which versions and in how many micro-batches; without Spark."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.lakes.delta_log import DeltaLog
from sqlstream.connectors.lakes.versions import LakeSettings, Position, advanced, between
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.udfs.lookup.source import Comparison
from tests.sqlstream.connectors.delta_tables import (
    added,
    commit,
    deletion_vector,
    field,
    metadata,
    protocol,
    removed,
)
from tests.sqlstream.connectors.lakes import batches_of, materialized, rows_of, together

deltalake = pytest.importorskip("deltalake", reason="the package deltalake is not installed")

COLUMNS = (("id", "BIGINT"), ("v", "STRING"))


def settings(path: Path, *columns: tuple[str, str], **more: Any) -> LakeSettings:
    return LakeSettings("delta", "t", str(path), columns=columns or COLUMNS, **more)


def write(path: Path, *rows: tuple[Any, ...], mode: Any = "append", **more: Any) -> None:
    ids, values = zip(*rows, strict=True)
    table = pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.string())})
    deltalake.write_deltalake(path, table, mode=mode, **more)


def merge(path: Path, *rows: tuple[Any, ...]) -> None:
    ids, values = zip(*rows, strict=True)
    source = pa.table({"id": pa.array(ids, pa.int64()), "v": values})
    merging = deltalake.DeltaTable(path).merge(source, "t.id = s.id", "s", "t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def test_finished_data_is_one_version(tmp_path: Path) -> None:
    write(tmp_path, (1, "a"))
    write(tmp_path, (2, "b"))
    write(tmp_path, (3, "c"), mode="overwrite")
    assert batches_of(settings(tmp_path)) == [[(3, "c")]]
    assert batches_of(settings(tmp_path, as_of=1)) == [[(1, "a"), (2, "b")]]
    assert batches_of(settings(tmp_path, as_of=0)) == [[(1, "a")]]


def test_a_stream_goes_on_with_what_versions_add(tmp_path: Path) -> None:
    write(tmp_path, (1, "a"))
    write(tmp_path, (2, "b"))
    own = settings(tmp_path, bounded=False)
    log = DeltaLog(own)
    start = log.first_position()
    first = advanced(log, own, start)
    assert rows_of(own, between(log, start, first)) == [(1, "a"), (2, "b")]
    assert advanced(log, own, first) == first
    write(tmp_path, (3, "c"))
    write(tmp_path, (4, "d"))
    log.newest()
    second = advanced(log, own, first)
    assert rows_of(own, between(log, first, second)) == [(3, "c"), (4, "d")]
    assert second == Position(3, None)


@pytest.mark.parametrize(
    ("start", "at", "expected"),
    [
        ("latest", None, []),
        ("earliest", None, [[(1, "a"), (2, "b"), (3, "c")]]),
        ("version", "1", [[(2, "b"), (3, "c")]]),
    ],
)
def test_a_stream_begins_where_it_should(tmp_path: Path, start: str, at: str | None, expected: Any) -> None:
    for row in ((1, "a"), (2, "b"), (3, "c")):
        write(tmp_path, row)
    assert batches_of(settings(tmp_path, bounded=False, start=start, start_at=at)) == expected


def test_a_stream_may_begin_with_the_next_version(tmp_path: Path) -> None:
    write(tmp_path, (1, "a"))
    own = settings(tmp_path, bounded=False, start="version", start_at="1")
    assert batches_of(own) == []
    write(tmp_path, (2, "b"))
    assert batches_of(own) == [[(2, "b")]]
    with pytest.raises(ConnectorError, match="has no version 9: the newest one is 1"):
        batches_of(settings(tmp_path, bounded=False, start="version", start_at="9"))


def test_times_are_those_of_commits_to_the_microsecond(tmp_path: Path) -> None:
    base = datetime(2024, 1, 31, 12, tzinfo=UTC)
    for number in range(3):
        write(tmp_path, (number, "x"))
        nanoseconds = int(base.timestamp()) * 10**9 + number * 500_000
        os.utime(tmp_path / f"_delta_log/{number:020d}.json", ns=(nanoseconds, nanoseconds))

    def version(microseconds: int) -> int:
        time = (base + timedelta(microseconds=microseconds)).isoformat()
        return DeltaLog(settings(tmp_path, as_of=time)).first_position().version

    assert [version(m) for m in (0, 499, 500, 999, 1000, 10**9)] == [0, 0, 1, 1, 2, 2]
    with pytest.raises(ConnectorError, match=r"has no version of .*: its log begins at 2024-01-31T12:00:00\+00:00"):
        version(-1)
    behind = (base + timedelta(microseconds=1)).isoformat()
    after = settings(tmp_path, bounded=False, start="timestamp", start_at=behind)
    assert [[row[0] for row in batch] for batch in batches_of(after)] == [[1, 2]]


def test_micro_batches_are_bounded(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, (number, "x"))
    by_files = batches_of(settings(tmp_path, bounded=False, most_files=2))
    assert [[row[0] for row in batch] for batch in by_files] == [[0, 1], [2, 3], [4]]
    by_bytes = batches_of(settings(tmp_path, bounded=False, start="earliest", most_bytes=1))
    assert [[row[0] for row in batch] for batch in by_bytes] == [[0], [1], [2], [3], [4]]


def test_compaction_gives_no_rows(tmp_path: Path) -> None:
    write(tmp_path, (1, "a"))
    write(tmp_path, (2, "b"))
    deltalake.DeltaTable(tmp_path).optimize.compact()
    write(tmp_path, (3, "c"))
    own = settings(tmp_path, bounded=False, start="version", start_at="1")
    assert together(batches_of(own)) == [(2, "b"), (3, "c")]


def test_rewritten_rows_fail_or_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, (1, "a"), (2, "b"))
    deltalake.DeltaTable(tmp_path).delete("id = 1")
    write(tmp_path, (3, "c"))
    own = settings(tmp_path, bounded=False, start="earliest")
    with pytest.raises(ConnectorError) as raised:
        batches_of(own)
    assert raised.value.diagnostics[0].render() == (
        'SS548: version 1 of Delta table "t" changes or removes rows (DELETE)\n'
        "HINT: Declare 'changelog-mode' = 'I,UB,UA,D' to read changes, or leave such versions out: "
        "'source.rewritten-rows' = 'skip'."
    )
    skipping = settings(tmp_path, bounded=False, start="earliest", skips_rewrites=True)
    assert together(batches_of(skipping)) == [(1, "a"), (2, "b"), (3, "c")]


def test_an_expired_log_is_an_error_with_a_hint(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, (number, "x"))
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log/00000000000000000001.json").unlink()
    own = settings(tmp_path, bounded=False)
    with pytest.raises(ConnectorError, match="does not have its version 1 any more"):
        batches_of(own, Position(0, None))
    assert together(batches_of(own)) == [(0, "x"), (1, "x"), (2, "x")]


def test_a_table_that_was_made_again_is_noticed(tmp_path: Path) -> None:
    """Else a stream would wait until it has as many versions as the one before it."""
    for number in range(3):
        write(tmp_path / "t", (number, "x"))
    own = settings(tmp_path / "t", bounded=False)
    (tmp_path / "t").rename(tmp_path / "old")
    write(tmp_path / "t", (7, "y"))
    with pytest.raises(ConnectorError, match='SS549: Delta table "t" has no version 2 any more: it was made again'):
        batches_of(own, Position(2, None))


# --- changes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feed", ["true", "false"])
def test_changes_lead_to_the_table(tmp_path: Path, feed: str) -> None:
    """With the change feed, and without it by the files that versions remove and add."""
    write(tmp_path, *((n, "x") for n in range(10)), configuration={"delta.enableChangeDataFeed": feed})
    deltalake.DeltaTable(tmp_path).delete("id = 3")
    merge(tmp_path, (1, "a"), (50, "b"))
    write(tmp_path, (60, "c"))
    deltalake.DeltaTable(tmp_path).optimize.compact()
    deltalake.DeltaTable(tmp_path).update(updates={"v": "'z'"}, predicate="id > 40")
    own = settings(tmp_path, bounded=False, start="earliest", changes=True)
    batches = batches_of(own)
    now = {tuple(row.values()) for row in deltalake.DeltaTable(tmp_path).to_pyarrow_table().to_pylist()}
    assert materialized(batches) == now == {(n, "x") for n in (0, 2, 4, 5, 6, 7, 8, 9)} | {
        (1, "a"), (50, "z"), (60, "z")}  # fmt: skip
    if feed == "true":
        kinds = [row[-1] for batch in batches for row in batch]
        assert sorted(set(kinds)) == ["+I", "+U", "-D", "-U"]
        assert kinds.count("-D") == 1
    whole = settings(tmp_path, bounded=False, changes=True)
    assert materialized(batches_of(whole)) == now


def test_changes_of_a_version_are_read_together(tmp_path: Path) -> None:
    write(tmp_path, (1, "a"), (2, "b"), configuration={"delta.enableChangeDataFeed": "true"})
    merge(tmp_path, (1, "c"), (2, "d"))
    own = settings(tmp_path, bounded=False, start="earliest", changes=True, most_files=1)
    assert batches_of(own) == [
        [(1, "a", "+I"), (2, "b", "+I")],
        [(1, "a", "-U"), (2, "b", "-U"), (1, "c", "+U"), (2, "d", "+U")],
    ]


# --- what the protocol asks of readers ------------------------------------------------------------------------


def numbers(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def with_vectors(folder: Path) -> None:
    """Ten rows, of which version 1 deletes two and version 2 one more."""
    folder.mkdir()
    add = added(folder, "a b.parquet".replace(" ", "%20"), numbers(*range(10)))
    commit(folder, 0, protocol("deletionVectors"), metadata([field("id", "long")]), add)
    once = {"add": {**add["add"], "deletionVector": deletion_vector([2, 5])}}
    twice = {"add": {**add["add"], "deletionVector": deletion_vector([2, 5, 9])}}
    commit(folder, 1, removed(add), once, operation="DELETE")
    commit(folder, 2, removed(once), twice, operation="DELETE")


def test_deletion_vectors_are_applied(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    with_vectors(folder)
    (folder / "a%20b.parquet").rename(folder / "a b.parquet")
    own = settings(folder, ("id", "BIGINT"))
    assert batches_of(own) == [[(n,) for n in (0, 1, 3, 4, 6, 7, 8)]]
    assert batches_of(settings(folder, ("id", "BIGINT"), as_of=1)) == [[(n,) for n in (0, 1, 3, 4, 6, 7, 8, 9)]]


def test_changes_by_deletion_vectors_are_the_rows_that_they_add(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    with_vectors(folder)
    (folder / "a%20b.parquet").rename(folder / "a b.parquet")
    own = settings(folder, ("id", "BIGINT"), bounded=False, start="earliest", changes=True)
    assert together(batches_of(own)) == [*((n, "+I") for n in range(10)), (2, "-D"), (5, "-D"), (9, "-D")]


def test_mapped_columns_have_their_names_of_now(tmp_path: Path) -> None:
    """Also in versions that were written before a column was renamed."""
    rows = pa.table({"col-1": pa.array([1, 2], pa.int64()), "col-3": ["a", "b"]})
    add = added(tmp_path, "a.parquet", rows, partitionValues={"col-2": "2024-01-31"})
    mapped = {"delta_columnMapping_mode": "name", "delta_columnMapping_maxColumnId": "3"}
    fields = [field("id", "long", "col-1", 1), field("day", "date", "col-2", 2), field("v", "string", "col-3", 3)]
    commit(tmp_path, 0, protocol(reader=2, writer=5), metadata(fields, ("day",), **mapped), add)
    fields[2]["name"] = "renamed"
    commit(tmp_path, 1, metadata(fields, ("day",), **mapped))
    columns = (("id", "BIGINT"), ("day", "DATE"), ("renamed", "STRING"))
    expected = [(1, date(2024, 1, 31), "a"), (2, date(2024, 1, 31), "b")]
    assert batches_of(settings(tmp_path, *columns)) == [expected]
    assert together(batches_of(settings(tmp_path, *columns, bounded=False, start="earliest"))) == expected
    with pytest.raises(SqlStreamError, match='column "v" of table "t" does not exist in the Delta table'):
        DeltaLog(settings(tmp_path, ("v", "STRING")))


def test_columns_are_found_by_their_ids_where_the_table_says_so(tmp_path: Path) -> None:
    """As in tables that were converted of Iceberg's, whose files have other names; a file without ids has the names."""

    def rows(names: list[str], *, ids: bool) -> pa.Table:
        fields = zip(names, (pa.int64(), pa.string()), (1, 3), strict=True)
        schema = pa.schema([
            pa.field(name, kind, metadata={"PARQUET:field_id": str(number)} if ids else None)
            for name, kind, number in fields
        ])  # fmt: skip
        return pa.table([[1, 2], ["a", "b"]], schema=schema)

    files = [
        added(tmp_path, "a.parquet", rows(["v", "id"], ids=True)),
        added(tmp_path, "b.parquet", rows(["col-1", "col-3"], ids=False)),
    ]
    mapped = {"delta_columnMapping_mode": "id", "delta_columnMapping_maxColumnId": "3"}
    fields = [field("id", "long", "col-1", 1), field("v", "string", "col-3", 3)]
    commit(tmp_path, 0, protocol(reader=2, writer=5), metadata(fields, (), **mapped), *files)
    assert together(batches_of(settings(tmp_path))) == [(1, "a"), (2, "b")] * 2
    assert together(batches_of(settings(tmp_path, bounded=False, start="earliest"))) == [(1, "a"), (2, "b")] * 2


def test_mapped_columns_leave_out_files_by_their_statistics(tmp_path: Path) -> None:
    """Which have the names in the files, as partition values have."""
    mapped = {"delta_columnMapping_mode": "name", "delta_columnMapping_maxColumnId": "2"}
    fields = [field("id", "long", "col-1", 1), field("day", "date", "col-2", 2)]
    adds = [
        added(
            tmp_path, f"{number}.parquet", pa.table({"col-1": pa.array([number], pa.int64())}),
            partitionValues={"col-2": f"2024-01-0{number}"},
            stats=json.dumps({
                "numRecords": 1, "minValues": {"col-1": number}, "maxValues": {"col-1": number},
                "nullCount": {"col-1": 0},
            }),
        )
        for number in (1, 2, 3)
    ]  # fmt: skip
    commit(tmp_path, 0, protocol(reader=2, writer=5), metadata(fields, ("day",), **mapped), *adds)
    columns = (("id", "BIGINT"), ("day", "DATE"))

    def read(*filters: Comparison) -> list[int]:
        return [row[0] for row in together(batches_of(settings(tmp_path, *columns, filters=filters)))]

    assert read(Comparison("id", "=", 2)) == [2]
    assert read(Comparison("day", ">", date(2024, 1, 1))) == [2, 3]
    assert read(Comparison("id", "IS NULL")) == []


def test_mapped_fields_are_refused(tmp_path: Path) -> None:
    kind: Any = {"type": "struct", "fields": [field("x", "long", "col-2", 2)]}
    mapped = {"delta_columnMapping_mode": "name", "delta_columnMapping_maxColumnId": "2"}
    commit(tmp_path, 0, protocol(reader=2, writer=5), metadata([field("s", kind, "col-1", 1)], (), **mapped))
    with pytest.raises(SqlStreamError, match="SS547"):
        DeltaLog(settings(tmp_path, ("s", "STRUCT<x BIGINT>")))


def test_partition_values_have_their_types(tmp_path: Path) -> None:
    """NULL, texts that need escapes, times; an empty text is NULL, as the protocol has it."""
    naive, aware = datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
    columns = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "p": ["a/b=c%", "", None],
        "d": [date(1969, 1, 1), None, date(2024, 2, 29)],
        "n": pa.array([naive, None, naive], pa.timestamp("us")),
        "t": pa.array([aware, None, aware], pa.timestamp("us", "UTC")),
        "b": [True, False, None],
        "x": pa.array([-1, None, 7], pa.int32()),
    }
    for _ in range(2):
        deltalake.write_deltalake(tmp_path, pa.table(columns), partition_by=[*"pdntbx"], mode="append")
    declared = (
        ("id", "BIGINT"), ("p", "STRING"), ("d", "DATE"), ("n", "TIMESTAMP_NTZ"), ("t", "TIMESTAMP"), ("b", "BOOLEAN"),
        ("x", "INT"),
    )  # fmt: skip
    expected = [
        (1, "a/b=c%", date(1969, 1, 1), naive, aware, True, -1),
        (2, None, None, None, None, False, None),
        (3, None, date(2024, 2, 29), naive, aware, None, 7),
    ]
    (whole,) = batches_of(settings(tmp_path, *declared))
    assert sorted(whole) == sorted(expected * 2)
    added_later = together(batches_of(settings(tmp_path, *declared, bounded=False, start="version", start_at="1")))
    assert sorted(added_later) == sorted(expected)
    (only,) = batches_of(settings(tmp_path, ("d", "DATE")))
    assert len(only) == 6


def test_columns_that_older_files_lack_are_null(tmp_path: Path) -> None:
    write(tmp_path, (1, "a"))
    more = pa.table({"id": pa.array([2], pa.int64()), "w": [1.5]})
    deltalake.write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    declared = (*COLUMNS, ("W", "DOUBLE"))
    assert sorted(batches_of(settings(tmp_path, *declared))[0]) == [(1, "a", None), (2, None, 1.5)]


def test_files_are_left_out_by_their_statistics(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, (number * 10, "a"), (number * 10 + 9, None if number == 3 else "b"))

    def read(*filters: Comparison) -> list[int]:
        return [row[0] // 10 for row in batches_of(settings(tmp_path, filters=filters))[0]][::2]

    assert read(Comparison("id", "=", 15)) == [1]
    assert read(Comparison("id", ">", 19), Comparison("id", "<=", 20)) == [2]
    assert read(Comparison("id", "IN", (5, 39))) == [0, 3]
    assert read(Comparison("v", "IS NULL")) == [3]
    assert read(Comparison("v", ">", "b")) == []
    assert read(Comparison("v", "=", "b")) == [0, 1, 2]
    assert read(Comparison("v", "<>", "a")) == [0, 1, 2, 3]


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((("idd", "BIGINT"),), 'SS546: column "idd" of table "t" does not exist in the Delta table'),
        ((("id", "STRING"),), 'SS546: column "id" of table "t" is STRING, but int64 in the Delta table'),
    ],
)
def test_columns_must_be_those_of_the_table(tmp_path: Path, columns: Any, message: str) -> None:
    write(tmp_path, (1, "a"))
    with pytest.raises(SqlStreamError) as raised:
        DeltaLog(settings(tmp_path, *columns))
    assert message in str(raised.value)


def test_a_path_without_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match='SS545: the path of table "t" has no Delta table'):
        DeltaLog(settings(tmp_path))
    write(tmp_path, (1, "a"))
    with pytest.raises(ConnectorError, match='SS549: Delta table "t" has no version 7: the newest one is 0'):
        DeltaLog(settings(tmp_path, as_of=7)).first_position()
