"""Catalogs of Iceberg, and folders of Delta tables; and tables as of a constant time or version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlstream
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


# --- what is made in them -------------------------------------------------------------------------------------


@pytest.fixture
def session() -> Iterator[Any]:
    with sqlstream.connect() as opened:
        yield opened


def listed(session: Any, statement: str) -> list[str]:
    return [row[0] for row in session.sql(statement)]


def test_tables_are_made_in_a_catalog_of_iceberg(catalog: dict[str, str], session: Any) -> None:
    pairs = f"'type' = 'iceberg', 'uri' = '{catalog['uri']}', 'warehouse' = '{catalog['warehouse']}'"
    session.sql(f"CREATE CATALOG lake WITH ({pairs}, 'default-database' = 'db')")
    session.sql("CREATE DATABASE lake.web")
    session.sql("CREATE DATABASE IF NOT EXISTS lake.WEB")
    create = (
        "CREATE TABLE lake.web.clicks "
        "(id BIGINT NOT NULL, ts TIMESTAMP(3), page STRING, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('partition-by' = 'day(ts), bucket(4, id), page', 'table.write.metadata.compression-codec' = 'gzip')"
    )
    session.sql(create)
    stored = catalog_of(catalog).load_table("web.clicks")
    assert [str(field.transform) for field in stored.spec().fields] == ["day", "bucket[4]", "identity"]
    assert stored.schema().identifier_field_ids == [1]
    assert stored.properties["write.metadata.compression-codec"] == "gzip"
    assert listed(session, "SHOW TABLES FROM lake.web") == ["clicks"]
    table = session.workspace.catalog.relation("lake.web.clicks")
    assert (table.primary_key, table.option("partition-by")) == (("id",), "day(ts), bucket(4, id), page")
    with pytest.raises(SqlStreamError, match="exists already"):
        session.sql(create)
    session.sql(create.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    session.sql("CREATE TABLE lake.db.copy LIKE lake.web.clicks (EXCLUDING OPTIONS)")
    assert catalog_of(catalog).table_exists("db.copy")
    session.sql("DROP TABLE lake.web.clicks")
    assert not catalog_of(catalog).table_exists("web.clicks")
    session.sql("DROP DATABASE lake.web")
    assert listed(session, "SHOW DATABASES FROM lake") == ["db"]


def test_tables_are_made_in_a_folder_of_delta_tables(tmp_path: Path, session: Any) -> None:
    session.sql(f"CREATE CATALOG files WITH ('type' = 'delta', 'path' = '{tmp_path}')")
    session.sql("CREATE DATABASE files.sales")
    session.sql(
        "CREATE TABLE files.sales.items (id BIGINT NOT NULL, day DATE, PRIMARY KEY (id) NOT ENFORCED) "
        "PARTITIONED BY (day) WITH ('delta.enableChangeDataFeed' = 'true')"
    )
    stored = deltalake.DeltaTable(tmp_path / "sales" / "items")
    assert stored.metadata().partition_columns == ["day"]
    assert stored.metadata().configuration["delta.enableChangeDataFeed"] == "true"
    table = session.workspace.catalog.relation("files.sales.items")
    assert (table.primary_key, table.option("partition-by")) == (("id",), "day")
    with pytest.raises(SqlStreamError, match="SS246: the catalog of a lake removes no Delta table"):
        session.sql("DROP TABLE files.sales.items")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE VIEW files.`default`.v AS SELECT 1 AS a", "holds tables alone"),
        ("CREATE TABLE files.`default`.t (a INT, b AS a + 1)", "does not keep computed or metadata columns"),
        ("CREATE TABLE files.`default`.t (a TIMESTAMP(3), WATERMARK FOR a AS a)", "does not keep a watermark"),
        ("CREATE TABLE files.`default`.t (a INT) WITH ('sink.compact-every' = '3')",
         'does not keep the option "sink.compact-every"'),
        ("CREATE TABLE files.`default`.t (a INT) WITH ('connector' = 'memory')",
         "'connector' of a table in this catalog is 'delta'"),
        ("ALTER TABLE files.`default`.there ADD b INT", "changes no definition of a table"),
        ("CREATE OR REPLACE TABLE files.`default`.there (a INT)", "changes no definition of a table"),
    ],
)  # fmt: skip
def test_what_a_lake_does_not_keep_is_refused(tmp_path: Path, session: Any, statement: str, message: str) -> None:
    deltalake.write_deltalake(tmp_path / "there", pa.table({"id": [1]}))
    session.sql(f"CREATE CATALOG files WITH ('type' = 'delta', 'path' = '{tmp_path}')")
    with pytest.raises(SqlStreamError, match="SS246") as raised:
        session.sql(statement)
    assert message in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_check_makes_nothing(tmp_path: Path, session: Any) -> None:
    script = (
        f"CREATE CATALOG files WITH ('type' = 'delta', 'path' = '{tmp_path}'); "
        "CREATE DATABASE files.sales; CREATE TABLE files.sales.t (a INT); INSERT INTO files.sales.t VALUES (1)"
    )
    assert session.check(script) == ()
    assert not [*tmp_path.iterdir()]


# --- as of a time ---------------------------------------------------------------------------------------------


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
