"""What a connector is: a description of its options, and what it does as a source, a sink or a table for lookups.

A connector is a class without state that extends one or several of ``Source``, ``Sink`` and ``LookupTable``. Smaller
base classes add what few connectors can do: ``SplitSource``, ``StreamSink``, ``RecoverableSink``, and those of
``stored_tables``. ``docs/connectors_of_your_own.md`` walks through one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, final

from sqlstream.connectors.environment import Environment, SinkWriteRange
from sqlstream.connectors.secrets import resolved, secrets_of
from sqlstream.connectors.table_options import PARALLELISM, REPLACED, SOURCE_OPTIONS
from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.options import (
    MISSING_OPTION,
    NOT_EXECUTED,
    PATH,
    UNKNOWN_OPTION,
    WRONG_VALUE,
    Option,
    check_value,
    find,
    from_here,
    hint_of,
    parsed,
)
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, OF_METADATA, UPSERT, Column, RowKind, Table
from sqlstream.secrets import REFERENCE, Secrets
from sqlstream.types import DataType
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sqlstream.udfs.kafka.rows import SplitFormat

UNKNOWN_CONNECTOR = "SS501"
WRONG_COLUMN = "SS505"
NOT_A_SOURCE = "SS506"
NOT_A_SINK = "SS507"
PATH_ERROR = "SS508"
MISSING_JAR = "SS509"
INSERTS_ONLY = "SS510"
NOT_A_LOOKUP = "SS512"
NO_VARIABLES = "SS587"
NOT_REAL_TIME = "SS369"

REAL_TIME_HINT = (
    "It reads and writes topics ('connector' = 'kafka', 'kafka.client' = 'spark'). For other tables: "
    "SET 'execution.latency' = 'low'."
)

_NO_SPANS: Mapping[str, Span] = MappingProxyType({})


@dataclass(frozen=True)
class SharedName:
    """A name that no two sinks of one query may have, whatever their connectors are, because they would write in the
    name of each other. ``what``: the option, for messages; ``place``: what else must be equal.
    """

    what: str
    hint: str
    place: Hashable = None


BatchWriter = Callable[["DataFrame", int], None]
"""Writes the rows of a micro-batch, given with its number."""


def upserts(table: Table) -> frozenset[RowKind]:
    """Returns the row kinds of a sink that replaces rows by PRIMARY KEY: +I, +U and -D if the table has a key, else
    inserts only.
    """
    return UPSERT if table.primary_key else APPEND_ONLY


def declared_or_upserts(table: Table) -> frozenset[RowKind]:
    """Returns the row kinds in the option ``changelog-mode``. Without the option: +I, +U and -D if the table has a
    PRIMARY KEY, else inserts only.
    """
    return upserts(table) if table.changelog == APPEND_ONLY else table.changelog


# --- the base class -------------------------------------------------------------------------------------------


class Connector(ABC):
    """Base class of connectors. Statements are checked against its attributes, and shell and editors complete from
    them.

    * ``name``: the value of ``'connector'`` in WITH; ``doc``: one sentence for SHOW CONNECTORS and the documentation.
    * ``options``: all keys of WITH, except those that every source and sink has (``SOURCE_OPTIONS``, ``PARALLELISM``).
    * ``refused``: keys that are known but not supported here, each with a hint what to write instead.
    * ``variables``: keys of options whose values may contain ``${NAME}``, an environment variable that
      ``resolved_values`` replaces.
    """

    name: ClassVar[str]
    doc: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    refused: ClassVar[Mapping[str, str]] = MappingProxyType({})
    variables: ClassVar[tuple[str, ...]] = ()

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        """Checks what depends on several options or columns, when the table is created. Returns the errors as
        diagnostics.

        ``spans``: where each option is in the SQL text, by key, with ``'connector'`` among them.
        """
        return ()

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        """Returns the METADATA columns that the connector offers, as a mapping from key to default type."""
        return {}

    @final
    def values(self, table: Table) -> dict[str, Any]:
        """Returns the options of a checked table as parsed Python values, with defaults. None: the option has neither
        value nor default. Relative paths begin at the directory of this process.
        """
        given = {key: value for key, value in table.options if not key.startswith(OF_METADATA) and key != REPLACED}
        return self._from_here(parsed(self.known_options, given))

    @final
    def resolved_values(self, table: Table) -> dict[str, Any]:
        """Returns ``values`` with each ``${NAME}`` replaced by the environment variable, as it is when a job starts.

        Raises ConnectorError SS560 if a variable is not set.
        """
        return self._from_here(resolved(self.values(table)))

    def _from_here(self, values: dict[str, Any]) -> dict[str, Any]:
        """Java and the processes of tasks stay in the directory where Spark was started, wherever this process goes."""
        keys = (option.key for option in self.known_options if option.kind is PATH)
        return values | {key: from_here(values[key]) for key in keys if values[key] is not None}

    @final
    @property
    def known_options(self) -> tuple[Option, ...]:
        """Returns the connector's own options and those that every source or sink has."""
        own_keys = {o.key for o in self.options}
        of_sources = SOURCE_OPTIONS if isinstance(self, Source) else ()
        of_sinks = (PARALLELISM,) if isinstance(self, Sink) and PARALLELISM.key not in self.refused else ()
        return (*self.options, *(o for o in (*of_sources, *of_sinks) if o.key not in own_keys))

    @final
    def validate(self, table: Table, spans: Mapping[str, Span] = _NO_SPANS) -> tuple[Diagnostic, ...]:
        """Checks the options and columns of a table and returns all errors as diagnostics.

        ``spans``: where each option is in the SQL text, by key.
        """
        wrong = [*self._wrong_options(table, spans), *self._missing_options(table, spans)]
        wrong += self._wrong_metadata(table)
        return tuple(wrong or self.check(table, spans))

    def refuses_real_time(self, table: Table, *, written: bool) -> Diagnostic | None:
        """Why rows of a table cannot be read, or ``written``, one by one ('execution.latency' = 'real-time'); None
        where they can.
        """
        verb = "writes" if written else "reads"
        message = f'real-time mode {verb} no tables of the connector "{self.name}"'
        return Diagnostic(NOT_REAL_TIME, message, hint=REAL_TIME_HINT)

    def _wrong_options(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        for key, value in table.options:
            option, span = find(self.known_options, key), spans.get(key)
            if instead := self.refused.get(key):
                yield Diagnostic(NOT_EXECUTED, f'option "{key}" is not executed yet', span, hint=instead)
            elif option is None:
                message = f'connector "{self.name}" has no option "{key}"'
                hint = hint_of(key, (o.key for o in self.known_options), "Options")
                yield Diagnostic(UNKNOWN_OPTION, message, span, hint=hint)
            elif wrong := (
                self._wrong_variable(option, key, value, span)
                or check_value(option, key, value, span)
                or _missing_field(option, key, table, span)
            ):
                yield wrong

    def _wrong_variable(self, option: Option, key: str, value: str, span: Span | None) -> Diagnostic | None:
        """SS587 for ``${NAME}`` in an option that is not among ``variables``."""
        name = REFERENCE.search(value)
        if name is None or option.key in self.variables:
            return None
        message = f'option "{key}" of connector "{self.name}" takes no environment variable'
        taking = f"Options that take one: {', '.join(self.variables)}." if self.variables else ""
        hint = f"Write the value, or on the command line --param {name[1]}=VALUE. {taking}"
        return Diagnostic(NO_VARIABLES, message, span, hint=hint.strip())

    def _missing_options(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        for option in self.options:
            if option.required and table.option(option.key) is None:
                message = f'connector "{self.name}" requires the option "{option.key}"'
                hint = f"Add '{option.key}' = '…' to WITH: {option.doc}"
                yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint=hint)

    def _wrong_metadata(self, table: Table) -> Iterable[Diagnostic]:
        keys = self.metadata(table)
        for column in table.columns:
            if column.metadata_key is not None and column.metadata_key not in keys:
                message = f'connector "{self.name}" has no metadata key "{column.metadata_key}"'
                yield Diagnostic(WRONG_COLUMN, message, hint=hint_of(column.metadata_key, keys, "Metadata keys"))
            elif column.metadata_key is not None and not _converts(kind := keys[column.metadata_key], column.type):
                own = f'column "{column.name}" of type {column.type}'
                message = f'metadata "{column.metadata_key}" is of type {kind}, which {own} does not take'
                hint = f"Declare the column {kind}, and convert it in a computed column."
                yield Diagnostic(WRONG_COLUMN, message, hint=hint)


_CONVERTED = (
    frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}),
    frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}),
)
"""Types of which each is converted to each other. A TIMESTAMP also is the number of its seconds since 1970, as CAST has
it; as in Flink, no number is a time.
"""


def _converts(source: DataType, target: DataType) -> bool:
    """Whether values of metadata can be those of a column of another type."""
    if source.inner or target.inner:
        return source.name == target.name and all(map(_converts, source.inner, target.inner))
    names = {source.name, target.name}
    is_seconds = source.name == "TIMESTAMP" and target.is_numeric
    return len(names) == 1 or "STRING" in names or is_seconds or any(names <= types for types in _CONVERTED)


def _is_within(path: str, table: Table) -> bool:
    """Whether the path, such as ``buyer.name``, ``tags.element`` or ``m.key``, names a part of a column."""
    within = [(c.name, c.type) for c in table.physical_columns]
    while within:
        name, kind = within.pop()
        if path == name:
            return True
        if path.startswith(f"{name}."):
            within += nested_fields(name, kind)
    return False


def nested_fields(path: str, type_: DataType) -> list[tuple[str, DataType]]:
    """Returns pairs of path and type for the fields nested directly in a type; an empty list for types without fields.

    ``path``: the path of the type itself. As in Flink, those of its fields are ``path.name`` in a STRUCT,
    ``path.element`` in an ARRAY, ``path.key`` and ``path.value`` in a MAP.
    """
    match type_:
        case DataType("STRUCT", members):
            return [(f"{path}.{member[0]}", member[1]) for member in members if isinstance(member, tuple)]
        case DataType("ARRAY", (DataType() as element,)):
            return [(f"{path}.element", element)]
        case DataType("MAP", (DataType() as key, DataType() as value)):
            return [(f"{path}.key", key), (f"{path}.value", value)]
    return []


def _missing_field(option: Option, key: str, table: Table, span: Span | None) -> Diagnostic | None:
    """SS504 where ``fields.#.…`` names no column of the table."""
    word = option.word(key)
    names = [c.name for c in table.physical_columns]
    if word is None or not option.key.startswith("fields.") or word in names or _is_within(word, table):
        return None
    message = f'option "{key}" names the column "{word}", which table "{table.name}" does not have'
    return Diagnostic(WRONG_VALUE, message, span, hint=hint_of(word, names, "Columns"))


# --- sources --------------------------------------------------------------------------------------------------


class Source(Connector):
    """A connector whose tables can be read by queries.

    ``prunes``: it is also a ``LookupTable``, and its ``read`` looks at the filters of the environment.
    """

    prunes: ClassVar[bool] = False

    @abstractmethod
    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Returns a streaming DataFrame with the named physical and metadata columns, in that order, with their
        declared types.

        Hidden columns may follow: ``__processing_time``, and ROW_KIND if ``has_kinds``. If the table tolerates bad
        rows (``planner.bad_rows``), a source that parses records also returns the bad ones, with NULL for values that
        it could not read and a description of the error in the hidden column BAD.
        """

    def bounded(self, table: Table) -> bool:
        """True where the table's input ends, so that a query that reads it can finish."""
        return False

    def has_kinds(self, table: Table) -> bool:
        """True where the source knows the kind of each row. ``read`` then adds the column ROW_KIND to tables whose
        changelog contains more than inserts.
        """
        return False

    def ready(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        """Checks before Spark starts that the data of a local source exists. Returns the errors as diagnostics."""
        return ()

    def no_text(self, table: Table) -> SqlStreamError | None:
        """Looks for a STRING of the table that is not UTF-8, where Spark has read one, and returns the error with its
        place; None where there is none, or nobody knows.
        """
        return None

    def inspect(self, table: Table, columns: tuple[str, ...]) -> Iterable[Diagnostic]:
        """Checks that the data of a local source has the named columns. Returns the errors as diagnostics; called
        after ``ready``.
        """
        return ()

    def poll_ms(self, table: Table) -> int | None:
        """How often the source looks for new rows, in milliseconds; None: continuously."""
        return None

    def out_of_order_ms(self, table: Table, column: str) -> int | None:
        """For SOURCE_WATERMARK(): by how much the times in ``column`` may be before those of earlier rows at most, in
        milliseconds; None where the source does not know.
        """
        return None

    def row_count(self, table: Table) -> int | None:
        """How many rows the source produces in total, if its options determine it; else None."""
        return None


class SplitSource(Source):
    """A source of files or messages that the tasks of the exchange can read themselves, which is faster than to hand
    rows to Spark.
    """

    @abstractmethod
    def has_file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> bool:
        """True where ``file_splits`` can be called instead of ``read`` for this table and these columns."""

    @abstractmethod
    def file_splits(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Returns a streaming DataFrame of the file splits to read, or of ranges of messages.
        ``planner.lowering.runtime.Runtime.places`` describes its columns.
        """

    def record_format(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> SplitFormat | None:
        """Returns how tasks read the records of the files of ``file_splits``, or the messages; None for Parquet
        files."""
        return None


# --- sinks ----------------------------------------------------------------------------------------------------


class Sink(Connector):
    """A connector whose tables can be written by INSERT."""

    discards_rows: ClassVar[bool] = False
    """True where no row is kept, so that tasks that compute a query need not hand its rows to Spark."""

    @abstractmethod
    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """Returns a function that writes the rows of one micro-batch. It is requested once, when a job starts.

        The rows have exactly the physical columns of the table, and in updating queries also ROW_KIND. A micro-batch
        that fails runs again with the same number; its rows must then replace those of the first attempt.
        """

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        """Returns the row kinds that the sink accepts; by default inserts only.

        A sink without ``-U`` replaces rows by PRIMARY KEY. It receives ``-U`` only where no other row of the key
        follows, and must then delete the row.
        """
        return APPEND_ONLY

    def location(self, table: Table) -> Hashable | None:
        """Returns a value that identifies where rows are stored, such as a path. Two sinks of one query must not have
        equal locations.

        None where sinks may share a location, because what they store does not depend on the number of the micro-batch.
        A ``SharedName`` is compared with those of other connectors, too.
        """
        return None

    def bytes_of_batch(self, table: Table, number: int, begin_ms: int) -> int | None:
        """Returns the bytes that micro-batch ``number``, which is complete and began at ``begin_ms``, has stored; None
        where they are not known, or were added to ``Environment.written``. It is called where metrics are on.
        """
        return None

    def stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        """Returns a writer for a streaming DataFrame that is not yet started: the job adds checkpoint, trigger and
        name.
        """
        return rows.writeStream.foreachBatch(self.batch_writer(environment, table))

    @final
    def batch_writer(self, environment: Environment, table: Table) -> BatchWriter:
        """Returns the function of ``write_batches``, wrapped for the job.

        The wrapper distributes inserted rows over ``sink.parallelism`` tasks and removes the table's secrets from
        error messages.
        """
        return partial(_write_batch, self.write_batches(environment, table), self._in_tasks, table, secrets_of(table))

    def _in_tasks(self, rows: DataFrame, table: Table) -> DataFrame:
        """Inserted rows, in as many tasks as the table says; changes keep the order that they have."""
        tasks = self.values(table).get(PARALLELISM.key)
        return rows if tasks is None or ROW_KIND in rows.columns else rows.repartition(tasks)


def _write_batch(
    write: BatchWriter,
    in_tasks: Callable[[DataFrame, Table], DataFrame],
    table: Table,
    secrets: Secrets,
    batch: DataFrame,
    number: int,
) -> None:
    with hiding(secrets):
        write(in_tasks(batch, table), number)


class ChangelogSink(Sink):
    """A sink that accepts rows of all kinds, because it stores each change as a separate row."""

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        return ALL_KINDS


class UpsertSink(Sink):
    """A sink that replaces rows by PRIMARY KEY. Without a PRIMARY KEY it only inserts."""

    some_keep_columns: ClassVar[bool] = False
    """Whether tables can keep the values of columns that are not written."""

    def keeps_columns(self, table: Table) -> bool:
        """True where INSERT into some columns leaves the other columns of an existing row unchanged. The sink is then
        given a table with only the written columns.
        """
        return self.some_keep_columns

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        return upserts(table)


class StreamSink(Sink):
    """A sink that Spark itself can write. It is used for queries with no other sink and no side output."""

    @abstractmethod
    def write_stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        """Returns Spark's writer of the rows, which is not yet started: the job adds checkpoint, trigger and name."""

    def stream(self, environment: Environment, table: Table, rows: DataFrame) -> DataStreamWriter:
        return self.write_stream(environment, table, self._in_tasks(rows, table))


class RecoverableSink(Sink):
    """A sink that is checked before a job continues from its checkpoint, because the job needs the rows that it stored
    earlier.
    """

    @abstractmethod
    def require_intact(
        self, environment: Environment, table: Table, written: SinkWriteRange | None, streamed: bool
    ) -> None:
        """Raises an error where a continued job would lose rows that it has written, or would mix its rows with those
        of another job.

        ``written``: the micro-batches that this job has written to the location; None if none. ``streamed``: the job
        writes by ``write_stream`` and not by ``write_batches``.
        """

    def require_batch(self, table: Table, number: int) -> None:
        """Raises an error where the rows of micro-batch ``number``, which ``write_stream`` has completed, are missing.

        It is called once a second while the job runs.
        """


# --- lookups --------------------------------------------------------------------------------------------------


class LookupTable(Connector):
    """A connector that finds rows by key, for lookup joins (FOR SYSTEM_TIME AS OF).

    ``scans``: it also answers a request without keys, with all rows, so that queries over finished data can read the
    table.
    """

    scans: ClassVar[bool] = False

    @abstractmethod
    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        """Returns the object that answers lookup requests. It is created once, when a job starts.

        The keys, columns and filters in ``request`` are physical columns of the table.
        """

    def filters(self, table: Table, comparison: Comparison) -> bool:
        """True where the source itself evaluates this comparison if it is among the filters of a request."""
        return False

    @final
    def answers(self, table: Table) -> bool:
        """True where this table can be used for lookups. Connectors that are also sources have the option ``role`` to
        choose that.
        """
        role = find(self.known_options, "role")
        if role is None:
            return True
        written = table.option("role") or role.default
        return written is None or bool(role.kind.parse(written) == "lookup")


# --- for several connectors -----------------------------------------------------------------------------------


def columns_of(table: Table, names: Iterable[str]) -> tuple[Column, ...]:
    """Returns the columns with the given names, in the order of the names."""
    by_name = {c.name: c for c in table.columns}
    return tuple(by_name[name] for name in names)


def folder_of_batch(folder: str, number: int) -> str:
    """Returns the path of the subfolder for one micro-batch. A repeated micro-batch thus overwrites only its own
    files.

    Readers see the folder's name as an additional partition column, which no query selects.
    """
    return f"{folder.rstrip('/')}/sqlstream_batch={number}"
