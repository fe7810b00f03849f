"""Whether a session is one of Spark Connect, and where its files are then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_connect(spark: SparkSession) -> bool:
    """True for a session of Spark Connect, which has no JVM in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def shares_files(spark: SparkSession) -> bool:
    """False where Spark runs on another machine, behind Spark Connect: paths are those of the server then."""
    if not is_connect(spark):
        return True
    host: str = spark.client.host
    return host in ("localhost", "127.0.0.1")
