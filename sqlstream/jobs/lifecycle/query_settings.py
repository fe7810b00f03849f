"""Settings of Spark that hold for one of its queries: the session has them while the query starts and copies them.

Settings that the user has given hold, but for the rows of an Arrow batch, which must not have too many blobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlstream.settings import LEAST_RETAINED, RETAINED_BY_SPARK
from sqlstream.spark.running import ONE_AT_A_TIME, put_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOBS_OF_A_BATCH = 100
"""Blobs have up to 200 kB, so an Arrow batch of them has 20 MB at most."""

_ROWS_OF_A_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_REMOVES_SHUFFLED = "spark.sql.classic.shuffleDependency.fileCleanup.enabled"
"""Files of a shuffle are removed with the micro-batch that has read them. Without it they stay until Java's collector
finds that nobody refers to them, which with a large heap can be hours and tens of gigabytes later."""


@contextmanager
def settings_of_query(spark: SparkSession, *, has_blobs: bool, temporary: bool) -> Iterator[None]:
    """A context manager for the start of a query. ``has_blobs``: rows between Spark and Python are blobs of many rows.
    ``temporary``: its checkpoint goes with the session, so that nobody goes back in it, and few epochs of it are kept.
    """
    with ONE_AT_A_TIME:
        before = {key: spark.conf.get(key, None) for key in (_ROWS_OF_A_BATCH, _REMOVES_SHUFFLED, RETAINED_BY_SPARK)}
        own = _own(before, has_blobs=has_blobs, temporary=temporary)
        for key, value in own.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in own:
                put_back(spark, key, before[key])


def _own(before: Mapping[str, str | None], *, has_blobs: bool, temporary: bool) -> dict[str, str]:
    own = {}
    if before[_REMOVES_SHUFFLED] is None:
        own[_REMOVES_SHUFFLED] = "true"
    if temporary and before[RETAINED_BY_SPARK] is None:
        own[RETAINED_BY_SPARK] = str(LEAST_RETAINED)
    rows = before[_ROWS_OF_A_BATCH]
    if has_blobs and not (rows is not None and 0 < int(rows) <= BLOBS_OF_A_BATCH):
        own[_ROWS_OF_A_BATCH] = str(BLOBS_OF_A_BATCH)
    return own
