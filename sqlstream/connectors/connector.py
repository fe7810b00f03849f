"""The contract of connectors: a frozen description, with functions that read and write streams of rows.

A new connector is one module here with a ``CONNECTOR`` and one name in ``connectors.NAMES``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.datagen_values import inside
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import (
    DURATION,
    MISSING_OPTION,
    NAME,
    NOT_EXECUTED,
    STRING,
    UNKNOWN_OPTION,
    WRONG_VALUE,
    Option,
    OptionKind,
    check_value,
    find,
    hint_of,
    integer,
    one_of,
    parsed,
)
from sqlstream.planner import bad_rows
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, UPSERT, Column, RowKind, Table
from sqlstream.secrets import REFERENCE, Secrets
from sqlstream.types import DataType
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

UNKNOWN_CONNECTOR = "SS501"
WRONG_COLUMN = "SS505"
NOT_A_SOURCE = "SS506"
NOT_A_SINK = "SS507"
PATH_ERROR = "SS508"
MISSING_JAR = "SS509"
INSERTS_ONLY = "SS510"
NOT_A_LOOKUP = "SS512"
NO_VARIABLES = "SS587"

CHANGELOG = Option(
    "changelog-mode", STRING, "The kinds of its rows, such as 'I' or 'I,UA,D'; rows are added only: 'I'."
)
"""An option of every source; the planner reads it."""

ON_ERROR = Option(
    bad_rows.ON_ERROR,
    OptionKind("way", "'fail', 'skip', or 'dead-letter:' and the name of a table", bad_rows.parse_on_error),
    "What happens to rows that cannot be read; not given, they fail the job.",
)
"""Another one."""

EMIT_STRATEGY = Option(
    "scan.watermark.emit.strategy",
    one_of("on-periodic", "on-event"),
    "Either means the same: a watermark passes when a micro-batch ends, behind all its rows.",
)

_IDLE = "Without rows for so long it holds no watermark of a query with several sources back; 0: never."
IDLE_TIMEOUT = Option("source.idle-timeout", DURATION, f"{_IDLE} Else 'table.exec.source.idle-timeout' holds.")

_TOGETHER = "Changes nothing: a micro-batch reads all sources, and their watermarks pass together behind it."
ALIGNMENT = (
    Option("scan.watermark.alignment.group", NAME, _TOGETHER),
    Option("scan.watermark.alignment.max-drift", DURATION, _TOGETHER),
    Option("scan.watermark.alignment.update-interval", DURATION, _TOGETHER),
)

OF_SOURCES = (
    CHANGELOG,
    ON_ERROR,
    EMIT_STRATEGY,
    *ALIGNMENT,
    IDLE_TIMEOUT,
    Option("scan.watermark.idle-timeout", DURATION, "Flink's name of 'source.idle-timeout'."),
)

PARALLELISM = Option(
    "sink.parallelism",
    integer(1),
    "So many tasks write the rows of a micro-batch; rows that update results stay with the tasks that make them.",
    source=False,
    sink=True,
)
"""An option of every sink."""

_NO_SPANS: Mapping[str, Span] = {}


@dataclass(frozen=True)
class Environment:
    """What reading and writing need beside the table.

    ``directory`` is the session's scratch folder, which exists until the session closes. ``job`` tells jobs apart and
    stays the same over restarts; ``resumed`` is True where the job goes on from a checkpoint. ``run`` is the
    checkpoint's own word: numbers of micro-batches begin anew with another one. ``in_order``: the query looks at the
    order of rows, so where Spark mixes the parts of a source they tell theirs (``PARTS``). ``spark_reads``: no source
    tells ``places``. ``after`` is the last micro-batch of the checkpoint that the job goes on from, ``begun`` one
    behind it that was not completed, or the same; ``anew``: it has just been made of a savepoint. ``logs`` is where,
    on this machine, Spark's checkpoint lists what its sources have found; None: elsewhere. ``finished``: sources that
    end are read as one DataFrame that is no stream.
    """

    spark: SparkSession
    directory: Path
    job: str = "job"
    resumed: bool = False
    run: str = "run"
    in_order: bool = False
    spark_reads: bool = False
    after: int | None = None
    begun: int | None = None
    anew: bool = False
    logs: str | None = None
    finished: bool = False

    @property
    def reader(self) -> DataStreamReader | DataFrameReader:
        """Reads files as a stream, or those that are there now (``finished``)."""
        return self.spark.read if self.finished else self.spark.readStream


@dataclass(frozen=True)
class Stay:
    """A job has written to a place after the micro-batch ``since``, up to ``until``; None: it has not left since."""

    since: int
    until: int | None = None


UNTOLD = Stay(-1, -1)
"""For jobs of versions that did not write down where they write: they may have been there."""


Read = Callable[[Environment, Table, tuple[str, ...]], "DataFrame"]
Places = Callable[[Environment, Table, tuple[str, ...]], "DataFrame"]
HasPlaces = Callable[[Environment, Table, tuple[str, ...]], bool]
Write = Callable[[Environment, Table, "DataFrame"], "DataStreamWriter"]
BatchWriter = Callable[["DataFrame", int], None]
WriteBatches = Callable[[Environment, Table], BatchWriter]
Check = Callable[[Table, Mapping[str, Span]], Iterable[Diagnostic]]
Inspect = Callable[[Table, tuple[str, ...]], Iterable[Diagnostic]]
Drop = Callable[[Path, Table], None]
Rename = Callable[[Path, Table, Table], None]
RequireIntact = Callable[[Environment, Table, Stay | None, bool], None]
MakeLookup = Callable[["Environment", Table, Request], LookupSource]


def _inserts_only(table: Table) -> frozenset[RowKind]:
    return APPEND_ONLY


def upserts(table: Table) -> frozenset[RowKind]:
    """The row kinds that a sink takes which replaces rows by the PRIMARY KEY, if its table has one."""
    return UPSERT if table.primary_key else APPEND_ONLY


def declared_or_upserts(table: Table) -> frozenset[RowKind]:
    """What a sink takes that writes down the changes of its ``changelog-mode``, and without one replaces rows by the
    PRIMARY KEY."""
    return upserts(table) if table.changelog == APPEND_ONLY else table.changelog


def all_changes(table: Table) -> frozenset[RowKind]:
    """The row kinds that a sink takes which writes down each change."""
    return ALL_KINDS


def _never(table: Table) -> bool:
    return False


def _no_metadata(table: Table) -> Mapping[str, DataType]:
    return {}


def _at_once(table: Table) -> int | None:
    return None


def _untold(table: Table) -> int | None:
    return None


def _filters_nothing(table: Table, comparison: Comparison) -> bool:
    return False


def _nowhere(table: Table) -> Hashable | None:
    return None


def _keep(directory: Path, table: Table) -> None:
    return None


def _stays(directory: Path, before: Table, after: Table) -> None:
    return None


def _no_check(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    return ()


def _nothing_wrong(table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
    return ()


def _has_no_places(environment: Environment, table: Table, columns: tuple[str, ...]) -> bool:
    return False


@dataclass(frozen=True)
class Connector:
    """A connector as data.

    ``read(environment, table, columns)`` returns a streaming DataFrame with exactly the named physical and metadata
    columns of the table, in that order and of their declared types; a hidden ``__processing_time`` may follow. Where
    the table tolerates bad rows (``planner.bad_rows``), a source that parses records gives these as well, with NULL in
    what could not be read, and the hidden column BAD.
    ``places(environment, table, columns)`` tells where the same rows are in Parquet files, as ``Runtime.places`` says,
    where ``has_places`` of the same is True.
    ``write_batches(environment, table)`` returns a function of a micro-batch and its number, which writes its rows; a
    batch that runs again takes the place of what it wrote before. ``write(environment, table, rows)`` returns the
    writer of a streaming DataFrame, not yet started (the job adds checkpoint, trigger and name), where Spark has a
    streaming sink of its own. Rows have exactly the physical columns of the table;
    those of updating queries have their kind in the column ROW_KIND behind them.
    ``takes_changes(table)``: the kinds of rows that a sink wants, inserts only where nothing is said; without -U it
    replaces rows by the PRIMARY KEY, and where -U comes nevertheless, for there is no other row to come, it deletes.
    ``has_kinds(table)``: where ``Table.changelog`` says more than inserts, ``read`` adds the column ROW_KIND.
    ``bounded(table)`` says whether the source ends by itself. ``check`` finds what single options cannot tell;
    ``ready`` looks, before Spark starts, whether a local source is there. Both get the spans of the options by key.
    ``inspect(table, columns)`` looks, after ``ready``, whether a local source, or lookup table, has the named columns.
    ``poll_ms(table)`` says how often an unbounded source wants to be looked at; None: all the time.
    ``row_count(table)`` says how many rows a source has, where its options tell it.
    ``drop(directory, table)`` removes what the session's scratch folder holds of a table, ``rename`` gives it the name
    of another one. ``truncate(directory, table)`` removes its rows, wherever they are; None: that is not done.
    ``metadata`` are the keys of METADATA columns with their natural types, ``metadata_of(table)`` more of them, which a
    format has.
    ``lookup(environment, table, request)`` returns what answers lookups of the table: the keys, columns and filters of
    the request name its physical columns. ``filters(table, comparison)`` says whether it checks one in the source.
    ``scans``: a request without keys asks ``lookup`` for all rows, which queries over finished data do.
    ``place(table)`` is where a sink keeps the rows of a batch under its number, so that no two sinks of one query may
    share it; None: nowhere that others reach.
    ``require_intact(environment, table, stay, streamed)`` raises an error where a job that goes on would lose rows that
    it has written before, ``stay`` says when (None: not there), or write to the place of somebody else. ``streamed``:
    it writes by ``write``. None: a sink that keeps nothing that could be missed.
    ``require_batch(table, number)`` raises an error where a sink that is written by ``write`` no longer has what it
    keeps of a complete micro-batch; asked once a second.
    ``refused`` are known options that have no effect here, and what to write instead.
    ``variables`` are the keys of options whose values may hold ``${NAME}``, an environment variable; the connector
    looks it up when a job starts (``connectors.secrets.resolved``).
    """

    name: str
    doc: str
    options: tuple[Option, ...] = ()
    read: Read | None = None
    places: Places | None = None
    has_places: HasPlaces = _has_no_places
    write_batches: WriteBatches | None = None
    write: Write | None = None
    takes_changes: Callable[[Table], frozenset[RowKind]] = _inserts_only
    has_kinds: Callable[[Table], bool] = _never
    bounded: Callable[[Table], bool] = _never
    check: Check = _no_check
    ready: Check = _no_check
    inspect: Inspect = _nothing_wrong
    drop: Drop = _keep
    truncate: Drop | None = None
    rename: Rename = _stays
    poll_ms: Callable[[Table], int | None] = _at_once
    row_count: Callable[[Table], int | None] = _untold
    metadata: tuple[tuple[str, DataType], ...] = ()
    metadata_of: Callable[[Table], Mapping[str, DataType]] = _no_metadata
    lookup: MakeLookup | None = None
    filters: Callable[[Table, Comparison], bool] = _filters_nothing
    scans: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    place: Callable[[Table], Hashable | None] = _nowhere
    require_intact: RequireIntact | None = None
    require_batch: Callable[[Table, int], None] | None = None
    variables: tuple[str, ...] = ()

    @property
    def is_source(self) -> bool:
        return self.read is not None

    @property
    def is_lookup(self) -> bool:
        return self.lookup is not None

    @property
    def is_sink(self) -> bool:
        return self.write_batches is not None

    def stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        """The writer of a stream of rows into a table, not yet started."""
        if self.write is not None:
            return self.write(environment, table, self._in_tasks(rows, table))
        return rows.writeStream.foreachBatch(self.batch_writer(environment, table))

    def batch_writer(self, environment: Environment, table: Table) -> BatchWriter:
        """The function that writes one micro-batch of the table."""
        assert self.write_batches is not None, f"{self.name} is no sink"
        write = partial(_write_in_tasks, self.write_batches(environment, table), self._in_tasks, table)
        return partial(_write_secretively, write, secrets_of(table))

    def _in_tasks(self, rows: DataFrame, table: Table) -> DataFrame:
        """Rows that are only added, in as many tasks as the table says; changes keep the order that they have."""
        from sqlstream.udfs.kernel import ROW_KIND  # with pyarrow, which definitions do without

        tasks = self.values(table).get(PARALLELISM.key)
        return rows if tasks is None or ROW_KIND in rows.columns else rows.repartition(tasks)

    def answers(self, table: Table) -> bool:
        """Can rows be looked up in the table? One for streams, too, has an option that says which a table is for."""
        role = find(self.known_options, "role") if self.is_lookup else None
        if role is None:
            return self.is_lookup
        written = table.option("role") or role.default
        return written is None or bool(role.kind.parse(written) == "lookup")

    def values(self, table: Table) -> dict[str, Any]:
        """The options of a valid table as Python values, with the defaults."""
        return parsed(self.known_options, dict(table.options))

    @property
    def known_options(self) -> tuple[Option, ...]:
        own_keys = {o.key for o in self.options}
        of_sources = OF_SOURCES if self.is_source else ()
        of_sinks = (PARALLELISM,) if self.is_sink and PARALLELISM.key not in self.refused else ()
        return (*self.options, *(o for o in (*of_sources, *of_sinks) if o.key not in own_keys))

    def validate(self, table: Table, spans: Mapping[str, Span] = _NO_SPANS) -> tuple[Diagnostic, ...]:
        """Everything that is wrong with the table's options and columns; ``spans`` are those of the options by key."""
        wrong = [*self._wrong_options(table, spans), *self._missing_options(table, spans)]
        wrong += self._wrong_metadata(table)
        return tuple(wrong or self.check(table, spans))

    def _wrong_options(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        for key, value in table.options:
            option = find(self.known_options, key)
            if instead := self.refused.get(key):
                message = f'option "{key}" is not executed yet'
                yield Diagnostic(NOT_EXECUTED, message, spans.get(key), hint=instead)
            elif option is None:
                yield self._unknown_option(key, spans.get(key))
            elif wrong := self._wrong_value(option, key, value, table, spans):
                yield wrong

    def _wrong_value(
        self, option: Option, key: str, value: str, table: Table, spans: Mapping[str, Span]
    ) -> Diagnostic | None:
        span = spans.get(key)
        refused = self._wrong_variable(option, key, value, span)
        return refused or check_value(option, key, value, span) or _missing_field(option, key, table, spans)

    def _wrong_variable(self, option: Option, key: str, value: str, span: Span | None) -> Diagnostic | None:
        """SS587 for a reference that nobody would look up."""
        name = REFERENCE.search(value)
        if name is None or option.key in self.variables:
            return None
        message = f'option "{key}" of connector "{self.name}" takes no environment variable'
        taking = f"Options that take one: {', '.join(self.variables)}." if self.variables else ""
        hint = f"Write the value, or on the command line --param {name[1]}=VALUE. {taking}"
        return Diagnostic(NO_VARIABLES, message, span, hint=hint.strip())

    def _unknown_option(self, key: str, span: Span | None) -> Diagnostic:
        message = f'connector "{self.name}" has no option "{key}"'
        hint = hint_of(key, (o.key for o in self.known_options), "Options")
        return Diagnostic(UNKNOWN_OPTION, message, span, hint=hint)

    def _missing_options(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        for option in self.options:
            if option.required and table.option(option.key) is None:
                message = f'connector "{self.name}" requires the option "{option.key}"'
                hint = f"Add '{option.key}' = '…' to WITH: {option.doc}"
                yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint=hint)

    def _wrong_metadata(self, table: Table) -> Iterable[Diagnostic]:
        keys = {**dict(self.metadata), **self.metadata_of(table)}
        for column in table.columns:
            if column.metadata_key is not None and column.metadata_key not in keys:
                message = f'connector "{self.name}" has no metadata key "{column.metadata_key}"'
                yield Diagnostic(WRONG_COLUMN, message, hint=hint_of(column.metadata_key, keys, "Metadata keys"))


def _write_in_tasks(
    write: BatchWriter, in_tasks: Callable[[DataFrame, Table], DataFrame], table: Table, batch: DataFrame, number: int
) -> None:
    write(in_tasks(batch, table), number)


def _write_secretively(write: BatchWriter, secrets: Secrets, batch: DataFrame, number: int) -> None:
    with hiding(secrets):
        write(batch, number)


def _is_within(path: str, table: Table) -> bool:
    """Whether the path, ``buyer.name``, ``tags.element`` or ``m.key``, leads to what is in a column."""
    within = [(c.name, c.type) for c in table.physical_columns]
    while within:
        name, kind = within.pop()
        if path == name:
            return True
        if path.startswith(f"{name}."):
            within += inside(name, kind)
    return False


def _missing_field(option: Option, key: str, table: Table, spans: Mapping[str, Span]) -> Diagnostic | None:
    """``fields.#.…`` must name a column of the table."""
    word = option.word(key)
    names = [c.name for c in table.physical_columns]
    if word is None or not option.key.startswith("fields.") or word in names or _is_within(word, table):
        return None
    message = f'option "{key}" names the column "{word}", which table "{table.name}" does not have'
    return Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint_of(word, names, "Columns"))


def columns_of(table: Table, names: Iterable[str]) -> tuple[Column, ...]:
    """The columns with the given names, in the order given."""
    by_name = {c.name: c for c in table.columns}
    return tuple(by_name[name] for name in names)


def folder_of_batch(folder: str, number: int) -> str:
    """The folder for the files of a micro-batch; a batch that runs again overwrites its own folder and no other.

    Readers see one more partition column, which nobody selects.
    """
    return f"{folder.rstrip('/')}/sqlstream_batch={number}"
