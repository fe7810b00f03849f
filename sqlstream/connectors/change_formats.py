"""Formats of change messages: ``debezium-json``, ``canal-json``, ``maxwell-json``, ``ogg-json``, and
``debezium-avro-confluent``.

Messages, options and metadata are those of Flink's formats of these names. A format is data: which field of the
envelope has the operation, and which ones have the rows. ``change_messages`` reads and writes by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from sqlstream.connectors.formats import json_options
from sqlstream.connectors.schema_formats import DEBEZIUM_AVRO, registry_options
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import BOOLEAN, PATTERN, WRONG_VALUE, Option, one_of
from sqlstream.planner.catalog import APPEND_ONLY, Column, RowKind, Table
from sqlstream.types import DataType, parse_type

VALUE = "value."
"""The prefix of a format's metadata keys in Flink's tables of Kafka; optional here."""


class Operation(Enum):
    """What a change message does to a row. SKIPPED: nothing, because it reports a statement such as CREATE TABLE."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    SKIPPED = "skipped"


class Instant(NamedTuple):
    """How a field of messages is read as a time alone: parsed as the type ``read``, of a STRUCT the field ``member``.
    ``unit``: it is a number, which counts so many microseconds since 1970.
    """

    read: str
    unit: int | None = None
    member: str | None = None


@dataclass(frozen=True)
class Metadata:
    """A METADATA column that a change format offers.

    * ``path``: the field of the message that it is read from; ``read``: the type that this field is parsed as.
    * ``type``: the default type of the column; ``sql``: Spark SQL that converts the parsed field (``{}``) into it.
    * ``instant``: the same for times, where no Spark is.
    """

    path: str
    read: str
    type: DataType
    sql: str = "{}"
    instant: Instant | None = None


@dataclass(frozen=True)
class ChangeFormat:
    """The layout of change messages in one format, such as Debezium's.

    * ``operation``: the field that says what the message does; ``operations``: its possible values and their meaning.
    * ``written``: the values of that field that sinks write, as a pair: for inserted rows and for retracted rows.
    * ``after``, ``before``: the fields with the new and the old row.
    * ``old``: True where the field ``before`` has only the columns that an update changed, and a deleted row is in
      ``after``.
    * ``lists``: True where both fields are lists of rows.
    * ``ddl``: a boolean field that is true for statements that change no rows, such as CREATE TABLE.
    * ``include``: from option to field: a message is skipped if the field does not match the option's regular
      expression.
    """

    name: str
    operation: str
    operations: Mapping[str, Operation]
    written: tuple[str, str]
    after: str = "after"
    before: str = "before"
    old: bool = False
    lists: bool = False
    ddl: str | None = None
    include: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Metadata] = field(default_factory=dict)
    options: tuple[Option, ...] = ()

    def key(self, name: str) -> str:
        """Returns the full key of the format's option ``name``, such as ``debezium-json.schema-include``."""
        return f"{self.name}.{name}"


_STRING, _TIMESTAMP = DataType("STRING"), DataType("TIMESTAMP")
_STRINGS = parse_type("ARRAY<STRING>")
_MILLIS, _SOURCE_MILLIS = "timestamp_millis({})", "timestamp_millis(bigint({}.ts_ms))"
_SECONDS, _TEXT = "timestamp_seconds({})", "try_cast({} AS TIMESTAMP)"
_OF_MILLIS, _OF_SECONDS, _OF_TEXT = Instant("BIGINT", 1000), Instant("BIGINT", 1_000_000), Instant("TIMESTAMP")
_OF_SOURCE = Instant("STRUCT<ts_ms: BIGINT>", 1000, "ts_ms")


def _options(name: str, *own: Option) -> tuple[Option, ...]:
    return (*own, *json_options(name))


_DEBEZIUM = ChangeFormat(
    "debezium-json",
    "op",
    {"c": Operation.INSERT, "r": Operation.INSERT, "u": Operation.UPDATE, "d": Operation.DELETE},
    ("c", "d"),
    metadata={
        "schema": Metadata("schema", "STRING", _STRING),
        "ingestion-timestamp": Metadata("ts_ms", "BIGINT", _TIMESTAMP, _MILLIS, _OF_MILLIS),
        "source.timestamp": Metadata("source", "MAP<STRING, STRING>", _TIMESTAMP, _SOURCE_MILLIS, _OF_SOURCE),
        "source.database": Metadata("source", "MAP<STRING, STRING>", _STRING, "{}.db"),
        "source.schema": Metadata("source", "MAP<STRING, STRING>", _STRING, "{}.schema"),
        "source.table": Metadata("source", "MAP<STRING, STRING>", _STRING, "{}.table"),
        "source.properties": Metadata("source", "MAP<STRING, STRING>", parse_type("MAP<STRING, STRING>")),
    },
    options=_options(
        "debezium-json",
        Option(
            "debezium-json.schema-include",
            BOOLEAN,
            "Messages are {schema, payload}, as Kafka Connect writes them where schemas are on.",
            "false",
        ),
        Option(
            "debezium-json.time-unit",
            one_of("ms", "us", "ns"),
            "What numbers for TIMESTAMP and TIME count since 1970 or midnight where the message has no schema that "
            "says so; a number for a DATE then counts days. Without either such a number is a fault.",
        ),
    ),
)
_CANAL = ChangeFormat(
    "canal-json",
    "type",
    {
        "INSERT": Operation.INSERT,
        "INIT": Operation.INSERT,
        "UPDATE": Operation.UPDATE,
        "DELETE": Operation.DELETE,
        "CREATE": Operation.SKIPPED,
    },
    ("INSERT", "DELETE"),
    after="data",
    before="old",
    old=True,
    lists=True,
    ddl="isDdl",
    include={"database.include": "database", "table.include": "table"},
    metadata={
        "database": Metadata("database", "STRING", _STRING),
        "table": Metadata("table", "STRING", _STRING),
        "sql-type": Metadata("sqlType", "MAP<STRING, INT>", parse_type("MAP<STRING, INT>")),
        "pk-names": Metadata("pkNames", "ARRAY<STRING>", _STRINGS),
        "ingestion-timestamp": Metadata("ts", "BIGINT", _TIMESTAMP, _MILLIS, _OF_MILLIS),
        "event-timestamp": Metadata("es", "BIGINT", _TIMESTAMP, _MILLIS, _OF_MILLIS),
    },
    options=_options(
        "canal-json",
        Option("canal-json.database.include", PATTERN, "A regular expression that a database must match as a whole."),
        Option("canal-json.table.include", PATTERN, "One that a table must match as a whole; others are skipped."),
    ),
)
_MAXWELL = ChangeFormat(
    "maxwell-json",
    "type",
    {"insert": Operation.INSERT, "update": Operation.UPDATE, "delete": Operation.DELETE},
    ("insert", "delete"),
    after="data",
    before="old",
    old=True,
    metadata={
        "database": Metadata("database", "STRING", _STRING),
        "table": Metadata("table", "STRING", _STRING),
        "primary-key-columns": Metadata("primary_key_columns", "ARRAY<STRING>", _STRINGS),
        "ingestion-timestamp": Metadata("ts", "BIGINT", _TIMESTAMP, _SECONDS, _OF_SECONDS),
    },
    options=_options("maxwell-json"),
)
_OGG = ChangeFormat(
    "ogg-json",
    "op_type",
    {"I": Operation.INSERT, "U": Operation.UPDATE, "D": Operation.DELETE},
    ("I", "D"),
    metadata={
        "table": Metadata("table", "STRING", _STRING),
        "primary-keys": Metadata("primary_keys", "ARRAY<STRING>", _STRINGS),
        "ingestion-timestamp": Metadata("current_ts", "STRING", _TIMESTAMP, _TEXT, _OF_TEXT),
        "event-timestamp": Metadata("op_ts", "STRING", _TIMESTAMP, _TEXT, _OF_TEXT),
    },
    options=_options("ogg-json"),
)

_DEBEZIUM_AVRO = replace(
    _DEBEZIUM, name=DEBEZIUM_AVRO, metadata={}, options=registry_options(DEBEZIUM_AVRO)
)  # Flink's has no columns of metadata either
TEXT_FORMATS: Mapping[str, ChangeFormat] = {f.name: f for f in (_DEBEZIUM, _CANAL, _MAXWELL, _OGG)}
"""The formats that lines of files have, too."""
CHANGE_FORMATS: Mapping[str, ChangeFormat] = {**TEXT_FORMATS, DEBEZIUM_AVRO: _DEBEZIUM_AVRO}
TEXT_OPTIONS = tuple(option for described in TEXT_FORMATS.values() for option in described.options)
CHANGE_OPTIONS = (*TEXT_OPTIONS, *_DEBEZIUM_AVRO.options)


def change_format(table: Table) -> ChangeFormat | None:
    """Returns the change format of a table, such as Debezium's; None for tables with other formats."""
    return CHANGE_FORMATS.get((table.option("format") or "").strip().lower())


def has_kinds(table: Table) -> bool:
    """True where the table has a change format, so that each message says the kind of its row."""
    return change_format(table) is not None


def takes_changes(table: Table) -> frozenset[RowKind]:
    """Returns the row kinds that a sink with the table's format accepts: all for change formats, else inserts only."""
    return frozenset(RowKind) if has_kinds(table) else APPEND_ONLY


def metadata_of(table: Table) -> dict[str, DataType]:
    """Returns the METADATA columns that the table's format offers, as a mapping from key to default type."""
    form = change_format(table)
    if form is None:
        return {}
    return {spelled: m.type for key, m in form.metadata.items() for spelled in (key, f"{VALUE}{key}")}


def of_message(table: Table, column: Column) -> Metadata | None:
    """Returns the ``Metadata`` that says how a METADATA column is read from a change message. None where the table's
    format does not offer the column.
    """
    form = change_format(table)
    if form is None or column.metadata_key is None:
        return None
    return form.metadata.get(column.metadata_key.removeprefix(VALUE))


def check_changes(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields a diagnostic SS504 if the table has a change format and its ``changelog-mode`` lacks updates."""
    form = change_format(table)
    if form is None:
        return
    if (mode := table.option("changelog-mode")) is not None and RowKind.UPDATE_AFTER not in table.changelog:
        message = f"'changelog-mode' = '{mode}' does not fit the format \"{form.name}\", whose rows are also updated"
        hint = "Leave it out, or write 'I,UA,D' where messages lack the row of before, and declare the PRIMARY KEY."
        yield Diagnostic(WRONG_VALUE, message, spans.get("changelog-mode"), hint=hint)
