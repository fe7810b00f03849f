"""The Spark session of tests: one per process, sized for tables of a few rows."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests push a handful of rows through each micro-batch, so the fixed costs of a batch are all that counts: one
# shuffle partition means one task and one state store per operator, the C1 compiler and interpreted expressions
# spare compiling code that runs once.
_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def missing_java() -> str | None:
    """Why Spark cannot start here, or None if a Java executable is found."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return None
    if shutil.which("java"):
        return None
    return "no Java found: install a Java 17 runtime (for example openjdk-17-jre-headless) or set JAVA_HOME"


def fast_directory(prefix: str) -> Path:
    """A new directory, in memory where the platform offers it; the caller removes it."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


@cache
def local_spark() -> SparkSession:
    """The process's one session for tests, started at the first call."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("sqlstream tests")
    for key, value in _CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
