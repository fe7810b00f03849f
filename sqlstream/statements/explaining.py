"""EXPLAIN: the stages of the planner, of the lowering and of Spark."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.batch import Batch, chosen
from sqlstream.batch.explaining import NO_PLAN_OF_BATCH, explained_batch, why_stream
from sqlstream.batch.running import Batches
from sqlstream.connectors.secrets import secrets_of_plan, without_secrets
from sqlstream.errors import BindError, UnsupportedError
from sqlstream.grammar import nodes, to_sql
from sqlstream.planner.binder.hints import without_effect
from sqlstream.planner.explain import PLANNER_STAGES, explain, formats_of
from sqlstream.planner.explain.html import html_page
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan
from sqlstream.planner.physical import Engine, explain_physical, physical_plan
from sqlstream.planner.rules import optimize
from sqlstream.plans import RULES, Root, bound_plan, engine_of, require_sources
from sqlstream.runner import Runner
from sqlstream.statements.materialized_views import declared_materialized, statement_of
from sqlstream.statements.plan_files import compiled_plan
from sqlstream.udfs.hiding import hiding
from sqlstream.workspace import Workspace

NO_PLAN = "SS283"
NO_SUCH_FORMAT = "SS344"

_SPARK_STAGES = ("PHYSICAL", "SPARK")
_OF_FLINK = ("ESTIMATED_COST", "JSON_EXECUTION_PLAN")
_NO_COST = "Costs are not estimated: a stream has no number of rows. EXPLAIN PHYSICAL says what each step does."


def explained(
    statement: nodes.Explain, workspace: Workspace, runner: Runner, batches: Batches, *, says_way: bool = False
) -> str:
    """The plan of the statement as text. The stage SPARK starts Spark, and PHYSICAL where it takes Spark to see who
    reads the files of a table. ``says_way``: a line more says why a query runs as a stream."""
    if isinstance(statement.statement, nodes.ExecutePlan):
        compiled, workspace = compiled_plan(statement.statement.path, workspace, statement.span)
        return explained(replace(statement, statement=compiled), workspace, runner, batches, says_way=says_way)
    if statement.more or statement.stage in _OF_FLINK:
        return _sections(statement, workspace, runner, batches)
    batch = _batch_of(statement, workspace)
    if batch is not None:
        return explained_batch(batch, statement, workspace, batches)
    plan = explained_plan(statement, workspace)
    if statement.stage in PLANNER_STAGES:
        text = explain(without_secrets(plan), statement.format, statement.stage, RULES)
        told = says_way and statement.stage == "OPTIMIZED" and statement.format == "TEXT"
        inner = _chosen(statement)
        if not told or inner is None:
            return text
        ignored = "".join(f"\nhint {name}: of no effect on a stream" for name in without_effect(inner.query))
        return f"{text}\n{why_stream(inner, workspace)}{ignored}"
    secrets = secrets_of_plan(plan) + workspace.settings.secrets
    with hiding(secrets):
        return secrets.hidden(_explained_below(plan, statement, workspace, runner))


def _sections(statement: nodes.Explain, workspace: Workspace, runner: Runner, batches: Batches) -> str:
    """The details that Flink lists behind EXPLAIN, each below its name where there are several."""
    if statement.format != "TEXT":
        message = f"a list of EXPLAIN in the format {statement.format} is not executed"
        hint = "Write EXPLAIN FORMAT JSON with one stage, or the list without FORMAT."
        raise UnsupportedError(NO_SUCH_FORMAT, message, statement.span, hint=hint)
    stages = (statement.stage, *statement.more)
    texts = [_section(stage, replace(statement, stage=stage, more=()), workspace, runner, batches) for stage in stages]
    if len(stages) == 1:
        return texts[0]
    return "\n\n".join(f"== {stage} ==\n{text}" for stage, text in zip(stages, texts, strict=True))


def _section(stage: str, statement: nodes.Explain, workspace: Workspace, runner: Runner, batches: Batches) -> str:
    match stage:
        case "ESTIMATED_COST":
            plan = explained(replace(statement, stage="OPTIMIZED"), workspace, runner, batches)
            return f"{plan}\n{_NO_COST}"
        case "JSON_EXECUTION_PLAN":
            return explained(replace(statement, stage="OPTIMIZED", format="JSON"), workspace, runner, batches)
    if stage == "ADVICE" and _batch_of(statement, workspace) is not None:
        return "Nothing to say about this plan: it runs as a batch."
    if stage == "CHANGELOG_MODE" and _batch_of(statement, workspace) is not None:
        return "A batch has final rows only: +I."
    return explained(statement, workspace, runner, batches)


def _explained_below(plan: Root, statement: nodes.Explain, workspace: Workspace, runner: Runner) -> str:
    """The stages below the planner."""
    from sqlstream.planner.lowering import explain_spark

    optimized = optimize(plan, RULES)
    if statement.stage == "PHYSICAL":
        return explain_physical(physical_plan(optimized, _engine(optimized, workspace, runner)))
    require_sources(optimized)
    runtime = runner.runtime(workspace)
    return explain_spark(runner.physical(optimized, workspace, runtime.sources), runtime)


def _engine(plan: Node, workspace: Workspace, runner: Runner) -> Engine:
    """The engine of the settings. Spark starts where files may be read in an exchange, which it helps to tell."""

    def reads_files(scan: Scan) -> bool:
        if workspace.settings["sqlstream.parquet-reader"] == "spark":
            return False
        require_sources(plan)
        return runner.runtime(workspace).sources.reads_files(scan)

    return replace(engine_of(workspace.settings), reads_files=reads_files)


def plan_page(statement: nodes.Query | nodes.Insert | nodes.StatementSet, workspace: Workspace) -> str:
    """The optimized plan as a page of HTML. UnsupportedError SS603 where the statement runs as a batch."""
    if not isinstance(statement, nodes.StatementSet) and isinstance(chosen(statement, workspace), Batch):
        message = "a batch has no plan of operators that a page could show"
        raise UnsupportedError(NO_PLAN_OF_BATCH, message, statement.span, hint="EXPLAIN PHYSICAL shows Spark's plan.")
    plan = without_secrets(optimize(bound_plan(statement, workspace), RULES))
    assert isinstance(plan, Root)
    return html_page(plan, to_sql(statement))


def checked_plan(statement: nodes.Explain, workspace: Workspace) -> None:
    """SqlStreamError with what is wrong with the statement inside EXPLAIN."""
    if isinstance(statement.statement, nodes.ExecutePlan):
        return  # its file may be written by the script
    if _batch_of(statement, workspace) is None:
        explained_plan(statement, workspace)


def _chosen(statement: nodes.Explain) -> nodes.Query | nodes.Insert | None:
    """What of the statement inside may run as a batch."""
    match statement.statement:
        case nodes.Query() | nodes.Insert() as inner:
            return inner
        case nodes.CreateTable(query=query) as inner if query is not None:
            return nodes.Query(query, span=inner.span)
    return None


def _batch_of(statement: nodes.Explain, workspace: Workspace) -> Batch | None:
    _require_format(statement)
    inner = _chosen(statement)
    way = None if inner is None else chosen(inner, workspace)
    return way if isinstance(way, Batch) else None


def explained_plan(statement: nodes.Explain, workspace: Workspace) -> Root:
    """The bound plan of the statement inside EXPLAIN, whose stage has the format that is asked for."""
    _require_format(statement)
    match statement.statement:
        case nodes.Query() | nodes.Insert() | nodes.StatementSet() as inner:
            return bound_plan(inner, workspace)
        case nodes.CreateTable(query=query) as inner if query is not None:
            return bound_plan(nodes.Query(query, span=inner.span), workspace)
        case nodes.CreateMaterializedView() as inner:
            return bound_plan(*statement_of(declared_materialized(inner, workspace, ""), workspace))
    raise BindError(NO_PLAN, "CREATE TABLE without a query has no plan", statement.statement.span)


def _require_format(statement: nodes.Explain) -> None:
    stage, chosen = statement.stage, statement.format
    if stage in _OF_FLINK or statement.more:
        return
    if stage not in (*PLANNER_STAGES, *_SPARK_STAGES):
        hint = f"The stages are {', '.join((*PLANNER_STAGES, *_SPARK_STAGES))}."
        raise UnsupportedError(NO_SUCH_FORMAT, f'EXPLAIN has no stage "{stage}"', statement.span, hint=hint)
    formats = formats_of(stage) if stage in PLANNER_STAGES else ("TEXT",)
    if chosen not in formats:
        message = f"EXPLAIN {stage} in the format {chosen} is not executed"
        hint = f"The formats of this stage are {', '.join(formats)}; the stage OPTIMIZED has all."
        raise UnsupportedError(NO_SUCH_FORMAT, message, statement.span, hint=hint)
