"""The sink of ``filesystem`` for formats that tasks write themselves: Avro and Arrow.

The files of a micro-batch count when they are committed. A stream adds them to the log in the directory, which is that
of Spark's file sink, so that the same readers and checks hold; else the folder of the micro-batch is put in its place
by one step of the file system. What attempts of tasks leave that failed is in no log.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from sqlstream.connectors.connector import PATH_ERROR, BatchWriter, folder_of_batch
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.tables import local_path, partition_columns
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.on_spark.record_files import is_local
from sqlstream.connectors.on_spark.records import directory_column
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from sqlstream.secrets import shown_value
from sqlstream.spark.running import shares_files
from sqlstream.udfs.files.sink_log import begin_after, log_batch, newest_logged
from sqlstream.udfs.files.written import ArrowOutput, AvroOutput, FileOutput, WrittenFiles
from sqlstream.udfs.spark.batches import rows_of

WRITTEN_BY_TASKS = frozenset({"avro", "arrow"})
"""The formats for which Spark has no writer."""

_DDL = "path STRING, size BIGINT, modified BIGINT"
_WRITING = "_sqlstream_writing"


def task_writer(environment: Environment, table: Table, values: Mapping[str, Any], *, logged: bool) -> BatchWriter:
    """Returns the function that writes a micro-batch, whose values were checked. ``logged``: the log in the directory
    says which files count, and a micro-batch that it has is not written again; else each has a folder.

    ``values``: the parsed options of the table. Raises ConnectorError SS508 for a path that is not on this machine.
    """
    local = local_path(values["path"])
    if local is None or not shares_files(environment.spark) or not is_local(environment, table):
        message = f'path "{shown_value("path", values["path"])}" of table "{table.name}" is not on this machine'
        detail = f'Tasks write the format "{values["format"]}" themselves, into local directories.'
        raise ConnectorError(PATH_ERROR, message, detail=detail, hint="Give a local path, or write parquet.")
    folder, output, partitions = Path(local).absolute(), _output(table, values), partition_columns(table)

    def write_logged(batch: DataFrame, number: int) -> None:
        files = _written(batch, output, folder, partitions)
        newest = newest_logged(folder)
        if newest is not None and newest >= number:  # written before the job stopped
            _remove(files)
            return
        begin_after(folder, number - 1)
        log_batch(folder, number, [(Path(f.path), f.size, f.modified) for f in files])

    def write_folder(batch: DataFrame, number: int) -> None:
        writing, target = folder / _WRITING, Path(folder_of_batch(str(folder), number))
        shutil.rmtree(writing, ignore_errors=True)
        fresh, old = writing / "new", writing / "old"
        fresh.mkdir(parents=True)
        files = _written(batch, output, fresh, partitions)
        _remove_others(fresh, files)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(writing)

    return write_logged if logged else write_folder


def _output(table: Table, values: Mapping[str, Any]) -> FileOutput:
    partitions = partition_columns(table)
    columns = tuple((c.name, c.type) for c in table.physical_columns if c.name not in partitions)
    if values["format"] == "avro":
        return AvroOutput(columns, values["avro.codec"], values["avro.timestamp_mapping.legacy"])
    compression = values["arrow.compression"]
    return ArrowOutput(columns, None if compression == "none" else compression)


def _written(batch: DataFrame, output: FileOutput, folder: Path, partitions: Sequence[str]) -> list[Row]:
    """The files of the attempts that succeeded."""
    in_files = [F.col(quoted(name)) for name, _ in output.columns]
    directories = [directory_column(batch, name).cast("STRING").alias(name) for name in partitions]
    files = WrittenFiles(output, str(folder), tuple(partitions))
    return batch.select(*in_files, *directories).mapInArrow(rows_of(files), _DDL).collect()


def _remove(files: Sequence[Row]) -> None:
    for file in files:
        Path(file.path).unlink(missing_ok=True)


def _remove_others(folder: Path, files: Sequence[Row]) -> None:
    kept = {file.path for file in files}
    for path in [*folder.rglob("*")]:
        if path.is_file() and str(path) not in kept:
            path.unlink()
