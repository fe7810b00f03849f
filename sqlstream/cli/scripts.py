"""The scripts and the session of a command: files, ``-e`` and standard input, parameters, settings."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlstream.cli.options import current_project, env_file_option, pairs, project_option, read_text, require_text
from sqlstream.errors import Diagnostic, ParseError, Span, SqlStreamError
from sqlstream.paths import importable
from sqlstream.secrets import may_be_secret, option_at

if TYPE_CHECKING:
    from sqlstream.session import Session

UNKNOWN_PARAMETER = "SS190"
_PARAM = "Put VALUE for ${NAME}, and a literal of it for :NAME."
_PLACEHOLDER = re.compile(r"(?<!\$)\$\{(\w+)\}")  # what follows another $ is a text between $$


@dataclass(frozen=True)
class Script:
    """SQL text with the name to show for it: a path, ``<stdin>`` or ``-e``."""

    name: str
    text: str


def script_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments FILE…, -e, --param and --env-file of commands that read SQL."""
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


def read_scripts(files: Sequence[str], statements: Sequence[str], parameters: Sequence[str] = ()) -> list[Script]:
    """The scripts of a command line, files first, parameters put in; a usage error where there are none."""
    given = pairs(parameters, "--param")
    project = current_project()
    return substitute(written_scripts(files, statements), given, {} if project is None else project.variables)


def written_scripts(files: Sequence[str], statements: Sequence[str]) -> list[Script]:
    """As ``read_scripts``, with ``${name}`` as it is written."""
    scripts = [_read(name) for name in files] + [Script("-e", require_text(text, "-e")) for text in statements]
    if not scripts:
        raise click.UsageError('no SQL given: name a file, "-" for standard input, or write -e "SELECT …"')
    return scripts


def _read(name: str) -> Script:
    return Script("<stdin>" if name == "-" else name, read_text(name))


class InScriptError(Exception):
    """An error of one of several scripts, with the name of the script."""

    def __init__(self, script: Script, error: SqlStreamError) -> None:
        super().__init__(script.name, error)
        self.error = error
        self.text = "\n\n".join(f"{script.name}: {d.render()}" for d in error.with_source(script.text).diagnostics)

    def __str__(self) -> str:
        return self.text


@contextmanager
def named(script: Script, scripts: Sequence[Script]) -> Iterator[None]:
    """Add the name of the script to errors raised inside, if there are several scripts."""
    try:
        yield
    except SqlStreamError as error:
        if len(scripts) == 1:
            raise
        raise InScriptError(script, error) from error.__cause__


def substitute(
    scripts: Sequence[Script], parameters: Mapping[str, str], variables: Mapping[str, str] | None = None
) -> list[Script]:
    """Put parameters in. SS190 for a ``${name}`` without a value; a usage error for a value that is not used.

    A ``${name}`` in an option that is a variable of the project or of the environment, but no parameter, stays:
    definitions store it, and their jobs look it up.
    """
    known = variables or {}
    used = {match[1] for script in scripts for match in _PLACEHOLDER.finditer(script.text)}
    if parameters:
        used |= {name for script in scripts for name in _named(script.text)}
    if unused := sorted(parameters.keys() - used):
        where = f"there is no ${{{unused[0]}}} and no :{unused[0]}"
        raise click.UsageError(f'no script uses the parameter "{unused[0]}": {where}')
    for script in scripts:
        if unknown := [_unknown(script, match) for match in _missing(script, {**known, **parameters})]:
            with named(script, scripts):
                raise ParseError.of(unknown)
    if not parameters and not known:
        return list(scripts)
    return [Script(s.name, with_parameters(s.text, parameters, known)) for s in scripts]


def with_parameters(text: str, parameters: Mapping[str, str], variables: Mapping[str, str] | None = None) -> str:
    """The text with the parameters put in, ``${name}`` as they are written and ``:name`` as literals; what has no value
    stays."""
    from sqlstream.arguments import literal_of_text  # loaded when the command runs: help and errors stay fast

    literals = {name: literal_of_text(value) for name, value in parameters.items()}
    return _filled(_put_in(text, parameters, variables or {}), literals)


def _put_in(text: str, parameters: Mapping[str, str], variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] in parameters or match[1] not in variables:
            return parameters.get(match[1], match[0])
        return match[0] if option_at(text, match.start()) is not None else variables[match[1]]

    return _PLACEHOLDER.sub(value, text)


def _filled(text: str, literals: Mapping[str, str]) -> str:
    from sqlstream.arguments import with_values  # loaded when the command runs: help and errors stay fast

    return with_values(text, literals) if _named(text) & literals.keys() else text


def _named(text: str) -> set[str]:
    """The names of ``:name``; none in a text that has no tokens."""
    from sqlstream.arguments import named_parameters  # loaded when the command runs: help and errors stay fast

    try:
        return {name for name, _ in named_parameters(text)}
    except SqlStreamError:
        return set()


def _missing(script: Script, parameters: Mapping[str, str]) -> list[re.Match[str]]:
    placeholders = (match for match in _PLACEHOLDER.finditer(script.text) if match[1] not in parameters)
    return [match for match in placeholders if not _is_variable(match, script.text)]


def _is_variable(match: re.Match[str], text: str) -> bool:
    return match[1] in os.environ and option_at(text, match.start()) is not None


def _unknown(script: Script, match: re.Match[str]) -> Diagnostic:
    return Diagnostic(
        UNKNOWN_PARAMETER,
        f'parameter "{match[1]}" has no value',
        Span(*match.span()),
        hint=_how_to_give(match[1], option_at(script.text, match.start())),
        source=script.text,
    )


def _how_to_give(name: str, key: str | None) -> str:
    """The hint how to give the parameter. Passwords do not belong on a command line, which all users can read."""
    if key is None or not may_be_secret(key):
        return f"Give it one: --param {name}=VALUE."
    return (
        f"Set the environment variable {name}, or write it into a file for --env-file. What is no secret may stand on "
        f"the command line: --param {name}=VALUE."
    )


# --- Sessions: --set, --settings and --master ------------------------------------------------------------------


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
    from sqlstream.connectors.secrets import resolved  # loaded when the command runs: help and errors stay fast
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
