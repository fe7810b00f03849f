"""``memory``: rows kept until the session closes, as Parquet files in its scratch folder, one folder per job.

Spark's file sink keeps one log per directory, so jobs that write to the same table need a directory each.
"""

from __future__ import annotations

import shutil
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import Connector, Environment, columns_of
from sqlstream.connectors.formats import quoted, schema_ddl
from sqlstream.errors import UnsupportedError
from sqlstream.planner.catalog import Table
from sqlstream.spark import shares_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


NOT_HERE = "SS347"


def _require_shared_files(environment: Environment, table: Table) -> None:
    if not shares_files(environment.spark):
        message = f'table "{table.name}" is in files of this machine, which Spark on another one does not see'
        raise UnsupportedError(NOT_HERE, message, hint="Use the connector filesystem with a path of the server.")


def _folder(directory: Path, table: Table) -> Path:
    return directory / "memory" / table.name.lower()


def read(environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
    _require_shared_files(environment, table)
    folder = _folder(environment.directory, table)
    empty = folder / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    # A folder without Spark's log holds no complete batch yet.
    written = sorted(log.parent for log in folder.glob("*/_spark_metadata"))
    reader = environment.spark.readStream.schema(schema_ddl(table.physical_columns))
    streams = [reader.parquet(str(path)) for path in written or [empty]]
    names = [quoted(c.name) for c in columns_of(table, columns)]
    return reduce(lambda left, right: left.unionAll(right), streams).select(*names)


def write(environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
    _require_shared_files(environment, table)
    path = _folder(environment.directory, table) / environment.job
    return rows.writeStream.format("parquet").option("path", str(path))


def drop(directory: Path, table: Table) -> None:
    shutil.rmtree(_folder(directory, table), ignore_errors=True)


CONNECTOR = Connector(
    name="memory",
    doc="Rows kept until the session closes: written by INSERT, read as a bounded source of what is there.",
    read=read,
    write=write,
    bounded=lambda table: True,
    drop=drop,
)
