"""Sources and sinks: the registry. Each connector is a module of this package that is imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from sqlstream.connectors.connector import UNKNOWN_CONNECTOR, Connector, Environment
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import hint_of
from sqlstream.planner.catalog import Table

__all__ = ["NAMES", "Connector", "Environment", "connector", "validate"]

NAMES = (
    "blackhole",
    "datagen",
    "duckdb",
    "filesystem",
    "http",
    "jdbc",
    "kafka",
    "memory",
    "postgres",
    "print",
    "rate",
    "redis",
    "socket",
    "spark",
    "sqlite",
    "test",
    "upsert-kafka",
)


def connector(name: str) -> Connector:
    """The connector called ``name``; ConnectorError SS501 where there is none."""
    if name not in NAMES:
        raise ConnectorError.of([_unknown(name, None)])
    instance = import_module(f"sqlstream.connectors.{name.replace('-', '_')}").CONNECTOR
    assert isinstance(instance, Connector)
    return instance


def validate(table: Table, spans: Mapping[str, Span]) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with the connector and the options of a table; ``spans`` by option key."""
    if table.connector not in NAMES:
        return (_unknown(table.connector, spans.get("connector")),)
    return connector(table.connector).validate(table, spans)


def _unknown(name: str, span: Span | None) -> Diagnostic:
    message = f'connector "{name}" does not exist'
    return Diagnostic(UNKNOWN_CONNECTOR, message, span, hint=hint_of(name, NAMES, "Connectors"))
