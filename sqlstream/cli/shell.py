"""``sqlstream shell``."""

from __future__ import annotations

from pathlib import Path

import click

from sqlstream.cli.env_file import env_file_option
from sqlstream.cli.sessions import open_session, session_options
from sqlstream.python_path import importable

_EPILOG = """\b
Spark starts while you type. Ctrl-C cancels the running query, Ctrl-D leaves, \\? shows the shell's commands.
A background job that fails is told of above the prompt. With piped input, statements run one after the other,
also after a wrong one; the exit code then is 1.

\b
Examples:
  sqlstream shell
  echo "SHOW CONNECTORS;" | sqlstream shell
"""


@click.command("shell", epilog=_EPILOG)
@session_options
@env_file_option
def command(settings: tuple[str, ...], master: str | None) -> int:
    """Type SQL and see results as they come."""
    from sqlstream.shell import run_shell

    with importable(Path.cwd()):
        return run_shell(open_session(master, settings))
