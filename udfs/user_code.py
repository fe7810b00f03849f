"""Imports and inspects the Python code of users; every exception that it raises becomes an error that names it."""

from __future__ import annotations

import contextlib
import importlib
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from sqlstream.errors import ConnectorError, SqlStreamError

BAD_TARGET = "SS551"
NO_MODULE = "SS552"
NO_ATTRIBUTE = "SS553"

_OURS = Path(__file__).resolve().parents[1]


def load(target: str) -> object:
    """The Python object of ``package.module:name``. Imports its module; what the module prints goes to stderr.

    ConnectorError SS551, SS552 or SS553 where there is no such object. KeyboardInterrupt is not caught.
    """
    module_name, colon, path = target.partition(":")
    if not colon or not path or not all(word.isidentifier() for word in module_name.split(".")):
        raise ConnectorError(BAD_TARGET, f'"{target}" names no Python function', hint="Write 'package.module:name'.")
    member: object = _module(module_name, target)
    for attribute in path.split("."):
        member = _attribute(member, attribute, target)
    return member


@contextlib.contextmanager
def user_code(code: str, message: str, hint: str | None = None) -> Iterator[None]:
    """A context that reports every exception, including ``SystemExit``, as the cause of an error with this code and
    message."""
    try:
        yield
    except (SqlStreamError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ConnectorError(code, message, detail=cause_of(error), hint=hint) from error


def cause_of(error: BaseException) -> str:
    """The kind and the text of an error, and the line of the user's code that raised it."""
    text = f"{type(error).__name__}: {_text(error)}"
    lines = [f"{Path(f.filename).name}, line {f.lineno}" for f in traceback.extract_tb(error.__traceback__) if _own(f)]
    return f"{text} ({lines[-1]})" if lines else text


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "it has no text"


def _own(frame: traceback.FrameSummary) -> bool:
    if frame.filename.startswith("<") or frame.filename in (importlib.__file__, contextlib.__file__):
        return False
    return not Path(frame.filename).resolve().is_relative_to(_OURS / "udfs")


def _module(name: str, target: str) -> object:
    try:
        with user_code(NO_MODULE, f'importing module "{name}" failed'), contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except ConnectorError as error:
        cause = error.__cause__
        if not isinstance(cause, ModuleNotFoundError):
            raise
        hint = "Modules are looked for beside the script, in the current directory and among installed packages."
        message = f'module "{cause.name or name}" of function "{target}" not found'
        raise ConnectorError(NO_MODULE, message, hint=hint) from cause


def _attribute(holder: object, name: str, target: str) -> object:
    message = f'"{name}" of function "{target}" does not exist'
    try:
        with user_code(NO_ATTRIBUTE, message):
            return getattr(holder, name)
    except ConnectorError as error:
        if not isinstance(error.__cause__, AttributeError):
            raise
        with user_code(NO_ATTRIBUTE, message):
            close = get_close_matches(name, [n for n in dir(holder) if not n.startswith("_")], n=1)
        hint = f'Did you mean "{close[0]}"?' if close else None
        raise ConnectorError(NO_ATTRIBUTE, message, hint=hint) from None


# --- functions whose Python text is part of CREATE FUNCTION ---------------------------------------------------


NOT_PYTHON = "SS556"


def function_in_place(name: str, parameters: Sequence[str], body: str) -> Callable[..., object]:
    """The function with these parameters, whose body is the text. ConnectorError SS556 where it is no Python.

    Workers get it by value: its module is none that could be imported.
    """
    wrong = next((p for p in parameters if not p.isidentifier()), None)
    if wrong is not None:
        raise ConnectorError(NOT_PYTHON, f'parameter "{wrong}" of function "{name}" is no name in Python')
    text = textwrap.dedent(body.strip("\n")).strip() or "pass"
    code = f"def function({', '.join(parameters)}):\n{textwrap.indent(text, '    ')}\n"
    namespace: dict[str, object] = {"__name__": "sqlstream_function"}
    try:
        exec(compile(code, f"<function {name}>", "exec"), namespace)
    except SyntaxError as error:
        line = (error.lineno or 2) - 1
        message = f'the text of function "{name}" is no Python: {error.msg}'
        hint = "It is the body of a function, as in AS $$ return x + 1 $$."
        raise ConnectorError(NOT_PYTHON, message, detail=f"It is in line {line} of the text.", hint=hint) from error
    function = namespace["function"]
    assert callable(function)
    return function
