"""``filesystem``: files as a stream, in the order of their modification time and name, and Spark's exactly-once
file sink.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from sqlstream.connectors.change_formats import (
    CHANGE_FORMATS,
    CHANGE_OPTIONS,
    check_changes,
    has_kinds,
    metadata_of,
    of_message,
    takes_changes,
)
from sqlstream.connectors.change_messages import decode_changes, encode_changes
from sqlstream.connectors.connector import (
    PATH_ERROR,
    WRONG_COLUMN,
    BatchWriter,
    Environment,
    LookupTable,
    RecoverableSink,
    SinkWriteRange,
    SplitSource,
    StreamSink,
    TruncatableTable,
    columns_of,
    folder_of_batch,
)
from sqlstream.connectors.file_columns import (
    MOST_FILES,
    has_more_files,
    newest_files,
    wrong_columns,
    wrong_columns_through_spark,
)
from sqlstream.connectors.file_lookup import LOOKUP_OPTIONS, file_lookup, filters
from sqlstream.connectors.file_sink_checks import holds_files, not_empty, require_log, require_logged, require_rows
from sqlstream.connectors.file_sink_log import begin_after, newest_batch
from sqlstream.connectors.formats import (
    CORRUPT,
    CSV_OPTIONS,
    JSON_OPTIONS,
    PLANNED_FORMATS,
    bad_column,
    check_format,
    decode,
    json_columns,
    parsed_schema,
    parsing,
    quoted,
    schema_ddl,
    writing,
)
from sqlstream.connectors.kind_column import KIND_COLUMN, check_kind_column, kind_column, read_columns, with_kinds
from sqlstream.connectors.odd_files import walk, wrong_files
from sqlstream.connectors.partition_directories import directories_told, wrong_directories
from sqlstream.connectors.unheld import refusing
from sqlstream.connectors.upsert_files import holds_rows_now, is_foreign, replace_rows
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError
from sqlstream.options import BOOLEAN, DURATION, NAME, PATH, WRONG_VALUE, Option, hint_of, integer, one_of
from sqlstream.planner.bad_rows import BAD, tolerates_bad_rows
from sqlstream.planner.catalog import UPSERT, RowKind, Table
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.missing_columns import FORMATS as WITH_NAMES
from sqlstream.planner.missing_columns import missing_are_null
from sqlstream.secrets import secret_texts, shown_value
from sqlstream.spark.running import shares_files
from sqlstream.types import DataType
from sqlstream.udfs.exchange import PARTS
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.listed_files import ListedFiles
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.parquet import FILE, LENGTH, SHARE, SHARES
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


CREDENTIALS = "SS584"
_MOST_FILES = "source.max-files-per-trigger"
_MOST_WRONG = 3
_LONGEST_SHOWN = 100

_METADATA = {
    "file.path": ("file_path", DataType("STRING")),
    "file.name": ("file_name", DataType("STRING")),
    "file.size": ("file_size", DataType("BIGINT")),
    "file.modification-time": ("file_modification_time", DataType("TIMESTAMP")),
}


def local_path(path: str) -> str | None:
    """The path on this machine that ``path`` means; None where it lies in another file system."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return unquote(parts.path)
    return path if parts.scheme == "" else None


def is_bounded(table: Table) -> bool:
    """Whether the files that are there at the start are all."""
    return table.option("source.monitor-interval") is None


def tells_kinds(table: Table) -> bool:
    """Whether each row that is read has its kind, from its format or from a column."""
    return has_kinds(table) or kind_column(table) is not None


def _check_changes(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Changes stand in the order of their lines. Spark mixes the files of a micro-batch, so each has one of them."""
    yield from check_changes(table, spans)
    most = table.option(_MOST_FILES)
    if tells_kinds(table) and most is not None and most.strip() != "1":
        message = f'option "{_MOST_FILES}" is 1 where files hold changes, which Spark would mix with those of others'
        yield Diagnostic(WRONG_VALUE, message, spans.get(_MOST_FILES), hint="Leave it out.")


def partition_columns(table: Table) -> list[str]:
    listed = (table.option("partition-by") or "").split(",")
    return [name.strip() for name in listed if name.strip()]


def _credentials(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Spark writes the paths of files into the checkpoint and its logs, with all that is in them."""
    path = table.option("path") or ""
    if secret_texts("path", path):
        message = f'path "{shown_value("path", path)}" of table "{table.name}" holds credentials'
        hint = "Give them to Spark: SET 'spark.hadoop.fs.s3a.access.key' = '…', or as your file system wants them."
        yield Diagnostic(CREDENTIALS, message, spans.get("path"), hint=hint)


def _unusable(table: Table, path: str, error: Exception, span: Span | None = None) -> Diagnostic:
    message = f'path "{_beginning(path)}" of table "{table.name}" cannot be used: {reason_of(error)}'
    return Diagnostic(PATH_ERROR, message, span, hint='Correct the option "path".')


def _beginning(path: str) -> str:
    return path if len(path) <= _LONGEST_SHOWN else f"{path[:_LONGEST_SHOWN]}…"


def _in_files(table: Table, columns: tuple[str, ...]) -> tuple[TableColumn, ...]:
    """The columns that files have in them, not in their names."""
    partitions = partition_columns(table)
    in_records = (c for c in columns_of(table, columns) if c.physical or of_message(table, c) is not None)
    return tuple(c for c in in_records if c.name not in partitions)


def _exists(path: str) -> bool:
    return any(p.exists() for p in _matching(path))


def _matching(path: str) -> Iterable[Path]:
    root = Path(path).anchor
    return Path(root).glob(path.removeprefix(root)) if glob.has_magic(path) else (Path(path),)


# --- source ---------------------------------------------------------------------------------------------------


def _read(environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as F

    values = FileSystem().values(table)
    path = values["path"]
    _require_columns(environment, table, columns)
    chosen = columns_of(table, columns)
    of_files = (c for c in chosen if of_message(table, c) is None)
    beside = {c.name: _metadata(c.metadata_key).cast(c.type.ddl()) for c in of_files if c.metadata_key is not None}
    parts = _parts(environment.spark, path, is_bounded(table)) if environment.in_order else {}
    if values["format"] == "json" or has_kinds(table):
        return _checked(environment, table, _json_rows(environment, table, columns, beside, parts))
    parses = values["format"] == "csv"
    files = _files(environment, table, parsed_schema(table) if parses else schema_ddl(table.physical_columns))
    rows = files.select(
        *((beside[c.name] if c.name in beside else F.col(quoted(c.name))).alias(c.name) for c in chosen),
        *([_bad(table, values)] if parses and tolerates_bad_rows(table) else []),
        *(column.alias(name) for name, column in parts.items()),
    )
    return _checked(environment, table, rows, _columns_to_check(table, columns))


def _checked(
    environment: Environment, table: Table, rows: DataFrame, columns: tuple[tuple[str, DataType], ...] = ()
) -> DataFrame:
    from sqlstream.udfs.spark.file_checks import checked

    listed = _listed_files(environment, table, columns)
    return rows if listed is None else checked(rows, listed)


def _listed_files(
    environment: Environment, table: Table, columns: tuple[tuple[str, DataType], ...] = ()
) -> ListedFiles | None:
    """The files to look at in each micro-batch (``file_checks``) where tasks see what this process does: not in other
    file systems, nor through Spark Connect.
    """
    from sqlstream.spark.running import is_connect

    path = local_path(table.option("path") or "")
    if path is None or environment.logs is None or is_connect(environment.spark):
        return None
    values = FileSystem().values(table)
    skips = values["source.missing-files"] == "skip"
    return ListedFiles(table.name, environment.logs, _root(path), values["format"], skips, columns)


def _root(path: str) -> str:
    """The beginning of all paths of files."""
    root = os.path.abspath(re.split(r"[*?\[{]", path)[0] or ".")  # noqa: PTH100 - Spark, too, takes ".." out
    return root if glob.has_magic(path) or Path(root).is_file() else f"{root.rstrip('/')}/"


_LINE = "__line"


def _json_rows(
    environment: Environment,
    table: Table,
    columns: tuple[str, ...],
    beside: Mapping[str, Column],
    parts: Mapping[str, Column],
) -> DataFrame:
    """Reads lines of text, because Spark's reader of JSON hides what follows the object of a line."""
    from pyspark.sql import functions as F

    in_files = {c.name for c in _in_files(table, columns)}
    directories = [c for c in table.physical_columns if c.name in partition_columns(table)]
    schema = ", ".join([f"{_LINE} STRING", *([schema_ddl(directories)] if directories else [])])
    keep = {name: beside[name] if name in beside else F.col(quoted(name)) for name in columns if name not in in_files}
    position = _metadata("file.path") if tolerates_bad_rows(table) else None
    named = tuple(name for name in columns if name in in_files)
    files = _files(environment, table, schema, "text")
    read = decode_changes if has_kinds(table) else partial(decode, of_files=True)
    rows = read(files, _LINE, table, named, FileSystem().values(table), {**keep, **parts}, position)
    extra = [name for name in (BAD, ROW_KIND) if name in rows.columns]
    return rows.select(*(F.col(quoted(name)) for name in (*columns, *extra, *parts)))


def _metadata(key: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(f"_metadata.{_METADATA[key][0]}")


def _require_columns(environment: Environment, table: Table, columns: tuple[str, ...]) -> None:
    """ConnectorError where remote files do not hold the columns; Spark alone can look into them."""
    if local_path(table.option("path") or "") is not None:
        return
    wrong = wrong_columns_through_spark(environment.spark, table, FileSystem().values(table), _in_files(table, columns))
    if wrong:
        raise SqlStreamError.of(wrong)


def _columns_to_check(table: Table, columns: tuple[str, ...]) -> tuple[tuple[str, DataType], ...]:
    """Those of Parquet files that are not all known at the start, where Spark takes a column that is not there for one
    of NULLs.
    """
    path = local_path(table.option("path") or "")
    if path is None or FileSystem().values(table)["format"] != "parquet" or missing_are_null(table):
        return ()
    if is_bounded(table) and not has_more_files(_matching(path), MOST_FILES):
        return ()
    return tuple((c.name, c.type) for c in _in_files(table, columns))


def _files(environment: Environment, table: Table, schema: str, format: str | None = None) -> DataFrame:  # noqa: A002
    values = FileSystem().values(table)
    if not is_bounded(table):
        _make_directory(table, values["path"])
    reader = environment.reader.schema(schema)
    reader = reader.options(**_reader_options(table, values, partition_columns(table)))
    with directories_told(table):
        files = reader.format(format or values["format"]).load(_directory_or_pattern(values["path"]))
    return _each_once(files, values["path"])


def _each_once(files: DataFrame, path: str) -> DataFrame:
    """The files without those behind links to what is read anyway: a link to its own directory gives them 41 times."""
    from pyspark.sql import functions as F

    from sqlstream.planner.lowering.bad_rows import path_of

    local = local_path(path)
    links = walk(_matching(local)).links if local is not None else []
    if not links:
        return files
    name, paths = path_of(F.col("_metadata.file_path")), [str(p.absolute()) for p in links]
    return files.where(~reduce(or_, (F.startswith(name, F.lit(f"{p}/")) for p in paths)) & ~name.isin(paths))


_BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""The schema of Spark's format for files of any kind, whose content it reads only where it is selected."""

_TASK = "__task"


def _shares(spark: SparkSession, table: Table, stats: list[os.stat_result]) -> int:
    """How many tasks share the files of a micro-batch: as many as operators have, and fewer where files are small."""
    most = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    if not is_bounded(table):
        return most
    sizes = sorted((f.st_size for f in stats), reverse=True)
    largest = sum(sizes[: FileSystem().values(table)["source.max-files-per-trigger"]])
    return min(max(1, -(-largest // _least_split(spark))), most)


def _bad(table: Table, values: Mapping[str, Any]) -> Column:
    from pyspark.sql import functions as F

    return bad_column(table, values, F.col(CORRUPT).isNotNull(), CORRUPT, "", F.col("_metadata.file_path"))


def _parts(spark: SparkSession, path: str, bounded: bool) -> dict[str, Column]:
    """The hidden columns that tell the order of files. Each is dear, names most: one is enough where times alone tell
    files apart, because times are whole milliseconds, which leave room for the place of a split in its file."""
    from pyspark.sql import functions as F

    time, name, start = PARTS
    stats = _stats(path)
    named = _share_times(stats, bounded)
    longest = max((f.st_size for f in stats), default=0)
    modified, split_start = "unix_micros(_metadata.file_modification_time)", "_metadata.file_block_start"
    unit = max(longest.bit_length() - 9, 0)  # places in units of so many bits are below 512
    if not named and _least_split(spark) >= 1 << unit:
        return {time: F.expr(f"{modified} + shiftright({split_start}, {unit})")}
    names = {name: F.col("_metadata.file_path")} if named else {}
    return {time: F.expr(modified), **names, start: F.col(split_start)}


def _share_times(stats: list[os.stat_result], bounded: bool) -> bool:
    """True where two files may have the same modification time in milliseconds, as Spark sees it."""
    times = [f.st_mtime_ns // 1_000_000 for f in stats]
    return not bounded or not times or len(set(times)) < len(times)


def _stats(path: str) -> list[os.stat_result]:
    """The files' statistics as far as they are known; none for remote files."""
    local = local_path(path)
    matching = _matching(local) if local is not None else ()
    return [f.stat() for path in matching for f in (path, *path.rglob("*")) if f.is_file()]


def _least_split(spark: SparkSession) -> int:
    """Splits of a file are at least so many bytes apart."""
    return min(
        _bytes(str(spark.conf.get(f"spark.sql.files.{name}"))) for name in ("maxPartitionBytes", "openCostInBytes")
    )


def _bytes(size: str) -> int:
    """The bytes of a size as Spark's settings have it, such as 4MB, 128m or 2000b; a plain number is bytes."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", size.strip().lower())
    assert match is not None, f"Spark takes sizes, not {size}"
    return int(match[1]) << (10 * " kmgtp".index(match[2] or " "))


def _directory_or_pattern(path: str) -> str:
    """Spark streams from directories and patterns: a file becomes a pattern that fits it alone."""
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
            raise SqlStreamError.of([_unusable(table, local, error)]) from None


def _reader_options(table: Table, values: Mapping[str, Any], partitions: list[str]) -> dict[str, str]:
    options = (parsing(table, values) if values["format"] == "csv" else {}) | {
        # Spark would skip files that come late and are a week older than the newest one.
        "maxFileAge": "36500d",
        # Directories are either values of columns or just places where files lie.
        "recursiveFileLookup": str(not partitions).lower(),
    }
    if values["format"] == "csv":
        # Without enforceSchema=false a header that names other columns would be skipped silently.
        options |= {"header": str(values["csv.header"]).lower(), "enforceSchema": "false"}
    if values["source.missing-files"] == "skip":
        options["ignoreMissingFiles"] = "true"  # those that are gone once the others have been looked for
    most = 1 if tells_kinds(table) else values[_MOST_FILES]
    if most is not None:
        options["maxFilesPerTrigger"] = str(most)
    return options


# --- sink -----------------------------------------------------------------------------------------------------


def _replace_batches(environment: Environment, table: Table) -> BatchWriter:
    path = FileSystem().values(table)["path"]
    local = local_path(path)
    if local is None or not shares_files(environment.spark):
        message = f'path "{shown_value("path", path)}" of table "{table.name}" is not on this machine'
        detail = "Files of another system cannot be put into the place of each other by one step."
        hint = "Give a local path, leave out PRIMARY KEY, or write into a database."
        raise ConnectorError(PATH_ERROR, message, detail=detail, hint=hint)
    folder = Path(local)
    try:
        if folder.exists() and (not folder.is_dir() or is_foreign(folder)):
            raise not_empty(table, folder)
        _require_directory_above(local, table)
    except (OSError, ValueError) as error:
        raise SqlStreamError.of([_unusable(table, path, error)]) from None
    return partial(replace_rows, folder, table.primary_key, environment.run)


def _as_written(rows: DataFrame, table: Table, target: _Target) -> DataFrame:
    """The input of Spark's writer: rows, or the text of each change."""
    from pyspark.sql import functions as F

    checked = refusing(rows, table, FileSystem().values(table), target.partitions)
    if target.format == "json":
        return checked.select(*json_columns(checked, FileSystem().values(table)))
    if not has_kinds(table):
        return checked
    changes = checked.select(*(F.col(quoted(name)) for name in checked.columns if name not in target.partitions))
    text = encode_changes(changes, FileSystem().values(table)).alias(_LINE)
    return checked.select(text, *(F.col(quoted(name)) for name in target.partitions))


@dataclass(frozen=True)
class _Target:
    path: str
    format: str
    options: Mapping[str, str]
    partitions: list[str]


def _target(environment: Environment, table: Table) -> _Target:
    values = FileSystem().values(table)
    if wrong := tuple(_credentials(table, {})):
        raise SqlStreamError.of(wrong)
    try:
        _refuse_foreign_files(environment, table, values["path"])
    except (OSError, ValueError) as error:
        raise SqlStreamError.of([_unusable(table, values["path"], error)]) from None
    options = writing(values)
    if values["format"] == "csv":
        options["header"] = str(values["csv.header"]).lower()
    if has_kinds(table):
        return _Target(values["path"], "text", {}, partition_columns(table))
    return _Target(values["path"], values["format"], options, partition_columns(table))


def _refuse_foreign_files(environment: Environment, table: Table, path: str) -> None:
    """Spark's file sink keeps one log per directory and skips the batches that another job logged there."""
    local = local_path(path)
    if (environment.resumed and not environment.anew) or local is None:
        return
    if not Path(local).exists():
        _require_directory_above(local, table)
        return
    newest = newest_batch(Path(local)) if environment.anew and Path(local).is_dir() else None
    if newest is not None and environment.after is not None:
        if newest > environment.after:
            message = f'path "{local}" of table "{table.name}" holds the micro-batch {newest}'
            detail = f"The job goes on after micro-batch {environment.after}, that of its savepoint."
            hint = "Write to another directory, which then has what comes after the savepoint."
            raise ConnectorError(PATH_ERROR, message, detail=detail, hint=hint)
        return
    if not Path(local).is_dir() or holds_files(Path(local)):
        raise not_empty(table, Path(local))


def _require_directory_above(local: str, table: Table) -> None:
    """SS508 where a file stands where the path wants a directory."""
    above = next(parent for parent in Path(local).absolute().parents if parent.exists())
    if not above.is_dir():
        message = f'path "{_beginning(local)}" of table "{table.name}" cannot be used: "{above}" is no directory'
        raise ConnectorError(PATH_ERROR, message, hint='Correct the option "path".')


_COMMITS = "Files are there for readers when their micro-batch is committed; a partition of a stream is never complete."


class FileSystem(SplitSource, StreamSink, RecoverableSink, LookupTable, TruncatableTable):
    """Reads and writes by Spark's file formats."""

    name = "filesystem"
    doc = (
        "Files of a directory as a stream of rows, or as a table for lookups, held in memory; a directory that a job "
        "appends files to, each batch exactly once, or, as parquet with a PRIMARY KEY, keeps the rows of now in."
    )
    options = (
        Option("path", PATH, "A file, a directory or a glob pattern; as a sink a directory.", required=True, sink=True),
        Option(
            "format",
            one_of("csv", "json", "parquet", "orc", "text", *CHANGE_FORMATS, planned=(*PLANNED_FORMATS, "raw")),
            "How rows are written: csv, json (one object a line), parquet, orc, text (one STRING a line); changes of a "
            "table, one message a line, by the others.",
            required=True,
            sink=True,
        ),
        Option(
            "source.monitor-interval",
            DURATION,
            "Watch the directory for new files this often, for ever; without it the files there at the start are all.",
        ),
        Option(
            "source.missing-files",
            one_of("fail", "skip"),
            "What happens where a file is gone between listing and reading it: the job fails, or goes on without it.",
            "fail",
        ),
        Option("source.max-files-per-trigger", integer(1), "Read at most so many files in one micro-batch."),
        KIND_COLUMN,
        Option("partition-by", NAME, "Columns, separated by commas, that are directories, day=2024-01-31.", sink=True),
        Option(
            "csv.multi-line",
            BOOLEAN,
            "Quoted fields may have line feeds; each file is then read whole by one task.",
            "false",
            sink=True,
        ),
        Option("csv.header", BOOLEAN, "The first line names the columns; they are checked.", "false", sink=True),
        *(
            Option(
                f"{name}.missing-columns",
                one_of("error", "null"),
                f"What columns are that the {name} files of a query lack: a mistake, or NULL.",
                "error",
            )
            for name in WITH_NAMES
        ),
        *CSV_OPTIONS,
        *JSON_OPTIONS,
        *CHANGE_OPTIONS,
        *LOOKUP_OPTIONS,
    )
    refused = dict.fromkeys(
        (
            "sink.partition-commit.trigger",
            "sink.partition-commit.delay",
            "sink.partition-commit.watermark-time-zone",
            "sink.partition-commit.policy.kind",
            "sink.partition-commit.policy.class",
            "sink.partition-commit.success-file.name",
        ),
        _COMMITS,
    )

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from check_format(table, spans)
        yield from _check_changes(table, spans)
        yield from check_kind_column(table, spans)
        names = [c.name for c in table.physical_columns]
        for name in partition_columns(table):
            if name not in names:
                message = f'option "partition-by" names the column "{name}", which table "{table.name}" does not have'
                yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint=hint_of(name, names, "Columns"))

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def poll_ms(self, table: Table) -> int | None:
        interval: int | None = self.values(table)["source.monitor-interval"]
        return interval

    def has_kinds(self, table: Table) -> bool:
        return tells_kinds(table)

    def ready(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        """A bounded source on this machine must be there before the job starts; a watched one may come later."""
        path = local_path(table.option("path") or "")
        yield from _credentials(table, spans)
        try:
            there = path is None or not is_bounded(table) or _exists(path)
        except (OSError, ValueError) as error:
            yield _unusable(table, path or "", error, spans.get("path"))
            return
        if not there:
            message = f'path "{path}" of table "{table.name}" does not exist'
            hint = "Correct the option \"path\"; with 'source.monitor-interval' the job waits for files to appear."
            yield Diagnostic(PATH_ERROR, message, spans.get("path"), hint=hint)

    def inspect(self, table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
        """Local files must be such as can be read, and the newest must hold the columns."""
        path = local_path(table.option("path") or "")
        if path is None:
            return []
        logged = any((root / "_spark_metadata").exists() for root in _matching(path))  # of the files there some count
        paths = [] if logged else walk(_matching(path)).files
        wrong = [*islice(wrong_files(table, paths, self.values(table)["format"]), _MOST_WRONG)]
        wrong = wrong or [*islice(wrong_directories(table, partition_columns(table), _matching(path), paths), 1)]
        if wrong:
            return wrong
        files = newest_files(_matching(path))
        return wrong_columns(table, self.values(table), _in_files(table, columns), files)

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        if kind_column(table) is None:
            return _read(environment, table, columns)
        return with_kinds(_read(environment, table, read_columns(table, columns)), table, columns)

    def has_file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> bool:
        """True for Parquet files on this machine, whose directories are no columns of the query."""
        path, partitions = table.option("path") or "", partition_columns(table)
        in_files = all(c.physical and c.name not in partitions for c in columns_of(table, columns))
        if self.values(table)["format"] != "parquet" or not in_files or tells_kinds(table):
            return False
        elsewhere = environment.spark.conf.get("spark.hadoop.fs.defaultFS", "file:")
        return path.startswith("file:") or (local_path(path) is not None and str(elsewhere).startswith("file:"))

    def file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """The file ranges of a table that ``has_places``."""
        from pyspark.sql import functions as F

        from sqlstream.udfs.spark.batches import numbers_of
        from sqlstream.udfs.spark.file_checks import checked_places

        path = table.option("path") or ""
        stats = _stats(path)
        named = environment.in_order and _share_times(stats, is_bounded(table))
        files = _files(environment, table, _BINARY_FILE, "binaryFile").select(
            F.input_file_name().alias(FILE),
            F.col("length").alias(LENGTH),
            *([F.input_file_name().alias(PARTS[1])] if named else []),
        )
        shares = _shares(environment.spark, table, stats)
        look = _listed_files(environment, table)
        places = files.coalesce(1)
        checked = places if look is None else checked_places(places, look, FILE)
        listed = checked.withColumn(SHARES, F.lit(shares))
        if shares == 1:
            return listed.withColumn(SHARE, F.lit(0))
        # A union would be a source per share, and Spark's checkpoint lets no later start have more or fewer of them.
        keys = (F.struct(F.lit(i).alias(SHARE), F.lit(int(n)).alias(_TASK)) for i, n in enumerate(numbers_of(shares)))
        return listed.select("*", F.inline(F.array(*keys))).repartition(shares, _TASK).drop(_TASK)

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        values = self.values(table)
        path = local_path(values["path"])
        return file_lookup(environment, table, request, values, path, partition_columns(table))

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        """What the sink takes: all changes where its format has them, or where its directory holds the rows of now."""
        return UPSERT if holds_rows_now(table) else takes_changes(table)

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        if holds_rows_now(table):
            return rows.writeStream.foreachBatch(_replace_batches(environment, table))
        target = _target(environment, table)
        local = local_path(target.path)
        if environment.after is not None and local is not None:
            begin_after(Path(local), environment.after)
        rows = _as_written(rows, table, target)
        writer = rows.writeStream.format(target.format).options(**target.options).option("path", target.path)
        return writer.partitionBy(*target.partitions) if target.partitions else writer

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        if holds_rows_now(table):
            return _replace_batches(environment, table)
        target = _target(environment, table)

        def write_batch(batch: DataFrame, number: int) -> None:
            rows = _as_written(batch, table, target)
            writer = rows.write.mode("overwrite").format(target.format).options(**target.options)
            writer = writer.partitionBy(*target.partitions) if target.partitions else writer
            writer.save(folder_of_batch(target.path, number))

        return write_batch

    def truncate(self, directory: Path, table: Table) -> None:
        """Empties the directory of a table; ConnectorError SS508 where the path is none, or not of this machine."""
        path = table.option("path") or ""
        local = local_path(path)
        if local is None or glob.has_magic(local) or Path(local).is_file():
            message = f'path "{shown_value("path", path)}" of table "{table.name}" is no directory of this machine'
            raise ConnectorError(PATH_ERROR, message, hint="Remove the files where they are.")
        try:
            for entry in [*Path(local).iterdir()] if Path(local).exists() else []:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        except OSError as error:
            raise SqlStreamError.of([_unusable(table, local, error)]) from None

    def location(self, table: Table) -> str:
        path = table.option("path") or ""
        local = local_path(path)
        return path.rstrip("/") if local is None else str(Path(local).absolute())

    def require_intact(
        self, environment: Environment, table: Table, written: SinkWriteRange | None, streamed: bool
    ) -> None:
        """Checks a directory on this machine whose log of Spark's file sink says which of its files count."""
        local = local_path(table.option("path") or "")
        if not environment.resumed or environment.anew or environment.after is None or local is None:
            return
        try:
            if holds_rows_now(table):
                require_rows(table, Path(local), written)
                return
            require_log(table, Path(local), written, environment.after, streamed)
        except (OSError, ValueError) as error:
            raise SqlStreamError.of([_unusable(table, local, error)]) from None

    def require_batch(self, table: Table, number: int) -> None:
        local = local_path(table.option("path") or "")
        if local is not None and not holds_rows_now(table):
            require_logged(table, Path(local), number)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: type_ for key, (_, type_) in _METADATA.items()} | dict(metadata_of(table))

    def filters(self, table: Table, comparison: Comparison) -> bool:
        return filters(table, comparison)
