"""A look into each Parquet file that Spark reads: a column that is not there would be one of NULLs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.types import DataType
from sqlstream.udfs.file_schema import mismatches
from sqlstream.udfs.spark.batches import Batches


def with_known_files(files: DataFrame) -> DataFrame:
    """All rows of the files; a relation that tells files is another source to Spark than one that does not."""
    return files.where(F.col("_metadata.file_block_start") >= 0)


def checked(files: DataFrame, rows: DataFrame, wanted: Mapping[str, DataType]) -> DataFrame:
    """``rows``, which are made of ``with_known_files``; the job fails where one of the ``files`` lacks a column.

    Spark goes through the numbers of the rows once more for this, and reads no column.
    """
    first = files.where(F.col("_metadata.row_index") == 0).select(F.col("_metadata.file_path").alias("file"))
    none = first.coalesce(1).mapInArrow(_no_rows({name: kind.to_arrow() for name, kind in wanted.items()}), rows.schema)
    return rows.union(none)


def _no_rows(wanted: Mapping[str, pa.DataType]) -> Batches:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in batch.column(0).to_pylist():
                require_columns(unquote(urlsplit(name).path), wanted)
        return iter(())

    return look


def require_columns(path: str, wanted: Mapping[str, pa.DataType]) -> None:
    """SS524 where the file lacks a column, SS467 where it is of another type."""
    with suppress(pa.ArrowException, OSError):  # what cannot be read is for the reader to say
        schema = pq.read_schema(path)
        for found in mismatches(dict(zip(schema.names, schema.types, strict=True)), wanted, nulls=False):
            raise found.error(path)
