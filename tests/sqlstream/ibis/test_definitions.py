"""Tables, views and databases by a connection of Ibis, without Spark."""

from __future__ import annotations

import pytest

ibis = pytest.importorskip("ibis")

import ibis.common.exceptions as com  # noqa: E402

from sqlstream.errors import BindError  # noqa: E402
from sqlstream.ibis.backend import Backend  # noqa: E402
from sqlstream.session import Session  # noqa: E402

SCHEMA = ibis.schema({"id": "!int64", "ts": "timestamp(3)", "at": "timestamp('UTC')", "note": "string"})
NOWHERE = ibis.watermark("no", ibis.interval(seconds=1))
FILES = {"connector": "filesystem", "path": "it's here", "format": "json"}


@pytest.fixture
def con():
    connection = Backend().connect(Session())
    yield connection
    connection.disconnect()


def test_a_table_is_declared_with_its_watermark_key_and_options(con):
    late = ibis.watermark("ts", ibis.interval(minutes=5))
    table = con.create_table("t", schema=SCHEMA, tbl_properties=FILES, watermark=late, primary_key=["id"])
    assert table.schema() == SCHEMA
    declared = con.session.workspace.catalog.relation("t")
    assert (declared.watermark.column, declared.watermark.delay_ms) == ("ts", 300_000)
    assert declared.primary_key == ("id",)
    assert declared.option("path") == "it's here"


def test_a_table_without_options_is_kept_in_memory(con):
    con.create_table("t", schema=SCHEMA)
    assert con.session.workspace.catalog.relation("t").connector == "memory"


@pytest.mark.parametrize("wrong", [{"primary_key": "no"}, {"watermark": NOWHERE}])
def test_keys_and_watermarks_name_columns(con, wrong):
    with pytest.raises(com.IbisInputError, match=r"\['no'\] must be columns"):
        con.create_table("t", schema=SCHEMA, tbl_properties=FILES, **wrong)
    assert con.list_tables() == []


def test_a_name_is_taken_once_unless_overwritten(con):
    con.create_table("t", schema=SCHEMA)
    with pytest.raises(BindError, match="SS224"):
        con.create_table("t", schema=SCHEMA)
    assert con.create_table("t", schema={"a": "int8"}, overwrite=True).columns == ("a",)


def test_tables_and_views_are_listed_renamed_and_dropped(con):
    table = con.create_table("t", schema=SCHEMA, tbl_properties=FILES)
    con.create_table("gone", schema=SCHEMA, temp=True)
    con.create_view("v", table.filter(table.id > 1).select("id"))
    with pytest.raises(BindError, match="SS224"):
        con.create_view("v", table)
    assert con.create_view("v", table, force=True).columns == ("id",)
    assert con.create_view("v", table.select("note"), overwrite=True).columns == ("note",)
    assert (con.list_tables(), con.list_tables(temp=True), con.list_views()) == (["gone", "t", "v"], ["gone"], ["v"])
    assert con.list_tables(like="^t$") == ["t"]
    con.rename_table("t", "u")
    con.drop_view("v")
    con.drop_table("gone", temp=True)
    con.drop_table("gone", force=True)
    assert con.list_tables() == ["u"]
    with pytest.raises(com.TableNotFound, match="nowhere"):
        con.table("nowhere")


def test_databases_are_named_in_every_way_of_ibis(con):
    con.create_database("d")
    con.create_database("d", force=True)
    con.create_table("t", schema=SCHEMA, database="d")
    assert con.list_databases() == ["d", "default_database"]
    assert con.list_catalogs() == [con.current_catalog] == ["default_catalog"]
    for where in ("d", "default_catalog.d", ("default_catalog", "d")):
        assert con.table("t", database=where).schema() == SCHEMA
    assert (
        con.compile(con.table("t", catalog="default_catalog", database="d"))
        == "SELECT * FROM `default_catalog`.`d`.`t`"
    )
    assert con.list_tables(database="d") == ["t"]
    assert con.list_tables() == []
    con.drop_table("t", database="d")
    con.drop_database("d")
    with pytest.raises(com.IbisInputError, match="more parts"):
        con.table("t", database="a.b.c")
    with pytest.raises(com.IbisInputError, match="needs one database"):
        con.table("t", catalog="default_catalog")


def test_columns_of_queries_are_those_of_the_planner(con):
    options = {**FILES, "source.monitor-interval": "1 s"}
    con.create_table(
        "t", schema=SCHEMA, tbl_properties=options, watermark=ibis.watermark("ts", ibis.interval(seconds=1))
    )
    assert con.sql("SELECT id AS a, CAST(note AS DECIMAL(5, 2)) AS b FROM t").schema() == ibis.schema(
        {"a": "int64", "b": "decimal(5, 2)"}
    )
    with pytest.raises(com.IbisInputError, match="repeated"):
        con.sql("SELECT id, id FROM t")


def test_files_without_a_schema_are_looked_into(con, tmp_path):
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,y\n")
    assert con.read_csv(tmp_path / "a.csv").schema() == ibis.schema({"id": "int64", "name": "string"})
    (tmp_path / "a.json").write_text('{"id": 1, "tags": ["x"]}\n')
    assert con.read_json(tmp_path / "a.json", table_name="j").schema()["tags"] == ibis.dtype("array<string>")
    given = con.read_json(tmp_path / "a.json", table_name="j", schema={"id": "int8"})
    assert given.schema() == ibis.schema({"id": "int8"})


def test_data_in_memory_is_a_temporary_table_as_long_as_the_connection(con):
    rows = ibis.memtable({"a": [1, 2], "b": [{"x": 1}, None]})
    written = con.compile(rows.filter(rows.a > 1))
    (name,) = con.list_tables(temp=True)
    assert written == f"SELECT * FROM `{name}` AS `t0` WHERE `t0`.`a` > 1"
    assert con.session.check(written) == ()
    folder = con._folder
    assert list(folder.glob("*/rows.parquet"))
    con.disconnect()
    assert not folder.exists()


def test_what_rows_cannot_do_is_refused_by_name(con):
    with pytest.raises(com.UnsupportedOperationError, match="upsert: sqlstream has no MERGE"):
        con.upsert("t", {"id": [1]}, on="id")
    with pytest.raises(com.IbisTypeError, match="NULL alone"):
        con.compile(ibis.memtable({"a": [None]}))


def test_a_session_of_yours_stays_open(con):
    session = Session()
    ibis_connection = Backend.from_connection(session)
    ibis_connection.create_table("t", schema=SCHEMA)
    ibis_connection.disconnect()
    assert session.workspace.catalog.relation_names() == ["t"]
