"""Values that a format of files cannot represent: they would be read as other values, or as more or fewer rows.

The sink refuses them with SS527, at any depth of nested values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sqlstream.connectors.change_formats import TEXT_FORMATS, has_kinds
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
from sqlstream.connectors.formats import csv_settings, quoted, writing
from sqlstream.connectors.on_spark.change_messages import encode_changes
from sqlstream.connectors.on_spark.keyed_rows import is_foreign, replace_file
from sqlstream.connectors.on_spark.object_sink import folder_of, object_writer, require_objects
from sqlstream.connectors.on_spark.record_files import tasks_read
from sqlstream.connectors.on_spark.records import csv_columns, directory_column, json_columns
from sqlstream.connectors.on_spark.task_files import WRITTEN_BY_TASKS, task_writer
from sqlstream.connectors.stores.epochs import EpochLog
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.options import is_in_store
from sqlstream.connectors.stores.stores import store_of
from sqlstream.errors import ConnectorError, ExecutionError, SqlStreamError
from sqlstream.planner.catalog import Column, Table
from sqlstream.secrets import shown_value
from sqlstream.spark.running import shares_files
from sqlstream.types import DataType
from sqlstream.udfs.files.directories import ESCAPED, NO_PARTITION
from sqlstream.udfs.files.sink_log import begin_after

UNREPRESENTABLE = "SS527"
_SHOWN = 60
_BYTE_ORDER_MARK = "\ufeff"
_WITHOUT_LIMITS = "Write the table as json or parquet, or leave such rows out."

Fault = tuple["SparkColumn", str]
"""A condition on a value, and what is wrong with the value if it is true: ``has a line break``."""


def refusing(rows: DataFrame, table: Table, values: Mapping[str, Any], partitions: Sequence[str] = ()) -> DataFrame:
    """Returns the rows with a check: the query fails with SS527 at a value that files of the format cannot represent.

    ``values``: the parsed options of the table. ``partitions``: the columns whose values become directory names.
    """
    wrong, named = faults(table, values, partitions), {c.name: c for c in table.physical_columns}
    return rows.select(
        *(
            _refused(table, named[name], wrong[name], values).alias(name) if wrong.get(name) else F.col(quoted(name))
            for name in rows.columns
        )
    )


def faults(table: Table, values: Mapping[str, Any], partitions: Sequence[str] = ()) -> dict[str, list[Fault]]:
    """Returns a dictionary from column name to the reasons why a value of the column cannot be written. A reason is a
    pair: a condition and a message.
    """
    of_files = _FORMATS.get(values["format"], _nothing)
    faults_by_column = {
        c.name: _faults(c.type, F.col(quoted(c.name)), values, _in_a_directory if c.name in partitions else of_files)
        for c in table.physical_columns
    }
    in_files = [c for c in table.physical_columns if c.name not in partitions]
    if in_files and values["format"] == "csv":
        faults_by_column[in_files[0].name] += _of_lines(in_files, values)
    return faults_by_column


def _refused(table: Table, column: Column, faults: Sequence[Fault], values: Mapping[str, Any]) -> SparkColumn:
    value = F.col(quoted(column.name))
    text = value if column.type.name == "STRING" else F.to_json(F.struct(value.alias("value")))
    shown = F.left(F.replace(F.replace(text, F.lit("\n"), F.lit("\\n")), F.lit("\r"), F.lit("\\r")), F.lit(_SHOWN))
    name = f'column "{column.name}" of table "{table.name}"'
    result = value
    for condition, wrong in reversed(faults):
        start = F.lit(f'{UNREPRESENTABLE}: {name} has a value that format "{values["format"]}" cannot hold: ')
        end = F.lit(f" {wrong}\nHINT: {_hint(wrong, values)}")
        message = F.concat(start, F.coalesce(F.concat(F.lit('"'), shown, F.lit('"')), F.lit("NULL")), end)
        result = F.when(condition, F.raise_error(message)).otherwise(result)
    return result


_LINE_BREAK, _IS_EMPTY_LINE = "has a line break", "makes a line without content, which readers skip"
_IS_NULL_LITERAL = "is the text that stands for NULL"


def _hint(wrong: str, values: Mapping[str, Any]) -> str:
    if wrong == _LINE_BREAK and values["format"] == "csv" and not values.get("csv.multi-line"):
        return f"With 'csv.multi-line' = 'true' fields may have line feeds. {_WITHOUT_LIMITS}"
    if wrong == _IS_NULL_LITERAL or (wrong == _IS_EMPTY_LINE and values["format"] == "csv"):
        return f"Let another text stand for NULL: 'csv.null-literal'. {_WITHOUT_LIMITS}"
    return _WITHOUT_LIMITS


# --- values ---------------------------------------------------------------------------------------------------

Find = Callable[[DataType, "SparkColumn", Mapping[str, Any]], "Iterator[Fault]"]


def _faults(kind: DataType, value: SparkColumn, values: Mapping[str, Any], find: Find) -> list[Fault]:
    """The faults that ``find`` reports for the value and for all values inside it, to any depth."""

    def in_list(elements: SparkColumn, member: object) -> Iterator[Fault]:
        assert isinstance(member, DataType)

        def of(element: SparkColumn) -> list[Fault]:
            return _faults(member, element, values, find)

        def nth(i: int) -> Callable[[SparkColumn], SparkColumn]:
            return lambda element: F.coalesce(of(element)[i][0], F.lit(False))

        for i, (_, wrong) in enumerate(of(F.lit(None).cast(member.ddl()))):
            yield F.exists(elements, nth(i)), wrong

    faults = [*find(kind, value, values)]
    match kind.name:
        case "STRUCT":
            for name, member in kind.fields():
                faults += _faults(member, value.getField(name), values, find)
        case "ARRAY":
            faults += in_list(value, kind.args[0])
        case "MAP":
            faults += [*in_list(F.map_keys(value), kind.args[0]), *in_list(F.map_values(value), kind.args[1])]
    return faults


def _nothing(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    yield from ()


def _in_csv(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    if kind.name != "STRING":
        return
    yield from _no_utf8(value)
    lines = value.contains("\r") if values.get("csv.multi-line") else value.contains("\n") | value.contains("\r")
    yield lines, _LINE_BREAK
    if values["csv.null-literal"] is not None:
        yield value == F.lit(values["csv.null-literal"]), _IS_NULL_LITERAL
    if not csv_settings(values)["quote"]:
        unquotable = value.contains(values["csv.field-delimiter"]) | value.contains("\0")
        yield unquotable, "has a delimiter or a NUL, and no quotes are allowed"
        yield value == "", "is empty, which without quotes is NULL"


def _in_json(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    """Texts of JSON, and of Avro."""
    if kind.name == "STRING":
        yield from _no_utf8(value)


def _in_text(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    yield value.isNull(), "has no text"
    yield value.contains("\n") | value.contains("\r"), _LINE_BREAK
    yield value.startswith(_BYTE_ORDER_MARK), "begins with a byte order mark"


def _in_orc(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    """ORC in Java uses the Julian calendar before 1582-10-15, and rounds the last second before 1970 up."""
    if kind.name == "DATE" or kind.is_timestamp:
        day = value.cast("DATE")
        skipped = (day > F.lit("1582-10-04").cast("DATE")) & (day < F.lit("1582-10-15").cast("DATE"))
        yield skipped, "is a day that the Julian calendar of ORC lacks"
    if kind.is_timestamp:
        last = value.between(F.lit("1969-12-31 23:59:59.000001").cast(kind.ddl()), _before_1970(kind))
        yield last, "is in the last second of 1969, which ORC moves by one"


def _before_1970(kind: DataType) -> SparkColumn:
    return F.lit("1969-12-31 23:59:59.999999").cast(kind.ddl())


def _in_a_directory(kind: DataType, value: SparkColumn, values: Mapping[str, Any]) -> Iterator[Fault]:
    if kind.name in ("STRING", "BINARY"):
        value = value.cast("STRING")  # the bytes as they are
        yield from _no_utf8(value)
        yield (value == "") | (value == NO_PARTITION), "is the name of the directory for NULL"
        yield value.contains("\0"), "has a NUL, which no name of a directory may have"
    if kind.name == "BINARY":
        yield (
            value.rlike(_ESCAPED),
            "has a character that Spark escapes in the name of a directory",
        )


def _no_utf8(value: SparkColumn) -> Iterator[Fault]:
    yield ~F.is_valid_utf8(value), "is no UTF-8"


_ESCAPED = "[" + "".join(rf"\x{ord(c):02x}" for c in sorted(ESCAPED)) + "]"

_FORMATS: Mapping[str, Find] = {
    "csv": _in_csv,
    "avro": _in_json,
    "json": _in_json,
    "text": _in_text,
    "orc": _in_orc,
    **dict.fromkeys(TEXT_FORMATS, _in_json),
}


# --- lines ----------------------------------------------------------------------------------------------------


def _of_lines(columns: Sequence[Column], values: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of the line that a row of ``columns`` becomes, reported for the first of them."""
    first = F.col(quoted(columns[0].name))
    if columns[0].type.name == "STRING":
        yield first.startswith(_BYTE_ORDER_MARK), "begins with a byte order mark"
        if values.get("csv.allow-comments"):
            yield first.startswith("#"), "makes a line that is a comment"
    if values.get("csv.allow-comments") and (values["csv.null-literal"] or "").startswith("#"):
        yield first.isNull(), "makes a line that is a comment"
    if len(columns) == 1 or values["csv.field-delimiter"] <= " ":
        yield reduce(and_, (_is_blank(c, values) for c in columns)), _IS_EMPTY_LINE


def _is_blank(column: Column, values: Mapping[str, Any]) -> SparkColumn:
    """Whether the field is written as nothing, or as characters that Java takes for spaces."""
    value, null = F.col(quoted(column.name)), values["csv.null-literal"] or ""
    is_null = value.isNull() if not _visible(null) else F.lit(False)
    return (
        is_null | F.coalesce(value.rlike("^[\\x00-\\x20]+$"), F.lit(False)) if column.type.name == "STRING" else is_null
    )


def _visible(text: str) -> bool:
    return any(character > " " for character in text)


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
