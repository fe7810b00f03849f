"""``delta``: Delta tables without jars of Spark, as streams of versions, finished data, for lookups, and as sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import (
    WRONG_COLUMN,
    BatchWriter,
    Environment,
    LookupTable,
    SplitSource,
    TruncatableTable,
    UpsertSink,
)
from sqlstream.connectors.file_tables import BYTES_PER_TRIGGER, MOST_PER_TRIGGER, partition_columns
from sqlstream.connectors.filesystem import LOOKUP_OPTIONS, NOT_A_KEY
from sqlstream.errors import Diagnostic, Span, SqlStreamError, UnsupportedError
from sqlstream.options import (
    BOOLEAN,
    DURATION,
    MISSING_OPTION,
    NAME,
    PATH,
    SIZE,
    STRING,
    WRONG_VALUE,
    Option,
    OptionKind,
    hint_of,
    integer,
    one_of,
)
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, Table
from sqlstream.secrets import REFERENCE
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources.files import COMPARED, keys_can_be

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sqlstream.connectors.lake import LakeSettings

MONITOR = "source.monitor-interval"
START, START_VERSION, START_TIME = "scan.startup.mode", "scan.startup.version", "scan.startup.timestamp"
VERSION_AS_OF, TIME_AS_OF = "version-as-of", "timestamp-as-of"
REWRITTEN_ROWS = "source.rewritten-rows"
STORAGE, PROPERTY = "storage.", "delta."


def _time(text: str) -> str:
    time = datetime.fromisoformat(text.strip())
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).isoformat()


TIME = OptionKind("time", "a time such as '2024-01-31 12:00:00.123', in UTC unless it has a zone", _time)

_SOURCE_OPTIONS = (
    Option(MONITOR, DURATION, "Look for new versions this often, for ever; without it one version is all."),
    Option(VERSION_AS_OF, integer(), "Read this version of the table; without it the newest one."),
    Option(TIME_AS_OF, TIME, "Read the version that was the newest one at this time."),
    Option(
        START,
        one_of("snapshot", "latest", "earliest", "version", "timestamp"),
        "Where a stream begins: with all rows that are there, with what comes next, with the oldest version of the "
        "log, with a version, or behind a time.",
        "snapshot",
    ),
    Option(START_VERSION, integer(), "The first version that is read, for the mode version."),
    Option(START_TIME, TIME, "What was committed behind this time is read, for the mode timestamp."),
    Option(
        REWRITTEN_ROWS,
        one_of("fail", "skip"),
        "What a stream of rows does where a version changes or removes some: the job fails, or goes on without that "
        "version. With 'changelog-mode' = 'I,UB,UA,D' all changes are read.",
        "fail",
    ),
    Option(
        MOST_PER_TRIGGER, integer(1), "Read at most so many files in one micro-batch, but all changes of a version."
    ),
    Option(BYTES_PER_TRIGGER, SIZE, "Read at most so many bytes in one micro-batch, but always one file.", "512 mb"),
)
_SINK_OPTIONS = (
    Option(
        "create-table", BOOLEAN, "Create the table when a job starts, where there is none.", "true", source=False,
        sink=True,
    ),
    Option(
        "partition-by", NAME, "Columns, separated by commas, by which a table that is created is partitioned.",
        source=False, sink=True,
    ),
    Option("delta.#", STRING, "A property of a table that is created, such as delta.enableChangeDataFeed.",
           source=False, sink=True),
    Option(
        "sink.schema-evolution",
        one_of("none", "add-columns"),
        "Whether columns that the Delta table lacks are added to it when a job starts.",
        "none", source=False, sink=True,
    ),
    Option("sink.compact-every", integer(1), "Put small files together after so many micro-batches.",
           source=False, sink=True),
    Option("parquet.compression", one_of("none", "snappy", "gzip", "zstd", "lz4"), "How columns are compressed.",
           "snappy", source=False, sink=True),
)  # fmt: skip

_STARTS = {START_VERSION: "version", START_TIME: "timestamp"}
_NOT_STORED = ("VARIANT", "INTERVAL", "TIME")


class Delta(SplitSource, LookupTable, UpsertSink, TruncatableTable):
    """Delta tables, which tasks read and write as Parquet files. The package deltalake reads and writes their log."""

    name = "delta"
    doc = (
        "Delta tables, without Spark's jars: read at any version, as a stream of new versions or of their changes, for "
        "lookups; written exactly once, by PRIMARY KEY where there is one."
    )
    options = (
        Option("path", PATH, "The directory of the table, or its URL in an object store.", required=True, sink=True),
        Option("storage.#", STRING, "An option of the object store as deltalake has it, such as its keys.", sink=True),
        *_SOURCE_OPTIONS,
        *_SINK_OPTIONS,
        *LOOKUP_OPTIONS,
    )
    variables = ("path", "storage.#")
    prunes = True

    # --- checks ---------------------------------------------------------------------------------------------------

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from _check_types(table, spans)
        yield from _check_partitions(table, spans)
        yield from _check_start(table, spans)
        if table.changelog not in (APPEND_ONLY, ALL_KINDS):
            message = "option \"changelog-mode\" of connector \"delta\" is 'I' or 'I,UB,UA,D'"
            hint = "Its changes are of all kinds; leave the option out to read rows that are added."
            yield Diagnostic(WRONG_VALUE, message, spans.get("changelog-mode"), hint=hint)

    def bounded(self, table: Table) -> bool:
        return table.option(MONITOR) is None

    def poll_ms(self, table: Table) -> int | None:
        interval: int | None = self.values(table)[MONITOR]
        return interval

    def has_kinds(self, table: Table) -> bool:
        return table.changelog != APPEND_ONLY

    def ready(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        from sqlstream.connectors.delta_log import DeltaLog, require_deltalake

        try:
            require_deltalake()
            DeltaLog(self.settings(table)).first_position()
        except SqlStreamError as error:
            return [Diagnostic(d.code, d.message, spans.get("path"), d.detail, d.hint) for d in error.diagnostics]
        return ()

    def inspect(self, table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
        from sqlstream.connectors.delta_log import StoredColumns, open_table

        settings = self.settings(table, columns)
        there = StoredColumns.of(open_table(table.name, settings.location, settings.storage))
        return there.wrong(table.name, settings.types)

    def settings(
        self, table: Table, columns: tuple[str, ...] = (), filters: tuple[Comparison, ...] = ()
    ) -> LakeSettings:
        """What readers need to know of a table, with the values of environment variables."""
        from sqlstream.connectors.lake import LakeSettings

        values = self.resolved_values(table)
        kinds = {c.name: c.type.ddl() for c in table.physical_columns}
        at = values[START_VERSION] if values[START] == "version" else values[START_TIME]
        version = values[VERSION_AS_OF]
        return LakeSettings(
            self.name,
            table.name,
            values["path"],
            _prefixed(values, STORAGE),
            tuple((name, kinds[name]) for name in columns),
            values[START],
            None if at is None else str(at),
            values[TIME_AS_OF] if version is None else version,
            self.bounded(table),
            self.has_kinds(table),
            values[REWRITTEN_ROWS] == "skip",
            values[MOST_PER_TRIGGER],
            values[BYTES_PER_TRIGGER],
            filters,
        )

    # --- source ---------------------------------------------------------------------------------------------------

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        settings = self.settings(table, columns, environment.filters)
        return on_spark.lake_source.read(environment, table, columns, settings)

    def has_file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> bool:
        """Only local files: an exchange does not know how to open others. Changes need a kind in each row."""
        path = table.option("path") or ""
        return not ("://" in path or REFERENCE.search(path) or self.has_kinds(table))

    def file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        return on_spark.lake_source.file_splits(environment, self.settings(table, columns, environment.filters))

    def filters(self, table: Table, comparison: Comparison) -> bool:
        kinds = {c.name: c.type.name for c in table.physical_columns}
        return kinds.get(comparison.column) in COMPARED

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        from sqlstream.connectors.delta_log import DeltaLog, require_deltalake
        from sqlstream.connectors.lake_lookup import LakeSource

        require_deltalake()
        kinds = {c.name: c.type for c in table.physical_columns}
        names = [*request.keys, *request.columns, *((f.column, kinds[f.column]) for f in request.filters)]
        _require_keys(request)
        columns = tuple(dict(names).items())
        values = self.values(table)
        settings = replace(self.settings(table, tuple(dict(columns))), bounded=True, changes=False)
        version = DeltaLog(settings).first_position().version
        interval = values["lookup.full-cache.periodic-reload.interval"]
        return LakeSource(table.name, request, settings.to_json(), columns, version, interval)

    # --- sink -----------------------------------------------------------------------------------------------------

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        from sqlstream.connectors.delta_tables import prepared

        values = self.resolved_values(table)
        return on_spark.delta_sink.writer(environment, table, prepared(table, values), values["sink.compact-every"])

    def location(self, table: Table) -> str:
        path = table.option("path") or ""
        return path.rstrip("/") if "://" in path else str(Path(path).absolute())

    def truncate(self, directory: Path, table: Table) -> None:
        from sqlstream.connectors.delta_tables import remove_rows

        remove_rows(table, self.resolved_values(table))


def _prefixed(values: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): str(value) for key, value in values.items() if key.startswith(prefix)}


def _require_keys(request: Request) -> None:
    for name, kind in request.keys:
        if not keys_can_be(kind):
            message = f'column "{name}" of type {kind.ddl()} cannot be the key of a lookup in files'
            raise UnsupportedError(NOT_A_KEY, message, hint="Compare a column of a plain type, a STRING for instance.")


# --- checks of statements -------------------------------------------------------------------------------------


def _check_types(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    for column in table.physical_columns:
        if any(member.name in _NOT_STORED for member in column.type.parts()):
            message = f'connector "delta" has no values of type {column.type} for column "{column.name}"'
            yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint="Declare it STRING.")


def _check_partitions(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    kinds = {c.name: c.type.name for c in table.physical_columns}
    for name in partition_columns(table):
        if name not in kinds:
            message = f'option "partition-by" names the column "{name}", which table "{table.name}" does not have'
            yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint=hint_of(name, kinds, "Columns"))
        elif kinds[name] in ("BINARY", "ARRAY", "MAP", "STRUCT"):
            message = f'column "{name}" of type {kinds[name]} cannot partition a Delta table'
            yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint="Name a column of a plain type.")
    if kinds and set(kinds) <= set(partition_columns(table)):
        message = f'option "partition-by" names all columns of table "{table.name}"'
        hint = "Files must hold at least one column: leave one out of the option."
        yield Diagnostic(WRONG_COLUMN, message, spans.get("partition-by"), hint=hint)


def _check_start(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS503 and SS504 for options of streams and of finished data that do not go together."""
    given = dict(table.options)
    streams = MONITOR in given
    for key in (VERSION_AS_OF, TIME_AS_OF):
        if key in given and streams:
            message = f'option "{key}" does not go with "{MONITOR}"'
            hint = f"A stream begins at a version with '{START}' = 'version' or 'timestamp'."
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint)
    if VERSION_AS_OF in given and TIME_AS_OF in given:
        message = f'options "{VERSION_AS_OF}" and "{TIME_AS_OF}" do not go together'
        yield Diagnostic(WRONG_VALUE, message, spans.get(TIME_AS_OF), hint="Leave one of them out.")
    for key in (START, REWRITTEN_ROWS, *_STARTS):
        if key in given and not streams:
            message = f'option "{key}" needs "{MONITOR}": it is about streams'
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=f"Add '{MONITOR}' = '10 s' to WITH.")
    mode = (given.get(START) or "snapshot").strip().lower()
    for key, wanted in _STARTS.items():
        if (mode == wanted) != (key in given) and streams:
            message = f"'{START}' = '{wanted}' and the option \"{key}\" belong together"
            hint = f"Write both: '{START}' = '{wanted}', '{key}' = '…'."
            yield Diagnostic(MISSING_OPTION, message, spans.get(key) or spans.get(START), hint=hint)
