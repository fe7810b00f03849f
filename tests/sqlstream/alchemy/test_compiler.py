"""What the dialect of SQLAlchemy writes, without Spark: queries, CREATE TABLE, types, and what it refuses."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, CompileError
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateTable, DropIndex, DropSchema

from sqlstream.grammar import parse_script
from sqlstream.sqlalchemy import MAP, STRUCT, SqlStreamDialect
from sqlstream.sqlalchemy.compiler import alchemy_type
from sqlstream.sqlalchemy.dialect import arguments_of
from sqlstream.types import parse_type

DIALECT = SqlStreamDialect()
ORDERS = sa.Table("orders", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("Name", sa.String),
                  sa.Column("order", sa.Numeric(10, 2)))  # fmt: skip


def compiled(statement: Any, **options: Any) -> str:
    text = str(statement.compile(dialect=DIALECT, **options))
    parse_script(text)
    return " ".join(text.split())


def in_text(statement: Any) -> str:
    return compiled(statement, compile_kwargs={"literal_binds": True})


def test_names_are_quoted_where_they_are_not_plain():
    assert compiled(sa.select(ORDERS)) == "SELECT orders.id, orders.`Name`, orders.order FROM orders"
    odd = sa.Table("a`b", sa.MetaData(), sa.Column("x y", sa.Integer), schema="cat.d 1")
    assert compiled(sa.select(odd)) == "SELECT `a``b`.`x y` FROM cat.`d 1`.`a``b`"


def test_limit_and_offset_stand_alone_or_together():
    query = sa.select(ORDERS.c.id).order_by(ORDERS.c.id)
    assert in_text(query.limit(5)).endswith("LIMIT 5")
    assert in_text(query.offset(2)).endswith("ORDER BY orders.id OFFSET 2")
    assert in_text(query.limit(5).offset(2)).endswith("LIMIT 5 OFFSET 2")
    assert compiled(query.limit(5)).endswith("LIMIT ?")


def test_values_in_the_text_are_literals_of_the_dialect():
    values = [
        "it's \\",
        1.5,
        Decimal("2.50"),
        True,
        None,
        date(2024, 1, 2),
        datetime(2024, 1, 2, 3),
        b"\xff",
        timedelta(1),
    ]
    text = in_text(sa.select(*(sa.literal(value) for value in values)))
    assert text == (
        r"SELECT 'it''s \\' AS anon_1, 1.5E0 AS anon_2, 2.50 AS anon_3, TRUE AS anon_4, NULL AS anon_5, "
        "DATE '2024-01-02' AS anon_6, TIMESTAMP_NTZ '2024-01-02 03:00:00' AS anon_7, X'ff' AS anon_8, "
        "INTERVAL '86400.000000' SECOND AS anon_9"
    )


def test_expressions_are_spelled_as_spark_does():
    name, number = ORDERS.c.Name, ORDERS.c.id
    assert in_text(sa.select(sa.cast(number, sa.String))) == "SELECT CAST(orders.id AS STRING) AS id FROM orders"
    assert in_text(sa.select(number).where(name.regexp_match("^a"))).endswith("WHERE orders.`Name` RLIKE '^a'")
    assert in_text(sa.select(number).where(name.ilike("a%"))).endswith("WHERE orders.`Name` ILIKE 'a%'")
    assert in_text(sa.select(number).where(number.in_([]))).endswith("IN (SELECT NULL WHERE 1 <> 1)")
    assert in_text(sa.select(number // 2, number / 2)) == (
        "SELECT FLOOR(orders.id / 2) AS anon_1, orders.id / 2 AS anon_2 FROM orders"
    )
    assert "IS DISTINCT FROM" in in_text(sa.select(number).where(number.is_distinct_from(2)))


def test_tables_are_created_with_the_options_of_their_connector():
    table = sa.Table(
        "trades", sa.MetaData(),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, comment="it's when"),
        sa.Column("tags", sa.ARRAY(sa.String)),
        sa.Column("more", MAP(sa.String, STRUCT({"a b": sa.Integer, "c": sa.Date}))),
        sa.Column("twice", sa.BigInteger, sa.Computed("id * 2")),
        comment="what was sold",
        sqlstream_with={"connector": "filesystem", "path": "/data", "format": "json"},
        sqlstream_watermark=("at", "at - INTERVAL '5' SECOND"),
    )  # fmt: skip
    assert compiled(CreateTable(table)) == (
        r"CREATE TABLE trades ( id BIGINT NOT NULL, at TIMESTAMP_LTZ NOT NULL COMMENT 'it''s when', "
        "tags ARRAY<STRING>, more MAP<STRING, STRUCT<`a b`: INT, c: DATE>>, twice AS id * 2, "
        "PRIMARY KEY (id) NOT ENFORCED, "
        "WATERMARK FOR at AS at - INTERVAL '5' SECOND ) COMMENT 'what was sold' "
        "WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'json')"
    )
    assert compiled(CreateTable(ORDERS)).endswith("WITH ('connector' = 'memory')")
    assert SqlStreamDialect(table_options={"connector": "blackhole"}).table_options == {"connector": "blackhole"}
    assert compiled(CreateSchema("d", if_not_exists=True)) == "CREATE DATABASE IF NOT EXISTS d"
    assert compiled(DropSchema("d", cascade=True)) == "DROP DATABASE d CASCADE"


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (sa.Integer(), "INT"),
        (sa.Float(), "DOUBLE"),
        (sa.Float(24), "FLOAT"),
        (sa.Numeric(), "DECIMAL(38, 18)"),
        (sa.Numeric(8), "DECIMAL(8, 0)"),
        (sa.String(), "STRING"),
        (sa.String(10), "VARCHAR(10)"),
        (sa.Text(), "STRING"),
        (sa.LargeBinary(), "BINARY"),
        (sa.DateTime(), "TIMESTAMP_NTZ"),
        (sa.TIMESTAMP(timezone=True), "TIMESTAMP_LTZ"),
        (sa.Interval(), "INTERVAL DAY TO SECOND"),
        (sa.Boolean(), "BOOLEAN"),
        (sa.Uuid(), "CHAR(32)"),
        (sa.JSON(), "STRING"),
        (sa.ARRAY(sa.Integer, dimensions=2), "ARRAY<ARRAY<INT>>"),
    ],
)
def test_types_are_spelled(type_, text):
    assert DIALECT.type_compiler_instance.process(type_.dialect_impl(DIALECT)) == text


@pytest.mark.parametrize(
    "ddl",
    ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "BINARY", "DATE",
     "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL DAY TO SECOND", "VARIANT", "ARRAY<ARRAY<INT>>",
     "MAP<STRING, DECIMAL(3, 1)>", "STRUCT<`a b`: INT, c: ARRAY<DATE>>"],
)  # fmt: skip
def test_types_go_there_and_back(ddl):
    spelled = DIALECT.type_compiler_instance.process(alchemy_type(parse_type(ddl)))
    assert parse_type(spelled) == parse_type(ddl)


REFUSED = [
    sa.update(ORDERS).values(id=1),
    sa.delete(ORDERS).where(ORDERS.c.id == 1),
    sa.insert(ORDERS).returning(ORDERS.c.id),
    sa.select(ORDERS).with_for_update(),
    CreateIndex(sa.Index("i", sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer)).c.a, unique=True)),
    CreateTable(sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer, unique=True))),
    CreateTable(sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer), sa.CheckConstraint("a > 1"))),
    CreateTable(sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer, server_default="1"))),
    CreateTable(sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer, sa.Identity()))),
]


@pytest.mark.parametrize("statement", REFUSED, ids=[str(type(s).__name__) + str(i) for i, s in enumerate(REFUSED)])
def test_what_the_dialect_has_not_is_refused(statement):
    with pytest.raises(CompileError):
        compiled(statement)


def test_an_index_is_left_out_with_a_warning():
    index = sa.Index("i", sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer)).c.a)
    with pytest.warns(sa.exc.SAWarning, match='no indexes: "i" is left out'):
        assert compiled(CreateIndex(index)) == ""
    assert compiled(DropIndex(index)) == ""


def test_all_rows_are_deleted_by_truncating():
    assert compiled(sa.delete(ORDERS)) == "TRUNCATE TABLE orders"


# --- URLs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("sqlstream://", {}),
        ("sqlstream:///a/b", {"project": "a/b"}),
        ("sqlstream:////a/b?profile=test", {"project": "/a/b", "profile": "test"}),
        ("sqlstream://?spark=local[2]&catalog=c&database=d", {"spark": "local[2]", "catalog": "c", "database": "d"}),
        ("sqlstream://?table.dml-sync=true", {"settings": {"table.dml-sync": "true"}}),
    ],
)
def test_urls_say_what_to_connect_to(url, arguments):
    assert arguments_of(sa.make_url(url)) == arguments


@pytest.mark.parametrize("url", ["sqlstream://host/a", "sqlstream://?profil=test", "sqlstream://?catalog=a&catalog=b"])
def test_wrong_urls_are_refused(url):
    with pytest.raises(ArgumentError):
        arguments_of(sa.make_url(url))


def test_nothing_loads_sqlalchemy_but_its_room():
    import subprocess
    import sys

    script = "import sqlstream, sqlstream.session, sqlstream.dbapi, sys; print('sqlalchemy' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
    )
