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

``udfs/lookup/sources/function.py`` tells what it may return.

Window assigner, trigger and evictor, classes with ``assign``, ``on_element`` and ``evict``, whose ``__init__`` takes
the arguments of the call: see ``udfs/assigners/user.py``, ``udfs/triggers/user.py`` and ``udfs/evictors/user.py``.

Process function, a class over tables, with state and timers: see ``udfs/process/function.py``.

Arguments are cast to the annotated types before the call; SQL's NULL is None. A plain function is called once per
row, a vectorised one once per batch with Arrow arrays, or pandas Series where its annotations say so.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from sqlstream.errors import ConnectorError
from sqlstream.types import UNKNOWN, DataType, parse_type
from sqlstream.udfs.annotations import annotations_of, element_of, row_of_iterable, sql_type
from sqlstream.udfs.decorators import Options, aggregate, lookup, options_of, scalar, table
from sqlstream.udfs.signature import Function, FunctionKind

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

BAD_TARGET = "SS551"
NO_MODULE = "SS552"
NO_ATTRIBUTE = "SS553"
NO_TYPE = "SS554"
NOT_A_FUNCTION = "SS555"

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
    """The function that ``package.module:name`` is. ConnectorError SS55x where it is none, with the reason."""
    return describe(name, load(target), target)


def load(target: str) -> object:
    """The Python object of a target; its module is imported."""
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ConnectorError(BAD_TARGET, f'"{target}" names no Python function', hint="Write 'package.module:name'.")
    found: object = _module(module_name, target)
    for part in path.split("."):
        found = _attribute(found, part, target)
    return found


def _module(name: str, target: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        hint = "Modules are looked for beside the script, in the current directory and among installed packages."
        raise ConnectorError(NO_MODULE, f'module "{missing}" of function "{target}" not found', hint=hint) from error
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
        raise ConnectorError(NO_MODULE, f'importing module "{name}" failed', detail=detail) from error


def _attribute(holder: object, name: str, target: str) -> object:
    try:
        return getattr(holder, name)
    except AttributeError:
        close = get_close_matches(name, [n for n in dir(holder) if not n.startswith("_")], n=1)
        hint = f'Did you mean "{close[0]}"?' if close else None
        raise ConnectorError(NO_ATTRIBUTE, f'"{name}" of function "{target}" does not exist', hint=hint) from None


def describe(name: str, implementation: object, target: str) -> Function:
    """The description of a Python object as function ``name``."""
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
    found = replace(function, deterministic=options.deterministic)
    if options.vectorized:
        found = replace(found, parameters=tuple((p, UNKNOWN) for p, _ in found.parameters))
    return replace(found, returns=_returns(found, implementation, options))


def _kind_of_callable(function: Callable[..., object]) -> FunctionKind:
    if _is_asynchronous(function):
        return FunctionKind.ASYNC
    iterates = row_of_iterable(annotations_of(function).get("return")) is not None
    return FunctionKind.TABLE if iterates or inspect.isgeneratorfunction(function) else FunctionKind.SCALAR


def _describe_class(name: str, kind: Any, target: str) -> Function:
    options = options_of(kind)
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
    taken = list(inspect.signature(_constructor(kind)).parameters.values())[1:]
    if any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in taken):
        message = f'class "{target}" cannot be made without arguments'
        raise ConnectorError(NOT_A_FUNCTION, message, hint="Give the parameters of __init__ defaults.")


def _constructor(kind: type) -> Callable[..., object]:
    """What takes a class's arguments, with itself as the first one."""

    def takes_nothing(self: object) -> None: ...

    own: Callable[..., object] = kind.__init__  # type: ignore[misc]
    return takes_nothing if own is object.__init__ else own


def _with_parameters(function: Function, call: Callable[..., object], skipped: int) -> Function:
    """The function with the parameters of ``call`` behind the first ``skipped`` ones."""
    found = list(inspect.signature(call).parameters.values())[skipped:]
    positional = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in found)
    hints = annotations_of(call)
    return replace(
        function,
        parameters=tuple((p.name, sql_type(hints.get(p.name)) or UNKNOWN) for p in positional),
        min_arguments=sum(p.default is p.empty for p in positional),
        max_arguments=None if variadic else len(positional),
    )


def _returns(function: Function, call: Callable[..., object], options: Options) -> DataType:
    """The type of the result: what the decorator says, else what the annotation does."""
    annotation = annotations_of(call).get("return")
    if function.kind is FunctionKind.TABLE:
        annotation = row_of_iterable(annotation)
    if function.kind is FunctionKind.ASYNC:
        annotation = _row_of_lookup(annotation, options)
    found = parse_type(options.returns) if options.returns else sql_type(annotation)
    if found is None or found.is_unknown:
        raise _untyped(function, annotation)
    if function.kind in (FunctionKind.TABLE, FunctionKind.ASYNC) and found.name != "STRUCT":
        return DataType("STRUCT", ((function.name, found),))
    return found


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
