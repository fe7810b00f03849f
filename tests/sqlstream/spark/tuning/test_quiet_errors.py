"""An expression that fails is told once, by us: PySpark's lines of JSON with the JVM's stack are left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job
from sqlstream.query import Query
from sqlstream.spark.tuning.applied import quiet_reported_errors

pytestmark = pytest.mark.spark

LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What reaches the handlers of PySpark's loggers, among them the one that writes to standard error."""
    handler = Records()
    for name in LOGGERS:
        PySparkLogger.getLogger(name).addHandler(handler)
    yield handler.found
    for name in LOGGERS:
        PySparkLogger.getLogger(name).removeHandler(handler)


def test_errors_that_we_report_are_not_logged_by_pyspark_and_those_of_the_user_are(
    spark: Any, tmp_path: Path, records: list[logging.LogRecord]
) -> None:
    (tmp_path / "in.json").write_text('{"a": "x"}\n')
    with sqlstream.connect(spark) as session:
        session.sql(f"""CREATE TABLE t (a STRING)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/in.json')""")
        session.sql("CREATE TABLE o (a INT) WITH ('connector' = 'print')")
        for statement in ("SELECT CAST(a AS INT) AS a FROM t", "INSERT INTO o SELECT CAST(a AS INT) FROM t"):
            result = session.sql(statement)
            assert isinstance(result, Query | Job)
            with pytest.raises(SqlStreamError, match=r"SS400: \[CAST_INVALID_INPUT\]") as caught:
                result.fetchall() if isinstance(result, Query) else result.wait()
            assert "CAST_INVALID_INPUT" in str(caught.value)
            assert "It goes on from" not in str(caught.value)
            assert ("begins anew" in str(caught.value)) is statement.startswith("INSERT")
        assert records == []
        with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
            spark.sql("SELECT CAST('x' AS INT)").collect()
    assert {record.name for record in records} == {"SQLQueryContextLogger"}


def test_the_filter_is_there_once_however_many_sessions_there_are() -> None:
    quiet_reported_errors()
    quiet_reported_errors()
    assert [len(PySparkLogger.getLogger(name).filters) for name in LOGGERS] == [1, 1]
