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

from sqlstream.connectors.connector import NOT_A_SOURCE, Environment
from sqlstream.connectors.formats import quoted
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from sqlstream.secrets import Secrets
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kernel import ROW_KIND


class PartitionWriter(Protocol):
    """Writes partitions of a micro-batch in workers. Frozen and picklable.

    Spark repeats tasks and micro-batches that fail, so the writer may get the same rows again.
    """

    def write(self, partition: int, rows: Iterable[pa.RecordBatch]) -> None:
        """Writes the rows of a partition in their order. A repeated partition has the same number."""
        ...


def write_in_workers(batch: DataFrame, writer: PartitionWriter, secrets: Secrets, together: Sequence[str] = ()) -> None:
    """Write all rows in the workers. Rows that are equal in the columns ``together`` are in one partition, in their
    order.

    Errors show none of the ``secrets``.
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
    """A row with its kind as text, as ``print`` shows it."""
    kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit("+I")
    names = [name for name in rows.columns if name != ROW_KIND]
    texts = [F.coalesce(F.col(quoted(name)).cast("string"), F.lit("null")) for name in names]
    return F.concat(kind, F.lit("["), F.concat_ws(", ", *texts), F.lit("]"))


# --- tables of Spark's catalog --------------------------------------------------------------------------------


def read_spark_table(environment: Environment, table: Table, name: str) -> DataFrame:
    """The rows of the Spark table with that quoted name. ConnectorError SS506 where Spark cannot stream it."""
    spark = environment.spark
    try:
        spark.catalog.refreshTable(name)  # jobs append to it in sessions of their own, which this one does not see
        return spark.read.table(name) if environment.finished else spark.readStream.table(name)
    except AnalysisException as error:
        reason = str(error).partition(" SQLSTATE")[0].partition(";")[0]
        message = f'table "{table.name}" of Spark cannot be read as a stream: {reason.strip().rstrip(".")}'
        hint = "SET 'execution.runtime-mode' = 'batch' reads all of it as finished data."
        raise ConnectorError(NOT_A_SOURCE, message, hint=hint) from None
