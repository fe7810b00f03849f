"""``blackhole``: a sink that computes every row and keeps none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import BatchWriter, Connector, Environment, all_changes
from sqlstream.options import NAME, Option
from sqlstream.planner.binder.inserts import PARTITIONS_OPTION
from sqlstream.planner.catalog import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def write(environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
    return rows.writeStream.format("noop")


def write_batches(environment: Environment, table: Table) -> BatchWriter:
    return lambda batch, _: batch.write.format("noop").mode("overwrite").save()


def truncate(directory: Path, table: Table) -> None:
    """There are no rows to remove."""


CONNECTOR = Connector(
    name="blackhole",
    doc="A sink that computes every row and keeps none.",
    write=write,
    write_batches=write_batches,
    options=(Option(PARTITIONS_OPTION, NAME, "Columns that INSERT … PARTITION may name.", source=False, sink=True),),
    takes_changes=all_changes,
    truncate=truncate,
)
