"""``sqlstream run``."""

from __future__ import annotations

import sys

import click

from sqlstream.cli.output import FORMATS
from sqlstream.cli.scripts import read_scripts, script_options
from sqlstream.cli.sessions import session_options

_EPILOG = """\b
Statements run one after the other; files share one session. A query prints its rows as they come.
INSERT from bounded tables is waited for; other INSERTs run side by side until Ctrl-C.
Standard output has the results and nothing else. Standard error shows rows, rates and the watermark if it is
a terminal; elsewhere it gets what each bounded INSERT has written, with --progress a line every two seconds,
with --no-progress neither. Exit codes: 0 success, 1 the SQL is wrong, 2 the command is wrong, 3 a job failed,
130 interrupted.

\b
Examples:
  sqlstream run tables.sql query.sql --param data=/tmp/data
  sqlstream run tables.sql -e "SELECT * FROM t" --output jsonl | head
  sqlstream run job.sql --set execution.checkpointing.dir=/var/lib/checkpoints
"""


@click.command("run", epilog=_EPILOG)
@script_options
@session_options
@click.option("--output", "-o", type=click.Choice(FORMATS), default="table", help="How rows are printed.")
@click.option("--progress/--no-progress", default=None, help="What is going on, on stderr [default: on a terminal].")
def command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    output: str,
    progress: bool | None,
) -> int:
    """Run scripts: files first, then -e; "-" is standard input."""
    from sqlstream.cli.execution import Execution
    from sqlstream.cli.sessions import open_session

    scripts = read_scripts(files, statements, parameters)
    shown = sys.stderr.isatty() if progress is None else progress
    with open_session(master, settings) as session:
        return Execution(session, output, shown, quiet=progress is False).run(scripts)
