"""``blackhole``: a sink that computes every row and keeps none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import BatchWriter, ChangelogSink, Environment, StreamSink, TruncatableTable
from sqlstream.options import NAME, Option
from sqlstream.planner.binder.inserts import PARTITIONS_OPTION
from sqlstream.planner.catalog import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Blackhole(ChangelogSink, StreamSink, TruncatableTable):
    """Writes to Spark's sink ``noop``."""

    name = "blackhole"
    doc = "A sink that computes every row and keeps none."
    options = (Option(PARTITIONS_OPTION, NAME, "Columns that INSERT … PARTITION may name.", source=False, sink=True),)

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("noop")

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        return lambda batch, _: batch.write.format("noop").mode("overwrite").save()

    def truncate(self, directory: Path, table: Table) -> None:
        """There are no rows to remove."""
