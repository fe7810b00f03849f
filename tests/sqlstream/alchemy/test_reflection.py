"""What the inspector of SQLAlchemy sees, without Spark: the catalogs answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import NoSuchTableError

import sqlstream
from sqlstream.sqlalchemy import MAP
from sqlstream.sqlalchemy.compiler import DOUBLE

DEFINITIONS = """
CREATE TABLE orders (
    id BIGINT COMMENT 'its number', name VARCHAR(10) NOT NULL, price DECIMAL(10, 2), ts TIMESTAMP(3),
    tags ARRAY<STRING>, more MAP<STRING, INT>, twice AS id * 2, PRIMARY KEY (id) NOT ENFORCED,
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) COMMENT 'what is sold' WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json');
CREATE VIEW cheap COMMENT 'below ten' AS SELECT id, price * 2 AS doubled FROM orders WHERE price < 10;
CREATE TEMPORARY TABLE scratch (a INT) WITH ('connector' = 'memory');
CREATE TEMPORARY VIEW glance AS SELECT 1 AS one;
CREATE DATABASE sales;
CREATE TABLE sales.orders (other INT) WITH ('connector' = 'memory');
CREATE CATALOG shop WITH ('type' = 'memory');
CREATE DATABASE shop.eu;
CREATE TABLE shop.eu.stock (n INT) WITH ('connector' = 'postgres', 'url' = 'postgresql://db/x', 'table-name' = 'n',
    'password' = 'secret');
"""


@pytest.fixture(scope="module")
def engine():
    with sqlstream.connect() as session:
        session.sql(DEFINITIONS)
        made = sa.create_engine("sqlstream://", connect_args={"session": session})
        yield made
        made.dispose()


@pytest.fixture
def inspector(engine):
    return sa.inspect(engine)


def test_databases_are_schemas(inspector):
    assert inspector.default_schema_name == "default_database"
    assert inspector.get_schema_names() == ["default_database", "sales", "shop.default", "shop.eu"]
    assert inspector.has_schema("shop.eu") and not inspector.has_schema("shop.us")


def test_tables_and_views_are_listed_apart(inspector):
    assert inspector.get_table_names() == ["orders"]
    assert inspector.get_view_names() == ["cheap"]
    assert inspector.get_temp_table_names() == ["scratch"]
    assert inspector.get_temp_view_names() == ["glance"]
    assert inspector.get_table_names("sales") == ["orders"]
    assert inspector.get_table_names("shop.eu") == ["stock"]
    assert inspector.get_table_names("nowhere") == []
    assert inspector.has_table("cheap") and inspector.has_table("scratch") and inspector.has_table("stock", "shop.eu")
    assert not inspector.has_table("orders", "nowhere") and not inspector.has_table("stock")


def test_columns_have_types_comments_and_keys(inspector):
    columns = {column["name"]: column for column in inspector.get_columns("orders")}
    types = {name: str(column["type"].compile(inspector.dialect)) for name, column in columns.items()}
    assert types == {
        "id": "BIGINT", "name": "VARCHAR(10)", "price": "DECIMAL(10, 2)", "ts": "TIMESTAMP_LTZ",
        "tags": "ARRAY<STRING>", "more": "MAP<STRING, INT>", "twice": "BIGINT",
    }  # fmt: skip
    assert isinstance(columns["more"]["type"], MAP)
    assert [name for name, column in columns.items() if not column["nullable"]] == ["id", "name"]
    assert columns["id"]["comment"] == "its number"
    assert columns["twice"]["computed"] == {"sqltext": "`id` * 2", "persisted": False}
    assert inspector.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    assert inspector.get_table_comment("orders") == {"text": "what is sold"}
    for nothing in ("get_foreign_keys", "get_indexes", "get_unique_constraints", "get_check_constraints"):
        assert getattr(inspector, nothing)("orders") == []


def test_views_have_columns_comments_and_their_query(inspector):
    assert [(c["name"], str(c["type"])) for c in inspector.get_columns("cheap")] == [
        ("id", "BIGINT"),
        ("doubled", "DECIMAL(12, 2)"),
    ]
    assert inspector.get_table_comment("cheap") == {"text": "below ten"}
    assert inspector.get_view_definition("cheap") == "SELECT id, price * 2 AS doubled FROM orders WHERE price < 10"
    with pytest.raises(NoSuchTableError):
        inspector.get_view_definition("orders")


@pytest.mark.parametrize("method", ["get_columns", "get_pk_constraint", "get_table_comment", "get_indexes"])
def test_what_is_not_there_is_no_such_table(inspector, method):
    for name, schema in (("order", None), ("orders", "nowhere"), ("eu", "shop")):
        with pytest.raises(NoSuchTableError):
            getattr(inspector, method)(name, schema=schema)


def test_tables_are_loaded_with_their_options_and_without_their_secrets(engine):
    stock = sa.Table("stock", sa.MetaData(), schema="shop.eu", autoload_with=engine)
    options = stock.dialect_options["sqlstream"]["with"]
    assert options["connector"] == "postgres" and "secret" not in str(options)
    assert str(sa.select(stock).compile(engine)).split() == ["SELECT", "stock.n", "FROM", "shop.eu.stock"]


def test_connections_of_an_engine_see_the_same_and_the_last_one_ends_it(tmp_path):
    (tmp_path / "sqlstream.toml").write_text('catalog = "shop"\n[catalogs.shop]\ntype = "memory"\n')
    engine = sa.create_engine(f"sqlstream:///{tmp_path}?database=default&parallelism.default=3")
    with engine.connect() as first, engine.connect() as second:
        first.exec_driver_sql("CREATE TABLE t (a INT) WITH ('connector' = 'memory')")
        assert [*second.exec_driver_sql("SHOW TABLES").scalars()] == ["t"]
        raw: list[Any] = [each.connection.dbapi_connection for each in (first, second)]
        session = raw[0].session
        assert session is raw[1].session
        assert session.workspace.settings["parallelism.default"] == 3
        assert session.workspace.catalog.current == ("shop", "default")
        assert first.get_isolation_level() == "AUTOCOMMIT"
        first.rollback()
    engine.dispose()
    with engine.connect() as third:
        assert third.exec_driver_sql("SHOW TABLES").fetchall() == []
    engine.dispose()


def test_errors_are_those_of_sqlalchemy_around_ours(engine):
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError, match="SS202") as error:
        connection.execute(sa.text("DESCRIBE nothing"))
    assert getattr(error.value.orig, "code", None) == "SS202"


def test_a_bare_connection_and_options_of_a_table_are_taken_as_sqlalchemy_1_4_gives_them(engine):
    dialect = engine.dialect
    with engine.connect() as connection:
        bare = SimpleNamespace(connection=connection.connection.dbapi_connection)
        assert "sales" in dialect.get_schema_names(bare)
        columns = dialect.get_columns(connection, "orders", None, info_cache={}, sqlstream_with={"a": "b"})
        assert [column["name"] for column in columns][:2] == ["id", "name"]


def test_the_type_that_sqlalchemy_1_4_has_not_is_spelled_as_ours(engine):
    assert DOUBLE().compile(engine.dialect) == "DOUBLE"
