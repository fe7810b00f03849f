"""All tests of SQLAlchemy's suite."""

from sqlalchemy.testing.provision import post_configure_engine
from sqlalchemy.testing.suite import *  # noqa: F403

from sqlstream.testing.spark import local_spark

local_spark()  # sized for tables of a few rows; sessions take the Spark that runs


@post_configure_engine.for_db("sqlstream")
def _make_schemas(url, engine, follower_ident):  # type: ignore[no-untyped-def]
    with engine.connect() as connection:
        for name in ("test_schema", "test_schema_2"):
            connection.exec_driver_sql(f"CREATE DATABASE IF NOT EXISTS {name}")
