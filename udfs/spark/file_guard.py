"""A look, in each micro-batch, whether its files are still there."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.udfs.listed_files import ListedFiles
from sqlstream.udfs.spark.batches import Batches

GONE = "gone"


def guarded(files: DataFrame, rows: DataFrame, listed: ListedFiles, metric: str) -> DataFrame:
    """``rows``, which are made of ``files``; where files are gone the job fails, or the metric counts them.

    ``files`` come from ``with_known_files``. One task more looks, for which Spark reads no file: none has so few bytes.
    """
    none = files.where(F.col("_metadata.file_size") < 0).select(F.col("_metadata.file_size").alias(GONE))
    found = none.coalesce(1).mapInArrow(_counting(listed), f"{GONE} BIGINT").observe(metric, F.sum(GONE).alias(GONE))
    nothing = [F.lit(None).cast(f.dataType).alias(f.name) for f in rows.schema]
    return rows.union(found.where(F.col(GONE) < 0).select(*nothing))


def _counting(listed: ListedFiles) -> Batches:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({GONE: pa.array([listed.gone()], pa.int64())})

    return look
