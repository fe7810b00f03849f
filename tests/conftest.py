"""Fixtures that all tests share: one Spark session per process, on directories that vanish with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sqlstream.testing.spark import fast_directory, local_spark, missing_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expected blocks of golden files")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing_java()
    if reason is None:
        return
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The process's Spark session: ``local[2]``, one shuffle partition, checkpoints on a temporary directory."""
    checkpoints = fast_directory("sqlstream-checkpoints-")
    session = local_spark()
    session.conf.set("spark.sql.streaming.checkpointLocation", str(checkpoints))
    yield session
    session.stop()
    shutil.rmtree(checkpoints, ignore_errors=True)
