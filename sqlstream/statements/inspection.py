"""Statements that only look: SHOW and DESCRIBE; and those that are refused."""

from __future__ import annotations

from sqlstream.catalog import Catalog
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_query, refuse_statement
from sqlstream.planner.catalog import Table
from sqlstream.results import Rows
from sqlstream.statements.show import describe_table, describe_view, show
from sqlstream.workspace import Workspace


def inspect_statement(statement: nodes.Statement, workspace: Workspace) -> Rows:
    """What the statement shows. UnsupportedError for statements that are not executed."""
    refuse_statement(statement)
    match statement:
        case nodes.Show():
            return show(statement, workspace.catalog)
        case nodes.Describe():
            return _describe(statement.name, workspace.catalog)
    raise TypeError(type(statement).__name__)


def _describe(name: nodes.Name, catalog: Catalog) -> Rows:
    found = catalog.required(name)
    if isinstance(found, Table):
        return describe_table(found)
    plan = bind_query(found.query, catalog)
    return describe_view(found.columns or plan.names, plan.schema)
