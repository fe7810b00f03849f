"""Tables of lakes as connectors: what Delta and Iceberg have in common as sources, tables for lookups, and sinks."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, LookupTable, RecoverableSink, SplitSource, UpsertSink
from sqlstream.connectors.environment import Environment, SinkWriteRange
from sqlstream.connectors.files.filesystem import NOT_A_KEY, RELOAD
from sqlstream.connectors.files.tables import BYTES_PER_TRIGGER, MOST_PER_TRIGGER
from sqlstream.connectors.lakes.commits import COMMIT_TIMEOUT, CommitRetry
from sqlstream.connectors.lakes.versions import RENAMED_COLUMNS
from sqlstream.connectors.stored_tables import MaintainedTable, ReplacingSink
from sqlstream.connectors.table_options import REPLACED
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError, UnsupportedError
from sqlstream.options import (
    BOOLEAN,
    DURATION,
    MISSING_OPTION,
    SIZE,
    WRONG_VALUE,
    Option,
    OptionKind,
    integer,
    one_of,
)
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, TIME_AS_OF, VERSION_AS_OF, Table
from sqlstream.udfs.files.parquet import TableFiles
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources.files import COMPARED, keys_can_be

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sqlstream.connectors.lakes.versions import LakeSettings
    from sqlstream.udfs.kafka.rows import SplitFormat

MONITOR = "source.monitor-interval"
START, START_VERSION, START_TIME = "scan.startup.mode", "scan.startup.version", "scan.startup.timestamp"
REWRITTEN_ROWS = "source.rewritten-rows"


def _time(text: str) -> str:
    time = datetime.fromisoformat(text.strip())
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).isoformat()


TIME = OptionKind("time", "a time such as '2024-01-31 12:00:00.123', in UTC unless it has a zone", _time)

SOURCE_OPTIONS = (
    Option(MONITOR, DURATION, "Look for new versions this often, for ever; without it one version is all."),
    Option(VERSION_AS_OF, integer(), "Read this version of the table; without it the newest one."),
    Option(TIME_AS_OF, TIME, "Read the version that was the newest one at this time."),
    Option(
        START,
        one_of("snapshot", "latest", "earliest", "version", "timestamp"),
        "Where a stream begins: with all rows that are there, with what comes next, with the oldest version of the "
        "log, with a version, or at a time.",
        "snapshot",
    ),
    Option(START_VERSION, integer(), "The first version that is read, for the mode version."),
    Option(START_TIME, TIME, "What was committed at this time or later is read, for the mode timestamp."),
    Option(
        REWRITTEN_ROWS,
        one_of("fail", "skip"),
        "What a stream of rows does where a version changes or removes some: the job fails, or goes on without that "
        "version. With 'changelog-mode' = 'I,UB,UA,D' all changes are read.",
        "fail",
    ),
    Option(
        RENAMED_COLUMNS,
        one_of("fail", "follow"),
        "What a stream, or a lookup table that is loaded again, does where another column has the name of one by now: "
        "it fails, or goes on with the columns that have the names.",
        "fail",
    ),
    Option(
        MOST_PER_TRIGGER, integer(1), "Read at most so many files in one micro-batch, but all changes of a version."
    ),
    Option(BYTES_PER_TRIGGER, SIZE, "Read at most so many bytes in one micro-batch, but always one file.", "512 mb"),
)
SINK_OPTIONS = (
    Option(
        "create-table", BOOLEAN, "Create the table when a job starts, where there is none.", "true", source=False,
        sink=True,
    ),
    Option(
        "sink.schema-evolution",
        one_of("none", "add-columns"),
        "Whether columns that the table in the lake lacks are added to it when a job starts.",
        "none", source=False, sink=True,
    ),
    Option("sink.compact-every", integer(1), "Put small files together after so many micro-batches.",
           source=False, sink=True),
    Option(
        COMMIT_TIMEOUT, DURATION, "How long a commit is repeated that other writers or the store prevent; then the job "
        "fails.", "2 min", source=False, sink=True,
    ),
)  # fmt: skip

_STARTS = {START_VERSION: "version", START_TIME: "timestamp"}


@dataclass(frozen=True)
class Upkeep:
    """What looks after the files of a table format. Both are given the name of the table in SQL and where it is, as
    ``LakeTable.place`` has it; ``expire`` also the time before which versions are forgotten, None for the table's own.
    """

    compact: Callable[[str, str, Mapping[str, str], CommitRetry], None]
    expire: Callable[[str, str, Mapping[str, str], datetime | None, CommitRetry], None]


class LakeTable(SplitSource, LookupTable, UpsertSink, RecoverableSink, ReplacingSink, MaintainedTable):
    """A connector of a table format. ``not_stored``: types that it has no values of."""

    prunes = True
    not_stored: ClassVar[tuple[str, ...]] = ("VARIANT", "INTERVAL")

    @abstractmethod
    def place(self, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """Where a table with these options is: ``LakeSettings.location`` and ``storage``."""

    # --- checks ---------------------------------------------------------------------------------------------------

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from self._check_types(table, spans)
        yield from _check_start(table, spans)
        if table.changelog not in (APPEND_ONLY, ALL_KINDS):
            message = f"option \"changelog-mode\" of connector \"{self.name}\" is 'I' or 'I,UB,UA,D'"
            hint = "Its changes are of all kinds; leave the option out to read rows that are added."
            yield Diagnostic(WRONG_VALUE, message, spans.get("changelog-mode"), hint=hint)

    def _check_types(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        for column in table.physical_columns:
            if any(member.name in self.not_stored for member in column.type.parts()):
                message = f'connector "{self.name}" has no values of type {column.type} for column "{column.name}"'
                yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint="Declare it STRING.")

    def bounded(self, table: Table) -> bool:
        return table.option(MONITOR) is None

    def poll_ms(self, table: Table) -> int | None:
        interval: int | None = self.values(table)[MONITOR]
        return interval

    def has_kinds(self, table: Table) -> bool:
        return table.changelog != APPEND_ONLY

    def ready(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        from sqlstream.connectors.lakes.logs import log_of

        try:
            log_of(self.settings(table)).first_position()
        except SqlStreamError as error:
            span = spans.get("path") or spans.get("table-name")
            return [Diagnostic(d.code, d.message, span, d.detail, d.hint) for d in error.diagnostics]
        return ()

    def inspect(self, table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
        from sqlstream.connectors.lakes.logs import log_of

        try:
            log_of(self.settings(table, columns))
        except SqlStreamError as error:
            return error.diagnostics
        return ()

    def settings(
        self, table: Table, columns: tuple[str, ...] = (), filters: tuple[Comparison, ...] = ()
    ) -> LakeSettings:
        """What readers need to know of a table, with the values of environment variables."""
        from sqlstream.connectors.lakes.versions import LakeSettings

        values = self.resolved_values(table)
        kinds = {c.name: c.type.ddl() for c in table.physical_columns}
        at = values[START_VERSION] if values[START] == "version" else values[START_TIME]
        version = values[VERSION_AS_OF]
        return LakeSettings(
            self.name,
            table.name,
            *self.place(values),
            tuple((name, kinds[name]) for name in columns),
            values[START],
            None if at is None else str(at),
            values[TIME_AS_OF] if version is None else version,
            self.bounded(table),
            self.has_kinds(table),
            values[REWRITTEN_ROWS] == "skip",
            values[MOST_PER_TRIGGER],
            values[BYTES_PER_TRIGGER],
            values[RENAMED_COLUMNS] == "follow",
            filters=filters,
        )

    # --- source ---------------------------------------------------------------------------------------------------

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        settings = self.settings(table, columns, environment.filters)
        return on_spark.lake_source.read(environment, table, columns, settings)

    @abstractmethod
    def is_local(self, table: Table) -> bool:
        """True where the files of the table are on this machine."""

    def has_file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> bool:
        """Only local files: an exchange does not know how to open others. Changes need a kind in each row."""
        return self.is_local(table) and not self.has_kinds(table)

    def record_format(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> SplitFormat:
        """A table on this machine may have files elsewhere."""
        from sqlstream.connectors.lakes.logs import StoredFiles

        return TableFiles(StoredFiles(self.settings(table, columns)))

    def file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        return on_spark.lake_source.file_splits(environment, self.settings(table, columns, environment.filters))

    def filters(self, table: Table, comparison: Comparison) -> bool:
        kinds = {c.name: c.type.name for c in table.physical_columns}
        return kinds.get(comparison.column) in COMPARED

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        from sqlstream.connectors.lakes.logs import log_of
        from sqlstream.connectors.lakes.lookup import LakeSource

        kinds = {c.name: c.type for c in table.physical_columns}
        names = [*request.keys, *request.columns, *((f.column, kinds[f.column]) for f in request.filters)]
        _require_keys(request)
        columns = tuple(dict(names).items())
        values = self.values(table)
        settings = replace(self.settings(table, tuple(dict(columns))), bounded=True, changes=False)
        log = log_of(settings)
        version, interval = log.first_position().version, values[RELOAD]
        if not settings.follows_names:
            settings = replace(settings, bound=log.bound())
        return LakeSource(table.name, request, settings.to_json(), columns, version, interval)

    # --- sink -----------------------------------------------------------------------------------------------------

    def replacing(self, table: Table, partition: Mapping[str, str | None]) -> Table:
        return replace(table, options=(*table.options, (REPLACED, json.dumps(partition))))

    @abstractmethod
    def newest_epoch(self, table: Table, run: str) -> int | None:
        """The number of the newest micro-batch of a checkpoint (``Environment.run``) that the table has; None if it has
        none.
        """

    def forgotten_until(self, table: Table) -> datetime | None:
        """The time of the last commit of a checkpoint of which the table does not know any more what it has written;
        None if there is none.
        """
        return None

    def require_intact(
        self, environment: Environment, table: Table, written: SinkWriteRange | None, streamed: bool
    ) -> None:
        """Checks that the checkpoint is not an older copy of itself: it would give other rows the numbers of
        micro-batches that the table has, and those would be taken for written. Nor may it be one that the table has
        forgotten: what it has written would be written again.
        """
        from sqlstream.connectors.lakes.versions import OLDER_CHECKPOINT

        newest = self.newest_epoch(table, environment.run) if environment.resumed else None
        begun = -1 if environment.begun is None else environment.begun
        if newest is None and begun >= 0 and environment.resumed and not environment.anew and written is not None:
            self._require_remembered(environment, table)
        if newest is None or newest <= begun:
            return
        known = "none" if begun < 0 else f"no more than {begun}"
        message = (
            f'{self.name.capitalize()} table "{table.name}" has micro-batch {newest} of this checkpoint, which has '
            f"begun {known}"
        )
        detail = "The checkpoint is older than the table: what it writes next would be taken for written."
        hint = (
            "Restore the newer checkpoint; or start from this one in a new directory "
            "('execution.state-recovery.path'), which writes the rows since then again."
        )
        raise ConnectorError(OLDER_CHECKPOINT, message, detail=detail, hint=hint)

    def _require_remembered(self, environment: Environment, table: Table) -> None:
        from sqlstream.connectors.lakes.versions import OLDER_CHECKPOINT, START_AGAIN

        until, begun_at = self.forgotten_until(table), environment.begun_at
        if until is None or (begun_at is not None and begun_at > until):
            return
        message = (
            f'{self.name.capitalize()} table "{table.name}" does not know whether it has micro-batch '
            f"{environment.begun} of this checkpoint: it has forgotten checkpoints that wrote until "
            f"{until:%Y-%m-%d %H:%M} UTC"
        )
        detail = "They are forgotten where many newer ones have written into the table. Rows might be written twice."
        hint = (
            f"Look which rows are there; then {START_AGAIN[0].lower()}{START_AGAIN[1:]}, or from this one "
            "('execution.state-recovery.path') where the rows of its last micro-batch are missing."
        )
        raise ConnectorError(OLDER_CHECKPOINT, message, detail=detail, hint=hint)

    # --- upkeep ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def upkeep(self) -> Upkeep:
        """What puts files together and forgets versions."""

    def compact(self, table: Table) -> None:
        values = self.resolved_values(table)
        self.upkeep().compact(table.name, *self.place(values), CommitRetry(values[COMMIT_TIMEOUT]))

    def expire_snapshots(self, table: Table, before: datetime | None) -> None:
        values = self.resolved_values(table)
        self.upkeep().expire(table.name, *self.place(values), before, CommitRetry(values[COMMIT_TIMEOUT]))


def _require_keys(request: Request) -> None:
    for name, kind in request.keys:
        if not keys_can_be(kind):
            message = f'column "{name}" of type {kind.ddl()} cannot be the key of a lookup in files'
            raise UnsupportedError(NOT_A_KEY, message, hint="Compare a column of a plain type, a STRING for instance.")


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
    if RENAMED_COLUMNS in given and not streams and RELOAD not in given:
        message = f'option "{RENAMED_COLUMNS}" needs "{MONITOR}" or "{RELOAD}": it is about newer versions'
        yield Diagnostic(MISSING_OPTION, message, spans.get(RENAMED_COLUMNS), hint=f"Add '{MONITOR}' = '10 s' to WITH.")
    mode = (given.get(START) or "snapshot").strip().lower()
    for key, wanted in _STARTS.items():
        if (mode == wanted) != (key in given) and streams:
            message = f"'{START}' = '{wanted}' and the option \"{key}\" belong together"
            hint = f"Write both: '{START}' = '{wanted}', '{key}' = '…'."
            yield Diagnostic(MISSING_OPTION, message, spans.get(key) or spans.get(START), hint=hint)
