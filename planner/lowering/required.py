"""Columns that are NOT NULL, and fields within them: where a row lacks a value, and what that is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.bad_rows import NULL_IN_COLUMN, required_columns
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.catalog import RowKind, Table, TimeDomain
from sqlstream.planner.changes import is_upsert
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.origin import of_file
from sqlstream.types import DataType
from sqlstream.udfs.kernel import ROW_KIND

_SHOWN = 100
_HINT = "Correct the row, or let the option on-error of its table skip it."

Lack = tuple[Column, str]
"""A condition that is true of rows that lack a value, and the error with its code."""


def lacks(table: Table) -> list[Lack]:
    """For each column that must not be NULL, and each field within a column: the condition that it lacks a value,
    and the error."""
    required = {c.name for c in required_columns(table)}
    return [lack for c in table.physical_columns for lack in _of_column(table, c, c.name in required)]


def has_required(table: Table, name: str) -> bool:
    """True where the column of this name, or a field within it, is NOT NULL."""
    return any(c.name == name and (not c.nullable or any(inner_lacks(c))) for c in table.physical_columns)


def _of_column(table: Table, table_column: TableColumn, required: bool) -> Iterator[Lack]:
    if is_upsert(table) and table_column.name not in table.primary_key and table_column.time is not TimeDomain.EVENT:
        whole = F.expr(f"{ROW_KIND} IS DISTINCT FROM '{RowKind.DELETE.value}'")  # a deleted row may be its key alone
        yield from ((whole & lack, text) for lack, text in _of_any(table, table_column, required))
    else:
        yield from _of_any(table, table_column, required)


def _of_any(table: Table, table_column: TableColumn, required: bool) -> Iterator[Lack]:
    value = column(table_column.name)
    if required and table_column.time is TimeDomain.EVENT:
        yield value.isNull(), f'SS401: event time "{table_column.name}" of table "{table.name}" is NULL'
    elif required:
        yield value.isNull(), null_text(table, table_column.name)
    for condition, path in inner_lacks(table_column):
        yield condition, null_text(table, path)


def null_text(table: Table, path: str) -> str:
    return f'{NULL_IN_COLUMN}: column "{path}" of table "{table.name}" is NOT NULL and got NULL'


def inner_lacks(table_column: TableColumn) -> list[Lack]:
    """The NOT NULL fields within the column: the condition that one is NULL, and its path, as in ``place.city`` or
    ``visits[].at``."""
    return _inside(table_column.type, column(table_column.name), table_column.name)


def _inside(kind: DataType, value: Column, path: str) -> list[Lack]:
    lacks: list[Lack] = []
    match kind.name:
        case "STRUCT":
            for name, member in kind.fields():
                field, inner = value.getField(name), f"{path}.{name}"
                lacks += [] if member.nullable else [(value.isNotNull() & field.isNull(), inner)]
                lacks += _inside(member, field, inner)
        case "ARRAY":
            lacks += _in_list(kind.args[0], value, f"{path}[]")
        case "MAP":
            lacks += _in_list(kind.args[1], F.map_values(value), f"{path}{{}}")
    return lacks


def _in_list(member: object, elements: Column, path: str) -> Iterator[Lack]:
    assert isinstance(member, DataType)

    def nth(number: int) -> Callable[[Column], Column]:
        return lambda element: _inside(member, element, path)[number][0]

    if not member.nullable:
        yield F.coalesce(F.exists(elements, lambda element: element.isNull()), F.lit(False)), path
    for number, (_, inner) in enumerate(_inside(member, F.lit(None).cast(member.ddl()), path)):
        yield F.coalesce(F.exists(elements, nth(number)), F.lit(False)), inner


def with_required(rows: DataFrame, table: Table, names: tuple[str, ...]) -> DataFrame:
    """The rows with the columns ``names`` of the table; the job fails at one that lacks a value, with its file and
    those columns.

    Spark does not move the check, because it names the file that is being read.
    """
    checked = [c for c in table.physical_columns if c.name in names and has_required(table, c.name)]
    lacks = [lack for c in checked for lack in _of_column(table, c, not c.nullable)]
    if not lacks:
        return rows
    record = F.left(F.to_json(F.struct(*map(column, names)), {"ignoreNullFields": "false"}), F.lit(_SHOWN))
    # One call makes the error of all columns: Java would interpret, not compile, the code of a call for each.
    text = F.coalesce(*(F.when(condition, F.lit(text)) for condition, text in lacks))
    where = F.regexp_replace(of_file(), "^(?=.)", " in a row")
    error = F.concat(text, where, F.lit(": "), record, F.lit(f"\nHINT: {_HINT}"))
    lacking = reduce(or_, (condition for condition, _ in lacks))
    return rows.where(F.when(lacking, F.raise_error(error)).otherwise(F.lit(True)))
