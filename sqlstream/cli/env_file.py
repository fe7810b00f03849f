"""``--env-file``: variables of the environment out of a file, so that no password stands on a command line."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from sqlstream.cli.text_files import read_text

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def env_file_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--env-file``, whose variables are those of the process while the command runs."""

    @click.option(
        "--env-file", "env_files", multiple=True, metavar="FILE",
        help="Environment variables for ${NAME} in options and settings: a line NAME=VALUE each.",
    )  # fmt: skip
    @functools.wraps(command)
    def wrapped(env_files: tuple[str, ...], **arguments: Any) -> Any:
        with variables({name: value for file in env_files for name, value in read_variables(file).items()}):
            return command(**arguments)

    return wrapped


def read_variables(file: str) -> dict[str, str]:
    """The variables of a file, as Docker reads it: ``NAME=VALUE``, the value as it stands; ``#`` begins a comment line.

    A usage error names the line that is none, and shows nothing of it.
    """
    variables: dict[str, str] = {}
    for number, line in enumerate(read_text(file).split("\n"), 1):
        name, equals, value = line.partition("=")
        if (not name.strip() and not equals) or name.lstrip().startswith("#"):
            continue
        if not equals or not _NAME.fullmatch(name) or "\0" in value:
            raise click.UsageError(f'line {number} of "{file}" is not NAME=VALUE')
        if name in variables:
            raise click.UsageError(f'line {number} of "{file}" gives "{name}" a second value')
        variables[name] = value
    return variables


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """The variables are set in this process, in place of others of their names, while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
