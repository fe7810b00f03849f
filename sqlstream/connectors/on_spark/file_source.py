"""The source of ``filesystem``: files as a stream, in the order of their modification time and name."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sqlstream.connectors.change_formats import has_kinds, of_message
from sqlstream.connectors.connector import columns_of
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.files.checks import (
    MOST_FILES,
    MOST_RECORDS,
    file_schema,
    has_more_files,
    header,
    misspelt_fields,
    newest_files,
    wrong_header,
    wrong_schema,
)
from sqlstream.connectors.files.tables import (
    ENCODING,
    METADATA,
    columns_in_files,
    is_bounded,
    kind_column,
    local_path,
    matching_paths,
    partition_columns,
    tells_kinds,
)
from sqlstream.connectors.formats import CORRUPT, quoted, schema_ddl
from sqlstream.connectors.on_spark.change_messages import decode_changes
from sqlstream.connectors.on_spark.cut_files import cut_files, most_bytes, ranges_of_table
from sqlstream.connectors.on_spark.messages import as_variants
from sqlstream.connectors.on_spark.object_source import not_read_in_store, places_in_store
from sqlstream.connectors.on_spark.record_files import is_local, record_format, whole_files
from sqlstream.connectors.on_spark.records import bad_column, decode, parsed_schema, shown
from sqlstream.connectors.on_spark.spark_files import (
    URL,
    columns_of_names,
    directory_columns,
    found_files,
    order_of_parts,
    share_times,
    shares_of,
    stats_of,
)
from sqlstream.connectors.stores.options import is_in_store
from sqlstream.connectors.stores.stores import store_of
from sqlstream.errors import ConnectorError, Diagnostic, SqlStreamError
from sqlstream.formats.json_records import with_raw_json
from sqlstream.options import WRONG_VALUE
from sqlstream.planner.bad_rows import action_of, missing_are_null, tolerates_bad_rows
from sqlstream.planner.catalog import Column, RowKind, Table
from sqlstream.planner.lowering.bad_rows import has_checks, has_required, path_of
from sqlstream.planner.lowering.hidden_columns import present
from sqlstream.planner.lowering.time import time_name
from sqlstream.spark.running import is_connect
from sqlstream.types import DataType, from_arrow
from sqlstream.udfs.bad_records import BAD, BAD_ROW, READ_FROM, READ_LINE
from sqlstream.udfs.exchange import PARTS, part_fields
from sqlstream.udfs.files.listed import ListedFiles, need_python
from sqlstream.udfs.files.records import RecordFormat, RecordRows
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED, SHARE, SHARES, FromFile
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.messages import BAD_TYPE
from sqlstream.udfs.spark.batches import CONTENT, checked, checked_places, numbers_of, of_files, rows_of
from sqlstream.udfs.spark.internals import arrow_schema

_LINE = "__line"
_TASK = "__task"
_BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""The schema of Spark's format for files of any kind, whose content it reads only where it is selected."""


def read_files(
    environment: Environment, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> DataFrame:
    """Returns the rows of all files of a table as a DataFrame of the named columns, and of the hidden ones that
    ``Source.read`` allows. ``values``: the parsed options of the table.
    """
    path = values["path"]
    if not is_in_store(path):
        _require_columns(environment, table, columns, values)
    chosen = columns_of(table, columns)
    text = record_format(environment, table, columns, values)
    if text is None and is_in_store(path):
        raise not_read_in_store(table)
    if text is not None:
        return _read_by_tasks(environment, table, chosen, values, text)
    if values[ENCODING.key] != ENCODING.default:
        message = f'table "{table.name}" has the option "{ENCODING.key}", and Spark reads its files'
        raise ConnectorError(WRONG_VALUE, message, hint="Convert the files to UTF-8, for instance with iconv.")
    of_files = (c for c in chosen if of_message(table, c) is None)
    metadata = {c.name: _metadata(c.metadata_key).cast(c.type.ddl()) for c in of_files if c.metadata_key is not None}
    parts = order_of_parts(environment.spark, path, is_bounded(table)) if environment.in_order else {}
    if values["format"] == "json" or has_kinds(table):
        return _checked(environment, table, values, _json_rows(environment, table, columns, values, metadata, parts))
    if _reads_whole(table, columns, values):
        rows = _whole_files(environment, table, columns, values, {**metadata, **parts})
        return _checked(environment, table, values, rows)
    parses = values["format"] == "csv"
    schema = parsed_schema(table) if parses else schema_ddl(table.physical_columns)
    files = found_files(environment, table, values, schema, columns)
    rows = files.select(
        *((metadata[c.name] if c.name in metadata else F.col(quoted(c.name))).alias(c.name) for c in chosen),
        *([_bad(table, values)] if parses and tolerates_bad_rows(table) else []),
        *(column.alias(name) for name, column in _read_from(environment, table, columns).items()),
        *(column.alias(name) for name, column in parts.items()),
    )
    return _checked(environment, table, values, rows, _columns_to_check(table, columns, values))


def _reads_whole(table: Table, columns: tuple[str, ...], values: Mapping[str, Any]) -> bool:
    """Whether Python reads each file as a whole: Spark has no reader of Arrow and Avro, and some types of Parquet and
    ORC it reads otherwise than the exchange, or not at all, which the newest files show, and columns of TIME."""
    path, kind = local_path(table.option("path") or ""), values["format"]
    if kind not in ("orc", "parquet") or path is None:
        return kind in ("arrow", "avro")
    in_files = columns_in_files(table, columns)
    if any(part.name == "TIME" for c in in_files for part in c.type.parts()):  # also of files that come later
        return True
    with suppress(TypeError):  # a type that Arrow does not have
        wanted = {c.name: c.type.to_arrow() for c in in_files}
        newest = newest_files(matching_paths(path))
        schemas = (schema for file in newest if (schema := file_schema(file, kind)) is not None)
        return any(need_python(schema, wanted, orc=kind == "orc") for schema in schemas)
    return False


def _whole_files(
    environment: Environment,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    keep: Mapping[str, SparkColumn],
) -> DataFrame:
    """The columns, and ``keep`` by name, of files that Python reads whole (``udfs.files.columnar``)."""
    in_files = columns_in_files(table, columns)
    directories, of_directories = directory_columns(environment, table)
    schema = ", ".join(filter(None, (_BINARY_FILE, schema_ddl(directories))))
    read_from = _read_from(environment, table, columns, by_python=True)
    elsewhere = local_path(table.option("path") or "") is None
    files = found_files(environment, table, values, schema, columns, reader_format="binaryFile").select(
        F.col(URL).alias(FILE),
        *([F.col("content").alias(CONTENT)] if elsewhere else []),
        *(column.alias(name) for name, column in of_directories.items() if name in columns),
        *(column.alias(name) for name, column in {**keep, **read_from}.items()),
    )
    reader = whole_files(table, in_files, values)
    rows = of_files(files, reader)
    extra = [name for name in (*keep, *read_from) if name not in columns]
    return rows.select(*(F.col(quoted(name)) for name in (*columns, *extra)))


def has_file_splits(
    environment: Environment, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> bool:
    """True where tasks can read the files: they are Parquet, Avro or text on this machine, and the query reads no
    column from directory names.
    """
    partitions = partition_columns(table)
    in_files = all(c.physical and c.name not in partitions for c in columns_of(table, columns))
    if not in_files or tells_kinds(table):
        return False
    if values["format"] == "parquet" and not is_in_store(values["path"]):
        return is_local(environment, table)
    return record_format(environment, table, columns, values) is not None


def file_splits(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    directories: Sequence[Column] = (),
    columns: Collection[str] | None = None,
) -> DataFrame:
    """Returns a streaming DataFrame of file splits, for a table for which ``has_file_splits`` is true.

    ``directories``: columns whose values are directory names; they are added to the result. ``columns``: those that
    the query reads, None for all.
    """
    store = store_of(values["path"], values)
    if store is not None:
        rows, listed = places_in_store(environment, table, store, values, directories)
        sizes = [o.size for o in listed]
        bound = None if environment.finished else most_bytes(values, lambda: sum(sizes))
        return shared_out(rows, shares_of(environment.spark, table, values, sizes, bound))
    path = table.option("path") or ""
    stats = stats_of(path)
    named = environment.in_order and share_times(stats, is_bounded(table))
    ranges = ranges_of_table(environment, table, values, lambda: sum(f.st_size for f in stats), columns)
    if ranges is None:
        files = _whole(environment, table, values, directories, columns)
    else:
        files = cut_files(environment, ranges, directories)
    if named:
        files = files.withColumn(PARTS[1], F.col(FILE))
    sizes = [f.st_size for f in stats]
    shares = shares_of(environment.spark, table, values, sizes, None if ranges is None else ranges.limits.bytes)
    look = _listed_files(environment, table, values)
    places = files.coalesce(1)
    return shared_out(places if look is None else checked_places(places, look, FILE), shares)


def shared_out(places: DataFrame, shares: int) -> DataFrame:
    """Gives all places to each of several tasks, which reads its share of them."""
    listed = places.withColumn(SHARES, F.lit(shares))
    if shares == 1:
        return listed.withColumn(SHARE, F.lit(0))
    # A union would be a source per share, and Spark's checkpoint lets no later start have more or fewer of them.
    keys = (F.struct(F.lit(i).alias(SHARE), F.lit(int(n)).alias(_TASK)) for i, n in enumerate(numbers_of(shares)))
    return listed.select("*", F.inline(F.array(*keys))).repartition(shares, _TASK).drop(_TASK)


def _whole(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    directories: Sequence[Column],
    columns: Collection[str] | None,
) -> DataFrame:
    """Files that Spark lists, each whole in one micro-batch."""
    # Spark SQL refuses the function below lateral subqueries, the one place where the column costs a little more.
    name = F.col(URL) if environment.finished else F.input_file_name()
    of_names = columns_of_names(environment, table, directories)
    known = [] if of_names else directories
    schema = ", ".join([_BINARY_FILE, *([schema_ddl(known)] if known else [])])
    return found_files(environment, table, values, schema, columns, reader_format="binaryFile").select(
        name.alias(FILE),
        F.col("length").alias(LENGTH),
        F.unix_micros(F.col("modificationTime")).alias(MODIFIED),
        *(of_names.get(c.name, F.col(quoted(c.name))).alias(c.name) for c in directories),
    )


def _read_by_tasks(
    environment: Environment, table: Table, columns: Sequence[Column], values: Mapping[str, Any], text: RecordFormat
) -> DataFrame:
    """The rows of files of records, which tasks read. See ``read_files`` for the columns."""
    directories = [c for c in columns if c.name in partition_columns(table)]
    remote = is_in_store(values["path"])
    if (
        environment.finished and directories and not remote and not stats_of(values["path"])
    ):  # without directories Spark lacks columns
        return environment.spark.createDataFrame([], schema_ddl(columns))
    places = file_splits(environment, table, values, directories)
    hidden = [pa.field(BAD, BAD_TYPE)] if text.tolerant else []
    time = _event_time(table, columns, text)
    if not text.tolerant and (environment.located or any(has_required(table, c.name) for c in columns)):
        hidden += [pa.field(READ_FROM, pa.string()), pa.field(READ_LINE, pa.int64())]
    hidden += part_fields(places.columns) if environment.in_order else []
    given = [*(pa.field(c.name, with_raw_json(c.type).to_arrow()) for c in columns), *hidden]
    schema = pa.schema(given or [pa.field(SHARE, pa.int32())])  # Spark takes no rows without columns
    metadata = {c.name: c.metadata_key for c in columns if c.metadata_key is not None}
    reader = RecordRows(schema, time, text, metadata, letters=action_of(table)[1] is not None)
    rows = places.mapInArrow(rows_of(reader), ", ".join(f"{quoted(f.name)} {from_arrow(f.type).ddl()}" for f in schema))
    in_rows = (as_variants(c.name, c.type) for c in columns)
    return rows.select(*in_rows, *(F.col(quoted(f.name)) for f in hidden))


def _event_time(table: Table, columns: Sequence[Column], text: RecordFormat) -> dict[str, FromFile]:
    """The event time if it is a column of the files, for tasks to check, unless bad rows are tolerated, or there are
    retractions, which may lack it.
    """
    if table.watermark is None or text.tolerant or tells_kinds(table):
        return {}
    name = table.watermark.column
    of_files = (c for c in columns if c.name == name and c.physical and c.name not in partition_columns(table))
    return {c.name: FromFile(c.name, c.type.to_arrow(), event_time=time_name(c.name, table.name)) for c in of_files}


def _checked(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    rows: DataFrame,
    columns: tuple[tuple[str, DataType], ...] = (),
) -> DataFrame:
    """The rows, with a check of the files of each micro-batch where ``_listed_files`` says so."""
    listed = _listed_files(environment, table, values, columns)
    return rows if listed is None else checked(rows, listed)


def _listed_files(
    environment: Environment, table: Table, values: Mapping[str, Any], columns: tuple[tuple[str, DataType], ...] = ()
) -> ListedFiles | None:
    """The files to check in each micro-batch (``udfs.spark.file_checks``); None where tasks do not see the files that
    this process sees: in other file systems, and through Spark Connect.
    """
    path = local_path(table.option("path") or "")
    if path is None or environment.logs is None or is_connect(environment.spark):
        return None
    skips = values["source.missing-files"] == "skip"
    return ListedFiles(table.name, environment.logs, _root(path), values["format"], skips, columns)


def _root(path: str) -> str:
    """The beginning of all paths of files."""
    root = os.path.abspath(re.split(r"[*?\[{]", path)[0] or ".")  # noqa: PTH100 - Spark, too, takes ".." out
    return root if glob.has_magic(path) or Path(root).is_file() else f"{root.rstrip('/')}/"


def _json_rows(
    environment: Environment,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    metadata: Mapping[str, SparkColumn],
    parts: Mapping[str, SparkColumn],
) -> DataFrame:
    """Reads lines of text, because Spark's reader of JSON hides what follows the object of a line."""
    in_files = {c.name for c in columns_in_files(table, columns)}
    directories, of_directories = directory_columns(environment, table)
    schema = ", ".join([f"{_LINE} STRING", *([schema_ddl(directories)] if directories else [])])
    keep = {name: {**metadata, **of_directories}[name] for name in columns if name not in in_files}
    read_from = _read_from(environment, table, columns)
    keep |= {READ_FROM: F.col(URL)} if environment.finished else read_from
    named = tuple(name for name in columns if name in in_files)
    files = found_files(environment, table, values, schema, reader_format="text")
    if has_kinds(table):
        rows = decode_changes(files, _LINE, table, named, values, {**keep, **parts}, F.col(URL), of_files=True)
    else:
        position = _metadata("file.path") if tolerates_bad_rows(table) else None
        rows = decode(files, _LINE, table, named, values, {**keep, **parts}, position, of_files=True)
    extra = present(rows, (BAD, ROW_KIND))
    return rows.select(*(F.col(quoted(name)) for name in (*columns, *extra, *parts, *read_from)))


def _read_from(
    environment: Environment, table: Table, columns: tuple[str, ...], *, by_python: bool = False
) -> dict[str, SparkColumn]:
    """READ_FROM of rows that are checked, for what is said of a row that lacks a value. In streams Spark knows the file
    without it, but not behind Python: where that reads the files (``by_python``), or computes the event time.
    """
    is_checked = has_checks(table, columns) and (environment.finished or by_python)
    return {READ_FROM: F.col(URL)} if is_checked or environment.located else {}


def _metadata(key: str) -> SparkColumn:
    """A METADATA column. Names and paths are those of the file system, which Spark spells as URLs."""
    column = F.col(f"_metadata.{METADATA[key][0]}")
    return path_of(column) if key in ("file.path", "file.name") else column


def _require_columns(
    environment: Environment, table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> None:
    """ConnectorError where remote files do not hold the columns; Spark alone can look into them."""
    if local_path(table.option("path") or "") is not None:
        return
    wrong = wrong_columns_through_spark(environment.spark, table, values, columns_in_files(table, columns))
    if wrong:
        raise SqlStreamError.of(wrong)


def _columns_to_check(
    table: Table, columns: tuple[str, ...], values: Mapping[str, Any]
) -> tuple[tuple[str, DataType], ...]:
    """The columns to look for in Parquet files that are not all known at the start: Spark reads a column that a file
    lacks as NULLs.
    """
    path = local_path(table.option("path") or "")
    if path is None or values["format"] != "parquet" or missing_are_null(table):
        return ()
    if is_bounded(table) and not has_more_files(matching_paths(path), MOST_FILES):
        return ()
    return tuple((c.name, c.type) for c in columns_in_files(table, columns))


def _bad(table: Table, values: Mapping[str, Any]) -> SparkColumn:
    return bad_column(table, values, F.col(CORRUPT).isNotNull(), CORRUPT, "", F.col(URL))


_WORDS = {
    RowKind.INSERT: ("+I", "I", "INSERT"),
    RowKind.UPDATE_BEFORE: ("-U", "UB", "UPDATE_BEFORE"),
    RowKind.UPDATE_AFTER: ("+U", "U", "UA", "UPDATE", "UPDATE_AFTER"),
    RowKind.DELETE: ("-D", "D", "DELETE"),
}


def with_kinds(rows: DataFrame, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """Adds ROW_KIND, taken from the table's column with the kinds of rows. The query fails with SS402 at an undeclared
    kind.

    That column is then NULL if it is among ``columns``, because a retraction must equal the row that it retracts.
    """
    name = kind_column(table)
    assert name is not None
    kind = _kind(F.col(quoted(name)), table, name)
    if BAD in rows.columns:  # a record that cannot be read has no kind
        kind = F.when(F.col(f"{BAD}.error").isNull(), kind).otherwise(F.lit(RowKind.INSERT.value))
    rows = rows.withColumn(ROW_KIND, kind)
    return rows.withColumn(name, F.lit(None).cast("STRING")) if name in columns else rows.drop(name)


def _kind(text: SparkColumn, table: Table, name: str) -> SparkColumn:
    word, kinds = F.upper(F.trim(text)), sorted(table.changelog, key=list(RowKind).index)
    listed = ", ".join(kind.value for kind in kinds)
    start = F.lit(f'{BAD_ROW}: column "{name}" of table "{table.name}" tells the kind "')
    message = F.concat(start, F.coalesce(shown(text), F.lit("NULL")), F.lit(f'" of a row, which is none of {listed}'))
    kind = F.raise_error(message).cast("STRING")
    for declared in kinds:
        kind = F.when(word.isin(*_WORDS[declared]), F.lit(declared.value)).otherwise(kind)
    return kind


def wrong_columns_through_spark(
    spark: SparkSession, table: Table, values: Mapping[str, Any], columns: Sequence[Column]
) -> list[Diagnostic]:
    """Returns the diagnostics of ``checks.wrong_columns`` for files that only Spark can read."""
    path, kind = values["path"], values["format"]
    with suppress(Py4JError, PySparkException):  # no files yet, or unreadable ones: the job reports that
        if kind in ("parquet", "orc"):
            return wrong_schema(table, kind, columns, [(path, _schema_through_spark(spark, path, kind))])
        if kind == "json" or (kind == "csv" and values["csv.header"]):
            rows = spark.read.option("recursiveFileLookup", "true").text(path).limit(MOST_RECORDS).collect()
            lines = [row[0] for row in rows]
            if kind == "json":
                return misspelt_fields(table, columns, [(path, lines)])
            return wrong_header(table, values, columns, [(path, line) for line in header(lines, values)])
    return []


def _schema_through_spark(spark: SparkSession, path: str, format: str) -> pa.Schema:  # noqa: A002
    return arrow_schema(spark.read.format(format).option("recursiveFileLookup", "true").load(path).schema)
