"""The table of statements: which class answers for a syntax node, and what the product asks of any statement."""

from __future__ import annotations

from typing import Any

from sqlstream.grammar import nodes
from sqlstream.statements import altering, catalogs, definitions, describing, explaining, jobs, materialized_views
from sqlstream.statements.mocking import UnitTest
from sqlstream.statements.queries import SelectStatement, TruncateTable, WriteStatement
from sqlstream.statements.statement import Defined, Definition, StatementType
from sqlstream.workspace import Workspace

_TYPES: dict[type[nodes.Node], StatementType[Any]] = {
    nodes.Query: SelectStatement(),
    nodes.Insert: WriteStatement(),
    nodes.StatementSet: WriteStatement(),
    nodes.Truncate: TruncateTable(),
    nodes.UnitTest: UnitTest(),
    nodes.Explain: explaining.Explain(),
    nodes.CompilePlan: explaining.CompilePlan(),
    nodes.ExecutePlan: explaining.ExecutePlan(),
    nodes.CreateTable: definitions.CreateTable(),
    nodes.CreateView: definitions.CreateView(),
    nodes.CreateFunction: definitions.CreateFunction(),
    nodes.AlterFunction: definitions.AlterFunction(),
    nodes.Drop: definitions.Drop(),
    nodes.Set: definitions.Set(),
    nodes.Reset: definitions.Reset(),
    nodes.AlterTable: altering.AlterTable(),
    nodes.AlterView: altering.AlterView(),
    nodes.CreateMaterializedView: materialized_views.CreateMaterializedView(),
    nodes.AlterMaterializedView: materialized_views.AlterMaterializedView(),
    nodes.CreateCatalog: catalogs.CreateCatalog(),
    nodes.AlterCatalog: catalogs.AlterCatalog(),
    nodes.CreateDatabase: catalogs.CreateDatabase(),
    nodes.AlterDatabase: catalogs.AlterDatabase(),
    nodes.Use: catalogs.Use(),
    nodes.Show: describing.Show(),
    nodes.Describe: describing.Describe(),
    nodes.DescribeQuery: describing.DescribeQuery(),
    nodes.StopJob: jobs.StopJob(),
    nodes.CheckpointJob: jobs.CheckpointJob(),
    nodes.SavepointJob: jobs.SavepointJob(),
}

_SHOW_JOBS: dict[str, StatementType[Any]] = {"JOBS": jobs.ShowJobs(), "CHECKPOINTS": jobs.ShowCheckpoints()}
_DESCRIBE_JOB = jobs.DescribeJob()


def statement_type(statement: nodes.Node) -> StatementType[Any]:
    """The ``StatementType`` that carries out the statement."""
    match statement:
        case nodes.Show(what="JOBS" | "CHECKPOINTS" as what):
            return _SHOW_JOBS[what]
        case nodes.Describe(kind="JOB"):
            return _DESCRIBE_JOB
    return _TYPES[type(statement)]


def is_definition(statement: nodes.Node) -> bool:
    """Whether the statement changes the catalog or the settings: CREATE, ALTER, DROP, USE, SET and RESET."""
    return statement_type(statement).is_definition


def define(statement: nodes.Node, workspace: Workspace, text: str) -> Defined:
    """Carries out a definition (CREATE, SET and so on) in the workspace only: no job starts. ``text`` is its script.
    TypeError for other statements.

    :returns: what was created, changed or dropped; None if nothing was.
    """
    type_ = statement_type(statement)
    if not isinstance(type_, Definition):
        raise TypeError(f"{type(statement).__name__} defines nothing")
    return type_.define(statement, workspace, text)


def starts_job(statement: nodes.Node) -> bool:
    """Whether a query or a job continues after the statement has returned."""
    return statement_type(statement).starts_job(statement)


def needs_spark(statement: nodes.Node) -> bool:
    """Whether the statement always needs Spark."""
    return statement_type(statement).needs_spark(statement)
