"""Tables of files as sinks: Spark's writers, tasks and object stores, whose files are those of whole micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sqlstream.connectors.change_formats import has_kinds
from sqlstream.connectors.connector import PATH_ERROR, BatchWriter, folder_of_batch
from sqlstream.connectors.environment import Environment, SinkWriteRange
from sqlstream.connectors.files.sink import (
    SINK_LOG_GONE,
    ahead_of_savepoint,
    holds_files,
    newest_batch,
    not_empty,
    require_directory_above,
    require_log,
)
from sqlstream.connectors.files.tables import ROWS, credentials, holds_rows_now, local_path, partition_columns, unusable
from sqlstream.connectors.formats import quoted, writing
from sqlstream.connectors.on_spark.change_messages import encode_changes
from sqlstream.connectors.on_spark.keyed_rows import is_foreign, replace_file
from sqlstream.connectors.on_spark.object_sink import folder_of, object_writer, require_objects
from sqlstream.connectors.on_spark.record_files import tasks_read
from sqlstream.connectors.on_spark.records import csv_columns, directory_column, json_columns
from sqlstream.connectors.on_spark.task_files import WRITTEN_BY_TASKS, task_writer
from sqlstream.connectors.on_spark.unrepresentable import refusing
from sqlstream.connectors.stores.epochs import EpochLog
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.options import is_in_store
from sqlstream.connectors.stores.stores import store_of
from sqlstream.errors import ConnectorError, ExecutionError, SqlStreamError
from sqlstream.planner.catalog import Table
from sqlstream.secrets import shown_value
from sqlstream.spark.running import shares_files
from sqlstream.udfs.files.sink_log import begin_after

_LINE = "__line"


@dataclass(frozen=True)
class _Target:
    """What Spark's writer gets. ``escaped``: escape characters of CSV are doubled in all texts, for our own reader."""

    path: str
    format: str
    options: Mapping[str, str]
    partitions: list[str]
    escaped: bool = False


def stream_writer(
    environment: Environment, table: Table, rows: DataFrame, values: Mapping[str, Any]
) -> DataStreamWriter:
    """Returns Spark's file sink for a stream. Its log in the directory lists the valid files. ``values``: the parsed
    options of the table.
    """
    if holds_rows_now(table) or is_in_store(values["path"]):
        return rows.writeStream.foreachBatch(batch_writer(environment, table, values))
    target = _target(environment, table, values)
    local = local_path(target.path)
    if environment.after is not None and local is not None:
        begin_after(Path(local), environment.after)
    if target.format in WRITTEN_BY_TASKS:
        return rows.writeStream.foreachBatch(_write_by_tasks(environment, table, values, target, logged=True))
    rows = _as_written(rows, table, values, target)
    writer = rows.writeStream.format(target.format).options(**target.options).option("path", target.path)
    return writer.partitionBy(*target.partitions) if target.partitions else writer


def batch_writer(environment: Environment, table: Table, values: Mapping[str, Any]) -> BatchWriter:
    """Returns the function that writes a micro-batch: into a folder of its own, or, for a table with PRIMARY KEY that
    stores current rows, by replacing its one Parquet file.

    ``values``: the parsed options of the table.
    """
    if holds_rows_now(table):
        return _replace_batches(environment, table, values)
    if (store := store_of(values["path"], values)) is not None:
        return _write_objects(environment, table, values, store)
    target = _target(environment, table, values)
    if target.format in WRITTEN_BY_TASKS:
        return _write_by_tasks(environment, table, values, target, logged=False)

    def write_batch(batch: DataFrame, number: int) -> None:
        rows = _as_written(batch, table, values, target)
        writer = rows.write.mode("overwrite").format(target.format).options(**target.options)
        writer = writer.partitionBy(*target.partitions) if target.partitions else writer
        writer.save(folder_of_batch(target.path, number))

    return write_batch


def _write_by_tasks(
    environment: Environment, table: Table, values: Mapping[str, Any], target: _Target, *, logged: bool
) -> BatchWriter:
    write = task_writer(environment, table, values, logged=logged)
    return lambda batch, number: write(refusing(batch, table, values, target.partitions), number)


def _write_objects(
    environment: Environment, table: Table, values: Mapping[str, Any], store: ObjectStore
) -> BatchWriter:
    if wrong := tuple(credentials(table, {})):
        raise SqlStreamError.of(wrong)
    write, partitions = object_writer(environment, table, values, store), partition_columns(table)
    return lambda batch, number: write(refusing(batch, table, values, partitions), number)


def _replace_batches(environment: Environment, table: Table, values: Mapping[str, Any]) -> BatchWriter:
    path = values["path"]
    local = local_path(path)
    if local is None or not shares_files(environment.spark):
        message = f'path "{shown_value("path", path)}" of table "{table.name}" is not on this machine'
        detail = "Files of another system cannot be put into the place of each other by one step."
        hint = (
            "Give a local path, leave out PRIMARY KEY, or write into a database, or into a table of delta or iceberg."
        )
        raise ConnectorError(PATH_ERROR, message, detail=detail, hint=hint)
    folder = Path(local)
    try:
        if folder.exists() and (not folder.is_dir() or is_foreign(folder)):
            raise not_empty(table, folder)
        require_directory_above(local, table)
    except (OSError, ValueError) as error:
        raise SqlStreamError.of([unusable(table, path, error)]) from None
    return partial(replace_file, folder, table.primary_key, environment.run)


def _as_written(rows: DataFrame, table: Table, values: Mapping[str, Any], target: _Target) -> DataFrame:
    """The input of Spark's writer: rows, or the text of each change."""
    checked = refusing(rows, table, values, target.partitions)
    in_files = checked.select(*(F.col(quoted(name)) for name in checked.columns if name not in target.partitions))
    if has_kinds(table):
        columns = [encode_changes(in_files, values).alias(_LINE)]
    elif target.format == "json":
        columns = json_columns(in_files, values)
    elif target.format == "csv":
        columns = csv_columns(in_files, values, escaped=target.escaped)
    else:
        columns = [F.col(quoted(name)) for name in in_files.columns]
    return checked.select(*columns, *(directory_column(checked, name) for name in target.partitions))


def _target(environment: Environment, table: Table, values: Mapping[str, Any]) -> _Target:
    if wrong := tuple(credentials(table, {})):
        raise SqlStreamError.of(wrong)
    try:
        _refuse_foreign_files(environment, table, values["path"])
    except (OSError, ValueError) as error:
        raise SqlStreamError.of([unusable(table, values["path"], error)]) from None
    escaped = tasks_read(environment, table)
    options = writing(values, escaped=escaped)
    if values["format"] == "csv":
        options["header"] = str(values["csv.header"]).lower()
    if has_kinds(table):
        return _Target(values["path"], "text", {}, partition_columns(table))
    return _Target(values["path"], values["format"], options, partition_columns(table), escaped)


def _refuse_foreign_files(environment: Environment, table: Table, path: str) -> None:
    """SS508 for a directory with files of another job: Spark's file sink skips the batches that are in its log."""
    local = local_path(path)
    if (environment.resumed and not environment.anew) or local is None:
        return
    if not Path(local).exists():
        require_directory_above(local, table)
        return
    newest = newest_batch(Path(local)) if environment.anew and Path(local).is_dir() else None
    if newest is not None and environment.after is not None:
        if newest > environment.after:
            raise ahead_of_savepoint(table, local, newest, environment.after)
        return
    if not Path(local).is_dir() or holds_files(Path(local)):
        raise not_empty(table, Path(local))


def require_intact(
    environment: Environment, table: Table, values: Mapping[str, Any], written: SinkWriteRange | None, streamed: bool
) -> None:
    """Makes the checks of ``RecoverableSink.require_intact`` for a directory on this machine, or a folder in an object
    store. Other directories are not checked. ``values``: the parsed options of the table.
    """
    local = local_path(values["path"])
    if not environment.resumed or environment.anew or environment.after is None:
        return
    if (store := store_of(values["path"], values)) is not None:
        require_objects(table, EpochLog(store, folder_of(values["path"])), written, environment.after)
    if local is None:
        return
    try:
        if holds_rows_now(table):
            require_rows(table, Path(local), written)
            return
        require_log(table, Path(local), written, environment.after, streamed)
    except (OSError, ValueError) as error:
        raise SqlStreamError.of([unusable(table, local, error)]) from None


def require_rows(table: Table, folder: Path, written: SinkWriteRange | None) -> None:
    """Checks a directory that holds a table's current rows in one file. Raises SS420 if the file is missing although
    ``written`` says that there are rows, and SS508 if other files are there.
    """
    has_written = written is not None and written.until is not None and written.since < written.until
    if has_written and not (folder / ROWS).exists():
        message = f'"{folder / ROWS}" of table "{table.name}" is gone, with the rows that were written'
        hint = "Give it back from a copy, or start the job anew, without its checkpoint."
        raise ExecutionError(SINK_LOG_GONE, message, hint=hint)
    if folder.exists() and (not folder.is_dir() or is_foreign(folder)):
        raise not_empty(table, folder)
