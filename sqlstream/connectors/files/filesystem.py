"""``filesystem``: files as a stream, as a target (``sink``), and as a table for lookups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.change_formats import (
    TEXT_FORMATS,
    TEXT_OPTIONS,
    check_changes,
    has_kinds,
    metadata_of,
    takes_changes,
)
from sqlstream.connectors.connector import (
    PATH_ERROR,
    WRONG_COLUMN,
    BatchWriter,
    LookupTable,
    RecoverableSink,
    SplitSource,
    StreamSink,
)
from sqlstream.connectors.environment import Environment, SinkWriteRange
from sqlstream.connectors.files.checks import (
    newest_files,
    no_text,
    walk,
    wrong_columns,
    wrong_directories,
    wrong_files,
)
from sqlstream.connectors.files.in_stores import check_in_store, is_missing, truncate_folder, wrong_in_store
from sqlstream.connectors.files.sink import bytes_of_batch, require_logged, truncate_directory
from sqlstream.connectors.files.tables import (
    BYTES_PER_TRIGGER,
    ENCODING,
    KIND_COLUMN,
    METADATA,
    MOST_PER_TRIGGER,
    ROWS,
    TEXTS,
    check_encoding,
    check_kind_column,
    columns_in_files,
    credentials,
    holds_rows_now,
    is_bounded,
    kind_column,
    local_path,
    matching_paths,
    partition_columns,
    read_columns,
    tells_kinds,
    unusable,
)
from sqlstream.connectors.formats import COLUMNAR_OPTIONS, CSV_OPTIONS, JSON_OPTIONS, REFUSED_OF_FORMATS, check_format
from sqlstream.connectors.stored_tables import TruncatableTable, ViewTable
from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.options import STORE_OPTIONS, STORE_VARIABLES, is_in_store
from sqlstream.connectors.stores.stores import store_of
from sqlstream.errors import Diagnostic, Span, SqlStreamError, UnsupportedError
from sqlstream.options import BOOLEAN, DURATION, NAME, PATH, SIZE, WRONG_VALUE, Option, hint_of, integer, one_of
from sqlstream.planner.bad_rows import FORMATS as WITH_NAMES
from sqlstream.planner.bad_rows import missing_are_null
from sqlstream.planner.catalog import UPSERT, Column, RowKind, Table
from sqlstream.secrets import shown_value
from sqlstream.types import DataType
from sqlstream.udfs.files.columnar import ColumnarFiles
from sqlstream.udfs.files.records import RecordFormat
from sqlstream.udfs.files.sink_log import LOG
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources.files import COMPARED, FileSource, as_of, keys_can_be

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_MOST_WRONG = 3


def _check_changes(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Changes are ordered within a file only, and Spark interleaves the files of a micro-batch: it must have one."""
    yield from check_changes(table, spans)
    most = table.option(MOST_PER_TRIGGER)
    if tells_kinds(table) and most is not None and most.strip() != "1":
        message = (
            f'option "{MOST_PER_TRIGGER}" is 1 where files hold changes, which Spark would mix with those of others'
        )
        yield Diagnostic(WRONG_VALUE, message, spans.get(MOST_PER_TRIGGER), hint="Leave it out.")


# --- lookups --------------------------------------------------------------------------------------------------

NOT_A_KEY = "SS580"
RELOAD = "lookup.full-cache.periodic-reload.interval"
NOT_LOCAL = "SS581"
OF_CHANGES = "SS665"
NOT_IN_FORMAT = "SS582"

LOOKUP_OPTIONS = (
    Option(
        "lookup.cache",
        one_of("FULL", planned=("none", "partial")),
        "Lookups load the table whole, once per worker process.",
        "FULL",
    ),
    Option(
        "lookup.full-cache.reload-strategy",
        one_of("PERIODIC", planned=("timed",)),
        "When lookups load the table again.",
        "PERIODIC",
    ),
    Option(
        RELOAD,
        DURATION,
        "Lookups look this often whether files have changed, and load the table again; not given, it is loaded once.",
    ),
)


def _file_lookup(
    environment: Environment,
    table: Table,
    request: Request,
    values: Mapping[str, Any],
    path: str | None,
    partitions: list[str],
) -> FileSource:
    """What answers lookups: the table is loaded whole in each worker, and again on an interval (Flink's FULL cache).

    ``values``: the options of the table; ``path``: None if it is not on this machine; ``partitions``: the columns that
    are directories. UnsupportedErrors SS580, SS581, SS582, SS665.
    """
    if path is None:
        message = f'lookups in table "{table.name}" read no files of "{shown_value("path", values["path"])}"'
        hint = "They read local paths, or such as are mounted on every worker: write 'path' = '/…'."
        raise UnsupportedError(NOT_LOCAL, message, hint=hint)
    if has_kinds(table) or kind_column(table) is not None:
        by = f'format "{values["format"]}"' if has_kinds(table) else f'column "{kind_column(table)}"'
        message = f'lookups in table "{table.name}" read no changes, which its {by} tells'
        hint = "Let a job write the table into a database, and look it up there."
        raise UnsupportedError(OF_CHANGES, message, hint=hint)
    kinds = {c.name: c.type for c in table.physical_columns}
    needed = dict((*request.keys, *request.columns, *((f.column, kinds[f.column]) for f in request.filters)))
    zone = environment.spark.conf.get("spark.sql.session.timeZone") or "UTC"
    for name, kind in request.keys:
        if not keys_can_be(kind):
            message = f'column "{name}" of type {kind.ddl()} cannot be the key of a lookup in files'
            raise UnsupportedError(NOT_A_KEY, message, hint="Compare a column of a plain type, a STRING for instance.")
    form = _lookup_format(table, tuple(needed), values, zone)
    interval = values[RELOAD]
    location = path if is_in_store(path) else str(Path(path).absolute())
    columns, directories, state = tuple(needed.items()), tuple(partitions), as_of(location, form.access)
    return FileSource(table.name, request, location, form, columns, directories, zone, interval, state)


def _lookup_format(
    table: Table, columns: tuple[str, ...], values: Mapping[str, Any], zone: str
) -> RecordFormat | ColumnarFiles:
    """How lookups read the files, as streams do. UnsupportedError SS582 for types that they cannot read."""
    name, in_files = values["format"], columns_in_files(table, columns)
    if name in (*TEXTS, "avro"):
        form = on_spark.record_files.lookup_format(table, columns, values, zone)
        if form is not None:
            return form
    elif not any(map(_is_odd, in_files)):
        kinds = tuple((c.name, c.type) for c in in_files)
        return ColumnarFiles(name, kinds, missing_are_null(table), on_spark.record_files.access_of(values))
    odd = next(filter(_is_odd, (*in_files, *table.physical_columns)))
    message = f'lookups in table "{table.name}" cannot read column "{odd.name}" of type {odd.type.ddl()} as {name}'
    raise UnsupportedError(NOT_IN_FORMAT, message, hint="Leave the column out of the table, or declare it STRING.")


def _is_odd(column: Column) -> bool:
    return any(member.name in ("VARIANT", "INTERVAL") for member in column.type.parts())


_OF_ROWS = ("csv", "json", "parquet", "orc", "arrow", "avro", "text")
_COMMITS = "Files are there for readers when their micro-batch is committed; a partition of a stream is never complete."
_SIZES = "A micro-batch writes files whole: 'execution.checkpointing.interval' and 'sink.parallelism' say how large."
_REFUSED = {
    "partition.default-name": "Leave it out: NULL is the directory __HIVE_DEFAULT_PARTITION__, as in Hive and Spark.",
    "source.path.regex-pattern": "Write a pattern of names in the path, such as /data/*.csv.",
    "source.report-statistics": "Leave it out: files are counted as they are read.",
    "sink.shuffle-by-partition.enable": "Leave it out: each task writes a file for each partition that it has rows of.",
    "sink.rolling-policy.file-size": _SIZES,
    "sink.rolling-policy.rollover-interval": _SIZES,
    "sink.rolling-policy.check-interval": _SIZES,
    "auto-compaction": _SIZES,
    "compaction.file-size": _SIZES,
    "compaction.parallelism": _SIZES,
    "sink.partition-commit.trigger": _COMMITS,
    "sink.partition-commit.delay": _COMMITS,
    "sink.partition-commit.watermark-time-zone": _COMMITS,
    "sink.partition-commit.policy.kind": _COMMITS,
    "sink.partition-commit.policy.class": _COMMITS,
    "sink.partition-commit.success-file.name": _COMMITS,
}
"""Options of Flink that are not executed, and what to write instead."""


class FileSystem(SplitSource, StreamSink, RecoverableSink, LookupTable, TruncatableTable, ViewTable):
    """Tables in files. Tasks or Spark's file formats read them, and Spark's file formats write them."""

    name = "filesystem"
    doc = (
        "Files of a directory as a stream of rows, or as a table for lookups, held in memory; a directory that a job "
        "appends files to, each batch exactly once, or, as parquet with a PRIMARY KEY, keeps the rows of now in."
    )
    options = (
        Option(
            "path",
            PATH,
            "A file, a directory or a glob pattern; as a sink a directory. Relative ones begin where the process is.",
            required=True,
            sink=True,
        ),
        Option(
            "format",
            one_of(*_OF_ROWS, *TEXT_FORMATS, planned=("protobuf", "raw")),
            "How rows are written: csv, json (one object a line), parquet, orc, avro, arrow (IPC, Feather), text (one "
            "STRING a line); changes of a table, one message a line, by the others.",
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
        Option(MOST_PER_TRIGGER, integer(1), "Read at most so many files in one micro-batch."),
        Option(
            BYTES_PER_TRIGGER,
            SIZE,
            "Read at most so many bytes in one micro-batch; local files of csv, json, text and avro are cut for that, "
            "and of parquet where an operator with state reads them. "
            "Where there is more at the start of a new job and no bound is given, it is 512 mb of text, 256 mb of "
            "arrow and avro, 128 mb of orc, and of parquet 128 mb of the columns that the query reads, but no more "
            "than about five million rows. Of text and parquet whose rows are joined to others it is no more rows "
            "than have 768 mb together with those. With less than 16 GB of memory all of it is proportionally less, "
            "but at least an eighth.",
        ),
        KIND_COLUMN,
        ENCODING,
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
        *COLUMNAR_OPTIONS,
        *CSV_OPTIONS,
        *JSON_OPTIONS,
        *TEXT_OPTIONS,
        *LOOKUP_OPTIONS,
        *STORE_OPTIONS,
    )
    variables = STORE_VARIABLES
    refused = REFUSED_OF_FORMATS | _REFUSED

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from check_format(table, spans)
        yield from _check_changes(table, spans)
        yield from check_kind_column(table, spans)
        yield from check_encoding(table, spans)
        yield from check_in_store(table, spans)
        names = [c.name for c in table.physical_columns]
        for name in partition_columns(table):
            if name not in names:
                message = f'option "partition-by" names the column "{name}", which table "{table.name}" does not have'
                yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint=hint_of(name, names, "Columns"))
        if names and set(names) <= set(partition_columns(table)):
            message = f'option "partition-by" names all columns of table "{table.name}"'
            hint = "Files must hold at least one column: leave one out of the option."
            yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint=hint)

    def bounded(self, table: Table) -> bool:
        return is_bounded(table)

    def poll_ms(self, table: Table) -> int | None:
        interval: int | None = self.values(table)["source.monitor-interval"]
        return interval

    def has_kinds(self, table: Table) -> bool:
        return tells_kinds(table)

    def ready(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        """Returns diagnostics for a bounded source whose local path does not exist. The path of a monitored source may
        appear later.
        """
        path = local_path(table.option("path") or "")
        wrong = tuple(credentials(table, spans))
        yield from wrong
        if wrong:
            return
        if (store := self._store(table)) is not None:
            if is_bounded(table):
                yield from is_missing(table, store, self.values(table)["path"], spans)
            return
        try:
            there = path is None or not is_bounded(table) or any(p.exists() for p in matching_paths(path))
        except (OSError, ValueError) as error:
            yield unusable(table, path or "", error, spans.get("path"))
            return
        if not there:
            message = f'path "{path}" of table "{table.name}" does not exist'
            hint = "Correct the option \"path\"; with 'source.monitor-interval' the job waits for files to appear."
            yield Diagnostic(PATH_ERROR, message, spans.get("path"), hint=hint)

    def _store(self, table: Table) -> ObjectStore | None:
        path = table.option("path") or ""
        return store_of(path, self.resolved_values(table)) if is_in_store(path) else None

    def no_text(self, table: Table) -> SqlStreamError | None:
        path, columns = local_path(table.option("path") or ""), tuple(c.name for c in table.physical_columns)
        if path is None:
            return None
        return no_text(self.values(table)["format"], columns_in_files(table, columns), matching_paths(path))

    def inspect(self, table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
        """Returns diagnostics for local files that cannot be read, and for columns that the newest files lack."""
        if (store := self._store(table)) is not None:
            return wrong_in_store(table, store, self.values(table), columns_in_files(table, columns))
        path = local_path(table.option("path") or "")
        if path is None:
            return []
        logged = any((root / LOG).exists() for root in matching_paths(path))  # only some of the files count
        paths = [] if logged else walk(matching_paths(path)).files
        wrong = [*islice(wrong_files(table, paths, self.values(table)["format"]), _MOST_WRONG)]
        wrong = wrong or [*islice(wrong_directories(table, partition_columns(table), matching_paths(path), paths), 1)]
        if wrong:
            return wrong
        files = newest_files(matching_paths(path))
        return wrong_columns(table, self.values(table), columns_in_files(table, columns), files)

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        values = self.resolved_values(table)
        if kind_column(table) is None:
            return on_spark.file_source.read_files(environment, table, columns, values)
        rows = on_spark.file_source.read_files(environment, table, read_columns(table, columns), values)
        return on_spark.file_source.with_kinds(rows, table, columns)

    def has_file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> bool:
        return on_spark.file_source.has_file_splits(environment, table, columns, self.values(table))

    def file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        return on_spark.file_source.file_splits(environment, table, self.resolved_values(table), columns=columns)

    def record_format(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> RecordFormat | None:
        return on_spark.record_files.record_format(environment, table, columns, self.resolved_values(table))

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        values = self.resolved_values(table)
        path = values["path"] if is_in_store(values["path"]) else local_path(values["path"])
        return _file_lookup(environment, table, request, values, path, partition_columns(table))

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        """Returns the row kinds that can be written: all for change formats, upserts where the directory holds the
        current rows by PRIMARY KEY, else inserts only.
        """
        return UPSERT if holds_rows_now(table) else takes_changes(table)

    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        return on_spark.file_sink.stream_writer(environment, table, rows, self.resolved_values(table))

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        return on_spark.file_sink.batch_writer(environment, table, self.resolved_values(table))

    def truncate(self, directory: Path, table: Table) -> None:
        store = self._store(table)
        if store is None:
            truncate_directory(table)
        else:
            truncate_folder(table, store)

    def is_there(self, table: Table) -> bool:
        local = local_path(table.option("path") or "")
        return local is not None and Path(local).is_dir() and any(Path(local).iterdir())

    def is_ours(self, table: Table) -> bool:
        local = local_path(table.option("path") or "")
        if local is None or not Path(local).is_dir():
            return False
        current = (Path(local) / ROWS).is_file() and not on_spark.keyed_rows.is_foreign(Path(local))
        return current or (Path(local) / LOG).is_dir()

    def remove(self, table: Table) -> None:
        truncate_directory(table)

    def require_intact(
        self, environment: Environment, table: Table, written: SinkWriteRange | None, streamed: bool
    ) -> None:
        values = self.resolved_values(table)
        on_spark.file_sink.require_intact(environment, table, values, written, streamed)

    def location(self, table: Table) -> str:
        path = table.option("path") or ""
        local = local_path(path)
        return path.rstrip("/") if local is None else str(Path(local).absolute())

    def require_batch(self, table: Table, number: int) -> None:
        local = local_path(table.option("path") or "")
        if local is not None and not holds_rows_now(table):
            require_logged(table, Path(local), number)

    def bytes_of_batch(self, table: Table, number: int, begin_ms: int) -> int | None:
        return bytes_of_batch(table, number, begin_ms)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: type_ for key, (_, type_) in METADATA.items()} | dict(metadata_of(table))

    def filters(self, table: Table, comparison: Comparison) -> bool:
        """Always true: lookups apply all filters while reading, so that excluded rows are not kept in memory."""
        kinds = {c.name: c.type.name for c in table.physical_columns}
        return kinds.get(comparison.column) in COMPARED
