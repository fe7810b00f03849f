"""Sessions of commands: the options --set and --master."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from sqlstream.cli.project_option import current_project
from sqlstream.cli.scripts import pairs
from sqlstream.cli.text_files import require_text
from sqlstream.errors import SqlStreamError

if TYPE_CHECKING:
    from sqlstream.session import Session


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --set and --master of commands that run statements."""
    for decorate in (
        click.option("--master", metavar="URL", help="Where Spark runs: local[4], spark://host:7077, sc://host:15002."),
        click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, as with SET."),
    ):
        command = decorate(command)
    return command


def open_session(master: str | None, settings: Sequence[str]) -> Session:
    """A session of the project with the settings of ``--set``; a wrong one is a usage error. Both options may name
    environment variables."""
    if not require_text("local" if master is None else master, "--master").strip():
        raise click.UsageError("--master is empty")
    from sqlstream.connectors.secrets import resolved
    from sqlstream.project import enter
    from sqlstream.session import connect

    project = current_project()
    try:
        session = connect(resolved({"--master": master})["--master"])
        if project is not None:
            enter(session, project)
        for key, value in pairs(settings, "--set").items():
            session.workspace.settings.set(key, value)
    except SqlStreamError as error:
        raise click.UsageError(str(error)) from error
    return session
