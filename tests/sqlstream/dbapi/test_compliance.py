"""The compliance tests of DB-API 2.0 from PyPI (``dbapi-compliance``), over tables in memory."""

from __future__ import annotations

from typing import Any, ClassVar

import dbapi20
import pytest

from sqlstream import dbapi

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")]

LONG = ("executemany", "fetchall", "fetchmany", "fetchone", "mixedfetch")
"""They show at length, with six INSERTs each, what tests of our own show."""


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc] # ships no annotations
    driver = dbapi
    connect_kw_args: ClassVar[dict[str, Any]] = {}
    table_prefix = "dbapi20_"
    ddl1 = f"CREATE TABLE {table_prefix}booze (name STRING) WITH ('connector' = 'memory')"
    ddl2 = f"CREATE TABLE {table_prefix}barflys (name STRING, drink STRING) WITH ('connector' = 'memory')"

    @pytest.fixture(autouse=True)
    def on_the_spark_of_tests(self, spark):
        """A session of its own for each test, so that tables need not be dropped."""
        type(self).connect_kw_args = {"spark": spark}

    def tearDown(self) -> None:
        """Nothing outlives the connection of a test."""

    def test_non_idempotent_close(self) -> None:
        """A connection may be closed twice, as those of sqlite3 and psycopg."""
        connection = dbapi.connect()
        connection.close()
        connection.close()
        self.assertRaises(dbapi.Error, connection.commit)

    def test_nextset(self) -> None:
        """A script gives the result of its last statement, so there is no nextset()."""
        assert not hasattr(dbapi.Cursor, "nextset")

    def test_setoutputsize(self) -> None:
        """Values come whole, so the size of a column has no effect."""
        self.test_setoutputsize_basic()


for name in LONG:
    method = getattr(dbapi20.DatabaseAPI20Test, f"test_{name}")

    def long(self: TestCompliance, method: Any = method) -> None:
        method(self)

    setattr(TestCompliance, f"test_{name}", pytest.mark.long(long))
