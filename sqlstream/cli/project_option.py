"""``--profile``: the project of the working directory, as all commands see it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sqlstream.project import Project

_PROFILE: ContextVar[str | None] = ContextVar("profile", default=None)


def project_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--profile`` of commands that look into the project's sqlstream.toml."""

    @click.option(
        "--profile", metavar="NAME", envvar="SQLSTREAM_PROFILE", help="A profile of the project's sqlstream.toml."
    )
    @functools.wraps(command)
    def wrapped(profile: str | None, **arguments: Any) -> Any:
        token = _PROFILE.set(profile or None)
        try:
            return command(**arguments)
        finally:
            _PROFILE.reset(token)

    return wrapped


def current_project() -> Project | None:
    """The project of the working directory, with the profile of the command line and its variables of the environment;
    None where there is none. A usage error for a profile without a project."""
    from sqlstream.cli.env_file import read_variables
    from sqlstream.project import FILE, nearest_project

    project = nearest_project(Path.cwd(), _PROFILE.get())
    if project is None and _PROFILE.get() is not None:
        raise click.UsageError(f'--profile "{_PROFILE.get()}" needs a {FILE} in this directory or above')
    for file in project.env_files if project is not None else ():
        for name, value in read_variables(file).items():
            os.environ.setdefault(name, value)
    return project
