"""Rows through SQLAlchemy, pandas and polars."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

import sqlstream
from sqlstream.sqlalchemy import MAP, STRUCT

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark):
    with sqlstream.connect(spark, **{"table.local-time-zone": "UTC"}) as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(session):
    made = sa.create_engine("sqlstream://", connect_args={"session": session})
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def sales(engine):
    """A table as tools of reports ask for it."""
    table = sa.Table("sales", sa.MetaData(), sa.Column("id", sa.Integer), sa.Column("region", sa.String),
                     sa.Column("amount", sa.Numeric(10, 2)))  # fmt: skip
    table.metadata.create_all(engine)
    rows = [{"id": n, "region": "EU" if n % 2 else "US", "amount": Decimal(n) / 2} for n in range(1, 5)]
    with engine.begin() as connection:
        assert connection.execute(sa.insert(table), rows).rowcount in (-1, 4)
    return table


def test_values_of_every_type_go_there_and_back(engine):
    values = {
        "b": True, "i": 1, "big": 2**40, "f": 1.5, "d": Decimal("1.25"), "s": "it's \\ ?", "bin": b"\0\xff",
        "day": date(2024, 1, 31), "at": datetime(2024, 1, 31, 12, 0, 0, 5),
        "instant": datetime(2024, 1, 31, tzinfo=UTC),
        "clock": time(12, 30), "tags": ["a", None], "more": {"k": 1}, "both": {"x": 1, "y": "z"}, "j": {"a": [1, None]},
    }  # fmt: skip
    types: dict[str, Any] = {
        "b": sa.Boolean, "i": sa.Integer, "big": sa.BigInteger, "f": sa.Float, "d": sa.Numeric(10, 2), "s": sa.String,
        "bin": sa.LargeBinary, "day": sa.Date, "at": sa.DateTime, "instant": sa.DateTime(timezone=True),
        "clock": sa.Time, "tags": sa.ARRAY(sa.String), "more": MAP(sa.String, sa.Integer),
        "both": STRUCT({"x": sa.Integer, "y": sa.String}), "j": sa.JSON,
    }  # fmt: skip
    given = {name: value for name, value in values.items() if name != "both"}  # no value of Python is a STRUCT
    table = sa.Table("every", sa.MetaData(), *(sa.Column(name, types[name]) for name in given))
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(table).values(given))
        assert connection.execute(sa.select(table)).mappings().one() == given
        both: Any = sa.type_coerce(sa.literal_column("named_struct('x', 1, 'y', 'z')"), types["both"])
        assert connection.scalar(sa.select(both)) == values["both"]
        assert connection.scalar(sa.select(sa.literal(timedelta(hours=1), sa.Interval))) == timedelta(hours=1)


def test_reports_are_queries_of_spark_sql(engine, sales, session):
    total = sa.func.sum(sales.c.amount).label("total")
    query = sa.select(sales.c.region, total).group_by(sales.c.region).order_by(total.desc()).limit(10)
    before = len(session.jobs)
    with engine.connect() as connection:
        assert connection.execute(query).fetchall() == [("US", Decimal("3.00")), ("EU", Decimal("2.00"))]
        rows = connection.execute(sa.text("SELECT id FROM sales WHERE id > :least ORDER BY id"), {"least": 2})
        assert rows.scalars().all() == [3, 4]
    assert len(session.jobs) == before


def test_rows_of_a_stream_come_as_they_do(engine):
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE endless (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '20')"
        )
        with connection.execute(sa.text("SELECT n FROM endless")) as rows:
            assert len(rows.fetchmany(2)) >= 1


def test_pandas_and_polars_read_and_write(engine, sales):
    frame = pd.read_sql(sa.select(sales.c.id, sales.c.amount).order_by(sales.c.id), engine)
    assert frame["id"].tolist() == [1, 2, 3, 4] and frame["amount"].tolist()[0] == 0.5
    assert pd.read_sql("SELECT COUNT(*) AS n FROM sales", engine)["n"].tolist() == [4]
    assert sorted(pd.read_sql_table("sales", engine)["region"]) == ["EU", "EU", "US", "US"]
    pd.DataFrame({"n": [1, 2], "s": ["a", None]}).to_sql("written", engine, index=False)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT n, s FROM written ORDER BY n").fetchall() == [(1, "a"), (2, None)]
        polars = pytest.importorskip("polars")
        query = "SELECT id, amount, region FROM sales ORDER BY id"
        through_engine = polars.read_database(query, connection)
        assert through_engine.rows()[0] == (1, Decimal("0.50"), "EU")
        raw = connection.connection.dbapi_connection
        assert polars.read_database(query, raw).rows() == through_engine.rows()


def test_pandas_writes_with_its_defaults_and_leaves_nothing_where_it_fails(engine):
    frame = pd.DataFrame({"n": [1, 2], "s": ["a", None]})
    with pytest.warns(sa.exc.SAWarning, match='no indexes: "ix_by_default_index" is left out'):
        frame.to_sql("by_default", engine)
    assert pd.read_sql("SELECT * FROM by_default", engine).to_dict("list") == {"index": [0, 1], "n": [1, 2],
                                                                             "s": ["a", None]}  # fmt: skip
    with pytest.warns(sa.exc.SAWarning):
        frame.set_index(["n", "s"]).assign(more=1.5).to_sql("by_keys", engine)
    frame.to_sql("by_default", engine, if_exists="append")
    assert pd.read_sql("SELECT COUNT(*) AS n FROM by_default", engine)["n"].tolist() == [4]
    with pytest.raises(sa.exc.DBAPIError):
        pd.DataFrame({"n": [1], "o": [object()]}).to_sql("unwritten", engine, index=False)
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:
        sa.Table("undone", sa.MetaData(), sa.Column("id", sa.Integer)).create(connection)
        raise ZeroDivisionError
    names = sa.inspect(engine).get_table_names()
    assert {"by_default", "by_keys"} <= set(names)
    assert not {"unwritten", "undone"} & set(names)
