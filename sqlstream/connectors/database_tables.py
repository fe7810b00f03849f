"""Tables of databases: their names, and which stored columns the declared columns mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

from sqlstream.errors import ConnectorError, Diagnostic, SqlStreamError
from sqlstream.options import Option, OptionKind, hint_of, integer
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison
from sqlstream.udfs.lookup.sources.sql_text import StoredColumn, comparable

NO_TABLE = "SS563"
WRONG_STORED_COLUMN = "SS564"

_MOST_TABLES = 20
_PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')


def _name_parts(text: str) -> tuple[str, ...]:
    """``sales."Big Orders"`` as (sales, Big Orders)."""
    parts = _PART.findall(text)
    if ".".join(parts) != text or len(parts) > 3:
        raise ValueError(text)
    return tuple(p[1:-1].replace('""', '"') if p.startswith('"') else p for p in parts)


TABLE_NAME = OptionKind("table name", "a name, with its schema where it has one: sales.orders", _name_parts)
TABLE_OPTION = Option("table-name", TABLE_NAME, "The table there, spelled as the database keeps it.", required=True)
CONNECTIONS = integer(1, 1000)


@dataclass(frozen=True)
class StoredType:
    """A database type without its sizes: ``numeric(10,2)[]`` has the name ``numeric[]`` and the scale 2."""

    name: str
    scale: int | None = None


def stored_type(text: str) -> StoredType:
    """Parses a type as the database spells it."""
    sizes = re.search(r"\((\d+)(?:,\s*(-?\d+))?\)", text)
    name = re.sub(r"\([^)]*\)", "", text).lower()
    return StoredType(name, int(sizes[2] or 0) if sizes is not None else None)


Allowed = Mapping[str, Set[str]]
"""For each declared type the stored types that it may have; types that are not listed may have any."""


def matched(table: Table, names: Iterable[str], there: Mapping[str, str], allowed: Allowed) -> dict[str, StoredColumn]:
    """Returns a dictionary from the name of each wanted column of the table to the column of the database that it is
    stored in.

    Names are equal, or differ only in case. ``there``: all columns of the database table with their types. ``allowed``:
    which database types each declared type may have. Raises ConnectorError SS564 with every column that is missing or
    has a type that does not fit.
    """
    columns = {c.name: c for c in table.physical_columns}
    stored_columns: dict[str, StoredColumn] = {}
    wrong: list[Diagnostic] = []
    for name in dict.fromkeys(names):
        stored = _same_name(name, there)
        if stored is None:
            message = f'column "{name}" of table "{table.name}" does not exist in the database'
            wrong.append(Diagnostic(WRONG_STORED_COLUMN, message, hint=hint_of(name, there, "Columns")))
            continue
        kind = stored_type(there[stored])
        if not _fits(columns[name].type, kind, allowed):
            wrong.append(_wrong_type(table, columns[name], there[stored], allowed))
        stored_columns[name] = StoredColumn(columns[name].type, stored, kind.name)
    if wrong:
        raise SqlStreamError.of(wrong)
    return stored_columns


def _same_name(name: str, there: Mapping[str, str]) -> str | None:
    if name in there:
        return name
    alike = [n for n in there if n.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _fits(declared: DataType, stored: StoredType, allowed: Allowed) -> bool:
    if declared.name == "ARRAY":
        element = declared.args[0]
        assert isinstance(element, DataType)
        return stored.name.endswith("[]") and _fits(element, StoredType(stored.name[:-2], stored.scale), allowed)
    if declared.name not in allowed or stored.name in allowed[declared.name]:
        return declared.name != "DECIMAL" or stored.scale is None or _scales_fit(declared, stored.scale, allowed)
    return False


def _scales_fit(declared: DataType, stored: int, allowed: Allowed) -> bool:
    """Whether no digits are lost: the side that receives values has the same scale or a larger one."""
    scale = declared.args[1]
    assert isinstance(scale, int)
    return stored <= scale if allowed is not WRITABLE else scale <= stored


def _wrong_type(table: Table, column: Column, stored: str, allowed: Allowed) -> Diagnostic:
    message = f'column "{column.name}" of table "{table.name}" is {column.type}, but {stored} in the database'
    hint = "Leave the column out: the connector does not read this type."
    if "STRING" not in allowed or any(stored_type(stored).name in types for types in allowed.values()):
        hint = "Declare it with the type that it has there, or as STRING."
    return Diagnostic(WRONG_STORED_COLUMN, message, hint=hint)


def no_table(table: Table, named: tuple[str, ...], others: Iterable[str], hint: str = "") -> ConnectorError:
    """Returns the error SS563 for a table that does not exist in the database. ``others``: the tables that do, for the
    hint.
    """
    message = f'table "{".".join(named)}" of table "{table.name}" does not exist in the database'
    names = sorted(others)[:_MOST_TABLES]
    return ConnectorError(NO_TABLE, message, hint=hint or hint_of(named[-1], names, "Tables there"))


def filters(table: Table, comparison: Comparison) -> bool:
    """True where the database compares values of the column as Spark does, so that it may evaluate the comparison."""
    declared = next((c.type for c in table.physical_columns if c.name == comparison.column), None)
    return declared is not None and comparable(declared, comparison)


# --- PostgreSQL's types, whose names DuckDB has too ---------------------------------------------------------------

_TIMES = frozenset({"timestamp with time zone", "timestamp without time zone"})
_INTEGERS = ("smallint", "integer", "bigint")

READABLE: Allowed = MappingProxyType(
    {
        "BOOLEAN": {"boolean"},
        "TINYINT": {"smallint"},
        "SMALLINT": {"smallint"},
        "INT": {"smallint", "integer"},
        "BIGINT": set(_INTEGERS),
        "FLOAT": {"real"},
        "DOUBLE": {"real", "double precision"},
        "DECIMAL": {"numeric", *_INTEGERS},
        "BINARY": {"bytea"},
        "DATE": {"date"},
        "TIMESTAMP": _TIMES,
        "TIMESTAMP_NTZ": _TIMES,
    }
)
WRITABLE: Allowed = MappingProxyType(
    {
        "BOOLEAN": {"boolean"},
        **{name: {*_INTEGERS, "numeric"} for name in ("TINYINT", "SMALLINT", "INT", "BIGINT")},
        "FLOAT": {"real", "double precision"},
        "DOUBLE": {"double precision"},
        "DECIMAL": {"numeric"},
        "BINARY": {"bytea"},
        "DATE": {"date"},
        "TIMESTAMP": _TIMES,
        "TIMESTAMP_NTZ": _TIMES,
    }
)
