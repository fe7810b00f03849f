"""The end of the JVM that this process has started."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_SECONDS = 20.0


def stop_jvm(spark: SparkSession) -> None:
    """Stop a local session and wait until its JVM has ended, after which this process can start none again."""
    spark.stop()
    end_jvm(None)


def end_jvm(most_seconds: float | None = MOST_SECONDS) -> None:
    """Let the JVM end, if this process has started one, and kill it where it has not ended after so many seconds.

    When Spark has gone, RocksDB's compactions may still run. They report errors to Java, which lets nobody in any more,
    and Java waits for them: such a JVM would stay with all of its memory.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None or process.stdin is None:
        return
    with contextlib.suppress(Exception):  # it may have died
        _stop_listening()
        gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(most_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop_listening() -> None:
    """PySpark's thread that waits for counts from the JVM would print that its connection has ended."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        context._accumulatorServer.shutdown()
