"""The end of the JVM that this process has started."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

from sqlstream.spark.internals import end_connection, java_process

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
    process = java_process()
    if process is None or process.stdin is None:
        return
    with contextlib.suppress(Exception):  # it may have died
        end_connection()
    process.stdin.close()
    try:
        process.wait(most_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
