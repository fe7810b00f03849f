"""Functions of users: how they are written in Python, found by name and described for the planner.

Scalar::

    def fee(price: float, country: str) -> float: ...

    @scalar(returns="DECIMAL(10, 2)", vectorized=True)
    def net(price: pandas.Series) -> pandas.Series: ...

Aggregate, a class::

    class Median:
        def create(self) -> list[float]: ...
        def accumulate(self, state: list[float], value: float) -> list[float]: ...
        def merge(self, state: list[float], other: list[float]) -> list[float]: ...
        def finish(self, state: list[float]) -> float: ...

``accumulate`` and ``merge`` return the new state, or None where they changed the given one.

Table, a generator function or a class with ``eval``, whose row is a NamedTuple, a dataclass or one value::

    def words(text: str) -> Iterator[Word]: ...

Lookup, a coroutine or a class with one, asked by ``LATERAL TABLE(geo(ip)) LOOKUP ASYNC (…)``::

    async def geo(ip: str) -> Place | None: ...

``udfs/lookup/sources/function.py`` says what it may return.

Window assigner, trigger and evictor, classes with ``assign``, ``on_element`` and ``evict``, whose ``__init__`` takes
the arguments of the call: see ``udfs/assigners/user.py``, ``udfs/triggers/user.py`` and ``udfs/evictors.py``.

Process function, a class over tables, with state and timers: see ``udfs/process/function.py``.

Arguments are cast to the annotated types before the call; SQL's NULL is None. A plain function is called once per
row, a vectorised one once per batch with Arrow arrays, or pandas Series where its annotations say so.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.types import UNKNOWN, DataType, parse_type
from sqlstream.udfs.signature import (
    Function,
    FunctionKind,
    Options,
    aggregate,
    annotations_of,
    element_of,
    lookup,
    options_of,
    row_of_iterable,
    scalar,
    sql_type,
    table,
)

__all__ = [
    "Function",
    "FunctionKind",
    "aggregate",
    "describe",
    "describe_function",
    "load",
    "lookup",
    "options_of",
    "scalar",
    "table",
]

# --- finding the Python code of users; whatever it raises becomes an error that names it ----------------------


BAD_TARGET = "SS551"
NO_MODULE = "SS552"
NO_ATTRIBUTE = "SS553"

_OURS = Path(__file__).resolve().parents[1]


def load(target: str) -> object:
    """Imports the Python object named ``package.module:name`` and returns it. What the module prints while it is
    imported goes to stderr.

    ConnectorError SS551 where ``target`` is not such a name, SS552 or SS553 where the import fails or finds no such
    object. KeyboardInterrupt is not caught.
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
    """A context manager in which user code runs: every exception, including ``SystemExit``, is raised again as the
    cause of an error with this code and message.
    """
    try:
        yield
    except (SqlStreamError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ConnectorError(code, message, detail=cause_of(error), hint=hint) from error


def cause_of(error: BaseException) -> str:
    """The class and the message of an exception, and the line of the user's code that raised it, as one text."""
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
    """Builds a Python function from the text of its body, as CREATE FUNCTION … AS has it. ConnectorError SS556 where
    the body is not valid Python.

    Workers get the function itself by value, because no module contains it.
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


NO_TYPE = "SS554"
NOT_A_FUNCTION = "SS555"
NOT_DESCRIBED = "SS588"
NO_SIGNATURE = "SS589"

_AGGREGATE = ("create", "accumulate", "merge", "finish")
_OF_WINDOWS = {
    "assign": FunctionKind.ASSIGNER,
    "on_element": FunctionKind.TRIGGER,
    "evict": FunctionKind.EVICTOR,
    "evict_before": FunctionKind.EVICTOR,
    "evict_after": FunctionKind.EVICTOR,
}
"""The method by which a class shows that it is a part of windows."""


# --- description ----------------------------------------------------------------------------------------------


def describe_function(name: str, target: str) -> Function:
    """Imports the function ``package.module:name`` and describes it. ConnectorError SS55x with the reason where it
    cannot be used.
    """
    return describe(name, load(target), target)


def describe(name: str, implementation: object, target: str) -> Function:
    """The description of a Python object as function ``name``.

    ConnectorError SS588 where the object raises an error when its attributes are read.
    """
    hint = "Write a plain function or class of a module, whose annotations say what it takes and returns."
    with user_code(NOT_DESCRIBED, f'function "{target}" cannot be looked at', hint):
        return _described(name, implementation, target)


def _described(name: str, implementation: object, target: str) -> Function:
    if inspect.isclass(implementation):
        return _describe_class(name, implementation, target)
    if not callable(implementation):
        raise ConnectorError(NOT_A_FUNCTION, f'"{target}" is neither a function nor a class')
    kind = _kind_of_callable(implementation)
    function = _with_parameters(Function(name, target, kind, UNKNOWN), implementation, 0)
    options = options_of(implementation)
    if kind is FunctionKind.ASYNC:
        return _described_lookup(function, implementation, options)
    if options.asynchronous:
        raise _no_coroutine(target)
    described = replace(function, deterministic=options.deterministic)
    if options.vectorized:
        described = replace(described, parameters=tuple((p, UNKNOWN) for p, _ in described.parameters))
    return replace(described, returns=_returns(described, implementation, options))


def _kind_of_callable(function: Callable[..., object]) -> FunctionKind:
    if _is_asynchronous(function):
        return FunctionKind.ASYNC
    iterates = row_of_iterable(annotations_of(function).get("return")) is not None
    return FunctionKind.TABLE if iterates or inspect.isgeneratorfunction(function) else FunctionKind.SCALAR


def _describe_class(name: str, kind: Any, target: str) -> Function:
    options = options_of(kind)
    _check_methods(kind, target)
    if hasattr(kind, "accumulate"):
        missing = [method for method in _AGGREGATE if not hasattr(kind, method)]
        if missing:
            message = f'aggregate function "{target}" has no method "{missing[0]}"'
            raise ConnectorError(NOT_A_FUNCTION, message, hint=f"An aggregate function has {', '.join(_AGGREGATE)}.")
        function = Function(name, target, FunctionKind.AGGREGATE, UNKNOWN)
        function = _with_parameters(function, kind.accumulate, 2)
        return replace(function, returns=_returns(function, kind.finish, options))
    if hasattr(kind, "__process_function__") or hasattr(kind, "on_timer"):
        # Arrow is not loaded before a function needs it.
        from sqlstream.udfs.process.description import describe_process_function

        return describe_process_function(name, kind, target)
    for method, of_windows in _OF_WINDOWS.items():
        if hasattr(kind, method):
            return _with_parameters(Function(name, target, of_windows, UNKNOWN), _constructor(kind), 1)
    if hasattr(kind, "eval") and _is_asynchronous(kind.eval):
        _check_made_without_arguments(kind, target)
        function = _with_parameters(Function(name, target, FunctionKind.ASYNC, UNKNOWN), kind.eval, 1)
        return _described_lookup(function, kind.eval, options)
    if options.asynchronous:
        raise _no_coroutine(target)
    if hasattr(kind, "eval"):
        function = _with_parameters(Function(name, target, FunctionKind.TABLE, UNKNOWN), kind.eval, 1)
        return replace(function, returns=_returns(function, kind.eval, options))
    hint = "Classes are aggregate functions (create, accumulate, merge, finish), table functions (eval), "
    hint += "lookups (async eval), window assigners (assign), triggers (on_element) or evictors (evict)."
    raise ConnectorError(NOT_A_FUNCTION, f'class "{target}" is no function', hint=hint)


def _is_asynchronous(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _described_lookup(function: Function, call: Callable[..., object], options: Options) -> Function:
    """A coroutine's function; a batched one takes and returns lists of what others take and return."""
    if options.batch:
        parameters = tuple((name, _element(function, name, kind)) for name, kind in function.parameters)
        function = replace(function, parameters=parameters)
    return replace(function, returns=_returns(function, call, options))


def _element(function: Function, parameter: str, kind: DataType) -> DataType:
    if kind.is_unknown:
        return kind
    if kind.name == "ARRAY" and isinstance(kind.args[0], DataType):
        return kind.args[0]
    message = f'parameter "{parameter}" of batched function "{function.target}" is no list'
    raise ConnectorError(NO_TYPE, message, hint=f'It gets the values of many rows: annotate it "{parameter}: list[…]".')


def _no_coroutine(target: str) -> ConnectorError:
    message = f'"{target}" is decorated with @lookup and is no coroutine'
    return ConnectorError(NOT_A_FUNCTION, message, hint='Write "async def".')


def _check_made_without_arguments(kind: Any, target: str) -> None:
    parameters = _parameters(_constructor(kind), target)[1:]
    if any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        message = f'class "{target}" cannot be made without arguments'
        raise ConnectorError(NOT_A_FUNCTION, message, hint="Give the parameters of __init__ defaults.")


def _constructor(kind: type) -> Callable[..., object]:
    """The callable that takes the arguments of a class, ``self`` included."""

    def takes_nothing(self: object) -> None: ...

    own: Callable[..., object] = kind.__init__  # type: ignore[misc]
    return takes_nothing if own is object.__init__ else own


def _with_parameters(function: Function, call: Callable[..., object], skipped: int) -> Function:
    """The function with the parameters of ``call`` after the first ``skipped`` ones."""
    parameters = _parameters(call, function.target)[skipped:]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    hints = annotations_of(call)
    return replace(
        function,
        parameters=tuple((p.name, sql_type(hints.get(p.name)) or UNKNOWN) for p in positional),
        min_arguments=sum(p.default is p.empty for p in positional),
        max_arguments=None if variadic else len(positional),
    )


def _parameters(call: Callable[..., object], target: str) -> list[inspect.Parameter]:
    """SS589 for what is written in C and does not tell its parameters."""
    try:
        return list(inspect.signature(call).parameters.values())
    except (ValueError, TypeError) as error:
        message = f'function "{target}" does not tell its parameters'
        hint = "Call it in a function of your own: def f(seconds: float) -> float: …"
        raise ConnectorError(NO_SIGNATURE, message, hint=hint) from error


def _check_methods(kind: Any, target: str) -> None:
    for method in (*_AGGREGATE, *_OF_WINDOWS, "eval"):
        if hasattr(kind, method) and not callable(getattr(kind, method)):
            message = f'"{method}" of class "{target}" is no method'
            raise ConnectorError(NOT_A_FUNCTION, message, hint=f"Write def {method}(self, …), without @property.")


def _returns(function: Function, call: Callable[..., object], options: Options) -> DataType:
    """The type of the result: what the decorator says, else what the annotation does."""
    annotation = annotations_of(call).get("return")
    if function.kind is FunctionKind.TABLE:
        annotation = row_of_iterable(annotation)
    if function.kind is FunctionKind.ASYNC:
        annotation = _row_of_lookup(annotation, options)
    returned = parse_type(options.returns) if options.returns else sql_type(annotation)
    if returned is None or returned.is_unknown:
        raise _untyped(function, annotation)
    if function.kind in (FunctionKind.TABLE, FunctionKind.ASYNC) and returned.name != "STRUCT":
        return DataType("STRUCT", ((function.name, returned),))
    return returned


def _row_of_lookup(annotation: object, options: Options) -> object | None:
    """``X`` of ``X``, ``list[X]`` and ``AsyncIterator[X]``, in a list of one of them where it answers many keys."""
    if options.batch:
        annotation = element_of(annotation)
    element = element_of(annotation)
    return annotation if element is None else element


def _untyped(function: Function, annotation: object) -> ConnectorError:
    said = "does not say what it returns" if annotation is None else f"returns {annotation}, which is no SQL type"
    hint = {
        FunctionKind.AGGREGATE: 'Annotate "finish", or decorate the class: @aggregate(returns="DOUBLE").',
        FunctionKind.ASYNC: 'Annotate it "-> Row | None" or "-> list[Row]" (of a batch "-> list[Row | None]"), '
        'or decorate it: @lookup(returns="STRUCT<city: STRING>").',
        FunctionKind.TABLE: 'Annotate it "-> Iterator[Row]", or decorate it: @table(returns="STRUCT<word: STRING>").',
    }.get(function.kind, 'Annotate it, as in "-> float", or decorate it: @scalar(returns="DECIMAL(10, 2)").')
    return ConnectorError(NO_TYPE, f'{function.kind.value} function "{function.target}" {said}', hint=hint)
