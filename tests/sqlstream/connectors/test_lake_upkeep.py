"""Upkeep of tables of lakes: small files are put together, old versions forgotten; no row changes; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlstream
from sqlstream.connectors import connector
from sqlstream.connectors.lakes import iceberg_commits
from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.connectors.lakes.versions import LakeSettings
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Table
from tests.sqlstream.connectors import test_delta_sink as of_delta
from tests.sqlstream.connectors import test_iceberg as of_iceberg
from tests.sqlstream.connectors.iceberg_tables import add_deletes
from tests.sqlstream.connectors.lakes import batches_of, together

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")
pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")

COLUMNS = (("id", "BIGINT"), ("v", "STRING"))


class Delta:
    tests: Any = of_delta

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, **options: str) -> Table:
        return of_delta.table(self.folder / "t", **options)

    def settings(self, **more: Any) -> LakeSettings:
        return LakeSettings("delta", "t", str(self.folder / "t"), columns=COLUMNS, **more)

    def files(self) -> int:
        return len(deltalake.DeltaTable(self.folder / "t").file_uris())


class Iceberg:
    tests: Any = of_iceberg

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        catalog_of(self.catalog).create_namespace("db")

    def table(self, **options: str) -> Table:
        return of_iceberg.declared(self.catalog, **options)

    def settings(self, **more: Any) -> LakeSettings:
        return LakeSettings("iceberg", "t", "db.t", self.catalog, COLUMNS, **more)

    def files(self) -> int:
        return len(of_iceberg.table_of(self.catalog).inspect.files())


Lake = Delta | Iceberg


@pytest.fixture(params=[Delta, Iceberg])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(tmp_path)
    return made


def data_files(lake: Lake) -> int:
    return sum("_delta_log" not in path.parts for path in lake.folder.rglob("*.parquet"))


def kind_of(lake: Lake) -> Any:
    return connector(lake.table().connector)


def grown(lake: Lake, **options: str) -> list[tuple[int, str]]:
    to = lake.tests.writer_of(lake.table(**options))
    rows = [(number, "ab"[number % 2]) for number in range(10)]
    for number, row in enumerate(rows):
        lake.tests.append(to, number, row)
    return rows


@pytest.mark.parametrize(("options", "files"), [({}, 1), ({"partition_by": "v"}, 2)])
def test_small_files_become_one_of_each_partition(lake: Lake, options: dict[str, str], files: int) -> None:
    rows = grown(lake, **options)
    kind_of(lake).compact(lake.table())
    assert lake.files() == files
    assert sorted(together(batches_of(lake.settings()))) == rows
    stream = lake.settings(bounded=False, start="earliest")
    assert sorted(together(batches_of(stream))) == rows, "no row comes again"
    changes = lake.settings(bounded=False, start="earliest", changes=True)
    assert len(together(batches_of(changes))) == len(rows)
    kind_of(lake).compact(lake.table())
    assert lake.files() == files


def test_deletes_are_applied_where_files_are_put_together(tmp_path: Path) -> None:
    lake = Iceberg(tmp_path)
    rows = grown(lake)
    table = of_iceberg.table_of(lake.catalog)
    path = table.inspect.files()["file_path"][0].as_py()
    gone = next(iter(batches_of(lake.settings(most_files=1, bounded=False))[0]))
    add_deletes(table, tmp_path, pa.table({"file_path": [path], "pos": pa.array([0], pa.int64())}))
    left = sorted(together(batches_of(lake.settings())))
    assert len(left) == len(rows) - 1
    assert gone in rows
    kind_of(lake).compact(lake.table())
    assert lake.files() == 1 + 1  # and that of deletes, which no row has any more
    assert sorted(together(batches_of(lake.settings()))) == left


def test_a_commit_of_others_is_not_undone_by_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Iceberg(tmp_path)
    rows = grown(lake)
    own, late = iceberg_commits.commit, [1]

    def commit(*arguments: Any, **named: Any) -> None:
        if late:
            late.clear()
            to = lake.tests.writer_of(of_iceberg.declared(lake.catalog, keys=["id"]), "other")
            lake.tests.upsert(to, 0, (3, "new", "+U"), (4, "a", "-D"))
        own(*arguments, **named)

    monkeypatch.setattr("sqlstream.connectors.lakes.iceberg_upkeep.commit", commit)
    kind_of(lake).compact(lake.table())
    expected = sorted([*(row for row in rows if row[0] not in (3, 4)), (3, "new")])
    assert sorted(together(batches_of(lake.settings()))) == expected
    assert lake.files() == 1


@pytest.mark.parametrize("every", ["2", "5"])
def test_files_are_put_together_every_so_many_micro_batches(lake: Lake, every: str) -> None:
    to = lake.tests.writer_of(lake.table(sink__compact_every=every))
    assert to.compact_every == int(every)
    for number in range(4):
        lake.tests.append(to, number, (number, "a"))
    assert lake.files() == 4
    to.compact()
    assert lake.files() == 1


def test_old_versions_are_forgotten_with_their_files(lake: Lake) -> None:
    rows = grown(lake)
    before = data_files(lake)
    kind_of(lake).compact(lake.table())
    kind_of(lake).expire_snapshots(lake.table(), datetime.now(UTC) - timedelta(days=1))
    assert data_files(lake) == before + 1, "no version is that old"
    kind_of(lake).expire_snapshots(lake.table(), None)
    assert data_files(lake) == before + 1
    kind_of(lake).expire_snapshots(lake.table(), datetime.now(UTC))
    assert data_files(lake) == 1
    assert sorted(together(batches_of(lake.settings()))) == rows
    lake.tests.append(lake.tests.writer_of(lake.table()), 10, (10, "a"))
    assert len(together(batches_of(lake.settings()))) == 11


def test_a_stream_that_needs_forgotten_snapshots_says_so(tmp_path: Path) -> None:
    lake = Iceberg(tmp_path)
    grown(lake)
    first = of_iceberg.table_of(lake.catalog).snapshots()[0].snapshot_id
    kind_of(lake).expire_snapshots(lake.table(), datetime.now(UTC))
    with pytest.raises(ConnectorError, match="SS549"):
        batches_of(lake.settings(as_of=first))


def test_tags_keep_their_snapshots(tmp_path: Path) -> None:
    lake = Iceberg(tmp_path)
    grown(lake)
    table = of_iceberg.table_of(lake.catalog)
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(first, "audit").commit()
    kind_of(lake).expire_snapshots(lake.table(), datetime.now(UTC))
    assert len(of_iceberg.table_of(lake.catalog).snapshots()) == 2
    assert together(batches_of(lake.settings(as_of=first))) == [(0, "a")]


# --- ALTER TABLE ----------------------------------------------------------------------------------------------


@pytest.fixture
def session() -> Iterator[Any]:
    with sqlstream.connect() as made:
        yield made


def test_alter_table_looks_after_files(tmp_path: Path, session: Any) -> None:
    lake = Delta(tmp_path)
    grown(lake)
    session.sql(f"CREATE TABLE t (id BIGINT, v STRING) WITH ('connector' = 'delta', 'path' = '{tmp_path}/t')")
    session.sql("ALTER TABLE t COMPACT")
    assert lake.files() == 1
    session.sql("ALTER TABLE t EXPIRE SNAPSHOTS OLDER THAN TIMESTAMP '2020-01-31 12:00:00'")
    session.sql("ALTER TABLE t EXPIRE SNAPSHOTS")
    assert len([*(tmp_path / "t").glob("*.parquet")]) == 11
    session.sql("ALTER TABLE t EXPIRE SNAPSHOTS OLDER THAN INTERVAL '0' SECOND")
    assert len([*(tmp_path / "t").glob("*.parquet")]) == 1


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE m COMPACT", 'SS249: connector "memory" of table "m" has no small files to look after'),
        ("ALTER TABLE m EXPIRE SNAPSHOTS", 'SS249: connector "memory" of table "m" has no snapshots to look after'),
        ("ALTER TABLE t EXPIRE SNAPSHOTS OLDER THAN 7", "SS212: OLDER THAN must be an interval, not 7"),
        ("ALTER TABLE t EXPIRE SNAPSHOTS OLDER THAN TIMESTAMP 'x'", "SS249: 'x' is no time"),
    ],
)
def test_what_cannot_be_looked_after_is_refused(tmp_path: Path, session: Any, statement: str, message: str) -> None:
    session.sql("CREATE TABLE m (id BIGINT) WITH ('connector' = 'memory')")
    session.sql(f"CREATE TABLE t (id BIGINT) WITH ('connector' = 'delta', 'path' = '{tmp_path}/t')")
    with pytest.raises(SqlStreamError) as raised:
        session.sql(statement)
    assert message in str(raised.value)
