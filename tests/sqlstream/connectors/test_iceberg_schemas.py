"""Iceberg tables whose columns and partitions have changed, or have values that others stumble over; without Spark."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.errors import ConnectorError
from sqlstream.udfs.lookup.source import Comparison

pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")
from pyiceberg import types
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DATA_FILE_TYPE

from sqlstream.connectors.lakes import iceberg_commits
from tests.sqlstream.connectors.iceberg_tables import add_vector
from tests.sqlstream.connectors.lake_partitions import EARLY, OF_ANY_TYPE
from tests.sqlstream.connectors.lakes import batches_of, together
from tests.sqlstream.connectors.test_iceberg import (
    append,
    catalog,
    declared,
    settings,
    stored,
    table_of,
    upsert,
    writer_of,
)

__all__ = ["catalog"]

NAN = float("nan")


def read(catalog: dict[str, str], *columns: tuple[str, str], **more: Any) -> list[tuple[Any, ...]]:
    return together(batches_of(settings(catalog, *columns, **more)))


# --- columns --------------------------------------------------------------------------------------------------


def test_columns_may_be_widened(catalog: dict[str, str]) -> None:
    """The statistics of older files have fewer bytes than those of newer ones."""
    kinds = {"id": pa.int32(), "x": pa.float32(), "d": pa.decimal128(5, 2)}
    made = catalog_of(catalog).create_table("db.t", pa.schema([*kinds.items()]))
    made.append(pa.table({"id": [1, 2], "x": [1.5, 2.5], "d": [Decimal("1.50"), None]}, pa.schema([*kinds.items()])))
    with made.update_schema() as update:
        update.update_column("id", types.LongType())
        update.update_column("x", types.DoubleType())
        update.update_column("d", types.DecimalType(20, 2))
    columns = (("id", "BIGINT"), ("x", "DOUBLE"), ("d", "DECIMAL(20, 2)"))
    assert read(catalog, *columns) == [(1, 1.5, Decimal("1.50")), (2, 2.5, None)]
    assert read(catalog, *columns, filters=(Comparison("id", ">", 2),)) == []
    for number, key in enumerate(name for name, _ in columns):
        to = writer_of(declared(catalog, "; ".join(" ".join(c) for c in columns), keys=[key]), key)
        upsert(to, 0, (1, 1.5, Decimal("1.50"), "+U"), (2**40 + number, 2.5, None, "+U"))
    assert stored(catalog) == [(1, 1.5, Decimal("1.50")), (2**40 + 2, 2.5, None)]


def test_files_without_ids_have_columns_by_any_of_their_names(catalog: dict[str, str], tmp_path: Path) -> None:
    made = catalog_of(catalog).create_table("db.t", pa.schema([("a", pa.int64())]))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "before.parquet")
    made.add_files([f"file://{tmp_path}/before.parquet"])
    with made.update_schema() as update:
        update.rename_column("a", "b")
    pq.write_table(pa.table({"b": [2]}), tmp_path / "after.parquet")
    made.add_files([f"file://{tmp_path}/after.parquet"])
    assert sorted(read(catalog, ("b", "BIGINT"))) == [(1,), (2,)]


def test_a_column_that_was_made_again_is_another_one(catalog: dict[str, str]) -> None:
    to = writer_of(declared(catalog))
    append(to, 0, (1, "a"))
    for change in (lambda u: u.delete_column("v"), lambda u: u.add_column("v", types.StringType())):
        with table_of(catalog).update_schema() as update:
            change(update)
    append(to, 1, (2, "a"))
    assert read(catalog) == [(1, None), (2, "a")]
    assert read(catalog, filters=(Comparison("v", "IS NULL"),)) == [(1, None)]
    upsert(writer_of(declared(catalog, keys=["v"]), "u"), 0, (3, "a", "+U"))
    assert stored(catalog) == [(1, None), (3, "a")]


def test_fields_that_were_made_again_are_refused(catalog: dict[str, str]) -> None:
    kind = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    made = catalog_of(catalog).create_table("db.t", pa.schema([("s", kind), ("r", kind)]))
    for change in (
        lambda u: u.delete_column("s.x").delete_column("r"),
        lambda u: u.add_column(("s", "x"), types.LongType()).add_column(
            "r", types.StructType(types.NestedField(1, "x", types.LongType(), required=False))
        ),
    ):
        with made.update_schema() as update:
            change(update)
    with pytest.raises(ConnectorError, match='SS547: fields in column "s" of table "t" were renamed or made again'):
        read(catalog, ("s", "STRUCT<x BIGINT, y BIGINT>"))
    assert read(catalog, ("r", "STRUCT<x BIGINT>")) == []


def become_version_3(catalog: dict[str, str], path: Path, fields: list[dict[str, Any]]) -> None:
    """Gives the table metadata of that version, with more columns."""
    metadata = json.loads(Path(table_of(catalog).metadata_location.removeprefix("file://")).read_text())
    metadata["schemas"][-1]["fields"] += fields
    metadata |= {"format-version": 3, "next-row-id": 10}
    path.write_text(json.dumps(metadata))
    catalog_of(catalog).drop_table("db.t")
    catalog_of(catalog).register_table("db.t", f"file://{path}")


def test_older_files_have_the_default_of_a_column(catalog: dict[str, str], tmp_path: Path) -> None:
    """Of version 3 of the format, which the library reads and does not write."""
    append(writer_of(declared(catalog)), 0, (1, "a"))
    more = [
        {"id": 3, "name": "n", "required": False, "type": "long", "initial-default": 7},
        {"id": 4, "name": "d", "required": False, "type": "date", "initial-default": "1969-12-31"},
        {"id": 5, "name": "p", "required": False, "type": "decimal(5, 2)", "initial-default": "-1.50"},
    ]
    become_version_3(catalog, tmp_path / "v3.metadata.json", more)
    columns = (("id", "BIGINT"), ("n", "BIGINT"), ("d", "DATE"), ("p", "DECIMAL(5, 2)"))
    assert read(catalog, *columns) == [(1, 7, datetime(1969, 12, 31).date(), Decimal("-1.50"))]


# --- partitions -----------------------------------------------------------------------------------------------


def test_columns_of_earlier_partitions_may_be_gone(catalog: dict[str, str]) -> None:
    append(
        writer_of(declared(catalog, "id BIGINT; v STRING; p STRING", partition_by="p")), 0, (1, "a", "x"), (2, "b", "y")
    )
    with table_of(catalog).update_spec() as spec:
        spec.remove_field("p")
    with table_of(catalog).update_schema() as update:
        update.delete_column("p")
    append(writer_of(declared(catalog), "later"), 0, (3, "c"))
    upsert(writer_of(declared(catalog, keys=["id"]), "u"), 0, (1, "A", "+U"))
    assert sorted(read(catalog)) == [(1, "A"), (2, "b"), (3, "c")]
    kind: Any = connector("iceberg")
    kind.compact(declared(catalog))
    assert stored(catalog) == [(1, "A"), (2, "b"), (3, "c")]
    assert {task.file.spec_id for task in table_of(catalog).scan().plan_files()} == {table_of(catalog).spec().spec_id}
    append(writer_of(declared(catalog), "all", {}), 0, (4, "d"))
    assert stored(catalog) == [(4, "d")]


def test_partitions_that_were_removed_from_tables_of_version_1_are_void(catalog: dict[str, str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    made = catalog_of(catalog).create_table("db.t", schema, properties={"format-version": "1"})
    for change in (lambda s: s.add_identity("v"), lambda s: s.remove_field("v")):
        with made.update_spec() as spec:
            change(spec)
    append(writer_of(declared(catalog)), 0, (1, "a"), (2, None))
    upsert(writer_of(declared(catalog, keys=["id"]), "u"), 0, (1, "A", "+U"))
    assert stored(catalog) == [(1, "A"), (2, None)]


@pytest.mark.parametrize("by", ["id, bucket(4, id)", "truncate(10, id), bucket(4, id), v", "v"])
def test_a_column_may_partition_twice_and_texts_may_be_long(catalog: dict[str, str], by: str) -> None:
    to = writer_of(declared(catalog, keys=["id"], partition_by=by))
    rows = [(1, "a"), (-5, "é" * 150), (None, "x/" * 400), (7, ""), (8, None)]
    for number in range(2):
        upsert(to, number, *((*row, "+U") for row in rows))
    assert sorted(read(catalog), key=repr) == sorted(rows, key=repr) == stored(catalog)


@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("FLOAT", [None, NAN, 0.0, 1.5, math.inf, -math.inf]),
        ("DOUBLE", [None, NAN, 0.0, 0.1, 1e308, 5e-324, math.inf, -math.inf]),
    ],
)
def test_no_odd_number_has_two_rows(catalog: dict[str, str], kind: str, keys: list[Any], by: str | None) -> None:
    """Of FLOATs the library takes infinite ones for none, and it reads DOUBLEs of partitions as FLOATs."""
    to = writer_of(declared(catalog, f"k {kind}; v STRING", keys=["k"], **({} if by is None else {"partition_by": by})))
    for number in range(2):
        upsert(to, number, *((key, "first", "+U") for key in keys))
    for number, key in enumerate(keys, 2):
        upsert(to, number, (key, "second", "+U"))
    found = read(catalog, ("k", kind), ("v", "STRING"))
    assert sorted(map(repr, found)) == sorted(repr((key, "second")) for key in keys)
    if by is not None:  # also in manifests that were written again, which other engines read
        values = [task.file.partition[0] for task in table_of(catalog).scan().plan_files()]
        assert sorted(map(repr, values)) == sorted(map(repr, keys))


def test_not_a_number_is_a_partition_and_zeros_keep_their_sign(catalog: dict[str, str]) -> None:
    columns = "id BIGINT; p DOUBLE"
    rows = [(1, NAN), (2, NAN), (3, -0.0), (4, 0.0), (5, None), (6, -math.inf)]
    append(writer_of(declared(catalog, columns, partition_by="p")), 0, *rows)
    assert sorted(map(repr, read(catalog, ("id", "BIGINT"), ("p", "DOUBLE")))) == sorted(map(repr, rows))
    to = writer_of(declared(catalog, columns, keys=["p"], partition_by="p"), "u")
    for number in range(2):
        upsert(to, number, (1, NAN, "+U"), (3, 0.0, "+U"), (5, None, "+U"))
    assert sorted(map(repr, stored(catalog))) == sorted(map(repr, [(1, NAN), (3, 0.0), (5, None), (6, -math.inf)]))


@pytest.mark.parametrize(
    ("kind", "value", "text", "other"),
    [
        *OF_ANY_TYPE,
        ("TIMESTAMP_NTZ", EARLY, "1969-12-31 23:59:59.999999", datetime(2024, 1, 1)),
        ("STRING", "", "", "a"),
    ],
)
def test_partitions_of_any_type_are_overwritten(
    catalog: dict[str, str], kind: str, value: Any, text: str, other: Any
) -> None:
    """An empty text is not NULL."""
    columns = f"id BIGINT; p {kind}"
    append(writer_of(declared(catalog, columns, partition_by="p")), 0, (1, value), (2, other), (3, None))
    append(writer_of(declared(catalog, columns), "o", {"p": text}), 0, (4, value))
    assert [row[0] for row in stored(catalog)] == [2, 3, 4]


def test_a_text_that_is_no_value_of_a_partition_is_refused(catalog: dict[str, str]) -> None:
    append(writer_of(declared(catalog, "id BIGINT; p INT", partition_by="p")), 0, (1, 1))
    with pytest.raises(ConnectorError, match="SS550"):
        append(writer_of(declared(catalog, "id BIGINT; p INT"), "o", {"p": "x"}), 0, (4, 1))
    assert stored(catalog) == [(1, 1)]


# --- files of others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("several", [[], ["id"]])
def test_statistics_that_are_cut_to_milliseconds_hide_no_key(
    catalog: dict[str, str], alone: bool, several: list[str]
) -> None:
    """Nor do they show that all rows of a file have one."""
    at = datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)
    columns, others = "t TIMESTAMP; id BIGINT; v STRING", [] if alone else [(at.replace(microsecond=0), 1, "old")]
    append(writer_of(declared(catalog, columns)), 0, (at, 1, "old"), *others)
    _cut_statistics(table_of(catalog))
    to = writer_of(declared(catalog, columns, keys=["t", *several]), "u")
    upsert(to, 0, (at.replace(microsecond=123000), 1, "other", "+U"))
    upsert(to, 1, (at, 1, "new", "+U"), (None, 1, "null", "+U"))
    upsert(to, 2, (None, 1, "again", "+U"))
    found = sorted((None if row[0] is None else row[0].microsecond, row[2]) for row in stored(catalog) if row[0])
    assert found == [*((0, "old") for _ in others), (123000, "other"), (123456, "new")]
    assert [row[2] for row in stored(catalog) if row[0] is None] == ["again"]


def _cut_statistics(table: Any) -> None:
    """Puts the only file of the table into it again, with bounds of the first column as some writers cut them."""
    (manifest,) = iceberg_commits.live_manifests(table)
    entries = manifest.fetch_manifest_entry(table.io)
    file, kind = entries[0].data_file, types.TimestamptzType()
    names = [field.name for field in DATA_FILE_TYPE[2].fields]
    for name in ("lower_bounds", "upper_bounds"):
        bounds = dict(file[names.index(name)])
        micros: Any = from_bytes(kind, bounds[1])
        bounds[1] = to_bytes(kind, micros // 1000 * 1000)
        file[names.index(name)] = bounds
    shortened = iceberg_commits.Shortened(entries, frozenset([file.file_path]))
    iceberg_commits.commit(table, [manifest], [file], {manifest.manifest_path: shortened}, {}, {})


def test_deletion_vectors_are_applied(catalog: dict[str, str], tmp_path: Path) -> None:
    to = writer_of(declared(catalog))
    append(to, 0, (1, "a"), (2, "b"), (3, "c"))
    (task,) = table_of(catalog).scan().plan_files()
    append(to, 1, (4, "d"))
    add_vector(table_of(catalog), tmp_path / "deleted.puffin", task.file.file_path, [0, 2])
    become_version_3(catalog, tmp_path / "v3.metadata.json", [])
    assert read(catalog) == [(2, "b"), (4, "d")]
    with pytest.raises(ConnectorError, match="SS548"):
        read(catalog, bounded=False, start="earliest")


def test_times_of_many_rows_are_keys(catalog: dict[str, str]) -> None:
    times = [time(0), time(23, 59, 59, 999999), *(time(1, number // 60, number % 60, 5) for number in range(300)), None]
    to = writer_of(declared(catalog, "t TIME; v STRING", keys=["t"]))
    for number in range(2):
        upsert(to, number, *((at, f"n{number}", "+U") for at in times))
    whole = sorted(((at, "n1") for at in times), key=repr)
    assert sorted(stored(catalog), key=repr) == whole
    assert sorted(read(catalog, ("t", "TIME"), ("v", "STRING")), key=repr) == whole


def test_files_with_large_texts_are_put_together_with_others(catalog: dict[str, str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.large_string())])
    catalog_of(catalog).create_table("db.t", schema).append(pa.table({"id": [1], "v": ["a"]}, schema))
    append(writer_of(declared(catalog)), 0, (2, "b"))
    kind: Any = connector("iceberg")
    kind.compact(declared(catalog))
    assert len([*table_of(catalog).scan().plan_files()]) == 1
    assert stored(catalog) == [(1, "a"), (2, "b")]


def test_a_stream_begins_with_what_was_committed_at_a_time(catalog: dict[str, str]) -> None:
    to = writer_of(declared(catalog))
    for number in range(3):
        append(to, number, (number, "a"))
    at = datetime.fromtimestamp(table_of(catalog).snapshots()[1].timestamp_ms / 1000, UTC).isoformat()
    stream = read(catalog, bounded=False, start="timestamp", start_at=at)
    assert [row[0] for row in stream][-2:] == [1, 2]
