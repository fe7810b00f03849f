"""The doors to what PySpark keeps to itself: this PySpark has all of it, and one that has not is gone on without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from sqlstream.spark import internals
from sqlstream.spark.private_settings import start_java
from sqlstream.spark.running import master_of
from sqlstream.spark.session import end_jvm
from sqlstream.spark.tuning.applied import use_quick_files
from sqlstream.udfs.spark import internals as internals_of_operators


def test_this_pyspark_has_all_that_is_asked_for():
    """Run with each version of PySpark that pyproject.toml allows, this tells what a new one has changed."""
    assert internals.missing() == ()
    assert internals.missing(internals_of_operators.PROBES) == ()


@pytest.fixture
def bare_pyspark(monkeypatch):
    """A PySpark of which nothing is as we know it."""
    for owner, name in internals.PROBES:
        if owner == "pyspark.SparkContext":
            monkeypatch.delattr(f"{owner}.{name}")


def test_what_is_missing_is_named(bare_pyspark):
    assert "pyspark.SparkContext._gateway" in internals.missing()


def test_a_java_that_cannot_be_found_is_not_ended(bare_pyspark):
    assert internals.java_process() is None
    end_jvm()
    internals.end_connection()


def test_files_stay_as_hadoop_makes_them_without_the_java_of_a_session():
    session = cast(Any, SimpleNamespace(sparkContext=SimpleNamespace()))
    assert internals.java_of(session) is None and internals.hadoop_configuration(session) is None
    use_quick_files(session)


def test_secrets_are_not_put_elsewhere_where_java_starts_otherwise(bare_pyspark):
    with pytest.raises(AttributeError, match="has no attribute"):
        start_java({"spark.x.password": "hunter2"})


def test_the_host_stands_for_an_endpoint_that_is_not_known():
    class Session:
        client = SimpleNamespace(host="spark.example")

    Session.__module__ = "pyspark.sql.connect.session"
    assert master_of(cast(Any, Session())) == "sc://spark.example:15002"


def test_an_error_without_the_words_of_java_has_none():
    assert internals.java_trace(ValueError()) is None


@pytest.mark.spark
def test_readers_of_sources_have_workers_of_their_own(spark: SparkSession):
    class Reader(DataSourceReader):
        def read(self, partition: object) -> Iterator[tuple[str | None]]:
            yield (os.environ.get("SQLSTREAM_WORKERS"),)

    class Workers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "workers_of_sources"

        def schema(self) -> str:
            return "of_source STRING"

        def reader(self, schema: object) -> DataSourceReader:
            return Reader()

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            here = pa.array([os.environ.get("SQLSTREAM_WORKERS")], pa.string())
            yield pa.RecordBatch.from_arrays([batch.column(0), here], ["of_source", "of_others"])

    internals.register_source(spark, Workers)
    rows = spark.read.format(Workers.name()).load().mapInArrow(seen, "of_source STRING, of_others STRING")
    assert [tuple(row) for row in rows.collect()] == [("sources", None)]
