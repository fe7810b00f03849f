"""The rows of MOCK and EXPECTED: VALUES of literals are read as they are, all other queries are asked of Spark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sqlstream.grammar import to_sql
from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.statements.mocking import MockedRows, Typed
from sqlstream.testing.changelog import Row
from sqlstream.testing.spelling import spell_row
from sqlstream.testing.tested_session import SessionUnderTest
from sqlstream.testing.values import from_arrow, to_arrow
from sqlstream.types import DataType

_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


class _Other(Exception):
    """Not a literal of the type of its column."""


def rows_of_mock(mock: MockedRows, session: SessionUnderTest) -> list[Row]:
    """The values of the columns of ``mock``, as they would come out of a job."""
    try:
        rows = _literal_rows(mock, utc=session.workspace.settings["table.local-time-zone"] == "UTC")
    except _Other:
        return _rows_of_spark(mock, session)
    return _canonical(rows, mock.columns)


def _canonical(rows: list[Row], columns: Typed) -> list[Row]:
    import pyarrow as pa

    by_column = []
    for i, (_, type_) in enumerate(columns):
        values = pa.array([to_arrow(row[i], type_) for row in rows], type_.to_arrow())
        by_column.append([from_arrow(value, type_) for value in values.to_pylist()])
    return list(zip(*by_column, strict=True))


def _literal_rows(mock: MockedRows, *, utc: bool) -> list[Row]:
    values = _values_of(mock.query)
    width = len(mock.columns)
    rows = []
    for row in values.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
        if len(cells) != width:
            raise _Other
        rows.append(tuple(_literal(c, type_, utc=utc) for c, (_, type_) in zip(cells, mock.columns, strict=True)))
    return rows


def _values_of(query: exp.Expression) -> exp.Values:
    """The VALUES of ``VALUES …`` and of ``SELECT * FROM VALUES …`` without anything else."""
    while isinstance(query, exp.Subquery) and query.is_wrapper:
        query = query.this
    if isinstance(query, exp.Select) and query.is_star and len(query.expressions) == 1:
        clauses = {key for key, value in query.args.items() if value and key not in ("expressions", "from_", "kind")}
        source = query.args.get("from_")
        query = source.this if source is not None and not clauses else query
        while isinstance(query, exp.Subquery) and query.is_wrapper:
            query = query.this
    if not isinstance(query, exp.Values) or any(value for key, value in query.args.items() if key != "expressions"):
        raise _Other
    return query


def _literal(cell: exp.Expression, type_: DataType, *, utc: bool) -> Any:
    sign = 1
    if isinstance(cell, exp.Neg):
        sign, cell = -1, cell.this
    match cell:
        case exp.Null():
            return None
        case exp.Boolean() if type_.name == "BOOLEAN":
            return bool(cell.this)
        case exp.Literal(is_string=True) if type_.name == "STRING":
            return str(cell.this)
        case exp.Literal(is_string=False):
            return _number(str(cell.this), sign, type_)
        case exp.Literal() | exp.Cast(this=exp.Literal(is_string=True)) if type_.name in _TIMES and utc:
            text = str(cell.this if isinstance(cell, exp.Literal) else cell.this.this)
            return _time(text, type_)
    raise _Other


def _number(text: str, sign: int, type_: DataType) -> Any:
    if not set(text) <= set("0123456789.") or text.count(".") > 1:
        raise _Other
    match type_.name:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT" if text.isdigit():
            return sign * int(text)
        case "FLOAT" | "DOUBLE":
            return sign * float(text)
        case "DECIMAL" if len(text.partition(".")[2]) <= _scale(type_):
            return sign * Decimal(text)
    raise _Other


def _scale(type_: DataType) -> int:
    scale = type_.args[1]
    assert isinstance(scale, int)
    return scale


def _time(text: str, type_: DataType) -> str:
    try:
        to_arrow(text, type_)
    except (TypeError, ValueError) as error:
        raise _Other from error
    return text


def values_text(rows: Sequence[Row], types: Sequence[DataType]) -> str:
    """A query that gives the rows, as EXPECTED has it. ValueError where a value has no literal."""
    if not rows:
        return f"SELECT {', '.join('NULL' for _ in types)} WHERE FALSE"
    shown = (f"({', '.join(map(_literal_text, row, types))})" for row in rows)
    return f"VALUES {', '.join(shown)}"


def _literal_text(value: Any, type_: DataType) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS {type_.ddl()})"
        case int() | float() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else repr(value)
        case str() if type_.name == "STRING":
            return quote_string(value)
        case datetime() | date():
            return quote_string(spell_row([value], [type_]).strip('"'))
    raise ValueError(f"there is no literal of type {type_}: write what is expected by hand")


def _rows_of_spark(mock: MockedRows, session: SessionUnderTest) -> list[Row]:
    asking = session.fork()
    asking.workspace.settings.reset("execution.runtime-mode")
    names = [quote_name(name) for name, _ in mock.columns]
    casts = [f"CAST({name} AS {type_.ddl()}) AS {name}" for name, (_, type_) in zip(names, mock.columns, strict=True)]
    text = f"SELECT {', '.join(casts)} FROM ({to_sql(mock.query)}) AS mocked ({', '.join(names)})"
    table = asking.dataframe(text).toArrow()
    columns = [
        [from_arrow(value, type_) for value in column.to_pylist()]
        for column, (_, type_) in zip(table.columns, mock.columns, strict=True)
    ]
    return list(zip(*columns, strict=True))
