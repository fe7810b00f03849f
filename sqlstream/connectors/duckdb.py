"""``duckdb``: tables of a DuckDB file, looked up by any columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from importlib.util import find_spec

from sqlstream.connectors.connector import Environment, LookupTable
from sqlstream.connectors.database_tables import Allowed, filters, matched, no_table
from sqlstream.connectors.file_databases import OPTIONS, check_types, columns_there, file_as_of, require_keys
from sqlstream.errors import Diagnostic, Span
from sqlstream.planner.catalog import Table
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from sqlstream.udfs.lookup.sources.clients import no_package
from sqlstream.udfs.lookup.sources.duckdb import DIALECT, DuckDbSource, connect

_ELEMENTS = [name for name in DIALECT.sent if name not in ("DECIMAL", "TIMESTAMP", "TIMESTAMP_NTZ")]
_TYPES = (*DIALECT.sent, *(f"ARRAY<{name}>" for name in _ELEMENTS))
_SMALL = ("tinyint", "smallint", "utinyint")
_MIDDLE = (*_SMALL, "integer", "usmallint")
_LARGE = (*_MIDDLE, "bigint", "uinteger")
_TIMES = {"timestamp", "timestamp with time zone", "timestamp_s", "timestamp_ms"}

READABLE: Allowed = {
    "BOOLEAN": {"boolean"},
    "TINYINT": {"tinyint"},
    "SMALLINT": set(_SMALL),
    "INT": set(_MIDDLE),
    "BIGINT": set(_LARGE),
    "FLOAT": {"float"},
    "DOUBLE": {"float", "double"},
    "DECIMAL": {"decimal", *_LARGE},
    "BINARY": {"blob"},
    "DATE": {"date"},
    "TIMESTAMP": _TIMES,
    "TIMESTAMP_NTZ": _TIMES,
}

_COLUMNS = """
    SELECT column_name, data_type FROM duckdb_columns()
    WHERE table_name = ? AND schema_name = ? AND NOT internal ORDER BY column_index"""


def _columns(table: Table, path: str, parts: tuple[str, ...]) -> dict[str, str]:
    with closing(connect(path)) as database:
        schema = parts[-2] if len(parts) > 1 else "main"
        types: dict[str, str] = dict(database.execute(_COLUMNS, [parts[-1], schema]).fetchall())
        if not types:
            tables = database.execute("SELECT DISTINCT table_name FROM duckdb_columns() WHERE NOT internal").fetchall()
            raise no_table(table, parts, (name for (name,) in tables))
    return types


class DuckDb(LookupTable):
    """Asks the file in the worker processes."""

    name = "duckdb"
    doc = "Tables of a DuckDB file, looked up by any columns."
    options = OPTIONS
    scans = True
    variables = ("path",)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        return check_types(table, spans, _TYPES)

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        """Looks first whether the file has the table and its columns, and of which types."""
        if find_spec("duckdb") is None:
            raise no_package("duckdb", "duckdb")
        from duckdb import Error

        values = self.resolved_values(table)
        path, parts = values["path"], values["table-name"]
        require_keys(table, request, DIALECT)
        types = columns_there(table, path, lambda: _columns(table, path, parts), Error)
        names = [name for name, _ in (*request.keys, *request.columns)] + [c.column for c in request.filters]
        stored = matched(table, names, types, READABLE)
        connections, file = values["lookup.connections"], file_as_of(path)
        return DuckDbSource(table.name, path, parts, request, tuple(stored.items()), connections, file)

    def filters(self, table: Table, comparison: Comparison) -> bool:
        return filters(table, comparison)
