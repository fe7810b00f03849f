"""Statements of the dialect for what Ibis defines and writes: names, columns with a watermark and a key, options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ibis.common.exceptions as com
import ibis.expr.operations as ops
import ibis.expr.schema as sch

from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.ibis.datatypes import SqlStreamType

Database = str | Sequence[str] | None
"""How Ibis names a database: ``"d"``, ``"catalog.d"``, ``("catalog", "d")``."""


def name_parts(name: str, database: Database = None, catalog: str | None = None) -> tuple[str, ...]:
    """The parts of an object's name. Raises IbisInputError for a catalog without a database, and for too many parts."""
    within = () if database is None else tuple(database.split(".") if isinstance(database, str) else database)
    if catalog is not None:
        if len(within) != 1:
            raise com.IbisInputError(f'catalog "{catalog}" needs one database in it, not {database!r}')
        within = (catalog, *within)
    if len(within) > 2:
        raise com.IbisInputError(f"{database!r} has more parts than a catalog and a database")
    return (*(part for part in within if part), name)


def dotted(parts: Sequence[str]) -> str:
    """A name of several parts as SQL."""
    return ".".join(map(quote_name, parts))


def with_options(options: Mapping[str, Any]) -> str:
    """The clause WITH of a table."""
    pairs = ", ".join(f"{quote_string(str(key))} = {quote_string(str(value))}" for key, value in options.items())
    return f"WITH ({pairs})"


def columns_text(schema: sch.Schema, watermark: Any = None, primary_key: str | Sequence[str] | None = None) -> str:
    """The columns of CREATE TABLE in parentheses. ``watermark`` is one of ``ibis.watermark``. Raises IbisInputError
    where the key or the watermark names no column.
    """
    keys = [primary_key] if isinstance(primary_key, str) else list(primary_key or ())
    named = [*keys, *([watermark.time_col] if watermark is not None else ())]
    absent = [name for name in named if name not in schema]
    if absent:
        raise com.IbisInputError(f"{absent} must be columns of the table, which has {list(schema.names)}")
    lines = [_column(name, dtype) for name, dtype in schema.items()]
    if watermark is not None:
        lines.append(f"WATERMARK FOR {quote_name(watermark.time_col)} AS {_watermark(watermark)}")
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(quote_name, keys))}) NOT ENFORCED")
    return f"({', '.join(lines)})"


def _column(name: str, dtype: Any) -> str:
    return f"{quote_name(name)} {SqlStreamType.to_string(dtype)}{'' if dtype.nullable else ' NOT NULL'}"


def _watermark(watermark: Any) -> str:
    column = quote_name(watermark.time_col)
    if watermark.allowed_delay is None:
        return column
    delay = watermark.allowed_delay.op()
    if not isinstance(delay, ops.Literal):
        raise com.IbisInputError("the delay of a watermark is a constant, such as ibis.interval(seconds=5)")
    return f"{column} - INTERVAL '{delay.value}' {delay.dtype.unit.singular.upper()}"


def create_table(
    name: Sequence[str], columns: str, options: Mapping[str, Any], query: str | None, *, temporary: bool, replace: bool
) -> str:
    """CREATE TABLE, with the columns or AS the query."""
    words = f"CREATE{' OR REPLACE' if replace else ''}{' TEMPORARY' if temporary else ''} TABLE {dotted(name)}"
    behind = "" if query is None else f" AS {query}"
    return f"{words} {columns}{' ' if columns else ''}{with_options(options)}{behind}"


def create_view(name: Sequence[str], query: str, *, temporary: bool, replace: bool, if_not_exists: bool) -> str:
    """CREATE VIEW."""
    words = f"CREATE{' OR REPLACE' if replace else ''}{' TEMPORARY' if temporary else ''} VIEW"
    return f"{words}{' IF NOT EXISTS' if if_not_exists else ''} {dotted(name)} AS {query}"


def drop(kind: str, name: Sequence[str], *, temporary: bool = False, if_exists: bool = False) -> str:
    """DROP TABLE, VIEW or DATABASE."""
    return f"DROP{' TEMPORARY' if temporary else ''} {kind}{' IF EXISTS' if if_exists else ''} {dotted(name)}"


def insert(name: Sequence[str], columns: Sequence[str], query: str, *, overwrite: bool) -> str:
    """INSERT INTO or INSERT OVERWRITE. Without ``columns`` those of the query go by their order."""
    into = f"INSERT {'OVERWRITE' if overwrite else 'INTO'} {dotted(name)}"
    named = f" ({', '.join(map(quote_name, columns))})" if columns else ""
    return f"{into}{named} {query}"
