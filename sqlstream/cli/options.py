"""Options that commands share, and the files that they name: texts, environment variables, the project."""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlstream.udfs.texts import is_text, reason_of

if TYPE_CHECKING:
    from sqlstream.project import Project

_ENCODING = "utf-8-sig"


def read_text(name: str) -> str:
    """The text of a file, or of standard input (``-``), without a byte order mark; a usage error where it has none."""
    if name == "-" and sys.stdin is None:
        raise _unreadable(name, "it is closed")
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(name, reason_of(error)) from error
    try:
        text = data.decode(_ENCODING)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1  # a byte order mark is no part of it
        raise _unreadable(name, f"line {line} is not UTF-8 text") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def rewrite(name: str, text: str) -> None:
    """Replace the text of a file atomically. A usage error says why it cannot be replaced."""
    file = Path(name).resolve()
    beside = file.with_name(f".{file.name[:200]}.{os.getpid()}")
    try:
        if not file.is_file():
            raise _unwritable(name, "it is no file")
        if not os.access(file, os.W_OK):  # a file takes the place of one that is for reading only, too
            raise _unwritable(name, os.strerror(errno.EACCES))
        try:
            beside.write_text(text, encoding="utf-8")
            shutil.copymode(file, beside)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise _unwritable(name, reason_of(error)) from error


def require_writable(file: Path) -> None:
    """A usage error where a file cannot be written, before the work whose result it gets."""
    try:
        with file.open("a", encoding="utf-8"):
            return
    except (OSError, ValueError) as error:
        raise _unwritable(str(file), reason_of(error)) from error


def _unwritable(name: str, reason: str) -> click.UsageError:
    return click.UsageError(f'cannot write "{name}": {reason}')


def require_text(text: str, option: str) -> str:
    """The text of an option; a usage error where its bytes are no text."""
    if not is_text(text):
        raise click.UsageError(f"the value of {option} is not UTF-8 text")
    return text


def _unreadable(name: str, reason: str) -> click.UsageError:
    shown = "standard input" if name == "-" else f'"{name}"'
    return click.UsageError(f"cannot read {shown}: {reason}")


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """``name=value`` arguments as a dictionary."""
    values: dict[str, str] = {}
    for text in given:
        require_text(text, option)
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f'{option} takes NAME=VALUE, not "{text}"')
        if name in values:
            raise click.UsageError(f'{option} "{name}" is given twice')
        values[name] = value
    return values


# --- --env-file: passwords come from a file, not from the command line -----------------------------------------


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def env_file_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--env-file``, whose variables are set in the process while the command runs."""

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
    """The variables of a file in the format of Docker: ``NAME=VALUE``, with the value as it is written; ``#`` begins a
    comment line.

    A usage error names a wrong line without showing its text.
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
    """Set environment variables of this process while the block runs."""
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


# --- --profile: the project of the working directory -----------------------------------------------------------


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
    from sqlstream.project import FILE, nearest_project  # loaded when the command runs: help and errors stay fast

    project = nearest_project(Path.cwd(), _PROFILE.get())
    if project is None and _PROFILE.get() is not None:
        raise click.UsageError(f'--profile "{_PROFILE.get()}" needs a {FILE} in this directory or above')
    for file in project.env_files if project is not None else ():
        for name, value in read_variables(file).items():
            os.environ.setdefault(name, value)
    return project
