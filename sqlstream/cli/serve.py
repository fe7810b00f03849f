"""``sqlstream serve``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

import click

from sqlstream.cli.exits import INTERRUPTED, OK, WRONG_SQL
from sqlstream.cli.scripts import Script, read_scripts, script_options
from sqlstream.cli.sessions import session_options

if TYPE_CHECKING:
    from sqlstream.session import Session

_EPILOG = """\b
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


@click.command("serve", epilog=_EPILOG)
@script_options
@session_options
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="Of the page; 0: any.")
@click.option("--page/--no-page", default=True, help="Show the state of the views on a page of 127.0.0.1.")
def command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    port: int,
    page: bool,
) -> int:
    """Keep the materialized views of scripts, for psql and BI tools to read."""
    from sqlstream.cli.check import check_scripts
    from sqlstream.cli.sessions import open_session

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
    """Set by Ctrl-C and SIGTERM, which end no micro-batch midway."""
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
    from sqlstream.secrets import shown_value
    from sqlstream.spark.startup import SparkStart
    from sqlstream.views.serving import Page, PlanPages, Serving, Shown
    from sqlstream.views.state import tell_address

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
