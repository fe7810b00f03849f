"""The tables that materialized views are stored in."""

from __future__ import annotations

from sqlstream.connectors import ViewTable, connector
from sqlstream.planner.catalog import Table


def is_there(table: Table) -> bool:
    """Whether rows of somebody, or of an earlier view, are where the view is to be stored."""
    return _connector(table).is_there(table)


def is_ours(table: Table) -> bool:
    """Whether a job of sqlstream has written there. Only then may a new view replace what is there."""
    return _connector(table).is_ours(table)


def remove(table: Table) -> None:
    """Drop the table in the database, or empty its directory."""
    _connector(table).remove(table)


def _connector(table: Table) -> ViewTable:
    kind = connector(table.connector)
    assert isinstance(kind, ViewTable), table.connector
    return kind
