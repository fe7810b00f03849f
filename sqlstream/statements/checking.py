"""Whole scripts without running them: every statement bound, its options checked, all mistakes at once."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.errors import Diagnostic, SqlStreamError
from sqlstream.grammar import nodes, parse_script_recovering
from sqlstream.grammar.depth import with_room
from sqlstream.planner.functions.patterns import warnings_of
from sqlstream.plans import plan_of
from sqlstream.statements.definitions import DEFINITIONS, define, table_of_query
from sqlstream.statements.explaining import explained_plan
from sqlstream.statements.inspection import inspect_statement
from sqlstream.statements.job_statements import is_job_statement
from sqlstream.workspace import Workspace


@with_room
def check_script(text: str, workspace: Workspace) -> tuple[Diagnostic, ...]:
    """The mistakes of a script in the order of its text; the workspace stays as it is.

    What a wrong CREATE would have defined counts as known: statements that use it bring no further mistakes.
    """
    statements, errors = parse_script_recovering(text)
    scratch, broken = workspace.copy(), set[str]()
    found = [d for error in errors for d in error.diagnostics]
    for statement in statements:
        try:
            _check(statement, scratch, text)
        except SqlStreamError as error:
            found += [d for d in error.diagnostics if not any(name in d.message.casefold() for name in broken)]
            if isinstance(statement, nodes.CreateTable | nodes.CreateView | nodes.CreateFunction):
                broken.add(f'"{statement.name}" does not exist'.casefold())
    attached = [d if d.source is not None else replace(d, source=text) for d in found]
    return tuple(sorted(attached, key=lambda d: d.span.start if d.span and d.source == text else len(text)))


@with_room
def script_warnings(text: str) -> tuple[Diagnostic, ...]:
    """What the statements of a script say that is allowed and hardly meant, as far as they parse."""
    statements, _ = parse_script_recovering(text)
    return tuple(replace(found, source=text) for statement in statements for found in warnings_of(statement))


def _check(statement: nodes.Statement, scratch: Workspace, text: str) -> None:
    match statement:
        case nodes.Query() | nodes.Insert() | nodes.StatementSet():
            plan_of(statement, scratch)
        case nodes.CreateTable() if statement.query is not None:
            table = table_of_query(statement, scratch)
            scratch.catalog.create(statement.name, table, if_not_exists=statement.if_not_exists)
        case nodes.Explain():
            explained_plan(statement, scratch)
        case nodes.Set(key=None):
            pass
        case _ if is_job_statement(statement):
            pass  # which jobs there are shows when the script runs
        case _ if isinstance(statement, DEFINITIONS):
            define(statement, scratch, text)
        case _:
            inspect_statement(statement, scratch)
