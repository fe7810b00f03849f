"""Rows on their way into what Spark has no writer for: in its workers, as lines of text, and out of its own tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.connector import NOT_A_SOURCE
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from sqlstream.secrets import Secrets
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kernel import ROW_KIND


class PartitionWriter(Protocol):
    """Writes the partitions of a micro-batch, in Spark's tasks. It must be immutable and picklable.

    Spark repeats failed tasks and micro-batches, so it may be given the same rows again.
    """

    def write(self, partition: int, rows: Iterable[pa.RecordBatch]) -> None:
        """Writes the rows of a partition in order. If a partition is repeated, its number is the same."""
        ...


def write_in_workers(batch: DataFrame, writer: PartitionWriter, secrets: Secrets, together: Sequence[str] = ()) -> None:
    """Writes all rows of a micro-batch with ``writer``, in Spark's tasks.

    ``together``: columns; rows with equal values in them are written by one task, in their order. ``secrets``: texts
    that are removed from error messages.
    """
    rows = batch.repartition(*(F.col(quoted(name)) for name in together)) if together else batch
    rows.mapInArrow(_Task(writer, secrets).run, "written BIGINT").write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class _Task:
    writer: PartitionWriter
    secrets: Secrets = field(repr=False)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        with hiding(self.secrets):
            self.writer.write(task.partitionId() if task is not None else 0, batches)
        return iter(())


def line_of(rows: DataFrame) -> Column:
    """Returns an expression that formats a row and its kind as one text, as connector ``print`` shows it."""
    kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit("+I")
    names = [name for name in rows.columns if name != ROW_KIND]
    texts = [F.coalesce(F.col(quoted(name)).cast("string"), F.lit("null")) for name in names]
    return F.concat(kind, F.lit("["), F.concat_ws(", ", *texts), F.lit("]"))


# --- tables of Spark's catalog --------------------------------------------------------------------------------


def read_spark_table(environment: Environment, table: Table, name: str) -> DataFrame:
    """Returns the rows of a table in Spark's catalog. ``name``: its quoted name. Raises ConnectorError SS506 where
    Spark cannot stream it.
    """
    spark = environment.spark
    try:
        spark.catalog.refreshTable(name)  # jobs append to it in sessions of their own, which this one does not see
        return spark.read.table(name) if environment.finished else spark.readStream.table(name)
    except AnalysisException as error:
        reason = str(error).partition(" SQLSTATE")[0].partition(";")[0]
        message = f'table "{table.name}" of Spark cannot be read as a stream: {reason.strip().rstrip(".")}'
        hint = "SET 'execution.runtime-mode' = 'batch' reads all of it as finished data."
        raise ConnectorError(NOT_A_SOURCE, message, hint=hint) from None
