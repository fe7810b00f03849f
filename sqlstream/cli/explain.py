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
    from sqlstream.grammar.nodes import (
        CreateMaterializedView,
        CreateTable,
        ExecutePlan,
        Insert,
        Query,
        Statement,
        StatementSet,
    )
    from sqlstream.session import Session

    Planned = Query | Insert | StatementSet | ExecutePlan | CreateTable | CreateMaterializedView

_EPILOG = """\b
Definitions of the script are carried out in a scratch session, nothing runs. The stage spark asks Spark.

\b
Examples:
  sqlstream explain tables.sql query.sql
  sqlstream explain tables.sql -e "SELECT * FROM t" --format mermaid
  sqlstream explain tables.sql query.sql --stage trace
  sqlstream explain tables.sql query.sql --format html > plan.html
"""

_FORMATS = ("text", "json", "mermaid", "html")
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

    plans: list[str] = []
    try:
        for statement in parse_script(script.text):
            inner = statement.statement if isinstance(statement, Explain) else statement
            if isinstance(inner, Query | Insert | StatementSet | ExecutePlan) or (
                isinstance(inner, CreateMaterializedView) or (isinstance(inner, CreateTable) and inner.query)
            ):
                plans.append(_plan(inner, session, style, stage, script.text))
                _declare(statement, session)
            else:
                session.execute(statement, script.text)
    except SqlStreamError as error:
        raise error.with_source(script.text) from error.__cause__
    return plans


def _plan(statement: Planned, session: Session, style: str, stage: str, text: str) -> str:
    from sqlstream.grammar.nodes import CreateMaterializedView, CreateTable, ExecutePlan, Explain, Query
    from sqlstream.results import Rows
    from sqlstream.statements.explaining import compiled_plan, plan_page

    if style == "html":
        workspace = session.workspace
        if isinstance(statement, ExecutePlan):
            compiled, workspace = compiled_plan(statement.path, workspace, statement.span)
            return plan_page(compiled, workspace)
        if isinstance(statement, CreateTable | CreateMaterializedView):
            assert statement.query is not None, "only these have plans"
            statement = Query(statement.query, span=statement.span)
        return plan_page(statement, workspace)
    rows = session.execute(Explain(statement, style.upper(), stage.upper()), text)
    assert isinstance(rows, Rows)
    return plain_text(rows)


def _declare(statement: Statement, session: Session) -> None:
    """The table of CREATE TABLE … AS is there for the statements behind, though nothing runs."""
    from sqlstream.grammar.nodes import CreateMaterializedView, CreateTable
    from sqlstream.statements.definitions import create_table
    from sqlstream.statements.registry import define

    if isinstance(statement, CreateMaterializedView):
        define(statement, session.workspace, "")

    if isinstance(statement, CreateTable) and statement.query is not None:
        table, stored, _ = session.table_of_query(statement, statement.query)
        create_table(statement, table, stored, session.workspace.catalog)
