"""``blackhole``: a sink that computes every row and keeps none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.connectors.connector import BatchWriter, Connector, Environment, all_changes
from sqlstream.planner.catalog import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def write(environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
    return rows.writeStream.format("noop")


def write_batches(environment: Environment, table: Table) -> BatchWriter:
    return lambda batch, _: batch.write.format("noop").mode("overwrite").save()


CONNECTOR = Connector(
    name="blackhole",
    doc="A sink that computes every row and keeps none.",
    write=write,
    write_batches=write_batches,
    takes_changes=all_changes,
)
