"""Bytes that tasks report to have fetched while a job runs, for metrics."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from sqlstream.spark.running import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.udfs.kafka.sizes import SizeCounter, Sizes


class FetchedBytes:
    """The bytes of messages that the tasks of one job have fetched, by table. Nothing is counted before somebody has
    called ``ask``; through Spark Connect, which has no accumulators, nothing at all.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._counters: dict[str, Any] = {}
        self._lock = Lock()

    def ask(self) -> None:
        """From now on jobs that start are counted."""
        self._is_asked = True

    def counter(self, spark: SparkSession, table: str) -> SizeCounter | None:
        """What a task adds the bytes of a table to; None where they are not counted. A job that restarts goes on with
        the same one. What a task reads again, because it or its micro-batch has failed, counts again.
        """
        if not self._is_asked or is_connect(spark):
            return None
        from sqlstream.udfs.kafka.sizes import AddedSizes  # needs NumPy and Arrow, which a planner alone does not

        with self._lock:
            if table not in self._counters:
                self._counters[table] = spark.sparkContext.accumulator({}, cast(Any, AddedSizes()))
            return cast("SizeCounter", self._counters[table])

    def by_table(self) -> dict[str, Sizes]:
        """The sums of the tasks that have ended, by topic and partition."""
        with self._lock:
            return {table: counter.value for table, counter in self._counters.items()}

    def __reduce__(self) -> tuple[type[FetchedBytes], tuple[()]]:
        return FetchedBytes, ()
