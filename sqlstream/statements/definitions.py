"""CREATE, DROP, SET and RESET: statements that change what a session knows, and nothing else.

A copy of the workspace takes the same statements when a script is only checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

from sqlstream.batch import runs_instead
from sqlstream.catalog import local_name
from sqlstream.declaring import declared_table
from sqlstream.errors import SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_view
from sqlstream.planner.catalog import Function, Table, View
from sqlstream.planner.nodes import Output
from sqlstream.plans import plan_of
from sqlstream.results import Columns
from sqlstream.statements.functions import create_function
from sqlstream.types import DataType
from sqlstream.workspace import Workspace


@singledispatch
def define(statement: nodes.Statement, workspace: Workspace, text: str) -> Table | View | Function | None:
    """Carries the statement out; ``text`` is its script. Returns what was created or dropped, if anything was."""
    raise TypeError(f"{type(statement).__name__} defines nothing")


@define.register
def _(statement: nodes.CreateTable, workspace: Workspace, text: str) -> Table | None:
    assert statement.query is None, "a table with a query is created by its job"
    table = declared_table(_local(statement), workspace.catalog)
    created = workspace.catalog.create(statement.name, table, if_not_exists=statement.if_not_exists)
    return table if created else None


def _local(statement: nodes.CreateTable) -> nodes.CreateTable:
    """The statement with the name that the table has in the catalog."""
    return replace(statement, name=nodes.Name((local_name(statement.name),), span=statement.name.span))


@define.register
def _(statement: nodes.CreateView, workspace: Workspace, text: str) -> View | None:
    name = nodes.Name((local_name(statement.name),), span=statement.name.span)
    view = _view(replace(statement, name=name), workspace, text)
    catalog = workspace.catalog
    created = catalog.create(statement.name, view, if_not_exists=statement.if_not_exists, replace=statement.replace)
    return view if created else None


def _view(statement: nodes.CreateView, workspace: Workspace, text: str) -> View:
    """The view. One over finished data that no stream takes is looked at when it is read."""
    try:
        return bind_view(statement, workspace.catalog, text)
    except SqlStreamError as error:
        if not runs_instead(nodes.Query(statement.query, span=statement.span), workspace, error):
            raise
    return View(str(statement.name), statement.query, statement.columns, text)


@define.register
def _(statement: nodes.CreateFunction, workspace: Workspace, text: str) -> Function | None:
    return create_function(statement, workspace)


@define.register
def _(statement: nodes.Drop, workspace: Workspace, text: str) -> Table | View | Function | None:
    return workspace.catalog.drop(statement.kind, statement.name, if_exists=statement.if_exists)


@define.register
def _(statement: nodes.Set, workspace: Workspace, text: str) -> None:
    assert statement.key is not None and statement.value is not None, "a bare SET defines nothing"
    workspace.settings.set(statement.key, statement.value, statement.span)


@define.register
def _(statement: nodes.Reset, workspace: Workspace, text: str) -> None:
    workspace.settings.reset(statement.key, statement.span)


DEFINITIONS = (nodes.CreateTable, nodes.CreateView, nodes.CreateFunction, nodes.Drop, nodes.Set, nodes.Reset)


# --- CREATE TABLE … AS ----------------------------------------------------------------------------------------


def table_of_query(statement: nodes.CreateTable, workspace: Workspace) -> Table:
    """The table that CREATE TABLE … AS declares: its columns are those of the query."""
    assert statement.query is not None
    if statement.columns:
        hint = "Leave the columns out: they are those of the query."
        raise UnsupportedError("SS341", "CREATE TABLE … AS with columns is not executed", statement.span, hint=hint)
    plan = plan_of(nodes.Query(statement.query, span=statement.span), workspace)
    assert isinstance(plan, Output)
    named_fields = zip(plan.names, plan.schema, strict=True)
    return _table(statement, [(name, field.type, field.nullable) for name, field in named_fields], workspace)


def table_of_columns(statement: nodes.CreateTable, columns: Columns, workspace: Workspace) -> Table:
    """The same for a query over finished data, whose columns Spark has told."""
    return _table(statement, [(name, type_, True) for name, type_ in columns], workspace)


def _table(
    statement: nodes.CreateTable, typed_names: Iterable[tuple[str, DataType, bool]], workspace: Workspace
) -> Table:
    columns = tuple(
        nodes.PhysicalColumn(name, type_.to_sqlglot(), nullable, span=statement.name.span)
        for name, type_, nullable in typed_names
    )
    return declared_table(_local(replace(statement, columns=columns, query=None)), workspace.catalog)
