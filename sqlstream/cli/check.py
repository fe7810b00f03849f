"""``sqlstream check``, and the check that ``run`` makes before it starts anything."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sqlstream.cli.exits import OK, WRONG_SQL
from sqlstream.cli.scripts import Script, read_scripts, script_options
from sqlstream.errors import Diagnostic, Span

if TYPE_CHECKING:
    from sqlstream.session import Session

_EPILOG = """\b
Several files are checked as one script: tables of the first are known in the second.

\b
Examples:
  sqlstream check query.sql
  sqlstream check tables.sql query.sql --param data=/tmp/data
  sqlstream check --from flink job.sql
"""

_BETWEEN = "\n;\n"


@click.command("check", epilog=_EPILOG)
@script_options
@click.option(
    "--from", "origin", type=click.Choice(("flink",)), help="Also say what a script of Flink's does otherwise."
)
def command(
    files: tuple[str, ...], statements: tuple[str, ...], parameters: tuple[str, ...], origin: str | None
) -> int:
    """Find all mistakes of scripts at once, without starting Spark. Warnings leave the exit code 0."""
    from sqlstream.cli.sessions import open_session

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
    """The mistakes of scripts that run one after the other, each with the name of its script."""
    starts, end = [], 0
    for script in scripts:
        starts.append(end)
        end += len(script.text) + len(_BETWEEN)
    joined = _BETWEEN.join(script.text for script in scripts)
    return [_located(d, joined, scripts, starts) for d in session.check(joined)]


def warnings_of_scripts(scripts: Sequence[Script]) -> list[tuple[str, Diagnostic]]:
    """What the scripts say that is allowed and hardly meant, each with the name of its script."""
    from sqlstream.statements.checking import script_warnings

    return [(script.name, warning) for script in scripts for warning in script_warnings(script.text)]


def _changes_of(scripts: Sequence[Script]) -> list[tuple[str, Diagnostic]]:
    from sqlstream.statements.checking import changes_from_flink

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
