"""Whole scripts without running them: every statement bound, its options checked, all mistakes at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.batch import Batch, chosen
from sqlstream.errors import Diagnostic, SqlStreamError
from sqlstream.grammar import nodes, parse_script_recovering
from sqlstream.grammar.depth import with_room
from sqlstream.planner.functions.patterns import warnings_of
from sqlstream.statements.defining import DEFINITIONS, define
from sqlstream.statements.definitions import create_table, table_of_query
from sqlstream.statements.explaining import checked_plan
from sqlstream.statements.inspection import inspect_statement
from sqlstream.statements.job_statements import is_job_statement
from sqlstream.statements.mocking import bind_unit_test
from sqlstream.statements.plan_files import planned
from sqlstream.statements.replacing_rows import truncated_table
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlglot import exp


_NAMED = nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateFunction


@with_room
def check_script(text: str, workspace: Workspace) -> tuple[Diagnostic, ...]:
    """The mistakes of a script in the order of its text; the workspace stays as it is.

    What a wrong CREATE would have defined counts as known: statements that use it bring no further mistakes.
    """
    statements, errors = parse_script_recovering(text)
    scratch, broken = workspace.copy(), set[str]()
    mistakes = [d for error in errors for d in error.diagnostics]
    for statement in statements:
        try:
            defined = check_statement(statement, scratch, text)
        except SqlStreamError as error:
            mistakes += [d for d in error.diagnostics if not any(name in d.message.casefold() for name in broken)]
            defined = False
        if not defined and isinstance(statement, _NAMED):
            broken.add(f'"{statement.name}" does not exist'.casefold())
    attached = [d if d.source is not None else replace(d, source=text) for d in mistakes]
    return tuple(sorted(attached, key=lambda d: d.span.start if d.span and d.source == text else len(text)))


@with_room
def script_warnings(text: str) -> tuple[Diagnostic, ...]:
    """What the statements of a script say that is allowed and hardly meant, as far as they parse."""
    statements, _ = parse_script_recovering(text)
    return tuple(replace(warning, source=text) for statement in statements for warning in warnings_of(statement))


def _check_create_as(statement: nodes.CreateTable, query: exp.Expression, scratch: Workspace) -> bool:
    if isinstance(chosen(nodes.Query(query, span=statement.span), scratch), Batch):
        return False  # only Spark knows its columns
    table, stored, _ = table_of_query(statement, scratch)
    create_table(statement, table, stored, scratch.catalog)
    return True


def check_statement(statement: nodes.Statement, scratch: Workspace, text: str) -> bool:
    """SqlStreamError with what is wrong with the statement. False where what it defines stays unknown."""
    match statement:
        case nodes.Query() | nodes.Insert() | nodes.StatementSet():
            planned(statement, scratch)
        case nodes.UnitTest():
            bind_unit_test(statement, scratch)
        case nodes.CreateTable() if statement.query is not None:
            return _check_create_as(statement, statement.query, scratch)
        case nodes.Explain():
            checked_plan(statement, scratch)
        case nodes.CompilePlan():
            planned(statement.statement, scratch)
        case nodes.Set(key=None) | nodes.ExecutePlan():
            pass  # the file of a plan may be written by the script
        case nodes.Truncate():
            truncated_table(statement, scratch.catalog)
        case _ if is_job_statement(statement):
            pass  # which jobs there are shows when the script runs
        case _ if isinstance(statement, DEFINITIONS):
            define(statement, scratch, text)
        case _:
            inspect_statement(statement, scratch)
    return True
