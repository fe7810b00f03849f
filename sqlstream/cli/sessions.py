"""Sessions of commands: the options --set, --settings and --master."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from sqlstream.cli.project_option import current_project
from sqlstream.cli.scripts import pairs
from sqlstream.cli.text_files import read_text, require_text
from sqlstream.errors import SqlStreamError

if TYPE_CHECKING:
    from sqlstream.session import Session


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --set, --settings and --master of commands that run statements."""
    command = _with_files_of_settings(command)
    for decorate in (
        click.option(
            "--settings",
            "settings_files",
            multiple=True,
            metavar="FILE",
            envvar="SQLSTREAM_SETTINGS",
            type=click.Path(),
            help="Settings from a file: lines KEY: VALUE, KEY = VALUE or SET. $SQLSTREAM_SETTINGS names one, too.",
        ),
        click.option("--master", metavar="URL", help="Where Spark runs: local[4], spark://host:7077, sc://host:15002."),
        click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, as with SET."),
    ):
        command = decorate(command)
    return command


def _with_files_of_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets the settings of the files as those of ``--set``, which count more."""

    @functools.wraps(command)
    def wrapped(settings: tuple[str, ...], settings_files: tuple[str, ...], **arguments: Any) -> Any:
        given = {pair.partition("=")[0] for pair in settings}
        read = {key: value for name in settings_files for key, value in settings_of(read_text(name)).items()}
        kept = tuple(f"{key}={value}" for key, value in read.items() if key not in given)
        return command(settings=(*kept, *settings), **arguments)

    return wrapped


_LINE = re.compile(r"(?:SET\s+)?['\"]?([\w.#-]+)['\"]?\s*[:=]\s*(.*?)\s*;?", re.IGNORECASE)


def settings_of(text: str) -> dict[str, str]:
    """The settings of a file, by key. A usage error for a line that is none."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        written = line.strip()
        if not written or written.startswith(("#", "--")):
            continue
        setting = _LINE.fullmatch(written)
        if setting is None:
            raise click.UsageError(f"line {number} of the settings is no KEY: VALUE")
        value = setting[2]
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        settings[setting[1]] = value[1:-1] if quoted else value
    return settings


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
