"""``sqlstream shell``."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from pathlib import Path

import click

from sqlstream.cli.env_file import env_file_option
from sqlstream.cli.output import FORMATS
from sqlstream.cli.project_option import project_option
from sqlstream.cli.scripts import pairs
from sqlstream.cli.sessions import open_session, session_options
from sqlstream.cli.text_files import require_text
from sqlstream.python_path import importable

_EPILOG = """\b
Spark starts while you type. Ctrl-C cancels the running query, Ctrl-D leaves, \\? shows the shell's commands.
Ctrl-Z sends it to the background. Long results go through $PAGER.
A background job that fails is told of above the prompt. With piped input, statements run one after the other,
also after a wrong one; the exit code then is 1. ~/.config/sqlstream/shellrc runs before the first prompt; keys are
those of Emacs, or of vi where ~/.inputrc says "set editing-mode vi".

\b
Examples:
  sqlstream shell
  echo "SHOW CONNECTORS;" | sqlstream shell
  sqlstream shell -f tables.sql -c "SELECT * FROM clicks LIMIT 10" --format csv
  sqlstream shell -f tables.sql -v day=2026-11-25 -i
"""


@click.command("shell", epilog=_EPILOG)
@session_options
@env_file_option
@project_option
@click.option("--command", "-c", "commands", multiple=True, metavar="SQL", help="Run this, and leave.")
@click.option("--file", "-f", "files", multiple=True, metavar="FILE", help="Run a file, and leave; before those of -c.")
@click.option(
    "--param", "-p", "-v", "parameters", multiple=True, metavar="NAME=VALUE", help="Put VALUE for ${NAME} in all text."
)
@click.option("--interactive", "-i", "stays", is_flag=True, help="Stay behind -f and -c.")
@click.option("--format", "style", type=click.Choice(FORMATS), default="table", help="How rows are written.")
def command(
    settings: tuple[str, ...],
    master: str | None,
    commands: tuple[str, ...],
    files: tuple[str, ...],
    stays: bool,
    style: str,
    parameters: tuple[str, ...],
) -> int:
    """Type SQL and see results as they come."""
    from sqlstream.shell import run_shell

    with importable(Path.cwd()):
        texts = [require_text(text, "-c") for text in commands]
        given = pairs(parameters, "--param")
        # Opened perhaps on another thread, which must know the profile of the command line.
        opening = partial(copy_context().run, open_session, master, settings)
        return run_shell(opening, files, texts, style=style, stays=stays, parameters=given)
