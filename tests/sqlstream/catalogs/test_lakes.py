"""Catalogs of Iceberg, and folders of Delta tables; and tables as of a constant time or version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.catalogs.kinds import mounted
from sqlstream.catalogs.store import Bound
from sqlstream.connectors.lakes.iceberg_columns import catalog_of
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_script
from sqlstream.planner.binder.time_travel import constant_as_of
from sqlstream.planner.catalog import Table
from tests.sqlstream.connectors.test_iceberg import catalog, made

deltalake = pytest.importorskip("deltalake", reason="the package deltalake is not installed")
__all__ = ["catalog"]  # a fixture


def table_in(store: Any, database: str, name: str) -> Table:
    entry = store.entry(database, "relation", name)
    assert isinstance(entry, Bound)
    assert isinstance(entry.item, Table)
    return entry.item


def test_tables_of_iceberg(catalog: dict[str, str]) -> None:
    made(catalog, (1, "a"))
    schema = pa.schema([pa.field("k", pa.int64(), False), ("t", pa.timestamp("us", "UTC"))])
    keyed = catalog_of(catalog).create_table("db.keyed", schema)
    with keyed.update_schema() as update:
        update.set_identifier_fields("k")
    options = {"type": "iceberg", "uri": catalog["uri"], "warehouse": catalog["warehouse"], "catalog.x": "y"}
    store = mounted("lake", options, {}, None)
    assert [d.name for d in store.databases()] == ["db"]
    assert sorted(store.names("DB", "relation")) == ["keyed", "t"]
    table = table_in(store, "db", "T")
    assert [(c.name, c.type.ddl(), c.nullable) for c in table.columns] == [
        ("id", "BIGINT", True),
        ("v", "STRING", True),
    ]
    assert table.connector == "iceberg"
    assert table.bounded
    assert table.options == (
        ("table-name", "db.t"), ("catalog.type", "sql"), ("catalog.uri", catalog["uri"]),
        ("catalog.warehouse", catalog["warehouse"]), ("catalog.x", "y"),
    )  # fmt: skip
    assert table_in(store, "db", "keyed").primary_key == ("k",)
    assert store.entry("db", "relation", "none") is None
    assert store.names("other", "relation") == []


def test_a_folder_of_delta_tables(tmp_path: Path) -> None:
    for name in ("orders", "sales/items", "sales/prices"):
        deltalake.write_deltalake(tmp_path / name, pa.table({"id": [1]}))
    (tmp_path / "_hidden").mkdir()
    store = mounted("files", {"type": "delta", "path": str(tmp_path)}, {}, None)
    assert [d.name for d in store.databases()] == ["default", "sales"]
    assert store.names("default", "relation") == ["orders"]
    assert store.names("sales", "relation") == ["items", "prices"]
    assert table_in(store, "sales", "ITEMS").options == (("path", str(tmp_path / "sales" / "items")),)
    with pytest.raises(SqlStreamError, match="does not exist"):
        mounted("files", {"type": "delta", "path": str(tmp_path / "none")}, {}, None).databases()


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-31 12:00:00.5'", ("timestamp-as-of", "2024-01-31 12:00:00.5")),
        ("TIMESTAMP AS OF '2024-01-31'", ("timestamp-as-of", "2024-01-31")),
        ("VERSION AS OF 7", ("version-as-of", "7")),
        ("FOR VERSION AS OF 7", ("version-as-of", "7")),
        ("FOR SYSTEM_TIME AS OF ts", None),
        ("", None),
    ],
)
def test_constants_are_options(clause: str, expected: tuple[str, str] | None) -> None:
    statement: Any = parse_script(f"SELECT * FROM t {clause}")[0]
    assert constant_as_of(statement.query.args["from_"].this) == expected
