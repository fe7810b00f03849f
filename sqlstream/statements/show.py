"""SHOW and DESCRIBE: what there is, as rows of text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlstream import connectors
from sqlstream.catalog import DOES_NOT_EXIST, Catalog
from sqlstream.errors import BindError
from sqlstream.grammar import nodes, to_sql
from sqlstream.planner.binder.calls import OWN_FUNCTIONS
from sqlstream.planner.catalog import Column, Function, Table, TimeDomain
from sqlstream.planner.durations import as_interval
from sqlstream.planner.functions.kinds import callable_functions
from sqlstream.planner.nodes import Schema
from sqlstream.results import Rows
from sqlstream.statements.ddl import create_table_text

_Line = tuple[str, ...]


def show(statement: nodes.Show, catalog: Catalog) -> Rows:
    """TABLES (with views, as in Flink), VIEWS, FUNCTIONS, CONNECTORS, CREATE TABLE."""
    match statement.what:
        case "TABLES":
            return _named(("table name",), [(name,) for name in catalog.relation_names()], statement.names)
        case "VIEWS":
            return _named(("view name",), [(view.name,) for view in catalog.views()], statement.names)
        case "USER FUNCTIONS":
            return _named(_FUNCTION, _users(catalog.functions()), statement.names)
        case "FUNCTIONS":
            return _named(_FUNCTION, [*_users(catalog.functions()), *_built_in()], statement.names)
        case "CONNECTORS":
            return _named(_CONNECTOR, _connectors(), statement.names)
    assert statement.what == "CREATE TABLE" and statement.name is not None, statement.what
    return Rows.of_text(("result",), [(create_table_text(_table(statement.name, catalog)),)])


def _named(columns: tuple[str, ...], rows: Iterable[_Line], names: nodes.NameFilter | None) -> Rows:
    """The rows whose first value the filter lets pass."""
    return Rows.of_text(columns, [row for row in rows if names is None or _passes(row[0], names)])


def _passes(name: str, names: nodes.NameFilter) -> bool:
    """Whether the pattern of LIKE fits the whole name; a backslash before ``%`` and ``_`` makes them plain."""
    wild = {"%": ".*", "_": "."}
    pieces = re.findall(r"\\.|.", names.pattern, re.DOTALL)
    pattern = "".join(wild.get(piece) or re.escape(piece[-1]) for piece in pieces)
    fits = re.fullmatch(pattern, name, re.DOTALL | (re.IGNORECASE if names.any_case else 0)) is not None
    return fits is not names.negated


def _table(name: nodes.Name, catalog: Catalog) -> Table:
    relation = catalog.required(name)
    if not isinstance(relation, Table):
        raise BindError(DOES_NOT_EXIST, f'"{relation.name}" is a view, not a table', name.span)
    return relation


_FUNCTION = ("function name", "kind", "origin", "arguments", "returns", "target")


def _users(functions: Iterable[Function]) -> list[_Line]:
    return [(f.name, f.kind.value, "user", _signature(f), f.returns.ddl(), f.target) for f in functions]


def _built_in() -> list[_Line]:
    """Ours and Spark's, as far as a query may call them."""
    kinds = {**OWN_FUNCTIONS, **{name: kind.value for name, kind in callable_functions().items()}}
    return [(name, kinds[name], "built-in", "", "", "") for name in sorted(kinds)]


def _signature(function: Function) -> str:
    return ", ".join(name if type_.is_unknown else f"{name} {type_}" for name, type_ in function.parameters)


_CONNECTOR = ("connector name", "source", "sink", "lookup", "description")


def _connectors() -> list[_Line]:
    all_connectors = [connectors.connector(name) for name in connectors.NAMES]
    return [(c.name, *(_yes(can) for can in (c.is_source, c.is_sink, c.is_lookup)), c.doc) for c in all_connectors]


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
        (column.declared or column.type.ddl()) + _TIME_MARKS[column.time],
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
