"""The signature of a process function, read from the annotations of its methods."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any

from sqlstream.errors import ConnectorError
from sqlstream.types import DataType
from sqlstream.udfs.process.function import Descriptor, ProcessFunction, Row, states_of
from sqlstream.udfs.process.memories import is_record, present
from sqlstream.udfs.signature import (
    Function,
    FunctionKind,
    ProcessSignature,
    TableParameter,
    annotations_of,
    row_of_iterable,
    sql_type,
)

NO_TYPE = "SS554"
NOT_A_FUNCTION = "SS555"

IMPLICIT = ("on_time", "uid")
"""Arguments of every call."""


def describe_process_function(name: str, kind: Any, target: str) -> Function:
    """Describes a user's process function for the catalog, from the signature and attributes of its class ``kind``.
    ``name`` is its name in SQL, ``target`` the Python name of the class. Raises ConnectorError SS554 or SS555, with the
    reason, if the class is not a process function.
    """
    _check_class(kind, target)
    parameters = list(inspect.signature(kind.eval).parameters.values())[2:]
    hints = annotations_of(kind.eval)
    tables = [_table(p, hints, target) for i, p in enumerate(parameters) if i == 0 or is_table(hints.get(p.name))]
    descriptors = [p for p in parameters[1:] if hints.get(p.name) is Descriptor]
    named = {t.name for t in tables}
    others = [p for p in parameters if p.name not in named]
    constants = [p for p in others if p not in descriptors]
    row = _row(name, kind, target)
    process = ProcessSignature(
        parameters=tuple(p.name for p in parameters),
        tables=tuple(tables),
        descriptors=tuple(p.name for p in descriptors),
        optional=tuple(p.name for p in others if p.default is not p.empty),
        keyed=bool(states_of(kind)) or hasattr(kind, "on_timer"),
        timers=hasattr(kind, "on_timer"),
        clock=bool(getattr(kind, "processing_time", False)) or any(s.ttl_ms is not None for s in states_of(kind)),
        timeless=bool(getattr(kind, "processing_time", False)) and hasattr(kind, "on_timer"),
        pass_through=bool(getattr(kind, "pass_through", False)),
    )
    _check_pass_through(process, target)
    typed = tuple((p.name, _constant(p, hints, target)) for p in constants)
    required = sum(p.default is p.empty for p in constants)
    return Function(name, target, FunctionKind.PROCESS, row, typed, required, len(typed), process=process)


def is_table(annotation: object) -> bool:
    """True for the annotations ``Row`` and ``Row[T]``, which mark a table argument."""
    inner = present(annotation)
    return inner is Row or typing.get_origin(inner) is Row


def row_type(kind: Any, parameter: str) -> type | None:
    """The class ``T`` of a parameter that is annotated ``Row[T]``; None without ``T``."""
    arguments = typing.get_args(present(annotations_of(kind.eval).get(parameter)))
    return arguments[0] if arguments else None


def _check_class(kind: Any, target: str) -> None:
    if not issubclass(kind, ProcessFunction):
        hint = "Write class F(ProcessFunction), from sqlstream.udfs.process."
        raise ConnectorError(NOT_A_FUNCTION, f'class "{target}" has on_timer and is no ProcessFunction', hint=hint)
    hint = "Write def eval(self, ctx: ProcessContext, input: Row) -> Iterator[R]."
    if not hasattr(kind, "eval"):
        raise ConnectorError(NOT_A_FUNCTION, f'process function "{target}" has no method eval', hint=hint)
    parameters = list(inspect.signature(kind.eval).parameters.values())
    if len(parameters) < 3 or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in parameters):
        message = f'eval of process function "{target}" must name its parameters: self, ctx, a table and the others'
        raise ConnectorError(NOT_A_FUNCTION, message, hint=hint)
    reserved = [p.name for p in parameters if p.name in IMPLICIT]
    if reserved:
        message = f'parameter "{reserved[0]}" of process function "{target}" has the name of an argument of every call'
        raise ConnectorError(NOT_A_FUNCTION, message, hint="Give it another name.")
    missing = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty and p.kind < 2]
    if missing:
        message = f'process function "{target}" cannot be made without arguments'
        raise ConnectorError(NOT_A_FUNCTION, message, hint="Take constants as parameters of eval.")


def _check_pass_through(process: ProcessSignature, target: str) -> None:
    if process.pass_through and (process.timers or len(process.tables) > 1):
        why = "on_timer" if process.timers else "several tables"
        message = f'process function "{target}" passes columns through and has {why}'
        raise ConnectorError(NOT_A_FUNCTION, message, hint="Return the columns that are needed, without pass_through.")


def _table(parameter: inspect.Parameter, hints: dict[str, object], target: str) -> TableParameter:
    annotation = hints.get(parameter.name)
    if parameter.name in hints and annotation is not Any and not is_table(annotation):
        message = f'parameter "{parameter.name}" of process function "{target}" is the table and must be a Row'
        raise ConnectorError(NO_TYPE, message, hint="Annotate it Row, or Row[T] with a NamedTuple or dataclass T.")
    arguments = typing.get_args(present(annotation))
    if not arguments:
        return TableParameter(parameter.name)
    row_type = sql_type(arguments[0])
    if row_type is None or not is_record(arguments[0]):
        message = f'rows of "{parameter.name}" of process function "{target}" are {arguments[0]}, which is no SQL row'
        raise ConnectorError(NO_TYPE, message, hint="Write Row[T] with a NamedTuple or dataclass T of SQL types.")
    return TableParameter(parameter.name, tuple(m for m in row_type.args if isinstance(m, tuple)))


def _constant(parameter: inspect.Parameter, hints: dict[str, object], target: str) -> DataType:
    constant_type = sql_type(hints.get(parameter.name))
    if constant_type is None or constant_type.is_unknown:
        message = f'parameter "{parameter.name}" of process function "{target}" has no SQL type'
        hint = "Annotate it, as in int, str or float; Row for a table, Descriptor for columns."
        raise ConnectorError(NO_TYPE, message, hint=hint)
    return constant_type


def _row(name: str, kind: Any, target: str) -> DataType:
    """The STRUCT of the rows of both methods, which are of one type."""
    methods = [method for method in ("eval", "on_timer") if hasattr(kind, method)]
    annotations = {method: _row_of(getattr(kind, method)) for method in methods}
    types = {method: sql_type(a) for method, a in annotations.items() if a is not type(None) and a is not None}
    unknown = next((m for m, t in types.items() if t is None or t.is_unknown), None)
    if unknown is not None or not types:
        said = f"returns {annotations[unknown]}, which is no SQL type" if unknown else "does not say what it returns"
        hint = 'Annotate eval or on_timer "-> Iterator[R]" with a NamedTuple or dataclass R of SQL types.'
        raise ConnectorError(NO_TYPE, f'process function "{target}" {said}', hint=hint)
    if len(set(types.values())) > 1:
        message = f'eval and on_timer of process function "{target}" return rows of different types'
        raise ConnectorError(NO_TYPE, message, hint="Let both return rows of one NamedTuple or dataclass.")
    row = next(iter(types.values()))
    assert row is not None, "unknown types have been refused"
    return row if row.name == "STRUCT" else DataType("STRUCT", ((name, row),))


def _row_of(method: Callable[..., object]) -> object | None:
    """``R`` of ``Iterator[R]``, ``list[R]``, ``R | None`` and ``R``; NoneType for ``None``, None for nothing."""
    annotation = annotations_of(method).get("return")
    if typing.get_origin(annotation) in (list, Sequence):
        return typing.cast(object, typing.get_args(annotation)[0])
    return row_of_iterable(annotation) or annotation
