"""Statements that only look: SHOW and DESCRIBE; and those that are refused."""

from __future__ import annotations

from sqlstream.batch import runs_instead
from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_query, refuse_statement
from sqlstream.planner.catalog import Table, View
from sqlstream.results import Rows
from sqlstream.statements.functions import describe_function_named
from sqlstream.statements.materialized_listings import LISTED, StatusOf, freshness_of, show_materialized
from sqlstream.statements.show import (
    describe_catalog,
    describe_database,
    describe_table,
    describe_view,
    described_more,
    show,
)
from sqlstream.workspace import Workspace

UNKNOWN_COLUMNS = "SS601"


def inspect_statement(statement: nodes.Statement, workspace: Workspace, status_of: StatusOf | None = None) -> Rows:
    """What the statement shows. UnsupportedError for statements that are not executed. ``status_of``: how materialized
    views are doing; without it nobody is asked."""
    refuse_statement(statement)
    match statement:
        case nodes.Show():
            if statement.what in LISTED:
                return show_materialized(statement, workspace.catalog, status_of)
            return show(statement, workspace.catalog, lambda name: _described(name, workspace))
        case nodes.Describe(kind="FUNCTION"):
            return describe_function_named(statement.name, workspace.catalog, extended=statement.extended)
        case nodes.Describe(kind="CATALOG"):
            return describe_catalog(workspace.catalog.mount(str(statement.name), statement.name), statement.extended)
        case nodes.Describe(kind="DATABASE"):
            catalog, _ = workspace.catalog.namespace(statement.name)
            return describe_database(workspace.catalog.database(statement.name), catalog, statement.extended)
        case nodes.Describe():
            more = () if status_of is None else freshness_of(statement, workspace.catalog, status_of)
            return described_more(_described(statement.name, workspace), statement, workspace.catalog, more)
        case nodes.DescribeQuery():
            return _describe_query(statement, workspace)
    raise TypeError(type(statement).__name__)


def _describe_query(statement: nodes.DescribeQuery, workspace: Workspace) -> Rows:
    """The columns of a query. BindError SS601 where only Spark knows them."""
    try:
        plan = bind_query(statement.query, workspace.catalog)
    except SqlStreamError as error:
        if not runs_instead(nodes.Query(statement.query, span=statement.span), workspace, error):
            raise
        message = "the columns of this query are known to Spark alone, because it runs as a batch"
        hint = "Run it with LIMIT 1, which shows them."
        raise BindError(UNKNOWN_COLUMNS, message, statement.span, hint=hint) from None
    return describe_view(plan.names, plan.schema)


def _described(name: nodes.Name, workspace: Workspace) -> Rows:
    catalog = workspace.catalog
    relation = catalog.required(name)
    if isinstance(relation, Table):
        return describe_table(relation)
    try:
        plan = bind_query(relation.query, catalog.within(relation.namespace))
    except SqlStreamError as error:
        raise _unknown_columns(relation, name, workspace, error) from None
    return describe_view(relation.columns or plan.names, plan.schema)


def _unknown_columns(view: View, name: nodes.Name, workspace: Workspace, error: SqlStreamError) -> SqlStreamError:
    """SS601 for a view over finished data that no stream takes; what is wrong with any other."""
    statement = nodes.Query(view.query, span=name.span)
    if not runs_instead(statement, workspace, error):
        return error
    message = f'the columns of view "{view.name}" are known to Spark alone, because its query runs as a batch'
    return BindError(UNKNOWN_COLUMNS, message, name.span, hint=f"SELECT * FROM {view.name} LIMIT 1 shows them.")
