"""``sqlite``: tables of a SQLite file, looked up by any columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing

from sqlstream.connectors.connector import Environment, LookupTable
from sqlstream.connectors.database_tables import filters, matched, no_table
from sqlstream.connectors.file_databases import OPTIONS, check_types, columns_there, file_as_of, require_keys
from sqlstream.errors import Diagnostic, Span
from sqlstream.planner.catalog import Table
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources.sqlite import DIALECT, SqliteSource, connect

_TYPES = (*DIALECT.sent, "TIMESTAMP", "TIMESTAMP_NTZ")


def _columns(table: Table, path: str, parts: tuple[str, ...]) -> dict[str, str]:
    with closing(connect(path)) as database:
        rows = database.execute("SELECT name FROM pragma_table_info(?)", [parts[-1]]).fetchall()
        if not rows or parts[:-1] not in ((), ("main",)):
            tables = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
            raise no_table(table, parts, (name for (name,) in tables))
    return {name: "" for (name,) in rows}


class Sqlite(LookupTable):
    """Asks the file in the worker processes."""

    name = "sqlite"
    doc = "Tables of a SQLite file, looked up by any columns."
    options = OPTIONS
    scans = True
    variables = ("path",)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        return check_types(table, spans, _TYPES)

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        """Looks first whether the file has the table and its columns, which have no types there."""
        values = self.resolved_values(table)
        path, parts = values["path"], values["table-name"]
        require_keys(table, request, DIALECT)
        columns = columns_there(table, path, lambda: _columns(table, path, parts), sqlite3.Error)
        names = [name for name, _ in (*request.keys, *request.columns)] + [c.column for c in request.filters]
        stored = matched(table, names, columns, {})
        connections, file = values["lookup.connections"], file_as_of(path, changing=True)
        return SqliteSource(table.name, path, parts, request, tuple(stored.items()), connections, file)

    def filters(self, table: Table, comparison: Comparison) -> bool:
        return filters(table, comparison)
