"""Tables of lakes whose columns swap their names, while a stream reads them or between versions; without Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.connectors.lakes.logs import log_of
from sqlstream.connectors.lakes.rows import reader_of
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.connectors.on_spark.lake_source import LakeStream
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.source import Comparison, Request
from tests.sqlstream.connectors import delta_tables
from tests.sqlstream.connectors.lakes import batches_of, together

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")
pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")
from pyiceberg.transforms import IdentityTransform  # noqa: E402 - of that package

COLUMNS = (("id", "BIGINT"), ("a", "STRING"), ("b", "STRING"))


class Delta:
    """A table of which ``names`` are the columns ``col-1``, ``col-2`` and ``col-3`` of its files."""

    def __init__(self, folder: Path, partitions: tuple[str, ...] = ()) -> None:
        self.folder, self.partitions, self.names, self.number = folder / "t", partitions, ["id", "a", "b"], 0
        self.id = str(uuid4())
        self._commit(delta_tables.protocol(reader=2, writer=5), self._metadata())

    def _metadata(self) -> dict[str, Any]:
        kinds = zip(self.names, ("long", "string", "string"), (1, 2, 3), strict=True)
        fields = [delta_tables.field(name, kind, f"col-{n}", n) for name, kind, n in kinds]
        by = tuple(self.names[int(stored[-1]) - 1] for stored in self.partitions)
        made = delta_tables.metadata(fields, by, delta_columnMapping_mode="name", delta_columnMapping_maxColumnId="3")
        return {"metaData": {**made["metaData"], "id": self.id}}

    def _commit(self, *actions: dict[str, Any]) -> None:
        delta_tables.commit(self.folder, self.number, *actions)
        self.number += 1

    def append(self, number: int) -> int:
        values = {"col-1": number, "col-2": f"first {number}", "col-3": f"second {number}"}
        inside = {name: [value] for name, value in values.items() if name not in self.partitions}
        stats = {
            "numRecords": 1, "nullCount": dict.fromkeys(inside, 0), **{
                f"{end}Values": {name: value[0] for name, value in inside.items()} for end in ("min", "max")
            },
        }  # fmt: skip
        self._commit(delta_tables.added(
            self.folder, f"{number}.parquet", pa.table(inside), stats=json.dumps(stats),
            partitionValues={name: values[name] for name in self.partitions},
        ))  # fmt: skip
        return self.number - 1

    def swap(self) -> None:
        self.names[1:] = self.names[:0:-1]
        self._commit(self._metadata())

    def settings(self, **more: Any) -> LakeSettings:
        return LakeSettings("delta", "t", str(self.folder), columns=COLUMNS, **more)

    def options(self) -> dict[str, str]:
        return {"connector": "delta", "path": str(self.folder)}


class Iceberg:
    def __init__(self, folder: Path, partitions: tuple[str, ...] = (), catalog: dict[str, str] | None = None) -> None:
        own = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.properties = catalog or own
        of_library = catalog_of(self.properties)
        of_library.create_namespace_if_not_exists("db")
        self.names = ["id", "a", "b"]
        self.table = of_library.create_table("db.t", self._rows(0).schema)
        with self.table.update_spec() as spec:
            for stored in partitions:
                spec.add_field(self.names[int(stored[-1]) - 1], IdentityTransform(), f"by {stored}")

    def _rows(self, number: int) -> pa.Table:
        columns = [pa.array([number], pa.int64()), [f"first {number}"], [f"second {number}"]]
        schema = pa.schema([(name, pa.int64() if name == "id" else pa.string()) for name in self.names])
        return pa.table(columns, schema=schema)

    def append(self, number: int) -> int:
        self.table.append(self._rows(number).select(["id", *[f.name for f in self.table.schema().fields[1:]]]))
        return [*self.table.snapshots()][-1].snapshot_id

    def swap(self) -> None:
        for before, after in (("a", "c"), ("b", "a"), ("c", "b")):
            with self.table.update_schema() as update:
                update.rename_column(before, after)
        self.names[1:] = self.names[:0:-1]

    def settings(self, **more: Any) -> LakeSettings:
        return LakeSettings("iceberg", "t", "db.t", self.properties, COLUMNS, **more)

    def options(self) -> dict[str, str]:
        properties = {f"catalog.{key}": value for key, value in self.properties.items()}
        return {"connector": "iceberg", "table-name": "db.t", **properties}


Lake = Delta | Iceberg
Make = Callable[..., Lake]


@pytest.fixture(params=[Delta, Iceberg])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return lambda *partitions: request.param(tmp_path, partitions)


def row(number: int, *, swapped: bool = False) -> tuple[int, str, str]:
    pair = (f"first {number}", f"second {number}")
    return (number, *pair[::-1]) if swapped else (number, *pair)


def read(settings: LakeSettings) -> list[Any]:
    return sorted(together(batches_of(settings)))


PARTITIONS = [(), ("col-2",), ("col-2", "col-3")]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_files_have_the_columns_that_the_table_means(make: Make, partitions: tuple[str, ...]) -> None:
    lake = make(*partitions)
    before = lake.append(1)
    lake.swap()
    after = lake.append(2)
    assert read(lake.settings()) == [row(1, swapped=True), row(2, swapped=True)]
    assert read(lake.settings(as_of=before)) == [row(1)]
    assert read(lake.settings(as_of=after)) == [row(1, swapped=True), row(2, swapped=True)]
    assert read(lake.settings(bounded=False, start="earliest")) == [row(1, swapped=True), row(2, swapped=True)]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_filters_of_time_travel_mean_the_columns_of_then(make: Make, partitions: tuple[str, ...]) -> None:
    lake = make(*partitions)
    lake.append(1)
    before = lake.append(2)
    lake.swap()
    lake.append(3)
    there = Comparison("a", "=", "first 2")
    assert read(lake.settings(as_of=before, filters=(there,))) == [row(2)]
    assert read(lake.settings(as_of=before, filters=(Comparison("a", "=", "second 2"),))) == []
    assert read(lake.settings(filters=(Comparison("a", "=", "second 2"),))) == [row(2, swapped=True)]


# --- streams --------------------------------------------------------------------------------------------------


class Reading:
    """A job that reads a table, with its checkpoint."""

    def __init__(self, settings: LakeSettings) -> None:
        self.settings = settings
        self.start_again()
        self.offset = self.stream.initialOffset()

    def start_again(self) -> None:
        self.stream = LakeStream(self.settings, 1)

    def plan(self) -> Any:
        return json.loads(json.dumps(self.stream.latestOffset(self.offset)))

    def rows(self, end: Any) -> list[Any]:
        types = {name: kind.to_arrow() for name, kind in self.settings.types.items()}
        reader = reader_of(pa.schema([*types.items()]), types, self.settings)
        shares: Any = self.stream.partitions(self.offset, end)
        self.offset = end
        return [tuple(r.values()) for s in shares for batch in reader.rows([s.splits]) for r in batch.to_pylist()]

    def next(self) -> list[Any]:
        return self.rows(self.plan())


STREAM: dict[str, Any] = {"bounded": False, "most_files": 1}
MOVED = 'SS546: column "a" of table "t" is another column of the (Delta|Iceberg) table than when the query began'


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_stream_fails_where_names_have_moved(make: Make, partitions: tuple[str, ...], restarts: bool) -> None:
    lake = make(*partitions)
    lake.append(1)
    lake.append(2)
    job = Reading(lake.settings(**STREAM))
    assert job.next() == [row(1)]
    lake.swap()
    if restarts:
        job.start_again()
    with pytest.raises(ConnectorError, match=MOVED) as raised:
        job.next()
    assert "or let the query follow the names: 'source.renamed-columns' = 'follow'" in str(raised.value)
    lake.swap()
    job.start_again()
    assert job.next() == [row(2)]


def test_a_micro_batch_that_is_repeated_has_the_columns_that_it_was_planned_with(make: Make) -> None:
    lake = make()
    lake.append(1)
    job = Reading(lake.settings(**STREAM))
    end = job.plan()
    lake.swap()
    assert job.rows(end) == [row(1)]
    job = Reading(lake.settings(**STREAM))
    end = job.plan()
    lake.swap()
    job.start_again()
    with pytest.raises(ConnectorError, match=MOVED):
        job.rows(end)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_stream_follows_names_where_the_user_says_so(make: Make, partitions: tuple[str, ...], restarts: bool) -> None:
    """Also within the files of a version, which the log knows already."""
    lake = make(*partitions)
    for number in (1, 2, 3):
        lake.append(number)
    job = Reading(lake.settings(**STREAM, follows_names=True))
    assert job.next() == [row(1)]
    lake.swap()
    lake.append(4)
    if restarts:
        job.start_again()
    assert [job.next() for _ in range(3)] == [[row(n, swapped=True)] for n in (2, 3, 4)]


def test_a_table_that_was_made_again_is_noticed_by_a_restart(make: Make, tmp_path: Path) -> None:
    """Also where it has as many versions as the one before."""
    lake = make()
    lake.append(1)
    job = Reading(lake.settings(**STREAM))
    assert job.next() == [row(1)]
    if isinstance(lake, Delta):
        shutil.rmtree(lake.folder)
        other: Lake = Delta(tmp_path)
    else:
        catalog_of(lake.properties).drop_table("db.t")
        other = Iceberg(tmp_path / "other", catalog=lake.properties)
    for number in (2, 3, 4):
        other.append(number)
    job.start_again()
    with pytest.raises(ConnectorError, match=r"SS549: (Delta|Iceberg) table .t. is another one than"):
        job.next()


def test_a_table_that_is_replaced_by_a_version_is_the_same(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"id": [1], "a": ["x"], "b": ["y"]}))
    own = LakeSettings("delta", "t", str(tmp_path), columns=COLUMNS, bounded=False, skips_rewrites=True)
    job = Reading(own)
    assert job.next() == [(1, "x", "y")]
    before = job.stream._log.table_id
    schema = deltalake.Schema.from_arrow(pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())]))
    deltalake.DeltaTable.create(tmp_path, schema, mode="overwrite")
    deltalake.write_deltalake(tmp_path, pa.table({"id": [2], "a": ["x"], "b": ["y"]}), mode="append")
    job.start_again()
    assert job.next() == [(2, "x", "y")]
    assert job.stream._log.table_id != before


def test_a_stream_may_have_more_columns_than_its_checkpoint(make: Make) -> None:
    """Of a job whose query has changed, or of a version that did not record them."""
    lake = make()
    lake.append(1)
    job = Reading(lake.settings(**STREAM))
    del job.offset["columns"]["b"]
    assert job.next() == [row(1)]
    del job.offset["columns"]
    lake.append(2)
    job.start_again()
    assert job.next() == [row(2)]


def test_lookups_fail_where_names_have_moved(make: Make) -> None:
    lake = make()
    lake.append(1)
    options = {**lake.options(), "lookup.full-cache.periodic-reload.interval": "1 s"}
    columns = tuple(Column(name, parse_type(kind)) for name, kind in COLUMNS)
    request = Request((("id", parse_type("BIGINT")),), (("a", parse_type("STRING")),))

    def found(**more: str) -> Any:
        given = {**options, **more}
        kind: Any = connector(given.pop("connector"))
        table = Table("t", columns, kind.name, tuple(given.items()))
        assert kind.validate(table) == ()
        return kind.lookup(None, table, request)

    strict, following = found(), found(**{"source.renamed-columns": "follow"})
    lake.swap()
    with pytest.raises(ConnectorError, match=MOVED):
        log_of(LakeSettings.of_json(strict.settings))
    log_of(LakeSettings.of_json(following.settings))


def test_the_option_needs_newer_versions(make: Make) -> None:
    given = {**make().options(), "source.renamed-columns": "follow"}
    kind = connector(given.pop("connector"))
    table = Table("t", tuple(Column(n, parse_type(k)) for n, k in COLUMNS), kind.name, tuple(given.items()))
    assert [d.code for d in kind.validate(table)] == ["SS503"]


# --- files that say less --------------------------------------------------------------------------------------


def test_files_without_ids_and_names_are_refused(tmp_path: Path) -> None:
    """Their columns cannot be told from each other where names have moved."""
    lake = Iceberg(tmp_path)
    pq.write_table(lake._rows(1), tmp_path / "own.parquet")
    lake.table.add_files([f"file://{tmp_path}/own.parquet"])
    lake.swap()
    assert read(lake.settings()) == [tuple(r.values()) for r in lake.table.scan(
        selected_fields=("id", "a", "b")).to_arrow().select(["id", "a", "b"]).to_pylist()]  # fmt: skip
    with lake.table.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    with pytest.raises(ConnectorError, match=r'SS547: file "file:.*own\.parquet" has no field ids'):
        read(lake.settings())


def test_earlier_versions_may_be_partitioned_by_other_columns(tmp_path: Path) -> None:
    """Their files have, or lack, the columns by which the table is partitioned by now."""
    rows = [pa.table({"id": [n], "a": [f"first {n}"], "b": [f"second {n}"]}) for n in range(3)]
    for table, by in zip(rows, (["a"], None, ["b"]), strict=True):
        deltalake.write_deltalake(
            tmp_path, table, mode="overwrite", schema_mode="overwrite", partition_by=by,
            configuration={"delta.enableChangeDataFeed": "false"},
        )  # fmt: skip
    own = LakeSettings(
        "delta", "t", str(tmp_path), columns=COLUMNS, bounded=False, start="earliest", changes=True
    )  # fmt: skip
    assert together(batches_of(own)) == [
        (*row(0), "+I"), (*row(0), "-D"), (*row(1), "+I"), (*row(1), "-D"), (*row(2), "+I")
    ]  # fmt: skip
    assert [read(LakeSettings("delta", "t", str(tmp_path), columns=COLUMNS, as_of=n)) for n in range(3)] == [
        [row(n)] for n in range(3)
    ]
