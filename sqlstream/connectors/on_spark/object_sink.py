"""The sink of ``filesystem`` in object stores: tasks write the objects, and this process commits an epoch at a time.

The protocol is that of ``stores.epochs``. A micro-batch that the log has is computed, but not added, when it is
repeated.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.connector import PATH_ERROR, BatchWriter
from sqlstream.connectors.environment import Environment, SinkWriteRange
from sqlstream.connectors.files.sink import SINK_LOG_GONE, ahead_of_savepoint
from sqlstream.connectors.files.tables import partition_columns
from sqlstream.connectors.formats import csv_settings, quoted, writing
from sqlstream.connectors.on_spark.records import csv_columns, directory_column, encode_object
from sqlstream.connectors.stores.epochs import LOG, EpochLog, object_name
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.paths import StoredObject
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType
from sqlstream.udfs.files.written import (
    ArrowOutput,
    AvroOutput,
    FileOutput,
    LineOutput,
    OrcOutput,
    ParquetOutput,
    WrittenFiles,
)
from sqlstream.udfs.spark.batches import rows_of

_DDL = "path STRING, size BIGINT, modified BIGINT"
_LINE = "__line"


def object_writer(environment: Environment, table: Table, values: Mapping[str, Any], store: ObjectStore) -> BatchWriter:
    """Returns the function that writes a micro-batch, whose values were checked, into a folder of a store.

    ``values``: the parsed options of the table. ConnectorError SS508 for a folder with objects of another job.
    """
    log = EpochLog(store, folder_of(values["path"]))
    _require_own_folder(environment, table, log, store)
    output, partitions = _output(table, values), tuple(partition_columns(table))
    last: int | None = None

    def write(batch: DataFrame, number: int) -> None:
        nonlocal last
        newest = log.newest()
        if last is None:
            log.remove_incomplete()
        elif newest is None or newest < last:
            raise _log_gone(table, log, last)
        last = newest if newest is not None else -1
        files = WrittenFiles(output, log.folder, partitions, store, object_name(number))
        written = _rows(batch, table, values, partitions).mapInArrow(rows_of(files), _DDL).collect()
        objects = [StoredObject(row.path, row.size, row.modified * 1000) for row in written]
        if last >= number:
            for stored in objects:
                store.remove(stored.url)
            return
        log.commit(number, objects)
        environment.written.add(table.name, sum(stored.size for stored in objects))
        last = number

    return write


def folder_of(path: str) -> str:
    """The folder of a table without the slash at its end."""
    return path.rstrip("/")


def require_objects(table: Table, log: EpochLog, written: SinkWriteRange | None, after: int) -> None:
    """Checks the folder before a job continues writing to it, as ``files.sink.require_log`` does for directories."""
    newest = log.newest()
    if written is None:
        if newest is not None or log.store.below(log.folder):
            raise _not_empty(table, log)
        return
    until = after if written.until is None else written.until
    if written.since < until and (newest is None or newest < until):
        raise _log_gone(table, log, until)


def _require_own_folder(environment: Environment, table: Table, log: EpochLog, store: ObjectStore) -> None:
    if environment.resumed and not environment.anew:
        return
    newest = log.newest()
    if environment.anew and newest is not None and environment.after is not None:
        if newest > environment.after:
            raise ahead_of_savepoint(table, log.folder, newest, environment.after)
        return
    if store.below(log.folder):
        raise _not_empty(table, log)


def _not_empty(table: Table, log: EpochLog) -> ConnectorError:
    message = f'path "{log.folder}" of table "{table.name}" is not an empty folder'
    hint = "Each job writes to a folder of its own: remove the objects of the earlier one or change the path."
    return ConnectorError(PATH_ERROR, message, hint=hint)


def _log_gone(table: Table, log: EpochLog, until: int) -> ExecutionError:
    message = f'"{log.folder}/{LOG}" of table "{table.name}" does not tell of its objects up to micro-batch {until}'
    detail = "It says which objects count; without it, rows that are written already would be in the table no longer."
    hint = "Give it back from a copy. Else let the job write what comes now to another, empty folder."
    return ExecutionError(SINK_LOG_GONE, message, detail=detail, hint=hint)


# --- rows ---------------------------------------------------------------------------------------------------------


def _output(table: Table, values: Mapping[str, Any]) -> FileOutput:
    columns = _columns(table)
    match values["format"]:
        case "avro":
            return AvroOutput(columns, values["avro.codec"], values["avro.timestamp_mapping.legacy"])
        case "arrow":
            compression = values["arrow.compression"]
            return ArrowOutput(columns, None if compression == "none" else compression)
        case "parquet":
            return ParquetOutput(columns)
        case "orc":
            return OrcOutput(columns)
    extension = "txt" if values["format"] == "text" else values["format"]
    header = _header([name for name, _ in columns], values) if extension == "csv" and values["csv.header"] else None
    return LineOutput(((_LINE, DataType("STRING")),), extension, header)


def _columns(table: Table) -> tuple[tuple[str, DataType], ...]:
    partitions = partition_columns(table)
    return tuple((c.name, c.type) for c in table.physical_columns if c.name not in partitions)


def _header(names: Sequence[str], values: Mapping[str, Any]) -> str:
    settings = csv_settings(values)
    quote = settings["quote"] or None
    line = io.StringIO()
    csv.writer(
        line, delimiter=settings["sep"], quotechar=quote, lineterminator="",
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE, escapechar=None if quote else "\\",
    ).writerow(names)  # fmt: skip
    return line.getvalue()


def _rows(batch: DataFrame, table: Table, values: Mapping[str, Any], partitions: Sequence[str]) -> DataFrame:
    """The columns of the files, or their lines, and the names of directories."""
    directories = [directory_column(batch, name).cast("STRING").alias(name) for name in partitions]
    in_files = batch.select(*(F.col(quoted(name)) for name, _ in _columns(table)))
    match values["format"]:
        case "json":
            columns = [encode_object(in_files, values).alias(_LINE)]
        case "csv":
            columns = [_csv_line(in_files, values).alias(_LINE)]
        case "text":
            columns = [F.col(quoted(in_files.columns[0])).alias(_LINE)]
        case _:
            columns = [F.col(quoted(name)) for name in in_files.columns]
    return batch.select(*columns, *directories)


def _csv_line(rows: DataFrame, values: Mapping[str, Any]) -> SparkColumn:
    return F.to_csv(F.struct(*csv_columns(rows, values, escaped=True)), writing(values, escaped=True))
