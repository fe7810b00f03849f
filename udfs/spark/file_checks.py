"""A look at the files of each micro-batch before their rows are read: Spark drops those that are gone, and takes a
column that a Parquet file lacks for one of NULLs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.udfs.listed_files import FILES, MISSING_METRIC, ListedFiles
from sqlstream.udfs.spark.batches import Batches

_BATCH_ID = "streaming.sql.batchId"  # of a task; from Spark's MicroBatchExecution
_MISSING = "__missing"

_numbers = count()


def checked(rows: DataFrame, listed: ListedFiles) -> DataFrame:
    """``rows``, which are read once one task has looked at the files of the micro-batch.

    The task comes when Spark has made its plan of the files, from which it drops those that are gone. It is a table of
    one row that the stream is joined with: no source, so that offsets in the checkpoint are those of ``rows``.
    """
    look = rows.sparkSession.range(1, numPartitions=1).mapInArrow(_looked_at(listed), f"{_MISSING} BIGINT")
    name = f"{MISSING_METRIC}/{next(_numbers)}/{quote(listed.table, safe='')}"
    counted = look.observe(name, F.sum(_MISSING).alias(FILES))
    return rows.crossJoin(F.broadcast(counted)).drop(_MISSING)


def _looked_at(listed: ListedFiles) -> Batches:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
        missing = listed.count_missing(int(batch)) if batch is not None else 0
        for _ in batches:
            yield pa.RecordBatch.from_pydict({_MISSING: pa.array([missing], pa.int64())})

    return look
