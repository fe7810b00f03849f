"""Sources over Parquet files in a directory of the test."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.streams import Streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Streams:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # jobs that get no checkpoint directory make one
    return Streams(spark, tmp_path)
