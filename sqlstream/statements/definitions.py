"""CREATE, DROP, SET and RESET: statements that change what a session knows, and nothing else.

A copy of the workspace takes the same statements when a script is only checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

from sqlstream.batch import runs_instead
from sqlstream.catalog import DOES_NOT_EXIST, Catalog, full_name
from sqlstream.catalogs.declaring import declared_table, expanded, qualified
from sqlstream.catalogs.functions import declared_function
from sqlstream.catalogs.store import Stored
from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_view
from sqlstream.planner.catalog import Function, Table, View
from sqlstream.planner.nodes import Output
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.plans import plan_of
from sqlstream.results import Columns
from sqlstream.statements.likes import liked
from sqlstream.types import DataType
from sqlstream.workspace import Workspace

WRONG_COLUMNS = "SS216"
NO_FUNCTION = "SS203"

Defined = Table | View | Function | None


@singledispatch
def define(statement: nodes.Statement, workspace: Workspace, text: str) -> Defined:
    """Carries the statement out; ``text`` is its script. Returns what was created or dropped, if anything was."""
    raise TypeError(f"{type(statement).__name__} defines nothing")


# --- tables ---------------------------------------------------------------------------------------------------


@define.register
def _(statement: nodes.CreateTable, workspace: Workspace, text: str) -> Defined:
    assert statement.query is None, "a table with a query is created by its job"
    table, stored = declared(statement, workspace.catalog)
    return table if create_table(statement, table, stored, workspace.catalog) else None


def declared(statement: nodes.CreateTable, catalog: Catalog) -> tuple[Table, Stored]:
    """The table that the statement declares, and its definition, in which LIKE is written out."""
    path = catalog.path(statement.name)
    whole = liked(statement, catalog) if statement.like is not None else statement
    table = declared_table(whole, catalog, full_name(path), catalog.variables)
    return table, Stored(replace(whole, name=bare(path[2], statement.name)))


def create_table(statement: nodes.CreateTable, table: Table, stored: Stored, catalog: Catalog) -> bool:
    """Adds the declared table; False where there is one and the statement has IF NOT EXISTS."""
    if statement.must_exist:
        catalog.required(statement.name)
    return catalog.create(
        statement.name,
        table,
        if_not_exists=statement.if_not_exists,
        replace=statement.replace,
        temporary=statement.temporary,
        stored=stored,
    )


def bare(name: str, written: nodes.Name) -> nodes.Name:
    return nodes.Name((name,), span=written.span)


# --- views and functions --------------------------------------------------------------------------------------


@define.register
def _(statement: nodes.CreateView, workspace: Workspace, text: str) -> Defined:
    catalog = workspace.catalog
    view, stored = declared_view(statement, workspace, text)
    created = catalog.create(
        statement.name,
        view,
        if_not_exists=statement.if_not_exists,
        replace=statement.replace,
        temporary=statement.temporary,
        stored=stored,
    )
    return view if created else None


def declared_view(statement: nodes.CreateView, workspace: Workspace, text: str) -> tuple[View, Stored]:
    """The view, bound once so that mistakes show now, and its definition."""
    catalog = workspace.catalog
    path = catalog.path(statement.name)
    view = _view(replace(statement, name=bare(full_name(path), statement.name)), workspace, text)
    namespace = path[:2]
    query = statement.query if namespace == catalog.current else qualified(statement.query, catalog)
    kept = replace(statement, name=bare(path[2], statement.name), query=query)
    return replace(view, namespace=catalog.current), Stored(kept, text)


def _view(statement: nodes.CreateView, workspace: Workspace, text: str) -> View:
    """The view. One over finished data that no stream takes is looked at when it is read."""
    name = statement.name.parts[-1]
    try:
        return replace(bind_view(statement, workspace.catalog, text), name=name)
    except SqlStreamError as error:
        if not runs_instead(nodes.Query(statement.query, span=statement.span), workspace, error):
            raise
    return View(name, statement.query, statement.columns, text)


@define.register
def _(statement: nodes.CreateFunction, workspace: Workspace, text: str) -> Defined:
    catalog = workspace.catalog
    if statement.system:
        function, implementation = declared_function(statement, statement.name.parts[-1], catalog)
        catalog.register(function, implementation)
        return function
    path = catalog.path(statement.name)
    function, implementation = declared_function(statement, full_name(path), catalog)
    created = catalog.create_function(
        statement.name,
        function,
        implementation=implementation,
        if_not_exists=statement.if_not_exists,
        replace=statement.replace,
        temporary=statement.temporary,
        stored=Stored(replace(statement, name=bare(path[2], statement.name)), text),
    )
    return function if created else None


@define.register
def _(statement: nodes.AlterFunction, workspace: Workspace, text: str) -> Defined:
    """The function with another implementation; SS203 where there is none."""
    name = str(statement.name)
    if workspace.catalog.function(name) is None:
        if statement.if_exists:
            return None
        hint = did_you_mean(name, workspace.catalog.function_names(), "functions of yours")
        hint = hint or "CREATE FUNCTION makes one."
        raise BindError(NO_FUNCTION, f'function "{name}" does not exist', statement.name.span, hint=hint)
    anew = nodes.CreateFunction(
        statement.name,
        statement.target,
        statement.language,
        temporary=statement.temporary,
        replace=True,
        jars=statement.jars,
        system=statement.system,
        span=statement.span,
    )
    return define(anew, workspace, text)


_NEVER_THERE = {
    "MODEL": "There are no models; a Python function may ask one.",
}


@define.register
def _(statement: nodes.Drop, workspace: Workspace, text: str) -> Defined:
    catalog, exists = workspace.catalog, statement.if_exists
    if statement.kind in _NEVER_THERE:
        if not exists:
            message = f'{statement.kind.lower()} "{statement.name}" does not exist'
            raise BindError(DOES_NOT_EXIST, message, statement.name.span, hint=_NEVER_THERE[statement.kind])
        return None
    match statement.kind:
        case "CATALOG":
            catalog.drop_catalog(statement.name, if_exists=exists)
            return None
        case "DATABASE":
            catalog.drop_database(statement.name, if_exists=exists, cascade=statement.cascade)
            return None
    return catalog.drop(statement.kind, statement.name, if_exists=exists, temporary=statement.temporary)


# --- settings -------------------------------------------------------------------------------------------------


@define.register
def _(statement: nodes.Set, workspace: Workspace, text: str) -> Defined:
    assert statement.key is not None and statement.value is not None, "a bare SET defines nothing"
    value = expanded(statement.value, workspace.catalog.variables)
    workspace.settings.set(statement.key, value, statement.span)
    return None


@define.register
def _(statement: nodes.Reset, workspace: Workspace, text: str) -> Defined:
    workspace.settings.reset(statement.key, statement.span)
    return None


# --- CREATE TABLE … AS ----------------------------------------------------------------------------------------


def table_of_query(statement: nodes.CreateTable, workspace: Workspace) -> CreatedAs:
    """The table that CREATE TABLE … AS declares: its columns are those of the query."""
    assert statement.query is not None
    plan = plan_of(nodes.Query(statement.query, span=statement.span), workspace)
    assert isinstance(plan, Output)
    named_fields = zip(plan.names, plan.schema, strict=True)
    return _table(statement, [(name, field.type, field.nullable) for name, field in named_fields], workspace)


def table_of_columns(statement: nodes.CreateTable, columns: Columns, workspace: Workspace) -> CreatedAs:
    """The same for a query over finished data, whose columns Spark has told."""
    return _table(statement, [(name, type_, True) for name, type_ in columns], workspace)


CreatedAs = tuple[Table, Stored, tuple[str, ...]]
"""A table, its definition, and the columns of it that its query fills, in the order of the query."""


def _table(
    statement: nodes.CreateTable, typed_names: Iterable[tuple[str, DataType, bool]], workspace: Workspace
) -> CreatedAs:
    selected = [
        nodes.PhysicalColumn(name, type_.to_sqlglot(), nullable, span=statement.name.span)
        for name, type_, nullable in typed_names
    ]
    columns = tuple(_columns(statement, selected))
    table, stored = declared(replace(statement, columns=columns, query=None), workspace.catalog)
    return table, stored, tuple(column.name for column in selected) if statement.columns else ()


def _columns(statement: nodes.CreateTable, selected: list[nodes.PhysicalColumn]) -> Iterable[nodes.Column]:
    """Declared columns come first and say what they say; names alone put those of the query into another order."""
    by_name = {column.name.casefold(): column for column in selected}
    if any(isinstance(column, nodes.NamedColumn) for column in statement.columns):
        _require_all(statement, by_name)
        return [by_name[column.name.casefold()] for column in statement.columns]
    given = {column.name.casefold() for column in statement.columns}
    return [*statement.columns, *(column for column in selected if column.name.casefold() not in given)]


def _require_all(statement: nodes.CreateTable, by_name: dict[str, nodes.PhysicalColumn]) -> None:
    for column in statement.columns:
        if not isinstance(column, nodes.NamedColumn):
            hint = "Give all columns types, or none."
            raise BindError(WRONG_COLUMNS, f'column "{column.name}" stands among names alone', column.span, hint=hint)
        if column.name.casefold() not in by_name:
            message = f'the query of "{statement.name}" has no column "{column.name}"'
            raise BindError(WRONG_COLUMNS, message, column.span, hint=f"It has {', '.join(by_name)}.")
    missing = by_name.keys() - {column.name.casefold() for column in statement.columns}
    if missing or len(statement.columns) != len(by_name):
        message = f'the columns of "{statement.name}" are {len(statement.columns)}, and the query gives {len(by_name)}'
        raise BindError(WRONG_COLUMNS, message, statement.name.span, hint="Name each column of the query once.")
