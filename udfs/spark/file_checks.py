"""A look at the files of each micro-batch before their rows are read: Spark drops those that are gone, and takes a
column that a Parquet file lacks for one of NULLs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.udfs.listed_files import FILES, MISSING_METRIC, SIZES, ListedFiles
from sqlstream.udfs.spark.batches import Batches

_BATCH_ID = "streaming.sql.batchId"  # of a task; from Spark's MicroBatchExecution
_MISSING, _SIZES = "__missing", "__sizes"
_LOOKED = f"{_MISSING} BIGINT, {_SIZES} STRING"

_numbers = count()


def checked(rows: DataFrame, listed: ListedFiles) -> DataFrame:
    """``rows``, which are read once one task has looked at the files of the micro-batch.

    The task comes when Spark has made its plan of the files, from which it drops those that are gone. It is a table of
    one row that the stream is joined with: no source, so that offsets in the checkpoint are those of ``rows``.
    """
    look = rows.sparkSession.range(1, numPartitions=1).mapInArrow(_looked_at(listed), _LOOKED)
    name = f"{MISSING_METRIC}/{next(_numbers)}/{quote(listed.table, safe='')}"
    counted = look.observe(name, F.sum(_MISSING).alias(FILES), F.max(_SIZES).alias(SIZES))
    return rows.crossJoin(F.broadcast(counted.select(_MISSING))).drop(_MISSING)


def _looked_at(listed: ListedFiles) -> Batches:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
        sizes = listed.sizes(int(batch)) if batch is not None else {}
        missing = listed.count_missing(int(batch)) if batch is not None else 0
        for _ in batches:
            looked = {_MISSING: pa.array([missing], pa.int64()), _SIZES: pa.array([json.dumps(sizes)], pa.string())}
            yield pa.RecordBatch.from_pydict(looked)

    return look
