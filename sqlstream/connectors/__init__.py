"""Connectors by name: those of this package, and those that other packages bring.

A package registers its connectors as entry points of the group ``sqlstream.connectors``. A connector is imported when
it is used, so that a table costs the import of its own connector alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import (
    UNKNOWN_CONNECTOR,
    BatchWriter,
    ChangelogSink,
    Connector,
    LookupTable,
    RecoverableSink,
    Sink,
    Source,
    SplitSource,
    StreamSink,
    UpsertSink,
    columns_of,
    folder_of_batch,
)
from sqlstream.connectors.environment import Environment, SinkWriteRange, Watch
from sqlstream.connectors.stored_tables import MaintainedTable, ReplacingSink, SessionTable, TruncatableTable, ViewTable
from sqlstream.entry_points import NotLoaded, instance_of, package_of, registered
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError
from sqlstream.options import hint_of
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.secrets.options import show_values_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "BatchWriter",
    "ChangelogSink",
    "Connector",
    "Environment",
    "LookupTable",
    "MaintainedTable",
    "RecoverableSink",
    "ReplacingSink",
    "SessionTable",
    "Sink",
    "SinkWriteRange",
    "Source",
    "SplitSource",
    "StreamSink",
    "TruncatableTable",
    "UpsertSink",
    "ViewTable",
    "Watch",
    "answers_lookups",
    "columns_of",
    "connector",
    "discards_rows",
    "find_connector",
    "folder_of_batch",
    "installed",
    "is_scanned",
    "lookup_connector",
    "names",
    "row_kinds_taken",
    "sink_connector",
    "source_connector",
    "validate",
]

GROUP = "sqlstream.connectors"
"""The group of entry points: ``name = "package.module:Class"``."""

BUILT_IN = {
    "blackhole": "sqlstream.connectors.trying_out:Blackhole",
    "datagen": "sqlstream.connectors.datagen:DataGen",
    "delta": "sqlstream.connectors.lakes.delta:Delta",
    "duckdb": "sqlstream.connectors.file_databases:DuckDb",
    "filesystem": "sqlstream.connectors.files.filesystem:FileSystem",
    "http": "sqlstream.connectors.http:Http",
    "iceberg": "sqlstream.connectors.lakes.iceberg:Iceberg",
    "jdbc": "sqlstream.connectors.postgres.tables:Jdbc",
    "kafka": "sqlstream.connectors.kafka.connector:Kafka",
    "memory": "sqlstream.connectors.memory:Memory",
    "mysql-cdc": "sqlstream.connectors.mysql.cdc:MySqlChanges",
    "postgres": "sqlstream.connectors.postgres.tables:Postgres",
    "postgres-cdc": "sqlstream.connectors.postgres.cdc:PostgresChanges",
    "print": "sqlstream.connectors.trying_out:Print",
    "rate": "sqlstream.connectors.trying_out:Rate",
    "redis": "sqlstream.connectors.redis:Redis",
    "socket": "sqlstream.connectors.trying_out:Socket",
    "spark": "sqlstream.connectors.spark:SparkTable",
    "sqlite": "sqlstream.connectors.file_databases:Sqlite",
    "sse": "sqlstream.connectors.receiving.sse:ServerSentEvents",
    "test": "sqlstream.connectors.test:Fed",
    "upsert-kafka": "sqlstream.connectors.kafka.upsert:UpsertKafka",
    "webhook": "sqlstream.connectors.receiving.webhook:Webhook",
    "websocket": "sqlstream.connectors.receiving.websocket:WebSocket",
}
"""Our own connectors. A package cannot replace one of them."""


def names() -> tuple[str, ...]:
    """Returns the names of all connectors, built-in ones and those of installed packages, in alphabetical order."""
    return tuple(sorted({*BUILT_IN, *registered(GROUP)}))


def connector(name: str) -> Connector:
    """Returns the connector called ``name``. Raises ConnectorError SS501 if there is none, or if its package cannot be
    loaded.
    """
    found = find_connector(name)
    if found is None:
        raise ConnectorError.of([_unknown(name, None)])
    return found


def source_connector(name: str) -> Source:
    """Returns the connector called ``name``, which the caller knows to be a source. Raises SS501 as ``connector``
    does.
    """
    found = connector(name)
    assert isinstance(found, Source), f'connector "{name}" is no source'
    return found


def sink_connector(name: str) -> Sink:
    """Returns the connector called ``name``, which the caller knows to be a sink. Raises SS501 as ``connector``
    does.
    """
    found = connector(name)
    assert isinstance(found, Sink), f'connector "{name}" is no sink'
    return found


def discards_rows(table: Table) -> bool:
    """True where the sink of a table keeps no rows. Raises SS501 as ``connector`` does."""
    found = connector(table.connector)
    return isinstance(found, Sink) and found.discards_rows


def lookup_connector(name: str) -> LookupTable:
    """Returns the connector called ``name``, which the caller knows to answer lookups. Raises SS501 as ``connector``
    does.
    """
    found = connector(name)
    assert isinstance(found, LookupTable), f'connector "{name}" answers no lookups'
    return found


def find_connector(name: str) -> Connector | None:
    """Returns the connector called ``name``, or None. Raises ConnectorError SS501 if its package cannot be loaded."""
    return _built_in(name) if name in BUILT_IN else _of_package(name)


def installed() -> Iterator[Connector]:
    """Returns all connectors in alphabetical order, without those whose packages cannot be loaded."""
    for name in names():
        try:
            yield connector(name)
        except ConnectorError:
            continue


def validate(table: Table, spans: Mapping[str, Span]) -> tuple[Diagnostic, ...]:
    """Checks the connector and the options of a table and returns all errors as diagnostics.

    ``spans``: where each option is in the SQL text, by key.
    """
    span = spans.get("connector")
    try:
        kind = find_connector(table.connector)
    except SqlStreamError as error:
        return tuple(Diagnostic(d.code, d.message, span, d.detail, d.hint) for d in error.diagnostics)
    return (_unknown(table.connector, span),) if kind is None else kind.validate(table, spans)


def answers_lookups(table: Table) -> bool:
    """True where the table can be the right side of a lookup join."""
    kind = connector(table.connector)
    return isinstance(kind, LookupTable) and kind.answers(table)


def is_scanned(table: Table) -> bool:
    """True where queries over finished data read the table by one lookup request without keys, which returns all
    rows.
    """
    kind = connector(table.connector)
    return isinstance(kind, LookupTable) and kind.scans


def row_kinds_taken(table: Table) -> frozenset[RowKind]:
    """Returns the row kinds that the table's sink accepts."""
    kind = connector(table.connector)
    return kind.takes_changes(table) if isinstance(kind, Sink) else APPEND_ONLY


# --- loading --------------------------------------------------------------------------------------------------


@cache
def _built_in(name: str) -> Connector:
    module, _, class_name = BUILT_IN[name].partition(":")
    instance = getattr(import_module(module), class_name)()
    assert isinstance(instance, Connector)
    return instance


@cache
def _of_package(name: str) -> Connector | None:
    point = registered(GROUP).get(name)
    if point is None:
        return None
    try:
        instance = instance_of(point)
    except NotLoaded as error:
        raise _unusable(point, str(error)) from error
    if not isinstance(instance, Connector):
        raise _unusable(point, f"{point.value} is no sqlstream.connectors.Connector")
    if instance.name != name:
        raise _unusable(point, f'its entry point is called "{name}", and its class "{instance.name}"')
    show_values_of(option.key for option in instance.options if option.shown)
    return instance


def _unusable(point: EntryPoint, reason: str) -> ConnectorError:
    message = f'connector "{point.name}" of package "{package_of(point)}" cannot be loaded'
    hint = f'Correct or remove the package "{package_of(point)}".'
    return ConnectorError(UNKNOWN_CONNECTOR, message, detail=f"{reason.rstrip('.')}.", hint=hint)


def _unknown(name: str, span: Span | None) -> Diagnostic:
    message = f'connector "{name}" does not exist'
    return Diagnostic(UNKNOWN_CONNECTOR, message, span, hint=hint_of(name, names(), "Connectors"))
