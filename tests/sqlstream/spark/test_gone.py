"""The process of Spark can end on its own; sessions then say so once and close."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.settings import Settings
from sqlstream.spark.handle import SparkHandle
from sqlstream.spark.running import is_spark_gone


class Conf:
    """The settings of a Spark whose process has ended, once ``error`` is there."""

    error: Exception | None = None

    def get(self, key, default=None):
        return default

    def set(self, key, value):
        return None

    def unset(self, key):
        assert self.error is not None
        raise self.error


class Spark:
    def __init__(self):
        self.conf = Conf()


GONE = [
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(104, "Connection reset by peer"),
    Py4JNetworkError("An error occurred while trying to connect to the Java server (127.0.0.1:1)"),
    Py4JError("Answer from Java side is empty"),
    Py4JError("An error occurred while calling o43.awaitTermination"),
]


def released(error):
    handle = SparkHandle(None)
    spark: Any = Spark()
    handle._spark = spark
    settings = Settings()
    settings.set("spark.sql.shuffle.partitions", "3")
    handle.apply(settings)
    spark.conf.error = error
    handle.release()


@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
def test_a_session_closes_without_spark(error):
    released(error)
    assert str(job_error(error, "j", "/c")).splitlines()[0] == "SS464: the process of Spark has ended"


def test_other_errors_are_told():
    with pytest.raises(Py4JError, match="no such setting"):
        released(Py4JError("no such setting"))
    assert not is_spark_gone(FileNotFoundError("x"))
    assert not is_spark_gone(Py4JError("An error occurred while calling o4.stop. Trace:\njava.lang.Error"))
