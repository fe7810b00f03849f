"""Commands that run statements: ``run``, ``serve`` and ``shell``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from sqlstream.cli.options import env_file_option, pairs, project_option, require_text
from sqlstream.cli.output import FORMATS
from sqlstream.cli.scripts import Script, open_session, read_scripts, script_options, session_options
from sqlstream.cli.terminal import INTERRUPTED, OK, WRONG_SQL
from sqlstream.paths import importable

if TYPE_CHECKING:
    from sqlstream.session import Session

_RUN = """\b
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


@click.command("run", epilog=_RUN)
@script_options
@session_options
@click.option("--output", "-o", type=click.Choice(FORMATS), default="table", help="How rows are printed.")
@click.option("--progress/--no-progress", default=None, help="What is going on, on stderr [default: on a terminal].")
def run_command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    output: str,
    progress: bool | None,
) -> int:
    """Run scripts: files first, then -e; "-" is standard input."""
    from sqlstream.cli.execution import Execution  # loaded when the command runs: help and errors stay fast

    scripts = read_scripts(files, statements, parameters)
    shown = sys.stderr.isatty() if progress is None else progress
    with open_session(master, settings) as session:
        return Execution(session, output, shown, quiet=progress is False).run(scripts)


# --- sqlstream serve -------------------------------------------------------------------------------------------


_SERVE = """\b
The scripts define tables and materialized views; each view has a job that goes on until Ctrl-C or SIGTERM, in one
Spark. A job that fails starts again from its checkpoint, at once and then after longer and longer times
(restart-strategy.type, exponential-delay here). After kill -9 the same command goes on from the checkpoints: no row
is lost or doubled. INSERT runs, too; a query does not.
Standard output has two lines, the address of the PostgreSQL server for psql and BI tools and that of the page.
Without sqlstream.views.url the server is one of this machine that is started, on a port of 127.0.0.1.
Exit codes: 0 stopped by SIGTERM, 130 by Ctrl-C, 1 the SQL is wrong, 2 the command is wrong, 3 Spark or
the server did not start.

\b
Examples:
  sqlstream serve tables.sql views.sql
  sqlstream serve views.sql --port 8080 --set sqlstream.views.dir=/var/lib/views
  sqlstream serve views.sql --set 'sqlstream.views.url=postgresql://etl:${PASSWORD}@db:5432/shop'
"""

_LOOK_SECONDS = 1.0


@click.command("serve", epilog=_SERVE)
@script_options
@session_options
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="Of the page; 0: any.")
@click.option("--page/--no-page", default=True, help="Show the state of the views on a page of 127.0.0.1.")
def serve_command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    port: int,
    page: bool,
) -> int:
    """Keep the materialized views of scripts, for psql and BI tools to read."""
    from sqlstream.cli.check import check_scripts  # loaded when the command runs: help and errors stay fast

    scripts = read_scripts(files, statements, parameters)
    with _stopped() as stopped, open_session(master, settings) as session:
        wrong = check_scripts(scripts, session)
        for name, diagnostic in wrong:
            click.echo(diagnostic.render() if len(scripts) == 1 else f"{name}: {diagnostic.render()}", err=True)
        if wrong:
            return WRONG_SQL
        _serve(session, scripts, port if page else None, stopped)
    return OK if not stopped.by_interrupt else INTERRUPTED


class _Stop(Event):
    by_interrupt = False


@contextmanager
def _stopped() -> Iterator[_Stop]:
    """An event that Ctrl-C and SIGTERM set, so that micro-batches are completed."""
    stopped = _Stop()

    def stop(number: int, frame: object) -> None:
        if stopped.is_set():  # a second time: whoever asks does not want to wait
            raise KeyboardInterrupt
        stopped.by_interrupt = number == signal.SIGINT
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _serve(session: Session, scripts: list[Script], port: int | None, stopped: _Stop) -> None:
    from sqlstream.secrets import shown_value  # loaded when the command runs: help and errors stay fast
    from sqlstream.spark.startup import SparkStart
    from sqlstream.views.server import tell_address
    from sqlstream.views.serving import Page, PlanPages, Serving, Shown

    def tell(text: str) -> None:
        click.echo(text, err=True)

    start = SparkStart(session)
    url = tell_address(session.workspace.settings)
    shown = Shown(shown_value("url", url))
    serving = Serving(session, tell)
    plans = PlanPages()
    served = Page(port, lambda: shown, plans) if port is not None else None
    try:
        click.echo(url)
        if served is not None:
            click.echo(served.url)
        sys.stdout.flush()
        start.wait()
        serving.run(script.text for script in scripts if not stopped.is_set())
        while not stopped.wait(_LOOK_SECONDS):
            serving.look()
            plans.take(serving.records())
            shown = Shown(shown.url, serving.snapshot(), plans.names)
    finally:
        if served is not None:
            served.close()


# --- sqlstream shell -------------------------------------------------------------------------------------------


_SHELL = """\b
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


@click.command("shell", epilog=_SHELL)
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
def shell_command(
    settings: tuple[str, ...],
    master: str | None,
    commands: tuple[str, ...],
    files: tuple[str, ...],
    stays: bool,
    style: str,
    parameters: tuple[str, ...],
) -> int:
    """Type SQL and see results as they come."""
    from sqlstream.shell import run_shell  # loaded when the command runs: help and errors stay fast

    with importable(Path.cwd()):
        texts = [require_text(text, "-c") for text in commands]
        given = pairs(parameters, "--param")
        # Opened perhaps on another thread, which must know the profile of the command line.
        opening = partial(copy_context().run, open_session, master, settings)
        return run_shell(opening, files, texts, style=style, stays=stays, parameters=given)
