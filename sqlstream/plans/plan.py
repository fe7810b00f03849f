"""Plans of statements: bound, optimized, and checked against what the connectors of their tables support."""

from __future__ import annotations

import json
from dataclasses import replace

from sqlstream.connectors import row_kinds_taken
from sqlstream.connectors.secrets import without_secrets
from sqlstream.errors import SqlStreamError
from sqlstream.folders import Folders, JobName, insert_name, set_name
from sqlstream.grammar import nodes
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.partial_inserts import with_columns_left
from sqlstream.planner.binder import bind_statement
from sqlstream.planner.binder.no_rows import lacks_result
from sqlstream.planner.changes import with_final_rows
from sqlstream.planner.explain import to_json
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, Scan, StatementSet
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN
from sqlstream.planner.rules import optimize
from sqlstream.plans.checks import may_collide, misused
from sqlstream.plans.planner_settings import binder_settings, rules_of
from sqlstream.plans.tables import ends
from sqlstream.settings import PARTIAL_INSERT, UPSERT_MATERIALIZE, Settings
from sqlstream.workspace import Workspace

Planned = nodes.Query | nodes.Insert | nodes.StatementSet
"""Statements that have a plan."""

Root = Output | Insert | StatementSet


@on_deep_stack
def plan_of(statement: Planned, workspace: Workspace, *, apart: bool = False) -> Root:
    """Returns the optimized plan of a statement. ``apart``: see ``rules_of``. Raises SqlStreamError with all errors in
    the statement.
    """
    plan = optimize(bound_plan(statement, workspace), rules_of(workspace.settings, apart=apart))
    assert isinstance(plan, Root)
    return plan


@on_deep_stack
def bound_plan(statement: Planned, workspace: Workspace) -> Root:
    """Binds a statement and checks that its connectors support the plan. Returns the plan before optimization. Raises
    SqlStreamError with all errors.
    """
    collide = workspace.settings[UPSERT_MATERIALIZE] != "error"
    plan = unchecked_plan(statement, workspace)
    wrong = misused(plan, statement, collide=collide)
    if wrong:
        raise SqlStreamError.of(wrong)
    return unchecked_plan(statement, workspace, finished=True) if _lacks_results(plan, workspace) else plan


def _lacks_results(plan: Root, workspace: Workspace) -> bool:
    """Whether a stream over finished data may have no result where a batch has one. An INSERT in mode ``auto`` is a
    job, which may go on when more rows have come: it has none before, as in Flink."""
    mode = workspace.settings["execution.runtime-mode"]
    if mode == "streaming" or not (isinstance(plan, Output) or mode == "batch"):
        return False
    nodes_of_plan = [*plan.walk()]
    return any(map(lacks_result, nodes_of_plan)) and all(ends(n.table) for n in nodes_of_plan if isinstance(n, Scan))


@on_deep_stack
def unchecked_plan(
    statement: Planned, workspace: Workspace, *, any_order: bool = False, finished: bool = False
) -> Root:
    """Binds a statement and returns its plan, without checking what its connectors support. ``any_order``: ORDER BY
    and LIMIT are dropped. ``finished``: an aggregate without GROUP BY has a result also without rows.
    """
    settings = replace(binder_settings(workspace.settings), any_order=any_order, finished=finished)
    plan = _with_sinks(bind_statement(statement, workspace.catalog, settings))
    plan = _with_columns_left(plan, statement, workspace.settings[PARTIAL_INSERT])
    keeps = workspace.settings[UPSERT_MATERIALIZE] in ("auto", "force")
    return _with_rows_left(plan, statement, settings.state_ttl_ms, keeps=keeps)


def _with_columns_left(plan: Root, statement: Planned, setting: str) -> Root:
    if isinstance(plan, StatementSet):
        assert isinstance(statement, nodes.StatementSet)
        pairs = zip(plan.inserts, statement.inserts, strict=True)
        return replace(plan, inserts=tuple(with_columns_left(insert, written, setting) for insert, written in pairs))
    if isinstance(plan, Insert) and isinstance(statement, nodes.Insert):
        return with_columns_left(plan, statement, setting)
    return plan


def job_name_of(plan: Root, settings: Settings, folders: Folders) -> JobName:
    """The name of a plan's job: that of the setting 'pipeline.name', else a default one. It is the same each time for
    a plan and a directory of checkpoints, and a new one for a query and for a job that leaves no checkpoint.
    """
    given, parent = settings["pipeline.name"], settings["execution.checkpointing.dir"]
    wanted = _default_job_name(plan) if given is None else JobName(given, given)
    if isinstance(plan, Output) or (parent is None and plan.bounded):
        return folders.job_name(wanted)
    return folders.job_name(wanted, f"{parent} {json.dumps(to_json(without_secrets(plan)))}")


def _default_job_name(plan: Root) -> JobName:
    match plan:
        case Insert():
            return insert_name(plan.table.name)
        case StatementSet():
            return set_name(table.name for table in plan.tables)
    return JobName("query", "query")


def _with_sinks(plan: Node) -> Root:
    """The plan, in which each table that is written takes the kinds of rows that its connector does."""
    match plan:
        case Insert(table=table):
            return with_final_rows(replace(plan, takes=row_kinds_taken(table)))
        case StatementSet(inserts=inserts):
            return replace(plan, inserts=tuple(insert for i in inserts if isinstance(insert := _with_sinks(i), Insert)))
    assert isinstance(plan, Output)
    return plan


def _with_rows_left(plan: Root, statement: Planned, ttl_ms: int, *, keeps: bool) -> Root:
    """The plan, in which, where this is asked for, an operator knows all rows of each PRIMARY KEY on which they may
    collide: where the last one goes, the one before it is there again. As Flink's SinkUpsertMaterializer."""
    if isinstance(plan, StatementSet):
        assert isinstance(statement, nodes.StatementSet)
        pairs = zip(plan.inserts, statement.inserts, strict=True)
        inserts = (_with_rows_left(insert, written, ttl_ms, keeps=keeps) for insert, written in pairs)
        return replace(plan, inserts=tuple(insert for insert in inserts if isinstance(insert, Insert)))
    wanted = keeps or (isinstance(statement, nodes.Insert) and statement.conflict == "DEDUPLICATE")
    if not wanted or not isinstance(plan, Insert) or not may_collide(plan):
        return plan
    columns = (column.name for column in plan.table.physical_columns)
    fields = {column: field.name for column, field in zip(columns, plan.input.schema, strict=True)}
    keys = tuple(fields[name] for name in plan.table.primary_key)
    return replace(plan, input=TopN(plan.input, keys, (), ROW_NUMBER, 1, 1, newest_first=True, ttl_ms=ttl_ms))
