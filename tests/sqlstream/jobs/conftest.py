"""Sources over Parquet files in a directory of the test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.streams import Streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    return Streams(spark, tmp_path)
