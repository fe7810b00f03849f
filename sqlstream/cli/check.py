"""Commands that run nothing: ``check``, ``explain``, ``format``, ``lsp`` and ``version``."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from sqlstream.analysis import Planner
from sqlstream.cli.options import rewrite
from sqlstream.cli.output import plain_text, working
from sqlstream.cli.scripts import Script, named, open_session, read_scripts, written_scripts
from sqlstream.cli.terminal import OK, WRONG_SQL
from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.grammar import format_script, nodes, parse_script
from sqlstream.results import Rows
from sqlstream.statements.checking import changes_from_flink, script_warnings
from sqlstream.statements.explaining import compiled_plan, plan_page
from sqlstream.statements.registry import define
from sqlstream.statements.tables import create_table

if TYPE_CHECKING:
    from sqlstream.session import Session


if TYPE_CHECKING:
    Planned = (
        nodes.Query
        | nodes.Insert
        | nodes.StatementSet
        | nodes.ExecutePlan
        | nodes.CreateTable
        | nodes.CreateMaterializedView
    )


_BETWEEN = "\n;\n"


def check_command(
    files: tuple[str, ...], statements: tuple[str, ...], parameters: tuple[str, ...], origin: str | None
) -> int:
    """``sqlstream check``: finds all errors in scripts without starting Spark. Returns the exit code; warnings do not
    change it.
    """
    scripts = read_scripts(files, statements, parameters)
    with open_session(None, ()) as session:
        mistakes = check_scripts(scripts, session)
    for name, diagnostic in mistakes:
        click.echo(f"{name}: {diagnostic.render()}\n", err=True)
    warnings = warnings_of_scripts(scripts) + (_changes_of(scripts) if origin == "flink" else [])
    for name, diagnostic in warnings:
        click.echo(f"{name}: {diagnostic.render()}\n", err=True)
    beside = f", {_counted(len(warnings), 'warning')}" if warnings else ""
    click.echo((_counted(len(mistakes), "mistake") if mistakes else "no mistakes") + beside, err=bool(mistakes))
    return WRONG_SQL if mistakes else OK


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def check_scripts(scripts: Sequence[Script], session: Session) -> list[tuple[str, Diagnostic]]:
    """Checks scripts as if they ran one after the other. Returns pairs of a script's name and an error in it."""
    starts, end = [], 0
    for script in scripts:
        starts.append(end)
        end += len(script.text) + len(_BETWEEN)
    joined = _BETWEEN.join(script.text for script in scripts)
    return [_located(d, joined, scripts, starts) for d in session.check(joined)]


def warnings_of_scripts(scripts: Sequence[Script]) -> list[tuple[str, Diagnostic]]:
    """Returns pairs of a script's name and a warning about something in it that is allowed but probably a mistake."""
    return [(script.name, warning) for script in scripts for warning in script_warnings(script.text)]


def _changes_of(scripts: Sequence[Script]) -> list[tuple[str, Diagnostic]]:
    # loaded when the command runs: help and errors stay fast
    return [(script.name, change) for script in scripts for change in changes_from_flink(script.text)]


def _located(
    diagnostic: Diagnostic, joined: str, scripts: Sequence[Script], starts: Sequence[int]
) -> tuple[str, Diagnostic]:
    """The diagnostic with a span in its own script."""
    span = diagnostic.span
    if span is None or diagnostic.source != joined:
        return scripts[-1].name if span is None else "view", diagnostic
    index = bisect_right(starts, span.start) - 1
    own = Span(span.start - starts[index], span.end - starts[index])
    return scripts[index].name, replace(diagnostic, span=own, source=scripts[index].text)


# --- sqlstream explain -----------------------------------------------------------------------------------------


def explain_command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    style: str,
    stage: str,
) -> int | None:
    """``sqlstream explain``: prints the plans of the queries and INSERTs in scripts."""
    if style == "html" and stage != "optimized":
        raise click.UsageError("a page shows the stage optimized")
    scripts = read_scripts(files, statements, parameters)
    with open_session(master, settings) as opened, working("planning"):
        session = opened.fork()  # nothing that the scripts define is kept
        plans = []
        for script in scripts:
            with named(script, scripts):
                plans += _plans(script, session, style, stage)
    if not plans:
        raise click.UsageError("there is no query and no INSERT to explain")
    if style == "html" and len(plans) > 1:
        raise click.UsageError(f"a page shows one plan, and the scripts have {len(plans)}")
    click.echo("\n\n".join(plans), nl=style != "html")
    return None


def _plans(script: Script, session: Session, style: str, stage: str) -> list[str]:
    """The plans of one script, whose definitions the session keeps for the next one."""
    plans: list[str] = []
    try:
        for statement in parse_script(script.text):
            inner = statement.statement if isinstance(statement, nodes.Explain) else statement
            planned = nodes.Query | nodes.Insert | nodes.StatementSet | nodes.ExecutePlan | nodes.CreateMaterializedView
            if isinstance(inner, planned) or (isinstance(inner, nodes.CreateTable) and inner.query is not None):
                plans.append(_plan(inner, session, style, stage, script.text))
                _declare(statement, session)
            else:
                session.execute(statement, script.text)
    except SqlStreamError as error:
        raise error.with_source(script.text) from error.__cause__
    return plans


def _plan(statement: Planned, session: Session, style: str, stage: str, text: str) -> str:
    if style == "html":
        workspace = session.workspace
        if isinstance(statement, nodes.ExecutePlan):
            compiled, workspace = compiled_plan(statement.path, workspace, statement.span)
            return plan_page(compiled, workspace)
        if isinstance(statement, nodes.CreateTable | nodes.CreateMaterializedView):
            assert statement.query is not None, "only these have plans"
            statement = nodes.Query(statement.query, span=statement.span)
        return plan_page(statement, workspace)
    rows = session.execute(nodes.Explain(statement, style.upper(), stage.upper()), text)
    assert isinstance(rows, Rows)
    return plain_text(rows)


def _declare(statement: nodes.Statement, session: Session) -> None:
    """Declare the table of CREATE TABLE … AS for the statements that follow, without running anything."""
    if isinstance(statement, nodes.CreateMaterializedView):
        define(statement, session.workspace, "")

    if isinstance(statement, nodes.CreateTable) and statement.query is not None:
        table, stored, _ = session.table_of_query(statement, statement.query)
        create_table(statement, table, stored, session.workspace.catalog)


# --- sqlstream format ------------------------------------------------------------------------------------------


def format_command(files: tuple[str, ...], statements: tuple[str, ...], check: bool, write: bool) -> int:
    """``sqlstream format``: prints SQL in the standard layout, or rewrites files with it. Returns the exit code.

    Comments stay next to their words, and ``${name}`` is not changed.
    """
    if check and write:
        raise click.UsageError("--check and --write exclude each other")
    scripts = written_scripts(files, statements)
    formatted = []
    for script in scripts:
        with named(script, scripts):
            formatted.append((script, format_script(script.text)))
    if check:
        return _report(formatted)
    for script, text in formatted:
        if write and script.name in files and script.name != "-":
            _rewrite(script, text)
        else:
            click.echo(text, nl=not text.endswith("\n"))
    return OK


def _report(formatted: list[tuple[Script, str]]) -> int:
    unlike = [script.name for script, text in formatted if script.text != text]
    for name in unlike:
        click.echo(f"would change {name}", err=True)
    return WRONG_SQL if unlike else OK


def _rewrite(script: Script, text: str) -> None:
    if script.text != text:
        rewrite(script.name, text)
        click.echo(f"changed {script.name}", err=True)


# --- sqlstream lsp ---------------------------------------------------------------------------------------------


def lsp_command(files: tuple[str, ...]) -> None:
    """``sqlstream lsp``: runs a language server for editors on standard input and output, without Spark.

    It offers diagnostics, hover, completion, definitions, references, renaming, formatting and fixes.
    """
    if find_spec("pygls") is None:
        raise click.UsageError("the language server needs pygls: pip install 'sqlstream[lsp]'")
    from sqlstream.lsp.server import server_of  # pygls is optional, and takes 0.4 s

    with open_session(None, ()) as session:
        planner = Planner().with_session(session)
        for script in read_scripts(files, (), ()) if files else ():
            planner = planner.with_ddl(script.text)
        # It closes what it speaks to, which commands flush when they end.
        server_of(planner).start_io(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
