"""The scripts and the session of a command: files, ``-e`` and standard input, parameters, settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from sqlstream.arguments import literal_of_text, named_parameters, with_values
from sqlstream.cli.options import PROFILE, pairs, read_text, read_variables, require_text
from sqlstream.connectors.secrets import resolved
from sqlstream.errors import Diagnostic, ParseError, Span, SqlStreamError
from sqlstream.project import FILE, Project, enter, nearest_project
from sqlstream.secrets import may_be_secret, option_at
from sqlstream.session import Session, connect

UNKNOWN_PARAMETER = "SS190"
_PLACEHOLDER = re.compile(r"(?<!\$)\$\{(\w+)\}")  # what follows another $ is a text between $$


@dataclass(frozen=True)
class Script:
    """An SQL text and its name for messages: a path, ``<stdin>`` or ``-e``."""

    name: str
    text: str


def read_scripts(files: Sequence[str], statements: Sequence[str], parameters: Sequence[str] = ()) -> list[Script]:
    """Returns the scripts of a command line, files before -e, with parameters filled in. Raises a usage error if there
    are none.

    ``parameters``: the values of --param, as ``name=value``.
    """
    given = pairs(parameters, "--param")
    project = current_project()
    return substitute(written_scripts(files, statements), given, {} if project is None else project.variables)


def written_scripts(files: Sequence[str], statements: Sequence[str]) -> list[Script]:
    """Returns the scripts of a command line as they are written: ``${name}`` is not replaced. Raises a usage error if
    there are none.
    """
    scripts = [_read(name) for name in files] + [Script("-e", require_text(text, "-e")) for text in statements]
    if not scripts:
        raise click.UsageError('no SQL given: name a file, "-" for standard input, or write -e "SELECT …"')
    return scripts


def _read(name: str) -> Script:
    return Script("<stdin>" if name == "-" else name, read_text(name))


class InScriptError(Exception):
    """An error in one of several scripts. Its message begins with the name of the script."""

    def __init__(self, script: Script, error: SqlStreamError) -> None:
        super().__init__(script.name, error)
        self.error = error
        self.text = "\n\n".join(f"{script.name}: {d.render()}" for d in error.with_source(script.text).diagnostics)

    def __str__(self) -> str:
        return self.text


@contextmanager
def named(script: Script, scripts: Sequence[Script]) -> Iterator[None]:
    """A context manager that adds the script's name to errors, if there are several scripts."""
    try:
        yield
    except SqlStreamError as error:
        if len(scripts) == 1:
            raise
        raise InScriptError(script, error) from error.__cause__


def substitute(
    scripts: Sequence[Script], parameters: Mapping[str, str], variables: Mapping[str, str] | None = None
) -> list[Script]:
    """Fills parameters (``${name}`` and ``:name``) into scripts. Raises ParseError SS190 for a ``${name}`` without a
    value, and a usage error for a parameter that no script uses.

    ``variables``: those of the project. In an option value, a ``${name}`` that is no parameter but a variable of the
    project or the environment is not replaced, because it is looked up when a job starts.
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
    """Returns the text with parameters filled in: ``${name}`` literally, ``:name`` as an SQL literal. Names without a
    value are not replaced.
    """
    literals = {name: literal_of_text(value) for name, value in parameters.items()}
    return _filled(_put_in(text, parameters, variables or {}), literals)


def _put_in(text: str, parameters: Mapping[str, str], variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] in parameters or match[1] not in variables:
            return parameters.get(match[1], match[0])
        return match[0] if option_at(text, match.start()) is not None else variables[match[1]]

    return _PLACEHOLDER.sub(value, text)


def _filled(text: str, literals: Mapping[str, str]) -> str:
    return with_values(text, literals) if _named(text) & literals.keys() else text


def _named(text: str) -> set[str]:
    """The names of ``:name``; none in a text that has no tokens."""
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


def open_session(master: str | None, settings: Sequence[str]) -> Session:
    """Opens a session with the current project and the settings of ``--set``. Invalid values are usage errors.

    ``${NAME}`` in ``--set`` and ``--master`` is an environment variable.
    """
    if not require_text("local" if master is None else master, "--master").strip():
        raise click.UsageError("--master is empty")
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


def current_project() -> Project | None:
    """Returns the project of the working directory, with the profile of the command line; None if there is no project.

    Sets the environment variables in the project's env files. A profile without a project is a usage error.
    """
    project = nearest_project(Path.cwd(), PROFILE.get())
    if project is None and PROFILE.get() is not None:
        raise click.UsageError(f'--profile "{PROFILE.get()}" needs a {FILE} in this directory or above')
    for file in project.env_files if project is not None else ():
        for name, value in read_variables(file).items():
            os.environ.setdefault(name, value)
    return project
