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
from typing import Any

import click

from sqlstream.paths import importable
from sqlstream.udfs.texts import is_text, reason_of

_ENCODING = "utf-8-sig"


def read_text(name: str) -> str:
    """Returns the text of a file, or of standard input for ``-``, without byte order mark. A file that cannot be read,
    or is not UTF-8, is a usage error.
    """
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
    """Replaces the content of a file atomically. If that is impossible, raises a usage error with the reason."""
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
    """Raises a usage error if a file cannot be written. Called before the work whose result is written to it."""
    try:
        with file.open("a", encoding="utf-8"):
            return
    except (OSError, ValueError) as error:
        raise _unwritable(str(file), reason_of(error)) from error


def _unwritable(name: str, reason: str) -> click.UsageError:
    return click.UsageError(f'cannot write "{name}": {reason}')


def require_text(text: str, option: str) -> str:
    """Returns the value of a command-line option. Raises a usage error if it is not valid UTF-8."""
    if not is_text(text):
        raise click.UsageError(f"the value of {option} is not UTF-8 text")
    return text


def _unreadable(name: str, reason: str) -> click.UsageError:
    shown = "standard input" if name == "-" else f'"{name}"'
    return click.UsageError(f"cannot read {shown}: {reason}")


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """Converts ``name=value`` arguments of the option ``option`` into a dictionary."""
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
    """Decorator: adds ``--env-file`` to a command. The variables in the file are set in the process while the command
    runs.
    """

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
    """Reads a file of environment variables in Docker's format: lines ``NAME=VALUE``, where the value is taken
    literally; ``#`` begins a comment line.

    An invalid line is a usage error, which gives its number but not its text.
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
    """A context manager that sets environment variables of this process and restores them at the end."""
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


PROFILE: ContextVar[str | None] = ContextVar("profile", default=None)


def project_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: adds ``--profile`` to a command, for commands that use the project's sqlstream.toml."""

    @click.option(
        "--profile", metavar="NAME", envvar="SQLSTREAM_PROFILE", help="A profile of the project's sqlstream.toml."
    )
    @functools.wraps(command)
    def wrapped(profile: str | None, **arguments: Any) -> Any:
        token = PROFILE.set(profile or None)
        try:
            return command(**arguments)
        finally:
            PROFILE.reset(token)

    return wrapped


_PARAM = "Put VALUE for ${NAME}, and a literal of it for :NAME."


def script_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: adds FILE…, -e, --param and --env-file to a command, for commands that read SQL."""
    for decorate in (
        env_file_option,
        project_option,
        click.option("--param", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help=_PARAM),
        click.option("--execute", "-e", "statements", multiple=True, metavar="SQL", help="SQL instead of a file."),
        click.argument("files", nargs=-1, metavar="[FILE]..."),
    ):
        command = decorate(command)
    return _with_modules(command)


def _with_modules(command: Callable[..., Any]) -> Callable[..., Any]:
    """Python modules beside the scripts and in the current directory can be imported while the command runs."""

    @functools.wraps(command)
    def wrapped(files: tuple[str, ...], **arguments: Any) -> Any:
        with importable(*(Path(name).parent for name in files if name != "-"), Path.cwd()):
            return command(files=files, **arguments)

    return wrapped


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: adds --set, --settings and --master to a command, for commands that run statements."""
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


SHORTEST_TOKEN = 16


def token_option(variable: str) -> Callable[..., Any]:
    """``--token`` of a command that serves pages. ``variable``: that of the environment which has it otherwise."""

    def checked(ctx: click.Context, param: click.Parameter, token: str | None) -> str | None:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise click.UsageError(f"the token of --token must have {SHORTEST_TOKEN} characters or more")
        return token

    return click.option(
        "--token",
        metavar="TOKEN",
        envvar=variable,
        callback=checked,
        help=f"What opens the page, of {SHORTEST_TOKEN} characters or more; better in {variable}.",
    )


def observing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: adds --metrics-port and --log-format to a command that runs jobs. They are settings, and override
    those of --set.
    """
    command = _with_observing_settings(command)
    for decorate in (
        click.option(
            "--log-format",
            type=click.Choice(("json", "text")),
            help="Log epochs, dropped rows and failures of jobs on stderr, one line each.",
        ),
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            metavar="PORT",
            help="Show metrics to Prometheus at this port of 127.0.0.1, and /health and /ready; 0: any.",
        ),
    ):
        command = decorate(command)
    return command


def _with_observing_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def wrapped(metrics_port: int | None, log_format: str | None, settings: tuple[str, ...], **arguments: Any) -> Any:
        given = {"metrics.prometheus.port": metrics_port, "logging.format": log_format}
        own = tuple(f"{key}={value}" for key, value in given.items() if value is not None)
        others = tuple(pair for pair in settings if given.get(pair.partition("=")[0]) is None)
        return command(settings=(*others, *own), **arguments)

    return wrapped


def _with_files_of_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Read the settings of files, which those of ``--set`` override."""

    @functools.wraps(command)
    def wrapped(settings: tuple[str, ...], settings_files: tuple[str, ...], **arguments: Any) -> Any:
        given = {pair.partition("=")[0] for pair in settings}
        read = {key: value for name in settings_files for key, value in settings_of(read_text(name)).items()}
        kept = tuple(f"{key}={value}" for key, value in read.items() if key not in given)
        return command(settings=(*kept, *settings), **arguments)

    return wrapped


_LINE = re.compile(r"(?:SET\s+)?['\"]?([\w.#-]+)['\"]?\s*[:=]\s*(.*?)\s*;?", re.IGNORECASE)


def settings_of(text: str) -> dict[str, str]:
    """Parses the text of a settings file and returns the settings by key. An invalid line is a usage error."""
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


FORMATS = ("table", "json", "jsonl", "csv", "markdown", "vertical")
