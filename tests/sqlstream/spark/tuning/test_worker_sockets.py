"""Spark and its Python processes talk through local sockets where they can."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from sqlstream.spark.tuning.applied import socket_settings

DIRECTORY = "spark.python.unix.domain.socket.dir"


@pytest.mark.skipif(sys.platform != "linux", reason="Spark has them on Linux alone")
def test_sockets_lie_in_one_folder_of_the_process():
    actual = socket_settings("local[2]")
    assert actual["spark.python.unix.domain.socket.enabled"] == "true"
    assert Path(actual[DIRECTORY]).is_dir()
    assert socket_settings("local[*]") == actual


def test_spark_elsewhere_uses_tcp():
    assert socket_settings("spark://127.0.0.1:7077") == {}


def test_a_folder_whose_name_is_too_long_for_sockets_is_not_used(monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/" + 50 * "x")
    assert socket_settings("local") == {}


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="Spark has them on Linux alone")
def test_python_of_the_session_is_reached_through_them(spark):
    folder = spark.conf.get(DIRECTORY)
    assert spark.range(3).mapInPandas(lambda frames: frames, "id BIGINT").count() == 3
    assert [path for path in Path(folder).iterdir() if path.suffix == ".sock"]
