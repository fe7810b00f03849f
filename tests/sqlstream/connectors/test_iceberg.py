"""What is read of Iceberg tables, and what micro-batches do to them; without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.connectors.lakes.iceberg_log import IcebergLog
from sqlstream.connectors.lakes.iceberg_partitions import PartitionField, SortKey, partition_fields, sort_keys
from sqlstream.connectors.lakes.iceberg_tables import prepared
from sqlstream.connectors.lakes.versions import LakeSettings, Position
from sqlstream.connectors.on_spark.iceberg_sink import IcebergWriter, writer
from sqlstream.connectors.written import WrittenBytes
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.source import Comparison

pyiceberg = pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")
from tests.sqlstream.connectors.iceberg_tables import add_deletes, compact  # noqa: E402 - of that package
from tests.sqlstream.connectors.jobs_of_tables import named  # noqa: E402
from tests.sqlstream.connectors.lakes import batches_of, materialized, together  # noqa: E402

COLUMNS = (("id", "BIGINT"), ("v", "STRING"))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The properties of a catalog in a file, with a warehouse in a directory."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog_of(properties).create_namespace("db")
    yield properties
    catalog_of(properties).close()


def settings(catalog: dict[str, str], *columns: tuple[str, str], **more: Any) -> LakeSettings:
    return LakeSettings("iceberg", "t", "db.t", catalog, columns or COLUMNS, **more)


def table_of(catalog: dict[str, str]) -> Any:
    return catalog_of(catalog).load_table("db.t")


def rows(*pairs: tuple[Any, ...]) -> pa.Table:
    ids, values = zip(*pairs, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.string())})


def made(catalog: dict[str, str], *first: tuple[Any, ...]) -> Any:
    table = catalog_of(catalog).create_table("db.t", rows((1, "a")).schema)
    if first:
        table.append(rows(*first))
    return table


def stored(catalog: dict[str, str]) -> list[tuple[Any, ...]]:
    """The rows that the library reads."""
    return sorted((tuple(row.values()) for row in table_of(catalog).scan().to_arrow().to_pylist()), key=repr)


# --- sources --------------------------------------------------------------------------------------------------


def test_finished_data_is_one_snapshot(catalog: dict[str, str]) -> None:
    table = made(catalog)
    assert together(batches_of(settings(catalog))) == []
    for pair in ((1, "a"), (2, "b")):
        table.append(rows(pair))
    first, second = (s.snapshot_id for s in table.snapshots())
    assert batches_of(settings(catalog)) == [[(1, "a"), (2, "b")]]
    assert batches_of(settings(catalog, as_of=first)) == [[(1, "a")]]
    time = datetime.fromtimestamp(table.snapshot_by_id(second).timestamp_ms / 1000, UTC)
    assert len(batches_of(settings(catalog, as_of=time.isoformat()))[0]) == 2
    assert len(batches_of(settings(catalog, as_of=(time - timedelta(microseconds=1)).isoformat()))[0]) == 1
    with pytest.raises(ConnectorError, match="SS549"):
        batches_of(settings(catalog, as_of="2001-01-01T00:00:00+00:00"))


def test_a_catalog_has_a_name(catalog: dict[str, str]) -> None:
    """SQL catalogs of other names may share a database, and do not see each other's tables."""
    made(catalog, (1, "a"))
    assert pyiceberg.catalog.load_catalog("default", **catalog).table_exists("db.t")
    other = {**catalog, "name": "other"}
    with pytest.raises(ConnectorError, match="has no such Iceberg table"):
        batches_of(settings(other))
    append(writer_of(declared(other)), 0, (2, "b"))
    assert batches_of(settings(other)) == [[(2, "b")]]
    catalog_of(other).close()


def test_a_stream_goes_on_with_what_snapshots_add(catalog: dict[str, str]) -> None:
    table = made(catalog)
    own = settings(catalog, bounded=False)
    begin = IcebergLog(own).first_position()
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    assert batches_of(own, begin) == [[(1, "a"), (2, "b")]]
    first = table.snapshots()[0].snapshot_id
    assert batches_of(own, Position(first, None)) == [[(2, "b")]]
    assert batches_of(settings(catalog, bounded=False, start="earliest", most_files=1)) == [[(1, "a")], [(2, "b")]]
    assert batches_of(settings(catalog, bounded=False, start="latest")) == []
    at = str(table.snapshots()[1].snapshot_id)
    assert batches_of(settings(catalog, bounded=False, start="version", start_at=at)) == [[(2, "b")]]


def test_rewritten_rows_fail_or_are_left_out(catalog: dict[str, str]) -> None:
    table = made(catalog, (1, "a"), (2, "b"))
    table.delete("id = 1")
    table.append(rows((3, "c")))
    with pytest.raises(ConnectorError, match=r"SS548: snapshot \d+ of Iceberg table \"t\" changes or removes rows"):
        batches_of(settings(catalog, bounded=False, start="earliest"))
    skipping = settings(catalog, bounded=False, start="earliest", skips_rewrites=True)
    assert together(batches_of(skipping)) == [(1, "a"), (2, "b"), (3, "c")]
    changes = batches_of(settings(catalog, bounded=False, start="earliest", changes=True))
    assert materialized(changes) == {(2, "b"), (3, "c")}
    assert materialized(batches_of(settings(catalog, bounded=False, changes=True))) == {(2, "b"), (3, "c")}


def test_compaction_gives_no_rows(catalog: dict[str, str]) -> None:
    table = made(catalog, (1, "a"), (2, "b"))
    table.append(rows((3, "c")))
    compact(table, table.scan().to_arrow())
    table.refresh().append(rows((4, "d")))
    everything = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert together(batches_of(settings(catalog, bounded=False, start="earliest"))) == everything
    changes = together(batches_of(settings(catalog, bounded=False, start="earliest", changes=True)))
    assert changes == [(*row, "+I") for row in everything]
    assert sorted(together(batches_of(settings(catalog)))) == everything


def test_rows_that_are_deleted_by_their_positions_are_not_there(catalog: dict[str, str], tmp_path: Path) -> None:
    """Neither to readers nor to an upsert, which writes the rest of the file again."""
    table = made(catalog, *((key, "old") for key in range(6)))
    table.append(rows((10, "old"), (11, "old")))
    own = next(task.file.file_path for task in table.scan().plan_files() if task.file.record_count == 6)
    add_deletes(table, tmp_path, pa.table({"file_path": [own] * 2, "pos": pa.array([1, 4], pa.int64())}))
    left = [(key, "old") for key in (0, 2, 3, 5, 10, 11)]
    assert sorted(together(batches_of(settings(catalog)))) == left
    with pytest.raises(ConnectorError, match="SS548"):
        batches_of(settings(catalog, bounded=False, start="earliest"))
    with pytest.raises(ConnectorError, match=r"SS547: snapshot .* adds delete files"):
        batches_of(settings(catalog, bounded=False, start="earliest", changes=True))
    to = writer_of(declared(catalog, keys=["id"]))
    upsert(to, 0, (2, "new", "+U"), (4, None, "-D"), (10, None, "-D"))
    assert stored(catalog) == sorted([(0, "old"), (11, "old"), (2, "new"), (3, "old"), (5, "old")], key=repr)
    assert sorted(together(batches_of(settings(catalog)))) == [(0, "old"), (2, "new"), *left[2:4], (11, "old")]
    upsert(to, 1, (4, "again", "+I"), (1, "again", "+I"))
    assert {row for row in stored(catalog) if row[1] == "again"} == {(1, "again"), (4, "again")}
    assert len(stored(catalog)) == 7


def test_deletes_by_values_are_refused_by_name(catalog: dict[str, str], tmp_path: Path) -> None:
    table = made(catalog, (1, "a"), (2, "b"))
    first = table.current_snapshot().snapshot_id
    add_deletes(table, tmp_path, pa.table({"id": pa.array([1], pa.int64())}), equal=[1])
    with pytest.raises(ConnectorError, match='SS547: Iceberg table "t" has equality deletes, which are not supported'):
        batches_of(settings(catalog))
    with pytest.raises(ConnectorError, match="SS547"):
        batches_of(settings(catalog, bounded=False, changes=True), Position(first, None))
    assert batches_of(settings(catalog, as_of=first)) == [[(1, "a"), (2, "b")]]
    with pytest.raises(ConnectorError, match=r"SS550: .*: the table has equality deletes, which are not supported"):
        upsert(writer_of(declared(catalog, keys=["id"])), 0, (2, "c", "+U"))


def test_an_expired_snapshot_is_an_error_with_a_hint(catalog: dict[str, str]) -> None:
    table = made(catalog, (1, "a"))
    table.append(rows((2, "b")))
    table.append(rows((3, "c")))
    first, second, _ = (s.snapshot_id for s in table.snapshots())
    table.maintenance.expire_snapshots().by_ids([first, second]).commit()
    own = settings(catalog, bounded=False)
    for begin in (Position(second, None), Position(-1, None)):
        with pytest.raises(ConnectorError, match="snapshots have expired, or it was rolled back"):
            batches_of(own, begin)
    with pytest.raises(ConnectorError, match="any more"):
        batches_of(own, Position(second, 0, whole=True))
    assert batches_of(own) == [[(1, "a"), (2, "b"), (3, "c")]]


def test_renamed_and_added_columns_are_found_by_their_ids(catalog: dict[str, str]) -> None:
    table = made(catalog, (1, "a"))
    with table.update_schema() as update:
        update.rename_column("v", "w")
    with table.update_schema() as update:
        update.add_column("v", pyiceberg.types.LongType())
    table.append(pa.table({"id": pa.array([2], pa.int64()), "w": ["b"], "v": pa.array([7], pa.int64())}))
    columns = (("id", "BIGINT"), ("w", "STRING"), ("V", "BIGINT"))
    assert batches_of(settings(catalog, *columns)) == [[(1, "a", None), (2, "b", 7)]]
    before = settings(catalog, *COLUMNS, as_of=table.snapshots()[0].snapshot_id)
    assert batches_of(before) == [[(1, "a")]]
    with pytest.raises(SqlStreamError, match="SS546"):
        batches_of(settings(catalog))


def test_renamed_fields_are_refused(catalog: dict[str, str]) -> None:
    kind = pa.struct([("x", pa.int64())])
    table = catalog_of(catalog).create_table("db.t", pa.schema([("id", pa.int64()), ("s", kind)]))
    assert together(batches_of(settings(catalog, ("s", "STRUCT<x BIGINT>")))) == []
    with table.update_schema() as update:
        update.rename_column("s.x", "y")
    with pytest.raises(SqlStreamError, match="SS547"):
        batches_of(settings(catalog, ("s", "STRUCT<y BIGINT>")))


def test_partition_values_are_those_of_the_metadata(catalog: dict[str, str]) -> None:
    """Dates and times before 1970, NULL, texts that need escapes, and an empty one, which is not NULL here."""
    early = datetime(1969, 12, 31, 23, 59, 59, 5, tzinfo=UTC)
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()), "d": [date(1969, 1, 1), None, date(2024, 1, 1)],
            "t": pa.array([early, None, early], pa.timestamp("us", "UTC")), "s": ["a/b=c %", "", None],
        }
    )  # fmt: skip
    made = catalog_of(catalog).create_table("db.t", table.schema)
    with made.update_spec() as spec:
        for name in "dts":
            spec.add_identity(name)
    made.append(table)
    columns = (("id", "BIGINT"), ("d", "DATE"), ("t", "TIMESTAMP"), ("s", "STRING"))
    expected = [tuple(row.values()) for row in table.to_pylist()]
    assert sorted(together(batches_of(settings(catalog, *columns)))) == expected


def test_files_are_left_out_by_their_statistics(catalog: dict[str, str]) -> None:
    table = made(catalog)
    for number in range(3):
        table.append(rows((number * 10, "a"), (number * 10 + 9, None if number == 2 else "b")))

    def read(*filters: Comparison) -> list[int]:
        return [row[0] // 10 for row in together(batches_of(settings(catalog, filters=filters)))][::2]

    assert read(Comparison("id", "=", 15)) == [1]
    assert read(Comparison("id", "IN", (5, 29))) == [0, 2]
    assert read(Comparison("v", "IS NULL"), Comparison("id", ">", 3)) == [2]
    assert read(Comparison("v", "<>", "a")) == [0, 1, 2]
    assert read(Comparison("id", "<>", 15), Comparison("v", "IS NOT NULL")) == [0, 1, 2]


# --- sinks ----------------------------------------------------------------------------------------------------


def declared(
    catalog: dict[str, str], columns: str = "id BIGINT; v STRING", keys: Sequence[str] = (), **options: str
) -> Table:
    """As in the tests of ``delta``: ``!`` after a type for NOT NULL."""
    pairs = [column.split(" ", 1) for column in columns.split("; ")]
    own = tuple(Column(name, parse_type(kind.rstrip("!")), nullable=kind[-1] != "!") for name, kind in pairs)
    given = named(options)
    given |= {f"catalog.{key}": value for key, value in catalog.items()}
    return Table("t", own, "iceberg", (("table-name", "db.t"), *given.items()), primary_key=tuple(keys))


def writer_of(table: Table, run: str = "r", replaced: Mapping[str, str | None] | None = None) -> IcebergWriter:
    """``replaced``: the partition that an INSERT OVERWRITE replaces; all rows without values."""
    kind: Any = connector("iceberg")
    assert kind.validate(table) == ()
    table = table if replaced is None else kind.replacing(table, replaced)
    environment: Any = type("Environment", (), {"run": run, "anew": False, "written": WrittenBytes()})
    values = kind.resolved_values(table)
    identifier, storage = kind.place(values)
    return writer(environment, table, prepared(table, values, storage), identifier, storage, values)


def arrow(to: IcebergWriter, values: Sequence[tuple[Any, ...]], *more: str) -> pa.Table:
    schema = to.files(to.opened()).schema
    kinds = [schema.field(name).type for name in to.columns.values()]
    columns = zip(*values, strict=True)
    types = [*kinds, *(pa.string() for _ in more)]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=[*to.columns.values(), *more])


def append(to: IcebergWriter, number: int, *values: tuple[Any, ...]) -> None:
    """What the tasks of a micro-batch do, and the driver after them."""
    made = to.files(to.opened()).rows(iter(arrow(to, values).to_batches()))
    to.append([text for batch in made for text in batch["file"].to_pylist()], number)


def upsert(to: IcebergWriter, number: int, *values: tuple[Any, ...]) -> None:
    to.upsert(arrow(to, values, ROW_KIND), number)


def test_a_micro_batch_is_committed_once(catalog: dict[str, str]) -> None:
    to = writer_of(declared(catalog))
    for _ in range(2):
        append(to, 0, (1, "a"), (2, None))
        append(to, 1, (3, "c"))
    other = writer_of(declared(catalog), "other")
    append(other, 0, (4, "d"))
    assert stored(catalog) == [(1, "a"), (2, None), (3, "c"), (4, "d")]
    summary = table_of(catalog).current_snapshot().summary.additional_properties
    assert (summary["sqlstream.run"], summary["sqlstream.epoch"]) == ("other", "0")
    assert other.written.by_table() == {"t": int(summary["added-files-size"])}


def test_a_commit_whose_answer_is_lost_is_not_repeated(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    to = writer_of(declared(catalog))
    own = pyiceberg.table.Table._do_commit

    def losing(*arguments: Any, **named: Any) -> None:
        own(*arguments, **named)
        raise OSError("connection reset")

    monkeypatch.setattr(pyiceberg.table.Table, "_do_commit", losing)
    append(to, 0, (1, "a"))
    assert stored(catalog) == [(1, "a")]


def test_the_last_change_of_a_key_counts(catalog: dict[str, str]) -> None:
    to = writer_of(declared(catalog, "id BIGINT!; v STRING", keys=["id"], partition_by="bucket(4, id)"))
    upsert(to, 0, (1, "a", "+I"), (1, "b", "+U"), (2, "x", "+I"), (2, "x", "-D"), (3, "c", "+I"))
    assert stored(catalog) == [(1, "b"), (3, "c")]
    upsert(to, 1, (1, None, "+U"), (3, "c", "-D"), (3, "d", "+I"), (4, None, "-D"))
    upsert(to, 1, (1, "again", "+U"))
    assert stored(catalog) == [(1, None), (3, "d")]
    upsert(to, 2, (1, "set", "+U"), (9, None, "-D"))
    assert stored(catalog) == [(1, "set"), (3, "d")]


def test_bytes_of_upserts_are_those_of_the_files_that_they_add(catalog: dict[str, str]) -> None:
    to = writer_of(declared(catalog, "id BIGINT!; v STRING", keys=["id"]))
    sizes = []
    changes: list[list[tuple[Any, ...]]] = [[(1, "a", "+I"), (2, "b", "+I")], [(2, "c", "+U")], [(1, None, "-D")]]
    for number, rows in enumerate(changes):
        for _ in range(2):  # once again after a failure: it adds nothing
            upsert(to, number, *rows)
        summary = table_of(catalog).current_snapshot().summary.additional_properties
        sizes.append(int(summary.get("added-files-size", 0)))
    assert sizes[0] > 0 and sizes[1] > 0
    assert to.written.by_table() == {"t": sum(sizes)}


def test_keys_may_be_null_and_rows_with_other_nulls_stay(catalog: dict[str, str]) -> None:
    to = writer_of(declared(catalog, "a BIGINT; b STRING; v STRING", keys=["a", "b"]))
    upsert(to, 0, (None, "k", "x", "+I"), (1, None, "x", "+I"), (None, None, "x", "+I"), (1, "k", "x", "+I"))
    upsert(to, 1, (None, "k", "y", "+U"), (1, "k", None, "-D"))
    assert stored(catalog) == [(1, None, "x"), (None, "k", "y"), (None, None, "x")]
    one = writer_of(declared(catalog, "a BIGINT; b STRING; v STRING", keys=["b"]), "other")
    upsert(one, 0, (5, None, "z", "+U"))
    assert stored(catalog) == [(5, None, "z"), (None, "k", "y")]


@pytest.mark.parametrize(
    ("kind", "there", "wanted", "read"),
    [
        ("BIGINT", [0, 2, 4, 1000, None], [4, 99], 1),
        ("BIGINT", [0, 2, 4, 1000, None], [4, *range(5000, 5300)], 1),
        ("BIGINT", [0, 2, 4, 1000, None], [None, *range(5000, 5300)], 1),
        ("STRING", ["a", "b", "it's", "z"], ["it's", *(f"k{n:04}" for n in range(300))], 1),
    ],
)
def test_an_upsert_reads_only_files_that_may_hold_its_keys(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch, kind: str, there: list[Any], wanted: list[Any], read: int
) -> None:
    """Of two rows each, also where a micro-batch has more keys than the library compares with statistics."""
    from pyiceberg.io.pyarrow import ArrowScan

    first = writer_of(declared(catalog, f"id {kind}; v STRING"))
    for number, key in enumerate(there):
        append(first, number, (key, "a"), (key, "b"))
    own, scanned = ArrowScan.to_table, []

    def to_table(self: Any, tasks: Any) -> Any:
        scanned.extend(tasks)
        return own(self, tasks)

    monkeypatch.setattr(ArrowScan, "to_table", to_table)
    dropped = len(table_of(catalog).inspect.files())
    to = writer_of(declared(catalog, f"id {kind}; v STRING", keys=["id"]), "other")
    upsert(to, 0, *((key, "c", "+U") for key in wanted))
    dropped -= len(table_of(catalog).inspect.files()) - 1
    monkeypatch.undo()
    assert dropped == read
    assert len(scanned) <= read
    kept = [(key, v) for key in there if key not in wanted for v in "ab"]
    assert stored(catalog) == sorted([*kept, *((key, "c") for key in wanted)], key=repr)


def test_keys_may_be_partitioned_by_transforms(catalog: dict[str, str]) -> None:
    """Of times before 1970, too, which lie on the day before."""
    time = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    to = writer_of(declared(catalog, "t TIMESTAMP!; v STRING", keys=["t"], partition_by="day(t)"))
    for number, value in enumerate("abc"):
        upsert(to, number, (time, value, "+I"), (time + timedelta(days=1), value, "+I"))
    assert stored(catalog) == [(time, "c"), (time + timedelta(days=1), "c")]
    days = {task.file.partition[0] for task in table_of(catalog).scan().plan_files()}
    assert days == {-1, 0}


_ODD: dict[str, list[Any]] = {
    "BIGINT": [None, 10 - 2**63, -101, -100, -1, 0, 7, 2**63 - 1],
    "INT": [None, 10 - 2**31, -101, -1, 0, 2**31 - 1],
    "STRING": [
        None, "", "a", "a b/c=d%25", "a'b\\", "\0", "\u2028", "ééééé", "aaaaaaaaaaaaaaaaaaaaaaaaab",
        "\U0001f600\U0001f600",
    ],
    "DATE": [None, date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(1600, 2, 29), date(9999, 12, 31)],
    "TIMESTAMP": [
        None, *(datetime.fromisoformat(f"{time}+00:00") for time in (
            "0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "1969-12-31 22:00:00", "1960-02-29 00:00:00.000001",
            "1970-01-01 00:00:00", "2024-02-29 12:00:00",
        )),
    ],
    "DECIMAL(10, 2)": [None, *map(Decimal, ("-99999999.50", "-10.65", "-0.01", "0.00", "10.65"))],
    "BINARY": [None, b"", b"\x00", b"\xff\xff\xff\xff"],
}  # fmt: skip
_TRANSFORMS = {
    "BIGINT": ["bucket(4, k)", "truncate(10, k)", "k"],
    "INT": ["bucket(4, k)", "truncate(10, k)"],
    "STRING": ["bucket(4, k)", "truncate(3, k)", "k"],
    "DATE": ["year(k)", "month(k)", "day(k)", "bucket(4, k)", "k"],
    "TIMESTAMP": ["year(k)", "month(k)", "day(k)", "hour(k)", "bucket(4, k)", "k"],
    "DECIMAL(10, 2)": ["bucket(4, k)", "truncate(50, k)", "k"],
    "BINARY": ["bucket(4, k)", "truncate(3, k)"],
}


@pytest.mark.parametrize(("kind", "by"), [(kind, by) for kind, ways in _TRANSFORMS.items() for by in ways])
def test_no_transform_of_a_key_doubles_rows(catalog: dict[str, str], kind: str, by: str) -> None:
    """Of values below zero, NULL and texts that need escapes: each key has one row, however often it is upserted."""
    keys = _ODD[kind]
    to = writer_of(declared(catalog, f"k {kind}; v STRING", keys=["k"], partition_by=by))
    upsert(to, 0, *((key, "a", "+I") for key in keys))
    upsert(to, 1, *((key, None, "+U") for key in keys))
    upsert(to, 2, *((key, f"n{number}", "+U") for number, key in enumerate(keys) if number % 2))
    upsert(to, 3, *((key, f"n{number}", "+U") for number, key in enumerate(keys) if not number % 2))
    whole = sorted(((key, f"n{number}") for number, key in enumerate(keys)), key=repr)
    assert stored(catalog) == whole
    columns = (("k", kind), ("v", "STRING"))
    assert sorted(together(batches_of(settings(catalog, *columns))), key=repr) == whole
    for row in whole if kind in ("BIGINT", "STRING", "DATE") else ():
        found = Comparison("k", "IS NULL") if row[0] is None else Comparison("k", "=", row[0])
        assert row in together(batches_of(settings(catalog, *columns, filters=(found,))))
    upsert(to, 4, *((key, None, "-D") for key in keys))
    assert stored(catalog) == []


def test_columns_are_added_where_the_user_says_so(catalog: dict[str, str]) -> None:
    append(writer_of(declared(catalog)), 0, (1, "a"))
    more = "id BIGINT; v STRING; w DOUBLE; n SMALLINT"
    with pytest.raises(SqlStreamError, match=r"'sink\.schema-evolution' = 'add-columns'"):
        writer_of(declared(catalog, more), "other")
    to = writer_of(declared(catalog, more, sink__schema_evolution="add-columns"), "other")
    append(to, 0, (2, "b", 1.5, 7))
    append(writer_of(declared(catalog, "ID BIGINT"), "third"), 0, (3,))
    assert stored(catalog) == [(1, "a", None, None), (2, "b", 1.5, 7), (3, None, None, None)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id STRING; v STRING", 'SS546: column "id" of table "t" is STRING, but int64 in the Iceberg table'),
        ("id BIGINT", 'column "need" is required in the Iceberg table, and may be NULL in "t"'),
    ],
)
def test_what_does_not_match_is_refused(catalog: dict[str, str], columns: str, message: str) -> None:
    writer_of(declared(catalog, "id BIGINT; v STRING; need INT!"))
    with pytest.raises(SqlStreamError) as raised:
        writer_of(declared(catalog, columns))
    assert message in str(raised.value)


def test_versions_of_the_format_that_cannot_be_written_are_refused(catalog: dict[str, str]) -> None:
    message = 'SS547: the Iceberg table of "t" has version 3 of the format, which cannot be written'
    with pytest.raises(ConnectorError, match=message):
        writer_of(declared(catalog, **{"table__format-version": "3"}))
    assert not catalog_of(catalog).table_exists("db.t")
    append(writer_of(declared(catalog, table_name="db.first", **{"table__format-version": "1"})), 0, (1, "a"))


def test_partitions_are_columns_and_transforms() -> None:
    assert partition_fields("day(ts), bucket(16, Key Id),country , truncate( 4 , s )") == (
        PartitionField("ts", "day"),
        PartitionField("Key Id", "bucket", 16),
        PartitionField("country"),
        PartitionField("s", "truncate", 4),
    )
    for wrong in ("", "day(2, ts)", "bucket(ts)", "week(ts)", "day(ts"):
        with pytest.raises(ValueError):
            partition_fields(wrong)


def test_rows_of_a_file_are_sorted(catalog: dict[str, str]) -> None:
    """By the order of the table, which an upsert and other engines keep, too."""
    table = declared(catalog, "id BIGINT; v STRING; p STRING", sort_by="v desc, id NULLS LAST", partition_by="p")
    append(writer_of(table), 0, (2, "a", "x"), (None, "b", "x"), (1, "b", "x"), (3, None, "x"), (4, "b", "y"))
    files = [task.file for task in table_of(catalog).scan().plan_files()]
    assert {file.sort_order_id for file in files} == {1}

    def ids() -> list[list[int | None]]:
        return sorted(
            (pq.read_table(task.file.file_path.removeprefix("file://"))["id"].to_pylist()
             for task in table_of(catalog).scan().plan_files()), key=len,
        )  # fmt: skip

    assert ids() == [[4], [1, None, 2, 3]]
    keyed = declared(catalog, "id BIGINT; v STRING; p STRING", keys=["id"])
    upsert(writer_of(keyed, "other"), 0, (2, "c", "x", "+U"), (9, "z", "x", "+U"))
    connector("iceberg").compact(table)  # type: ignore[attr-defined]
    assert ids() == [[4], [9, 2, 1, None, 3]]
    with table_of(catalog).update_sort_order() as order:
        order.asc("id", pyiceberg.transforms.BucketTransform(2))
    append(
        writer_of(declared(catalog, "id BIGINT; v STRING; p STRING"), "third"), 0, *((n, "a", "q") for n in range(6))
    )
    newest = max(ids(), key=len)
    buckets = pyiceberg.transforms.BucketTransform(2).transform(pyiceberg.types.LongType())
    assert [buckets(n) for n in newest] == sorted(buckets(n) for n in newest)


def test_sort_keys_have_a_direction() -> None:
    assert sort_keys("a, Key Id DESC , c asc nulls last, d desc NULLS FIRST") == (
        SortKey("a", False, True), SortKey("Key Id", True, False), SortKey("c"), SortKey("d", True, True),
    )  # fmt: skip
    with pytest.raises(ValueError):
        sort_keys("a,,b")


def test_all_rows_are_removed_in_a_snapshot(catalog: dict[str, str], tmp_path: Path) -> None:
    table = declared(catalog)
    append(writer_of(table), 0, (1, "a"))
    iceberg: Any = connector("iceberg")
    iceberg.truncate(tmp_path, table)
    assert stored(catalog) == []
    assert len(table_of(catalog).snapshots()) == 2


def test_a_table_that_is_not_there_is_an_error(catalog: dict[str, str]) -> None:
    with pytest.raises(ConnectorError, match='SS545: the catalog of table "t" has no such Iceberg table'):
        batches_of(settings(catalog))
    with pytest.raises(ConnectorError, match="let 'create-table' be 'true'"):
        writer_of(declared(catalog, create_table="false"))
