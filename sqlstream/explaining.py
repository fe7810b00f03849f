"""EXPLAIN: the stages of the planner, of the lowering and of Spark."""

from __future__ import annotations

from sqlstream.definitions import Workspace
from sqlstream.errors import BindError, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.inspection import statement_set
from sqlstream.planner.explain import PLANNER_STAGES, explain
from sqlstream.planner.nodes import Insert, Output
from sqlstream.planner.rules import optimize
from sqlstream.plans import bound_plan, require_sources
from sqlstream.runner import Runner

NO_PLAN = "SS283"
NO_SUCH_FORMAT = "SS344"


def explained(statement: nodes.Explain, workspace: Workspace, runner: Runner) -> str:
    """The plan of the statement as text. Only the stage SPARK starts Spark."""
    plan = explained_plan(statement, workspace)
    if statement.stage in PLANNER_STAGES:
        return explain(plan, statement.format, statement.stage)
    if statement.format != "TEXT":
        hint = f"Leave FORMAT {statement.format} out, or explain the stage OPTIMIZED."
        message = f"EXPLAIN {statement.stage} in the format {statement.format} is not executed"
        raise UnsupportedError(NO_SUCH_FORMAT, message, statement.span, hint=hint)
    from sqlstream.planner.lowering import explain_physical, explain_spark

    optimized = optimize(plan)
    if statement.stage == "PHYSICAL":
        return explain_physical(optimized)
    require_sources(optimized)
    return explain_spark(optimized, runner.runtime(workspace))


def explained_plan(statement: nodes.Explain, workspace: Workspace) -> Output | Insert:
    """The bound plan of the statement inside EXPLAIN."""
    match statement.statement:
        case nodes.Query() | nodes.Insert() as inner:
            return bound_plan(inner, workspace.catalog)
        case nodes.CreateTable(query=query) as inner if query is not None:
            return bound_plan(nodes.Query(query, span=inner.span), workspace.catalog)
        case nodes.StatementSet() as inner:
            raise statement_set(inner)
    raise BindError(NO_PLAN, "CREATE TABLE without a query has no plan", statement.statement.span)
