"""The source of ``filesystem`` in object stores: this process lists objects, and tasks read ranges of them.

Streams go through files of ranges in the checkpoint (``files.ranges``), whether micro-batches are bounded or not: Spark
need not know the store, and a micro-batch that is repeated reads the same objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.connector import PATH_ERROR
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.ranges import DIRECTORIES, FileRanges, directories_of, folder_of_ranges
from sqlstream.connectors.files.tables import is_bounded, partition_columns
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.on_spark.cut_files import cut_files, limits_of, most_bytes, ranges_of_table
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.paths import StoredObject
from sqlstream.errors import ConnectorError, UnsupportedError
from sqlstream.planner.catalog import Column, Table
from sqlstream.secrets import shown_value
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED

NOT_IN_STORE = "SS689"

_PLACES = f"{FILE} STRING, {LENGTH} BIGINT, {MODIFIED} BIGINT, {DIRECTORIES} MAP<STRING, STRING>"


def places_in_store(
    environment: Environment,
    table: Table,
    store: ObjectStore,
    values: Mapping[str, Any],
    directories: Sequence[Column] = (),
) -> tuple[DataFrame, Sequence[StoredObject]]:
    """Returns a DataFrame of the objects of a table, or of ranges of them, as ``file_source.file_splits`` has places,
    and the objects that are there now. ``directories``: columns whose values are directory names.

    ConnectorError SS508 for a stream whose checkpoint is not on this machine.
    """
    listed = store.listed(values["path"])
    if environment.finished:
        places = _finished(environment, listed, directories)
    else:
        total = sum(o.size for o in listed)
        ranges = ranges_of_table(environment, table, values, lambda: total)
        if ranges is None:
            if environment.watches is not None or not is_bounded(table):
                raise _without_checkpoint(table, values["path"])
            ranges = _ranges_now(environment, table, values, store, total)
        places = cut_files(environment, ranges, directories)
    if environment.in_order:  # stores know seconds, in which many objects are written
        places = places.withColumn(PARTS[1], F.col(FILE))
    return places.coalesce(1), listed


def _ranges_now(
    environment: Environment, table: Table, values: Mapping[str, Any], store: ObjectStore, total: int
) -> FileRanges:
    """The ranges of what is there now, for a streaming DataFrame without a job."""
    folder = folder_of_ranges(environment.directory / uuid4().hex, table.name, values["path"])
    limits = limits_of(values, most_bytes(values, lambda: total))
    partitions = tuple(partition_columns(table))
    ranges = FileRanges(folder.absolute(), values["path"], limits, None, 1, partitions, None, store)
    ranges.look()
    return ranges


def _finished(environment: Environment, listed: Sequence[StoredObject], directories: Sequence[Column]) -> DataFrame:
    rows = [(o.url, o.size, o.modified, directories_of(o.url) if directories else {}) for o in listed]
    places = environment.spark.createDataFrame(rows, _PLACES)
    values = (F.col(DIRECTORIES)[c.name].cast(c.type.ddl()).alias(c.name) for c in directories)
    return places.select(*(F.col(quoted(name)) for name in (FILE, LENGTH, MODIFIED)), *values)


def _without_checkpoint(table: Table, path: str) -> ConnectorError:
    message = f'table "{table.name}" is a stream of "{shown_value("path", path)}", and the checkpoint is not local'
    detail = "Which objects a micro-batch reads is written into files of the checkpoint, which must be on this machine."
    hint = (
        "Let 'execution.checkpointing.dir' be a path of this machine, or read s3a://… through Spark, with the jar "
        "hadoop-aws."
    )
    return ConnectorError(PATH_ERROR, message, detail=detail, hint=hint)


def not_read_in_store(table: Table) -> UnsupportedError:
    """The error SS689 for a table whose records only Spark can read."""
    message = (
        f'columns of table "{table.name}" cannot be read from an object store in format "{table.option("format")}"'
    )
    hint = "Leave out columns of types such as VARIANT and INTERVAL, or declare them STRING."
    return UnsupportedError(NOT_IN_STORE, message, hint=hint)
