"""``sqlstream explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sqlstream.cli.output import plain_text
from sqlstream.cli.scripts import Script, named, read_scripts, script_options
from sqlstream.cli.sessions import open_session, session_options
from sqlstream.cli.status import working
from sqlstream.errors import SqlStreamError

if TYPE_CHECKING:
    from sqlstream.grammar.nodes import Statement
    from sqlstream.session import Session

_EPILOG = """\b
Definitions of the script are carried out in a scratch session, nothing runs. The stage spark asks Spark.

\b
Examples:
  sqlstream explain tables.sql query.sql
  sqlstream explain tables.sql -e "SELECT * FROM t" --format mermaid
  sqlstream explain tables.sql query.sql --stage trace
"""

_FORMATS = ("text", "json", "mermaid")
_STAGES = ("logical", "optimized", "physical", "spark", "trace", "changelog_mode", "advice")


@click.command("explain", epilog=_EPILOG)
@script_options
@session_options
@click.option(
    "--format", "style", type=click.Choice(_FORMATS), default="text", show_default=True, help="How the plan is written."
)
@click.option("--stage", type=click.Choice(_STAGES), default="optimized", show_default=True, help="Which plan.")
def command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    style: str,
    stage: str,
) -> int | None:
    """Show the plans of the queries and INSERTs of scripts."""
    scripts = read_scripts(files, statements, parameters)
    with open_session(master, settings) as opened, working("planning"):
        session = opened.fork()  # nothing that the scripts define is kept
        plans = []
        for script in scripts:
            with named(script, scripts):
                plans += _plans(script, session, style, stage)
    if not plans:
        raise click.UsageError("there is no query and no INSERT to explain")
    click.echo("\n\n".join(plans))
    return None


def _plans(script: Script, session: Session, style: str, stage: str) -> list[str]:
    """The plans of one script, whose definitions the session keeps for the next one."""
    from sqlstream.grammar import parse_script
    from sqlstream.grammar.nodes import (
        CreateMaterializedView,
        CreateTable,
        ExecutePlan,
        Explain,
        Insert,
        Query,
        StatementSet,
    )
    from sqlstream.results import Rows

    plans: list[str] = []
    try:
        for statement in parse_script(script.text):
            inner = statement.statement if isinstance(statement, Explain) else statement
            if isinstance(inner, Query | Insert | StatementSet | ExecutePlan) or (
                isinstance(inner, CreateMaterializedView) or (isinstance(inner, CreateTable) and inner.query)
            ):
                rows = session.execute(Explain(inner, style.upper(), stage.upper()), script.text)
                assert isinstance(rows, Rows)
                plans.append(plain_text(rows))
                _declare(statement, session)
            else:
                session.execute(statement, script.text)
    except SqlStreamError as error:
        raise error.with_source(script.text) from error.__cause__
    return plans


def _declare(statement: Statement, session: Session) -> None:
    """The table of CREATE TABLE … AS is there for the statements behind, though nothing runs."""
    from sqlstream.grammar.nodes import CreateMaterializedView, CreateTable
    from sqlstream.statements.defining import define
    from sqlstream.statements.definitions import create_table

    if isinstance(statement, CreateMaterializedView):
        define(statement, session.workspace, "")

    if isinstance(statement, CreateTable) and statement.query is not None:
        table, stored, _ = session.table_of_query(statement, statement.query)
        create_table(statement, table, stored, session.workspace.catalog)
