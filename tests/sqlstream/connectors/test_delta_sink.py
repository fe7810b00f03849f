"""What micro-batches do to Delta tables: exactly once, by key, next to other writers; without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.delta_tables import prepared
from sqlstream.connectors.lakes.delta_writing import partition_texts
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.connectors.on_spark import delta_sink
from sqlstream.connectors.on_spark.delta_sink import DeltaWriter, writer
from sqlstream.connectors.written import WrittenBytes
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.source import Comparison
from tests.sqlstream.connectors.delta_tables import added, commit, deletion_vector, field, metadata, protocol, removed
from tests.sqlstream.connectors.lakes import batches_of, materialized

deltalake = pytest.importorskip("deltalake", reason="the package deltalake is not installed")


def table(path: Path, columns: str = "id BIGINT; v STRING", keys: Sequence[str] = (), **options: str) -> Table:
    """In option keys ``__`` stands for a dot and ``_`` for a hyphen; ``!`` after a type for NOT NULL."""
    pairs = [column.split(" ", 1) for column in columns.split("; ")]
    declared = tuple(Column(name, parse_type(kind.rstrip("!")), nullable=kind[-1] != "!") for name, kind in pairs)
    given = tuple((key.replace("__", ".").replace("_", "-"), value) for key, value in options.items())
    return Table("t", declared, "delta", (("path", str(path)), *given), primary_key=tuple(keys))


def writer_of(declared: Table, run: str = "r", replaced: Mapping[str, str | None] | None = None) -> DeltaWriter:
    """``replaced``: the partition that an INSERT OVERWRITE replaces; all rows without values."""
    kind: Any = connector("delta")
    assert kind.validate(declared) == ()
    declared = declared if replaced is None else kind.replacing(declared, replaced)
    environment: Any = type("Environment", (), {"run": run, "anew": False, "written": WrittenBytes()})
    values = connector("delta").resolved_values(declared)
    return writer(environment, declared, prepared(declared, values), values)


def append(to: DeltaWriter, number: int, *rows: tuple[Any, ...]) -> None:
    """What the tasks of a micro-batch do, and the driver after them."""
    columns = zip(*rows, strict=True)
    names = [f.name for f in to.files.schema]
    types = [f.type for f in to.files.schema]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    batches = [pa.RecordBatch.from_arrays(arrays, names=names)]
    actions = [json.loads(text) for batch in to.files.rows(iter(batches)) for text in batch["action"].to_pylist()]
    to.append(actions, number)


def upsert(to: DeltaWriter, number: int, *rows: tuple[Any, ...]) -> None:
    """The last value of a row is its kind."""
    columns = zip(*rows, strict=True)
    kinds = [*(f.type for f in to.files.schema), pa.string()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    to.upsert(pa.Table.from_arrays(arrays, names=[*to.files.schema.names, ROW_KIND]), number)


def stored(path: Path) -> list[tuple[Any, ...]]:
    """The rows that the library reads."""
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def versions(path: Path) -> int:
    return int(deltalake.DeltaTable(path).version())


def test_a_micro_batch_is_committed_once(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path))
    for _ in range(2):
        append(to, 0, (1, "a"), (2, None))
        append(to, 1, (3, "c"))
        assert to.written.by_table()["t"] >= sum(file.stat().st_size for file in tmp_path.glob("*.parquet"))
    assert stored(tmp_path) == [(1, "a"), (2, None), (3, "c")]
    assert deltalake.DeltaTable(tmp_path).transaction_version("sqlstream-r") == 1


def test_another_checkpoint_counts_anew(tmp_path: Path) -> None:
    append(writer_of(table(tmp_path)), 5, (1, "a"))
    append(writer_of(table(tmp_path), "other"), 0, (2, "b"))
    assert stored(tmp_path) == [(1, "a"), (2, "b")]


def test_a_commit_whose_answer_is_lost_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = writer_of(table(tmp_path))
    own = deltalake.DeltaTable.create_write_transaction

    def losing(*arguments: Any, **named: Any) -> None:
        own(*arguments, **named)
        raise OSError("connection reset")

    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", losing)
    append(to, 0, (1, "a"))
    assert stored(tmp_path) == [(1, "a")]
    assert versions(tmp_path) == 1


def test_conflicts_are_repeated_on_the_newest_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer commits between reading the table and the merge; its rows are there in the end, too."""
    to = writer_of(table(tmp_path, keys=["id"]))
    upsert(to, 0, (1, "a", "+I"), (2, "b", "+I"))
    other, own, calls = writer_of(table(tmp_path, keys=["id"]), "other"), deltalake.DeltaTable.merge, []

    def late(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            upsert(other, 0, (1, "z", "+U"), (7, "y", "+I"))
        return own(*arguments, **named)

    monkeypatch.setattr(deltalake.DeltaTable, "merge", late)
    upsert(to, 1, (1, "c", "+U"), (3, "d", "+I"))
    assert stored(tmp_path) == [(1, "c"), (2, "b"), (3, "d"), (7, "y")]
    assert len(calls) == 3


def test_the_same_micro_batch_of_two_drivers_is_committed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = writer_of(table(tmp_path)), writer_of(table(tmp_path))
    own, calls = deltalake.DeltaTable.create_write_transaction, []

    def late(*arguments: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            append(two, 0, (1, "a"))
        own(*arguments, **named)

    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", late)
    append(one, 0, (1, "a"))
    assert stored(tmp_path) == [(1, "a")]


def test_the_last_change_of_a_key_counts(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path, "id BIGINT!; v STRING", keys=["id"]))
    upsert(to, 0, (1, "a", "+I"), (1, "b", "+U"), (2, "x", "+I"), (2, "x", "-D"), (3, "c", "+I"))
    assert stored(tmp_path) == [(1, "b"), (3, "c")]
    upsert(to, 1, (1, None, "+U"), (3, "c", "-D"), (3, "d", "+I"), (4, None, "-D"))
    upsert(to, 1, (1, "again", "+U"))
    assert stored(tmp_path) == [(1, None), (3, "d")]
    upsert(to, 2, (1, "set", "+U"))
    assert stored(tmp_path) == [(1, "set"), (3, "d")]


def test_bytes_of_upserts_are_those_of_the_files_that_they_add(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path, "id BIGINT!; v STRING", keys=["id"]))
    sizes = []
    changes: list[list[tuple[Any, ...]]] = [[(1, "a", "+I"), (2, "b", "+I")], [(2, "c", "+U")], [(1, None, "-D")]]
    for number, rows in enumerate(changes):
        for _ in range(2):  # once again after a failure: it adds nothing
            upsert(to, number, *rows)
        log = (tmp_path / f"_delta_log/{versions(tmp_path):020d}.json").read_text().splitlines()
        sizes.append(sum(json.loads(line).get("add", {"size": 0})["size"] for line in log))
    assert sizes[0] > 0 and sizes[1] > 0
    assert to.written.by_table() == {"t": sum(sizes)}


def test_bytes_of_a_commit_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = writer_of(table(tmp_path, "id BIGINT!; v STRING", keys=["id"]))
    monkeypatch.setattr(delta_sink, "commit_of", Mock(side_effect=FileNotFoundError("gone")))
    upsert(to, 0, (1, "a", "+I"))
    assert stored(tmp_path) == [(1, "a")] and to.written.by_table() == {"t": 0}


def test_upserts_have_a_change_feed_of_their_own(tmp_path: Path) -> None:
    """Each retraction meets its row, once."""
    to = writer_of(table(tmp_path, keys=["id"], delta__enableChangeDataFeed="true"))
    upsert(to, 0, *((key, "a", "+I") for key in range(5)), (None, "a", "+I"))
    upsert(to, 1, (1, "b", "+U"), (2, None, "-D"), (9, None, "-D"), (7, "b", "+I"), (None, "b", "+U"))
    append(writer_of(table(tmp_path), "other"), 0, (1, "twice"), (8, "c"))
    to.compact()
    upsert(to, 2, (1, "d", "+U"), (None, None, "-D"))
    own = LakeSettings(
        "delta", "t", str(tmp_path), columns=(("id", "BIGINT"), ("v", "STRING")), bounded=False, start="earliest",
        changes=True,
    )  # fmt: skip
    batches = batches_of(own)
    assert sorted(materialized(batches), key=repr) == stored(tmp_path)
    assert stored(tmp_path) == [(0, "a"), (1, "d"), (3, "a"), (4, "a"), (7, "b"), (8, "c")]
    kinds = [row[-1] for batch in batches for row in batch]
    assert (kinds.count("+I"), kinds.count("-D")) == (6 + 3 + 2 + 1, 3 + 3)


def test_keys_may_be_null(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path, "a BIGINT; b STRING!; v STRING", keys=["a", "b"]))
    for number, value in enumerate("xyz"):
        upsert(to, number, (None, "k", value, "+I"), (1, "k", value, "+I"))
    assert stored(tmp_path) == [(1, "k", "z"), (None, "k", "z")]
    upsert(to, 3, (None, "k", None, "-D"))
    assert stored(tmp_path) == [(1, "k", "z")]


def test_keys_may_be_in_partitions(tmp_path: Path) -> None:
    declared = table(tmp_path, "day DATE; id BIGINT!; v STRING", keys=["id"], partition_by="day")
    to = writer_of(declared)
    upsert(to, 0, (date(1969, 12, 31), 1, "a", "+I"), (None, 2, "b", "+I"))
    upsert(to, 1, (date(2024, 1, 1), 1, "c", "+U"), (None, 2, "d", "+U"))
    assert stored(tmp_path) == [(None, 2, "d"), (date(2024, 1, 1), 1, "c")]


def test_an_empty_text_in_a_partition_is_the_key_null(tmp_path: Path) -> None:
    """As the protocol has it; a column that is NOT NULL takes none."""
    columns = "p STRING; v STRING"
    append(writer_of(table(tmp_path / "t", columns, partition_by="p")), 0, ("", "a"), ("x", "a"))
    to = writer_of(table(tmp_path / "t", columns, keys=["p"], partition_by="p"), "other")
    for number in range(2):
        upsert(to, number, (None, "b", "+I"), ("", f"c{number}", "+I"))
        assert stored(tmp_path / "t") == sorted([("x", "a"), (None, f"c{number}")], key=repr)
    upsert(to, 2, ("", None, "-D"))
    assert stored(tmp_path / "t") == [("x", "a")]
    message = 'SS546: column "p", which partitions the Delta table and is NOT NULL, got an empty text'
    for keys, write in ((["p"], upsert), ([], append)):
        filled = writer_of(table(tmp_path / "filled", "p STRING!; v STRING", keys=keys, partition_by="p"))
        with pytest.raises(ConnectorError, match=message):
            write(filled, 0, ("", "a", "+I")[: 3 if keys else 2])


@pytest.mark.parametrize(
    ("kind", "stored", "wanted", "read"),
    [
        ("BIGINT", [*range(20)], [3, 17, 99], 2),
        ("BIGINT!", [*range(20)], [3, -(2**63), 2**63 - 1], 1),
        ("INT!", [*range(20)], [5], 1),
        ("BIGINT", [None, *range(20)], [None, 3], 2),
        ("BIGINT!", [*range(0, 40, 2)], [8, *range(100, 400, 3)], 1),
        ("STRING", ["it's", "a", "b", "ä"], ["it's", "ä", "z"], 2),
        ("DATE", [date(1969, 12, n) for n in range(1, 20)], [date(1969, 12, 3), date(2024, 1, 1)], 1),
        ("STRING", ["x" * 40, "a"], ["x" * 40], 1),
        ("STRING", ["x" * 40, "a"], ["b"], 1),
        ("TIMESTAMP_NTZ", [datetime(2024, 1, n) for n in range(1, 5)], [datetime(2024, 1, 2)], 4),
    ],
)  # fmt: skip
def test_a_merge_reads_only_files_that_may_hold_its_keys(
    tmp_path: Path, kind: str, stored: list[Any], wanted: list[Any], read: int
) -> None:
    """Of one row each. Files without statistics, of a long text, are read."""
    first = writer_of(table(tmp_path, f"id {kind}; v STRING"))
    for number, key in enumerate(stored):
        append(first, number, (key, "a"))
    to = writer_of(table(tmp_path, f"id {kind}; v STRING", keys=["id"]), "other")
    upsert(to, 0, *((key, "b", "+U") for key in wanted))
    metrics = deltalake.DeltaTable(tmp_path).history(1)[0]["operationMetrics"]
    assert int(metrics["num_target_files_scanned"]) == read
    found = deltalake.DeltaTable(tmp_path).to_pyarrow_table().to_pylist()
    assert {(row["id"], row["v"]) for row in found} == {(k, "a") for k in stored if k not in wanted} | {
        (k, "b") for k in wanted
    }
    assert len(found) == len({*stored, *wanted})


def test_a_merge_reads_only_partitions_that_may_hold_its_keys(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path, "day DATE; id BIGINT!; v STRING", keys=["day", "id"], partition_by="day"))
    days = [None, *(date(2024, 1, n) for n in range(1, 9))]
    upsert(to, 0, *((day, 1, "a", "+I") for day in days))
    upsert(to, 1, (None, 1, "b", "+U"), (date(2024, 1, 3), 1, "b", "+U"), (date(2024, 1, 4), 9, "b", "+U"))
    metrics = deltalake.DeltaTable(tmp_path).history(1)[0]["operationMetrics"]
    assert int(metrics["num_target_files_scanned"]) == 3
    assert [row for row in stored(tmp_path) if row[2] == "b"] == [
        (None, 1, "b"), (date(2024, 1, 3), 1, "b"), (date(2024, 1, 4), 9, "b"),
    ]  # fmt: skip
    assert len(stored(tmp_path)) == 10


@pytest.mark.parametrize("zone", ["", "Z"])
def test_statistics_that_are_cut_to_milliseconds_hide_no_file(tmp_path: Path, zone: str) -> None:
    """As Spark writes those of times."""
    time = datetime(2024, 1, 31, 12, 0, 0, 123456, UTC if zone else None)
    rows = pa.table({"t": pa.array([time], pa.timestamp("us", "UTC" if zone else None)), "v": ["old"]})
    cut = {"t": f"2024-01-31T12:00:00.123{zone}"}
    stats = json.dumps({"numRecords": 1, "minValues": cut, "maxValues": cut, "nullCount": {"t": 0}})
    asked = protocol(reader=1, writer=2) if zone else protocol("timestampNtz")
    columns = [field("t", "timestamp" if zone else "timestamp_ntz"), field("v", "string")]
    commit(tmp_path, 0, asked, metadata(columns), added(tmp_path, "a.parquet", rows, stats=stats))
    kind = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
    own = LakeSettings("delta", "t", str(tmp_path), columns=(("t", kind), ("v", "STRING")))
    declared = table(tmp_path, f"t {kind}; v STRING", keys=["t"])
    delta: Any = connector("delta")
    assert not delta.filters(declared, Comparison("t", "=", time))
    assert delta.filters(declared, Comparison("v", "=", "old"))
    upsert(writer_of(declared), 0, (time, "new", "+U"))
    assert batches_of(own) == [[(time, "new")]]


def test_rows_that_are_deleted_by_vectors_are_not_there_again(tmp_path: Path) -> None:
    """Also not those of a file of which an upsert writes the rest."""
    rows = pa.table({"id": pa.array(range(6), pa.int64())})
    first = added(tmp_path, "a.parquet", rows)
    fields = metadata([field("id", "long")], (), delta_enableDeletionVectors="true")
    commit(tmp_path, 0, protocol("deletionVectors"), fields, first)
    commit(tmp_path, 1, removed(first), {"add": {**first["add"], "deletionVector": deletion_vector([2, 5])}})
    append(writer_of(table(tmp_path, "id BIGINT"), "first"), 0, (7,))
    upsert(writer_of(table(tmp_path, "id BIGINT", keys=["id"])), 0, (3, "+U"), (5, "+I"), (4, "-D"), (7, "+U"))
    own = LakeSettings("delta", "t", str(tmp_path), columns=(("id", "BIGINT"),))
    assert sorted(batches_of(own)[0]) == [(0,), (1,), (3,), (5,), (7,)]


def test_names_of_columns_may_need_quotes(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path, 'Key-"Id BIGINT!; order STRING', keys=['Key-"Id']))
    upsert(to, 0, (1, "a", "+I"))
    upsert(to, 1, (1, "b", "+U"))
    assert stored(tmp_path) == [(1, "b")]


def test_partitions_have_the_values_of_their_rows(tmp_path: Path) -> None:
    """Our own reader, and the library, find what was written; an empty text is NULL, as the protocol has it."""
    time = datetime(1969, 12, 31, 23, 59, 59, 5, tzinfo=UTC)
    declared = table(tmp_path, "id BIGINT; p STRING; t TIMESTAMP; b BOOLEAN", partition_by="p, t, b")
    to = writer_of(declared)
    rows = [(1, "a/b=c%", time, True), (2, "", None, False), (3, None, time, None), (4, "a/b=c%", time, True)]
    append(to, 0, *rows)
    expected = [(1, "a/b=c%", time, True), (2, None, None, False), (3, None, time, None), (4, "a/b=c%", time, True)]
    assert stored(tmp_path) == expected
    columns = (("id", "BIGINT"), ("p", "STRING"), ("t", "TIMESTAMP"), ("b", "BOOLEAN"))
    assert sorted(batches_of(LakeSettings("delta", "t", str(tmp_path), columns=columns))[0], key=repr) == expected
    assert partition_texts(pa.array([-1, None], pa.int32())).to_pylist() == ["-1", None]


def test_many_partitions_need_few_open_files(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path, "id BIGINT; p BIGINT", partition_by="p"))
    append(to, 0, *((n, n % 150) for n in range(600)))
    assert len(stored(tmp_path)) == 600
    assert len({row[1] for row in stored(tmp_path)}) == 150


def test_statistics_are_those_of_the_rows(tmp_path: Path) -> None:
    kinds = "i INT; s STRING; d DATE; t TIMESTAMP; n TIMESTAMP_NTZ; f DOUBLE; a ARRAY<INT>; x STRUCT<y INT>; o STRING"
    to = writer_of(table(tmp_path, kinds))
    time = datetime(2024, 1, 31, 12, 0, 0, 123456)
    early = datetime(1960, 1, 1)
    append(
        to, 0,
        (-5, "a", date(1960, 1, 1), time.replace(tzinfo=UTC), early, float("nan"), [1], {"y": 1}, None),
        (7, "b" * 40, date(2024, 1, 31), early.replace(tzinfo=UTC), time, 1.5, None, None, None),
    )  # fmt: skip
    (log,) = (tmp_path / "_delta_log").glob("*1.json")
    (add,) = (json.loads(line)["add"] for line in log.read_text().splitlines() if '"add"' in line)
    assert json.loads(add["stats"]) == {
        "numRecords": 2,
        "minValues": {
            "i": -5, "d": "1960-01-01", "t": "1960-01-01T00:00:00.000000Z", "n": "1960-01-01T00:00:00.000000",
        },
        "maxValues": {
            "i": 7, "d": "2024-01-31", "t": "2024-01-31T12:00:00.123456Z", "n": "2024-01-31T12:00:00.123456",
        },
        "nullCount": {"i": 0, "s": 0, "d": 0, "t": 0, "n": 0, "f": 0, "o": 2},
    }  # fmt: skip
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path))
    assert pa.table(found.execute("SELECT i FROM t WHERE f > 2 OR s = 'zz' OR i = 7")).num_rows == 2


def test_small_files_are_put_together(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path, sink__compact_every="2"))
    append(to, 0, (1, "a"))
    append(to, 1, (2, "b"))
    to.compact()
    assert len(deltalake.DeltaTable(tmp_path).file_uris()) == 1
    append(to, 1, (2, "b"))
    assert stored(tmp_path) == [(1, "a"), (2, "b")]


def test_files_of_tasks_that_failed_are_removed(tmp_path: Path) -> None:
    to = writer_of(table(tmp_path))

    def failing() -> Any:
        yield pa.record_batch({"id": pa.array([1], pa.int64()), "v": ["a"]})
        raise ValueError("no more rows")

    with pytest.raises(ValueError, match="no more rows"):
        [*to.files.rows(failing())]
    assert [*tmp_path.glob("*.parquet")] == []


# --- tables that are created, checked and evolved -------------------------------------------------------------


def test_tables_are_created_with_partitions_and_properties(tmp_path: Path) -> None:
    options = {"partition_by": "v", "delta__enableChangeDataFeed": "true"}
    writer_of(table(tmp_path, "id BIGINT!; v STRING", **options))
    created = deltalake.DeltaTable(tmp_path)
    assert created.metadata().partition_columns == ["v"]
    assert created.metadata().configuration == {"delta.enableChangeDataFeed": "true"}
    assert [(f.name, f.nullable) for f in created.schema().fields] == [("id", False), ("v", True)]


def test_no_table_is_created_where_it_should_not_be(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="Correct the path, or let 'create-table' be 'true'"):
        writer_of(table(tmp_path, create_table="false"))


def test_columns_are_added_where_the_user_says_so(tmp_path: Path) -> None:
    append(writer_of(table(tmp_path)), 0, (1, "a"))
    more = "id BIGINT; v STRING; w DOUBLE!"
    with pytest.raises(SqlStreamError, match=r"'sink\.schema-evolution' = 'add-columns'"):
        writer_of(table(tmp_path, more), "other")
    append(writer_of(table(tmp_path, more, sink__schema_evolution="add-columns"), "other"), 0, (2, "b", 1.5))
    assert stored(tmp_path) == [(1, "a", None), (2, "b", 1.5)]
    append(writer_of(table(tmp_path, "ID BIGINT"), "third"), 0, (3,))
    assert (3, None, None) in stored(tmp_path)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id STRING; v STRING", {}, 'SS546: column "id" of table "t" is STRING, but int64 in the Delta table'),
        ("id BIGINT", {"partition_by": "id"}, 'option "partition-by" names all columns'),
        ("id BIGINT; v STRING", {"partition_by": "v"}, "is partitioned by v, but by no column in the Delta table"),
        ("id BIGINT; v INTERVAL DAY TO SECOND", {}, "has no values of type"),
        ("id BIGINT; v ARRAY<INT>", {"partition_by": "v"}, "cannot partition a Delta table"),
    ],
)
def test_what_does_not_match_is_refused(tmp_path: Path, columns: str, options: dict[str, str], message: str) -> None:
    writer_of(table(tmp_path))
    declared = table(tmp_path, columns, **options)
    wrong = connector("delta").validate(declared)
    if wrong:
        assert message in wrong[0].render()
        return
    with pytest.raises(SqlStreamError) as raised:
        writer_of(declared)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("properties", "more", "feature"),
    [
        ({"delta_columnMapping_mode": "name"}, {}, "column mapping"),
        ({"delta_constraints_positive": "id > 0"}, {}, "CHECK constraints"),
        ({"delta_setTransactionRetentionDuration": "interval 1 days"}, {}, "transactions that are forgotten"),
        ({}, {"delta.generationExpression": "1"}, 'a column "id" that is generated'),
    ],
)
def test_features_that_the_sink_would_break_are_refused(
    tmp_path: Path, properties: dict[str, str], more: dict[str, str], feature: str
) -> None:
    column = field("id", "long", "id" if "delta_columnMapping_mode" in properties else None, 1)
    column["metadata"] |= more
    commit(tmp_path, 0, protocol(reader=2, writer=5), metadata([column], (), **properties))
    with pytest.raises(ConnectorError) as raised:
        writer_of(table(tmp_path, "id BIGINT"))
    assert f'SS547: the Delta table of "t" has {feature}' in str(raised.value)


def test_all_rows_are_removed_in_a_version(tmp_path: Path) -> None:
    declared: Any = table(tmp_path)
    append(writer_of(declared), 0, (1, "a"))
    delta: Any = connector("delta")
    delta.truncate(tmp_path, declared)
    assert stored(tmp_path) == []
    assert batches_of(LakeSettings("delta", "t", str(tmp_path), columns=(("id", "BIGINT"),), as_of=1)) == [[(1,)]]
