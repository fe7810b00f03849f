"""Checks the files of each micro-batch before their rows are read. Spark skips files that were deleted, and reads NULLs
for a column that a Parquet file lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sqlstream.udfs.listed_files import FILES, MISSING_METRIC, SIZES, ListedFiles
from sqlstream.udfs.spark.batches import Batches
from sqlstream.udfs.spark.internals import arrow_schema

_BATCH_ID = "streaming.sql.batchId"  # of a task; from Spark's MicroBatchExecution
_MISSING, _SIZES = "__missing", "__sizes"
_LOOKED = f"{_MISSING} BIGINT, {_SIZES} STRING"

_numbers = count()


def checked(rows: DataFrame, listed: ListedFiles) -> DataFrame:
    """``rows``, which are read after one task has checked the files of the micro-batch.

    The task runs when Spark has planned the files, from which it omits deleted ones. It is a table of one row with
    which the stream is joined. It is not a source, so the offsets in the checkpoint are those of ``rows``.
    """
    look = rows.sparkSession.range(1, numPartitions=1).mapInArrow(_look_alone(listed), _LOOKED)
    return rows.crossJoin(F.broadcast(_counted(look, listed).select(_MISSING))).drop(_MISSING)


def checked_places(places: DataFrame, listed: ListedFiles, name: str) -> DataFrame:
    """``places``, a row for each file in one task, which looks at the files of the micro-batch, too: the join of
    ``checked`` would be a job of its own, some 60 milliseconds. ``name``: the column of the file, which is never NULL.
    """
    own = places.schema
    looked = places.mapInArrow(_look_first(listed, arrow_schema(own)), f"{_ddl(own)}, {_LOOKED}")
    return _counted(looked, listed).where(F.col(name).isNotNull()).drop(_MISSING, _SIZES)


def _ddl(schema: StructType) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema)


def _counted(looked: DataFrame, listed: ListedFiles) -> DataFrame:
    name = f"{MISSING_METRIC}/{next(_numbers)}/{quote(listed.table, safe='')}"
    return looked.observe(name, F.sum(_MISSING).alias(FILES), F.max(_SIZES).alias(SIZES))


def _look_alone(listed: ListedFiles) -> Batches:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        looked = _look(listed)
        yield from (looked for _ in batches)

    return look


def _look_first(listed: ListedFiles, own: pa.Schema) -> Batches:
    """What was seen, as a row without a file, then the rows."""
    seen = pa.schema([(_MISSING, pa.int64()), (_SIZES, pa.string())])

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        looked = _look(listed)
        yield pa.RecordBatch.from_arrays(
            [*(pa.nulls(1, f.type) for f in own), *looked.columns], [*own.names, *seen.names]
        )
        for rows in batches:
            empty = [pa.nulls(rows.num_rows, f.type) for f in seen]
            yield pa.RecordBatch.from_arrays([*rows.columns, *empty], [*own.names, *seen.names])

    return look


def _look(listed: ListedFiles) -> pa.RecordBatch:
    context = TaskContext.get()
    batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
    sizes = listed.sizes(int(batch)) if batch is not None else {}
    missing = listed.count_missing(int(batch)) if batch is not None else 0
    return pa.RecordBatch.from_arrays(
        [pa.array([missing], pa.int64()), pa.array([json.dumps(sizes)])], [_MISSING, _SIZES]
    )
