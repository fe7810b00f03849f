"""Micro-batches that Python writes in Spark's workers, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sqlstream.connectors.formats import quoted
from sqlstream.secrets import Secrets
from sqlstream.udfs.hiding import hiding

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class PartitionWriter(Protocol):
    """Frozen and picklable. A task that fails is run again by Spark, as is a micro-batch: it may see rows again."""

    def write(self, partition: int, rows: Iterable[pa.RecordBatch]) -> None:
        """Writes the rows of a partition, in their order; the number of the partition stays the same when repeated."""
        ...


def write_in_workers(batch: DataFrame, writer: PartitionWriter, secrets: Secrets, together: Sequence[str] = ()) -> None:
    """Writes all rows; those that are equal in the columns ``together`` come to one partition, in their order.

    Errors tell none of the ``secrets``.
    """
    from pyspark.sql import functions as F

    rows = batch.repartition(*(F.col(quoted(name)) for name in together)) if together else batch
    rows.mapInArrow(_Task(writer, secrets).run, "written BIGINT").write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class _Task:
    writer: PartitionWriter
    secrets: Secrets = field(repr=False)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        with hiding(self.secrets):
            self.writer.write(task.partitionId() if task is not None else 0, batches)
        return iter(())
