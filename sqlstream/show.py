"""SHOW and DESCRIBE: what there is, as rows of text."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream import connectors
from sqlstream.catalog import DOES_NOT_EXIST, Catalog
from sqlstream.ddl import create_table_text
from sqlstream.errors import BindError
from sqlstream.grammar import nodes, to_sql
from sqlstream.planner.catalog import Column, Function, Table, TimeDomain
from sqlstream.planner.durations import as_interval
from sqlstream.planner.nodes import Schema
from sqlstream.results import Rows


def show(statement: nodes.Show, catalog: Catalog) -> Rows:
    """TABLES (with views, as in Flink), VIEWS, FUNCTIONS, CONNECTORS, CREATE TABLE."""
    match statement.what:
        case "TABLES":
            return Rows.of_text(("table name",), [(name,) for name in catalog.relation_names()])
        case "VIEWS":
            return Rows.of_text(("view name",), [(view.name,) for view in catalog.views()])
        case "FUNCTIONS":
            return _functions(catalog.functions())
        case "CONNECTORS":
            return _connectors()
    assert statement.what == "CREATE TABLE" and statement.name is not None, statement.what
    return Rows.of_text(("result",), [(create_table_text(_table(statement.name, catalog)),)])


def _table(name: nodes.Name, catalog: Catalog) -> Table:
    found = catalog.required(name)
    if not isinstance(found, Table):
        raise BindError(DOES_NOT_EXIST, f'"{found.name}" is a view, not a table', name.span)
    return found


def _functions(functions: Iterable[Function]) -> Rows:
    rows = [(f.name, f.kind.value, _signature(f), f.returns.ddl(), f.target) for f in functions]
    return Rows.of_text(("function name", "kind", "arguments", "returns", "target"), rows)


def _signature(function: Function) -> str:
    return ", ".join(name if type_.is_unknown else f"{name} {type_}" for name, type_ in function.parameters)


def _connectors() -> Rows:
    found = [connectors.connector(name) for name in connectors.NAMES]
    rows = [(c.name, *(_yes(can) for can in (c.is_source, c.is_sink, c.is_lookup)), c.doc) for c in found]
    return Rows.of_text(("connector name", "source", "sink", "lookup", "description"), rows)


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


# --- describe -------------------------------------------------------------------------------------------------

_DESCRIPTION = ("name", "type", "null", "key", "extras", "watermark")


def describe_table(table: Table) -> Rows:
    """The columns as Flink describes them."""
    return Rows.of_text(_DESCRIPTION, [_described(c, table) for c in table.columns])


def _described(column: Column, table: Table) -> tuple[str | None, ...]:
    key = f"PRI({', '.join(table.primary_key)})" if column.name in table.primary_key else None
    nullable = column.nullable and key is None
    return (
        column.name,
        column.type.ddl() + _TIME_MARKS[column.time],
        str(nullable).upper(),
        key,
        _extras(column),
        _watermark(column, table),
    )


_TIME_MARKS = {
    None: "",
    TimeDomain.EVENT: " *ROWTIME*",
    TimeDomain.PROCESSING: " *PROCTIME*",
    TimeDomain.INGESTION: " *INGESTION TIME*",
}


def _extras(column: Column) -> str | None:
    if column.metadata_key is not None:
        return f"METADATA FROM '{column.metadata_key}'"
    return f"AS {to_sql(column.expression)}" if column.expression is not None else None


def _watermark(column: Column, table: Table) -> str | None:
    watermark = table.watermark
    if watermark is None or watermark.column != column.name:
        return None
    return f"{column.name} - {as_interval(watermark.delay_ms)}" if watermark.delay_ms else column.name


def describe_view(names: Iterable[str], schema: Schema) -> Rows:
    """The columns of a view as its query gives them."""
    rows = [
        (name, field.type.ddl() + _TIME_MARKS[field.time], str(field.nullable).upper(), None, None, None)
        for name, field in zip(names, schema, strict=True)
    ]
    return Rows.of_text(_DESCRIPTION, rows)
