"""Tables as CREATE TABLE declares them, also from the columns of a query, and as the catalog keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.batch import Batch, chosen
from sqlstream.batch.running import Batches
from sqlstream.catalog import Catalog, full_name
from sqlstream.catalogs.declaring import declared_table, expanded
from sqlstream.catalogs.registered_columns import with_registered_columns
from sqlstream.catalogs.store import Bound, Stored, options_of_new
from sqlstream.connectors import SessionTable, connector
from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import Output
from sqlstream.plans import plan_of
from sqlstream.results import Rows
from sqlstream.secrets import shown_value
from sqlstream.statements.liked_tables import liked
from sqlstream.statements.queries import start_insert
from sqlstream.statements.statement import OK, Execution
from sqlstream.types import DataType
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job

WRONG_COLUMNS = "SS216"


def tables_of(name: nodes.Name, workspace: Workspace) -> list[Table]:
    """A list with the table of that name. Empty if the name is not that of a table, or its definition cannot be
    read.
    """
    try:
        relation = workspace.catalog.required(name)
    except SqlStreamError:
        return []
    return [relation] if isinstance(relation, Table) else []


def remove_rows(table: Table, execution: Execution) -> None:
    """Removes the rows that the session stores for a table that is dropped or replaced."""
    kind = connector(table.connector)
    if isinstance(kind, SessionTable):
        kind.drop(execution.runner.folders.root, table)


def declared(statement: nodes.CreateTable, catalog: Catalog) -> tuple[Table, Stored]:
    """Returns a pair: the table that the statement declares, and its definition for the catalog, in which LIKE is
    replaced by what it copies.
    """
    path = catalog.path(statement.name)
    whole = liked(statement, catalog) if statement.like is not None else statement
    if not statement.temporary:
        whole = _with_place(whole, options_of_new(catalog.mount(path[0], statement.name).store, *path[1:]))
    options = {option.key: expanded(option.value, catalog.variables or {}) for option in whole.options}
    whole = with_registered_columns(whole, options)
    table = declared_table(whole, catalog, full_name(path), catalog.variables)
    return table, Stored(replace(whole, name=bare(path[2], statement.name)))


def _with_place(statement: nodes.CreateTable, place: Mapping[str, str]) -> nodes.CreateTable:
    """The statement with the options that its catalog knows. BindError SS246 where it says others."""
    given = {option.key: option for option in statement.options}
    wrong = next((option for key, option in given.items() if option.value != place.get(key, option.value)), None)
    if wrong is not None:
        message = f"'{wrong.key}' of a table in this catalog is '{shown_value(wrong.key, place[wrong.key])}'"
        raise BindError("SS246", message, wrong.span, hint="Leave the option out, or create a TEMPORARY TABLE.")
    new = (nodes.Option(key, value, span=statement.name.span) for key, value in place.items() if key not in given)
    return replace(statement, options=(*statement.options, *new))


def create_table(statement: nodes.CreateTable, table: Table, stored: Stored, catalog: Catalog) -> bool:
    """Adds a declared table to the catalog. Returns False if the table exists already and the statement has IF NOT
    EXISTS.
    """
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
    """Returns ``name`` as a name without catalog and database. Errors about it point to where ``written`` is in the
    text.
    """
    return nodes.Name((name,), span=written.span)


# --- CREATE TABLE … AS ----------------------------------------------------------------------------------------


CreatedAs = tuple[Table, Stored, tuple[str, ...]]
"""A table, its definition, and the columns of it that its query fills, in the order of the query."""


def create_as(statement: nodes.CreateTable, query: exp.Expression, execution: Execution) -> Rows | Job:
    """Create the table and start the job that writes its rows; where the job does not start, there is no table, or
    the one that it would have replaced."""
    workspace = execution.workspace
    catalog = workspace.catalog
    path = catalog.path(statement.name)
    table, stored, columns = created_as(statement, query, workspace, execution.batches)
    replaced = tables_of(statement.name, workspace) if statement.replace else []
    entry = catalog.entry("relation", path)
    if not create_table(statement, table, stored, catalog):
        return OK
    for before in replaced:
        remove_rows(before, execution)
    try:
        return start_insert(nodes.Insert(statement.name, query, columns, span=statement.span), execution)
    except SqlStreamError:
        catalog.drop("TABLE", statement.name)
        if replaced and entry is not None:
            before_text = entry.stored if isinstance(entry, Bound) else entry
            catalog.create(statement.name, replaced[0], temporary=statement.temporary, stored=before_text)
        raise


def created_as(
    statement: nodes.CreateTable, query: exp.Expression, workspace: Workspace, batches: Batches
) -> CreatedAs:
    """Declares the table of CREATE TABLE … AS. Returns a triple: the table, its definition as the catalog stores it,
    and the names of the columns that the query fills.

    If the query only reads finished (bounded) data, Spark is started to find its columns.
    """
    plan = chosen(nodes.Query(query, span=statement.span), workspace)
    if not isinstance(plan, Batch):
        return table_of_query(statement, workspace)
    with batches.analyzed(plan, workspace) as analyzed:
        return _table(statement, [(name, type_, True) for name, type_ in analyzed.columns], workspace)


def table_of_query(statement: nodes.CreateTable, workspace: Workspace) -> CreatedAs:
    """Declares the table of CREATE TABLE … AS with a query that runs as a stream, without starting Spark.

    Returns a triple: the table, its definition as the catalog stores it, and the names of the columns that the query
    fills.
    """
    assert statement.query is not None
    plan = plan_of(nodes.Query(statement.query, span=statement.span), workspace)
    assert isinstance(plan, Output)
    named_fields = zip(plan.names, plan.schema, strict=True)
    return _table(statement, [(name, field.type, field.nullable) for name, field in named_fields], workspace)


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
