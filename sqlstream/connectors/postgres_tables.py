"""Tables that we make in PostgreSQL: their CREATE TABLE, their indexes, and those of materialized views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.postgres_server import regclass
from sqlstream.connectors.postgres_sink import EPOCHS
from sqlstream.errors import ConnectorError
from sqlstream.options import OptionKind
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType
from sqlstream.udfs.lookup.sources.postgres import DIALECT

if TYPE_CHECKING:
    from sqlstream.connectors.postgres_server import Connection

TOO_OLD = "SS697"
_NULLS_NOT_DISTINCT = 150_000
"""The first version of PostgreSQL whose unique indexes may take NULL for a value like others."""

_CREATED = {**DIALECT.sent, "TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer", "FLOAT": "real"}


def _indexes(text: str) -> tuple[tuple[str, ...], ...]:
    indexes = tuple(tuple(name.strip() for name in index.split(",")) for index in text.split(";") if index.strip())
    if not indexes or not all(all(index) for index in indexes):
        raise ValueError(text)
    return indexes


INDEXES = OptionKind("indexes", "names of columns with commas, and a semicolon between indexes: 'a; b, c'", _indexes)


def create_table_text(table: Table, parts: tuple[str, ...]) -> str:
    """The CREATE TABLE of PostgreSQL for the columns as declared."""
    columns = [
        f"{regclass((c.name,))} {_sql_type(c.type)}{' NOT NULL' * (not c.nullable)}" for c in table.physical_columns
    ]
    keys = _listed(table.primary_key)
    keyed = bool(keys) and not has_null_keys(table)
    return f"CREATE TABLE {regclass(parts)} ({', '.join([*columns, *([f'PRIMARY KEY ({keys})'] if keyed else [])])})"


def create_table(
    server: Connection, table: Table, parts: tuple[str, ...], indexes: tuple[tuple[str, ...], ...]
) -> None:
    """Make what is missing of the table, its key and its indexes. ConnectorError SS697 for a server that cannot."""
    if has_null_keys(table) and server.info.server_version < _NULLS_NOT_DISTINCT:
        message = f'the key ({", ".join(table.primary_key)}) of "{table.name}" may be NULL'
        detail = "Servers before PostgreSQL 15 take rows with NULL in their key for different ones."
        hint = "Leave such rows out (WHERE … IS NOT NULL), or give NULL a value with COALESCE."
        raise ConnectorError(TOO_OLD, message, detail=detail, hint=hint)
    with server.transaction():
        server.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [regclass(parts)])  # several jobs start at once
        for statement in _statements(table, parts, indexes):
            server.execute(statement)


def _statements(table: Table, parts: tuple[str, ...], indexes: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    if table.materialized and len(parts) > 1:
        yield f"CREATE SCHEMA IF NOT EXISTS {regclass(parts[:-1][-1:])}"
    yield create_table_text(table, parts).replace("TABLE", "TABLE IF NOT EXISTS", 1)
    if has_null_keys(table):
        name = regclass((f"{parts[-1]}_key",))
        keys = _listed(table.primary_key)
        yield f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {regclass(parts)} ({keys}) NULLS NOT DISTINCT"
    spelled = {c.name.casefold(): c.name for c in table.physical_columns}
    for columns in indexes:
        names = tuple(spelled[name.casefold()] for name in columns)
        name = regclass(("_".join((parts[-1], *names, "idx"))[-63:],))  # PostgreSQL cuts longer names
        yield f"CREATE INDEX IF NOT EXISTS {name} ON {regclass(parts)} ({_listed(names)})"


def exists(server: Connection, parts: tuple[str, ...]) -> bool:
    return server.execute("SELECT to_regclass(%s)", [regclass(parts)]).fetchone() != (None,)


def has_epochs(server: Connection, parts: tuple[str, ...]) -> bool:
    """Whether epochs of some job are noted for the table."""
    epochs = regclass((*parts[:-1], EPOCHS))
    if server.execute("SELECT to_regclass(%s)", [epochs]).fetchone() == (None,):
        return False
    return server.execute(f"SELECT 1 FROM {epochs} WHERE target = %s", [regclass(parts)]).fetchone() is not None


def drop_table(server: Connection, parts: tuple[str, ...]) -> None:
    """Remove the table, and what is noted of the epochs that are in it."""
    epochs = regclass((*parts[:-1], EPOCHS))
    with server.transaction():
        server.execute(f"DROP TABLE IF EXISTS {regclass(parts)}")
        if server.execute("SELECT to_regclass(%s)", [epochs]).fetchone() != (None,):
            server.execute(f"DELETE FROM {epochs} WHERE target = %s", [regclass(parts)])


def has_null_keys(table: Table) -> bool:
    """True for views that may have a row whose key is NULL, as GROUP BY has."""
    return table.materialized and any(c.nullable for c in table.physical_columns if c.name in table.primary_key)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(regclass((name,)) for name in names)


def innermost(type_: DataType) -> DataType:
    """The type of the elements of an array, however deep."""
    if type_.name != "ARRAY":
        return type_
    element = type_.args[0]
    assert isinstance(element, DataType)
    return innermost(element)


def _sql_type(type_: DataType) -> str:
    if type_.name == "ARRAY":
        return f"{_sql_type(innermost(type_))}[]"
    return f"numeric({type_.args[0]}, {type_.args[1]})" if type_.name == "DECIMAL" else _CREATED[type_.name]
