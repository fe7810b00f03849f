"""Statements that only look: EXPLAIN, SHOW, DESCRIBE; and those about jobs, which are refused."""

from __future__ import annotations

from sqlstream.catalog import Catalog
from sqlstream.definitions import Workspace
from sqlstream.errors import BindError, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.planner.binder import bind_query, refuse_statement
from sqlstream.planner.catalog import Table
from sqlstream.plans import plan_of
from sqlstream.results import Rows
from sqlstream.show import describe_table, describe_view, show

NO_PLAN = "SS283"


def inspect_statement(statement: nodes.Statement, workspace: Workspace) -> Rows:
    """What the statement shows. UnsupportedError for statements that are not executed."""
    refuse_statement(statement)
    match statement:
        case nodes.Show():
            return show(statement, workspace.catalog)
        case nodes.Describe():
            return _describe(statement.name, workspace.catalog)
        case nodes.Explain():
            return Rows.of_text(("plan",), [(line,) for line in explained(statement, workspace).splitlines()])
        case nodes.StatementSet():
            raise _statement_set(statement)
    raise TypeError(type(statement).__name__)


def _describe(name: nodes.Name, catalog: Catalog) -> Rows:
    found = catalog.required(name)
    if isinstance(found, Table):
        return describe_table(found)
    plan = bind_query(found.query, catalog)
    return describe_view(found.columns or plan.names, plan.schema)


def explained(statement: nodes.Explain, workspace: Workspace) -> str:
    """The plan of the statement as text."""
    from sqlstream.planner.explain import explain

    inner = statement.statement
    if isinstance(inner, nodes.StatementSet):
        raise _statement_set(inner)
    if isinstance(inner, nodes.CreateTable):
        if inner.query is None:
            raise BindError(NO_PLAN, "CREATE TABLE without a query has no plan", inner.span)
        inner = nodes.Query(inner.query, span=inner.span)
    return explain(plan_of(inner, workspace.catalog), statement.format)


def _statement_set(statement: nodes.StatementSet) -> UnsupportedError:
    hint = "Write the INSERT statements one by one; each is a job."
    return UnsupportedError("SS343", "statement sets are not executed yet", statement.span, hint=hint)
