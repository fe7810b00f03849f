"""Tables that get rows beside the result: late ones, and those whose lookup failed. Columns go by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.inserts import storable
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.catalog import Column, Table, View
from sqlstream.planner.fields import Field
from sqlstream.planner.naming import field_of
from sqlstream.planner.suggestions import did_you_mean


@dataclass(frozen=True)
class SideRowFields:
    """``late`` rows with the ``fields`` by lower-case name, which ``origin`` explains."""

    adjective: str
    origin: str
    fields: Mapping[str, Field]


def target(table: exp.Table, context: Context) -> Table:
    """The table that TO names. BindError SS202."""
    name = ".".join(p.name for p in table.parts)
    match context.catalog.relation(name):
        case Table() as found:
            return found
        case View():
            raise bind_error("SS202", f'"{name}" is a view, which takes no rows', table)
    hint = did_you_mean(name, context.catalog.relation_names(), "tables") or "Create it with CREATE TABLE."
    raise bind_error("SS202", f'table "{name}" does not exist', table, hint)


def values_by_name(table: Table, rows: SideRowFields, span: Span, context: Context) -> tuple[exp.Expression, ...]:
    """The values of the physical columns of ``table``, in order and cast. SS206, SS216."""
    return tuple(_value(c, table, rows, span, context) for c in table.physical_columns)


def _value(column: Column, table: Table, rows: SideRowFields, span: Span, context: Context) -> exp.Expression:
    field = rows.fields.get(column.name.casefold())
    if field is None:
        message = f'{rows.adjective} rows have no column "{column.name}", which table "{table.name}" has'
        context.wrong("SS216", message, span, f"They have {', '.join(rows.fields)}: {rows.origin}.")
        return exp.Null()
    if not storable(field.type, column.type):
        message = (
            f'column "{column.name}" of type {column.type} cannot store {rows.adjective} values of type {field.type}'
        )
        context.wrong("SS206", message, span, f'Declare it as {field.type} in table "{table.name}".')
    value: exp.Expression = field_of(field.name)
    return value if field.type == column.type else cast(value, column.type)
