"""The files of a table as Spark finds them: which, how large, in which order, and what the names of directories say."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.checks import walk, wrong_directory
from sqlstream.connectors.files.tables import (
    MOST_PER_TRIGGER,
    is_bounded,
    local_path,
    matching_paths,
    partition_columns,
    tells_kinds,
    unusable,
)
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.on_spark.cut_files import ANY_AGE, most_bytes, watch_whole_files
from sqlstream.connectors.on_spark.records import parsing
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.lowering.bad_rows import path_of
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.files.directories import NO_PARTITION, escaped
from sqlstream.udfs.files.sink_log import LOG
from sqlstream.udfs.spark.batches import shuffle_tasks

URL = "_metadata.file_path"
"""The column in which Spark has the place of a file."""


def directory_columns(environment: Environment, table: Table) -> tuple[list[Column], dict[str, SparkColumn]]:
    """The columns that Spark reads from the names of directories, and the expressions of all such columns by name.

    Spark finds none where no files are, and then takes them for columns of the file, which text cannot have.
    """
    columns = [c for c in table.physical_columns if c.name in partition_columns(table)]
    path = local_path(table.option("path") or "")
    if environment.finished and columns and path is not None and not walk(matching_paths(path)).files:
        return [], {c.name: F.lit(None).cast(c.type.ddl()).alias(c.name) for c in columns}
    of_names = columns_of_names(environment, table, columns)
    if of_names:
        return [], of_names
    return columns, {c.name: F.col(quoted(c.name)) for c in columns}


def columns_of_names(environment: Environment, table: Table, directories: Sequence[Column]) -> dict[str, SparkColumn]:
    """The columns of directories as expressions over the paths of files, for finished data in a directory with the log
    of a file sink: Spark then takes them for columns of the files, which ``text`` and ``binaryFile`` cannot have. Empty
    elsewhere.
    """
    path = local_path(table.option("path") or "")
    if not environment.finished or path is None or not any((p / LOG).is_dir() for p in matching_paths(path)):
        return {}
    expressions = {}
    for column in directories:
        spelled = F.regexp_extract(path_of(F.col(URL)), rf"/\Q{escaped(column.name)}\E=([^/]*)/", 1)
        text = F.coalesce(F.try_url_decode(F.replace(spelled, F.lit("+"), F.lit("%2B"))), spelled)
        expressions[column.name] = F.when(spelled != NO_PARTITION, text).cast(column.type.ddl())
    return expressions


def found_files(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    schema: str,
    columns: Collection[str] | None = None,
    reader_format: str | None = None,
) -> DataFrame:
    """What Spark reads of the files with the schema and the format, that of the table by default. ``columns``: those
    that the query reads, None for all."""
    if not is_bounded(table):
        _make_directory(table, values["path"])
    reader = environment.reader.schema(schema)
    joined = environment.joined.get(table.name, ())
    most = None
    if not environment.finished:
        most = most_bytes(values, lambda: _size(values["path"]), columns=columns, joined=joined)
    options = _reader_options(table, values, partition_columns(table), most)
    reader = reader.options(**options)
    watch_whole_files(environment, table, at_once=options.keys().isdisjoint(_BOUNDS))
    with directory_errors(table):
        files = reader.format(reader_format or values["format"]).load(_directory_or_pattern(values["path"]))
    return _each_once(files, values["path"])


def _each_once(files: DataFrame, path: str) -> DataFrame:
    """The files but for those that links lead to a second time: a link to its own directory repeats them 41 times."""
    local = local_path(path)
    links = walk(matching_paths(local)).links if local is not None else []
    if not links:
        return files
    name, paths = path_of(F.col(URL)), [str(p.absolute()) for p in links]
    return files.where(~reduce(or_, (F.startswith(name, F.lit(f"{p}/")) for p in paths)) & ~name.isin(paths))


def shares_of(
    spark: SparkSession, table: Table, values: Mapping[str, Any], known: Sequence[int], most_bytes: int | None
) -> int:
    """How many tasks share the files of a micro-batch: as many as operators have, and fewer where files are small, or
    where a micro-batch has no more than ``most_bytes``. ``known``: the sizes of the files that are there.
    """
    most = shuffle_tasks(spark)
    if not is_bounded(table):
        return most
    sizes = sorted(known, reverse=True)
    largest = sum(sizes[: values[MOST_PER_TRIGGER]])
    largest = largest if most_bytes is None else min(largest, most_bytes)
    return min(max(1, -(-largest // _least_split(spark))), most)


def order_of_parts(spark: SparkSession, path: str, bounded: bool) -> dict[str, SparkColumn]:
    """The hidden columns that order the splits of files.

    Each column costs, that of names most. One is enough where no two files have the same time: times are whole
    milliseconds, which leaves three digits for the position of a split in its file.
    """
    time, name, start = PARTS
    stats = stats_of(path)
    named = share_times(stats, bounded)
    longest = max((f.st_size for f in stats), default=0)
    modified, split_start = "unix_micros(_metadata.file_modification_time)", "_metadata.file_block_start"
    unit = max(longest.bit_length() - 9, 0)  # places in units of so many bits are below 512
    if not named and _least_split(spark) >= 1 << unit:
        return {time: F.expr(f"{modified} + shiftright({split_start}, {unit})")}
    names = {name: F.col(URL)} if named else {}
    return {time: F.expr(modified), **names, start: F.col(split_start)}


def share_times(stats: list[os.stat_result], bounded: bool) -> bool:
    """Whether two files may have the same modification time in milliseconds, as Spark reads it."""
    times = [f.st_mtime_ns // 1_000_000 for f in stats]
    return not bounded or not times or len(set(times)) < len(times)


def stats_of(path: str) -> list[os.stat_result]:
    """The files' statistics as far as they are known; none for remote files."""
    local, stats = local_path(path), list[os.stat_result]()
    for file in walk(matching_paths(local)).files if local is not None else ():
        with suppress(FileNotFoundError):  # removed since its name was read, as by a sink that writes there
            stats.append(file.stat())
    return stats


def _size(path: str) -> int:
    """Bytes of all files that are known."""
    return sum(f.st_size for f in stats_of(path))


def _least_split(spark: SparkSession) -> int:
    """The least distance in bytes of two splits of a file."""
    return min(
        _bytes(str(spark.conf.get(f"spark.sql.files.{name}"))) for name in ("maxPartitionBytes", "openCostInBytes")
    )


def _bytes(size: str) -> int:
    """The bytes of a size as Spark's settings have it, such as 4MB, 128m or 2000b; a plain number is bytes."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", size.strip().lower())
    assert match is not None, f"Spark takes sizes, not {size}"
    return int(match[1]) << (10 * " kmgtp".index(match[2] or " "))


def _directory_or_pattern(path: str) -> str:
    """The path, or for a single file a pattern that fits it alone: Spark streams from directories and patterns only."""
    local = local_path(path)
    if local is None or glob.has_magic(local) or not Path(local).is_file():
        return path
    file = Path(local)
    scheme = "file:" if path.startswith("file:") else ""
    return f"{scheme}{file.parent / f'[{file.name[0]}]{file.name[1:]}'}"


def _make_directory(table: Table, path: str) -> None:
    """A watched directory need not exist yet, but Spark asks for it."""
    local = local_path(path)
    if local is None or glob.has_magic(local):
        return
    try:
        Path(local).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if not Path(local).exists():  # a file is read, too
            raise SqlStreamError.of([unusable(table, local, error)]) from None


_BOUNDS = ("maxFilesPerTrigger", "maxBytesPerTrigger")


def _reader_options(
    table: Table, values: Mapping[str, Any], partitions: list[str], most_per_batch: int | None
) -> dict[str, str]:
    options = (parsing(table, values) if values["format"] == "csv" else {}) | {
        "maxFileAge": ANY_AGE,
        # Directories are either values of columns or just places where files lie.
        "recursiveFileLookup": str(not partitions).lower(),
    }
    if values["format"] == "csv":
        # Without enforceSchema=false a header that names other columns would be skipped silently.
        options |= {"header": str(values["csv.header"]).lower(), "enforceSchema": "false"}
    if values["source.missing-files"] == "skip":
        options["ignoreMissingFiles"] = "true"  # those that are gone once the others have been looked for
    most = 1 if tells_kinds(table) else values[MOST_PER_TRIGGER]
    if most is not None:
        options["maxFilesPerTrigger"] = str(most)
    elif most_per_batch is not None:
        options["maxBytesPerTrigger"] = str(most_per_batch)
    return options


_CONDITIONS = frozenset({
    "INVALID_PARTITION_VALUE", "EMPTY_PARTITION_COLUMN_VALUE", "CONFLICTING_PARTITION_COLUMN_NAMES",
    "CONFLICTING_DIRECTORY_STRUCTURES",
})  # fmt: skip


@contextmanager
def directory_errors(table: Table) -> Iterator[None]:
    """A context manager that converts Spark's errors about partition directories into ConnectorError SS532."""
    try:
        yield
    except PySparkException as error:
        if error.getCondition() not in _CONDITIONS:
            raise
        why = " ".join((error.getMessage() or "").partition("] ")[2].split())
        wrong = wrong_directory(table, f"a directory of its path does not fit: {why}")
        raise ConnectorError(wrong.code, wrong.message, hint=wrong.hint) from None
