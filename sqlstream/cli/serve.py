"""``sqlstream serve``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

import click

from sqlstream.cli.check import check_scripts
from sqlstream.cli.execution import tell_metrics
from sqlstream.cli.scripts import Script, open_session, read_scripts
from sqlstream.cli.terminal import INTERRUPTED, OK, WRONG_SQL
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import Set
from sqlstream.secrets import shown_value
from sqlstream.spark.startup import SparkStart
from sqlstream.views.server import DIRECTORY, URL, tell_address
from sqlstream.views.serving import Page, PlanPages, Serving, Shown

if TYPE_CHECKING:
    from sqlstream.session import Session


_LOOK_SECONDS = 1.0


def serve_command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    port: int,
    page: bool,
    token: str | None,
) -> int:
    """``sqlstream serve``: maintains the materialized views of scripts, so that psql and BI tools can read them."""
    scripts = read_scripts(files, statements, parameters)
    with _stopped() as stopped, open_session(master, settings) as session:
        wrong = check_scripts(scripts, session)
        for name, diagnostic in wrong:
            click.echo(diagnostic.render() if len(scripts) == 1 else f"{name}: {diagnostic.render()}", err=True)
        if wrong:
            return WRONG_SQL
        tell_metrics(session)
        for key, value in server_settings(script.text for script in scripts).items():
            session.workspace.settings.set(key, value)
        _serve(session, scripts, port if page else None, token, stopped)
    return OK if not stopped.by_interrupt else INTERRUPTED


def server_settings(scripts: Iterable[str]) -> dict[str, str]:
    """What scripts SET of the server of views. It starts before they run, so that its address is there at once."""
    statements = (statement for text in scripts for statement in parse_script(text))
    given = {s.key: s.value for s in statements if isinstance(s, Set)}
    return {key: value for key in (DIRECTORY, URL) if (value := given.get(key)) is not None}


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


def _serve(session: Session, scripts: list[Script], port: int | None, token: str | None, stopped: _Stop) -> None:
    def tell(text: str) -> None:
        click.echo(text, err=True)

    start = SparkStart(session)
    url = tell_address(session.workspace.settings)
    shown = Shown(shown_value("url", url))
    serving = Serving(session, tell)
    plans = PlanPages()
    served = Page(port, lambda: shown, plans, token) if port is not None else None
    try:
        click.echo(url)
        if served is not None:
            click.echo(served.address)
        sys.stdout.flush()
        start.wait()
        serving.run(script.text for script in scripts if not stopped.is_set())
        while not serving.is_over and not stopped.wait(_LOOK_SECONDS):
            serving.look()
            plans.take(serving.records())
            shown = Shown(shown.url, serving.snapshot(), plans.names)
    finally:
        if served is not None:
            served.close()
