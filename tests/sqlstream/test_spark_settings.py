from __future__ import annotations

import pytest

import sqlstream
from sqlstream.errors import ExecutionError


def test_a_missing_package_of_spark_is_named(monkeypatch) -> None:
    from pyspark.errors import PySparkImportError

    def missing(*_: object) -> None:
        raise PySparkImportError(errorClass="PACKAGE_NOT_INSTALLED", messageParameters={
            "package_name": "grpcio", "minimum_version": "1.48",
        })  # fmt: skip

    monkeypatch.setattr("sqlstream.spark.spark_session", missing)
    with sqlstream.connect("sc://localhost:1") as session, pytest.raises(ExecutionError) as error:
        session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1'); SELECT a FROM t")
    assert error.value.code == "SS482"
    assert "grpcio" in str(error.value) and "pip install 'pyspark[connect]'" in str(error.value)
