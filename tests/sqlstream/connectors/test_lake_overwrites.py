"""INSERT OVERWRITE of tables of lakes, and of partitions: in one version, next to other writers; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from tests.sqlstream.connectors import test_delta_sink as of_delta
from tests.sqlstream.connectors import test_iceberg as of_iceberg

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")
pytest.importorskip("pyiceberg", reason="the package pyiceberg is not installed")
pytest.importorskip("sqlalchemy", reason="the package sqlalchemy is not installed")

COLUMNS = "id BIGINT; p STRING; d DATE"
DAY, EARLY = date(2024, 1, 31), date(1960, 2, 29)


class Delta:
    tests: Any = of_delta

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, *keys: str, partition_by: str = "p, d") -> Table:
        return of_delta.table(self.folder / "t", COLUMNS, keys=keys, partition_by=partition_by)

    def rows(self) -> list[tuple[Any, ...]]:
        own = deltalake.DeltaTable(self.folder / "t").to_pyarrow_table().select(["id", "p", "d"])
        return sorted((tuple(row.values()) for row in own.to_pylist()), key=repr)

    def versions(self) -> int:
        return of_delta.versions(self.folder / "t")


class Iceberg:
    tests: Any = of_iceberg

    def __init__(self, folder: Path) -> None:
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        catalog_of(self.catalog).create_namespace("db")

    def table(self, *keys: str, partition_by: str = "p, d") -> Table:
        return of_iceberg.declared(self.catalog, COLUMNS, keys=keys, partition_by=partition_by)

    def rows(self) -> list[tuple[Any, ...]]:
        return of_iceberg.stored(self.catalog)

    def versions(self) -> int:
        return len(of_iceberg.table_of(self.catalog).snapshots())


Lake = Delta | Iceberg


@pytest.fixture(params=[Delta, Iceberg])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(tmp_path)
    return made


OLD = [(1, "a", DAY), (2, "a", EARLY), (3, None, DAY), (4, "it's/50%", None), (5, None, None)]


def filled(lake: Lake) -> Lake:
    lake.tests.append(lake.tests.writer_of(lake.table()), 0, *OLD)
    return lake


@pytest.mark.parametrize(
    ("partition", "gone"),
    [
        ({}, {1, 2, 3, 4, 5}),
        ({"p": "a"}, {1, 2}),
        ({"P": "a", "d": "2024-01-31"}, {1}),
        ({"p": None}, {3, 5}),
        ({"d": "1960-02-29"}, {2}),
        ({"p": "it's/50%", "d": None}, {4}),
        ({"p": None, "d": None}, {5}),
        ({"p": "none"}, set()),
    ],
)
@pytest.mark.parametrize("keys", [(), ("id", "p", "d")])
def test_rows_are_replaced_in_one_version(
    lake: Lake, partition: Mapping[str, str | None], gone: set[int], keys: tuple[str, ...]
) -> None:
    filled(lake)
    before = lake.versions()
    to = lake.tests.writer_of(lake.table(*keys), "other", partition)
    write, kind = (lake.tests.upsert, ("+I",)) if keys else (lake.tests.append, ())
    for _ in range(2):  # a micro-batch that runs again
        write(to, 0, (10, "a", DAY, *kind))
    rest = [row for row in OLD if row[0] not in gone]
    assert lake.rows() == sorted([*rest, (10, "a", DAY)], key=repr)
    assert lake.versions() == before + 1
    write(to, 1, (11, "a", DAY, *kind))
    assert lake.rows() == sorted([*rest, (10, "a", DAY), (11, "a", DAY)], key=repr)


def test_no_rows_replace_all(lake: Lake) -> None:
    filled(lake)
    to = lake.tests.writer_of(lake.table(), "other", {})
    to.append([], 0)
    assert lake.rows() == []
    to.append([], 1)
    lake.tests.append(lake.tests.writer_of(lake.table(), "third"), 0, (1, "a", DAY))
    to.append([], 1)
    assert lake.rows() == [(1, "a", DAY)]


@pytest.mark.parametrize("empty", [True, False])
def test_of_two_at_once_the_rows_of_the_last_one_are_there(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, empty: bool
) -> None:
    """Also of a table without rows, of which neither removes any."""
    monkeypatch.setattr(CommitRetry, "_pause", lambda self, attempts: 0.0)
    tests = lake.tests
    one, other = tests.writer_of(lake.table(), "one", {}), tests.writer_of(lake.table(), "other", {})
    if not empty:
        filled(lake)
    kind, own = type(one), type(one).opened
    opened: list[int] = []

    def late(self: Any) -> Any:
        found = own(self)
        if self.run == "one" and not opened:
            opened.append(1)
            tests.append(other, 0, (20, "x", DAY))
        return found

    monkeypatch.setattr(kind, "opened", late)
    if isinstance(lake, Iceberg):
        opened.append(1)
        files = [text for b in one.files(one.opened()).rows(iter(tests.arrow(one, [(10, "y", DAY)]).to_batches()))
                 for text in b["file"].to_pylist()]  # fmt: skip
        opened.clear()
        one.append(files, 0)
    else:
        tests.append(one, 0, (10, "y", DAY))
    assert lake.rows() == [(10, "y", DAY)]


def test_files_of_other_partitions_are_not_guessed(tmp_path: Path) -> None:
    lake = Iceberg(tmp_path)
    lake.tests.append(lake.tests.writer_of(lake.table(partition_by="d")), 0, (1, "a", DAY))
    with of_iceberg.table_of(lake.catalog).update_spec() as spec:
        spec.add_identity("p")
    to = lake.tests.writer_of(lake.table(), "other", {"p": "a"})
    with pytest.raises(ConnectorError, match='some files are not partitioned by "p"; put them together at first'):
        lake.tests.append(to, 0, (2, "a", DAY))
    kind: Any = connector("iceberg")
    kind.compact(lake.table())
    lake.tests.append(to, 0, (2, "a", DAY))
    assert lake.rows() == [(2, "a", DAY)]
