"""The Spark session of tests: one per process, sized for tables of a few rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from sqlstream.project import Project, enter
from sqlstream.session import Session
from sqlstream.settings import Settings
from sqlstream.spark.handle import SparkHandle
from sqlstream.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests push a handful of rows through each micro-batch, so the fixed costs of a batch are all that counts (measured:
# 380 ms with Spark's defaults, 230 ms with these). One shuffle partition means one task and one state store per
# operator; the C1 compiler and interpreted expressions spare compiling code that runs once. C1 alone gets 48 MB for
# what it compiles, which a dozen queries fill: then the JVM sweeps, 4 to 7 % of its time, and compiles anew.
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # ms until an idle query looks for files again. A test writes its next ones before: a query that looks all the time
    # finds rows without their watermark, which go through a micro-batch of their own.
    "spark.sql.streaming.pollingDelay": "30",
}


@cache
def local_spark() -> SparkSession:
    """The process's one session for tests, started at the first call."""
    return spark_session(_SETTINGS, "local[2]")


class _LocalHandle(SparkHandle):
    """Starts the Spark session for tests."""

    def _start(self, settings: Settings) -> SparkSession:
        local_spark()  # what the session then finds running
        return super()._start(settings)


class LocalSession(Session):
    """A session for tests on the Spark of this process, which starts when it is first needed. It may have settings, and
    the settings and catalogs of a project.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, project: Project | None = None) -> None:
        super().__init__()
        self._runner.spark = _LocalHandle(None)
        if project is not None:
            enter(self, project)
        for key, value in (settings or {}).items():
            self.workspace.settings.set(key, value)
