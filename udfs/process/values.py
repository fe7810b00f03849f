"""Python values of Arrow columns in the form that an annotation asks for: structs as NamedTuples and dataclasses."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from sqlstream.udfs.signature import annotations_of

Restore = Callable[[Any], Any]


def restorer(annotation: object) -> Restore | None:
    """A function that restores a value of the annotated type where Arrow has dicts for structs; None if there is
    nothing to restore."""
    annotation = present(annotation)
    if isinstance(annotation, type) and is_record(annotation):
        return _record(annotation)
    arguments = typing.get_args(annotation)
    inner = [restorer(argument) for argument in arguments]
    if not any(inner):
        return None
    if len(arguments) == 2:
        key, value = (i or _same for i in inner)
        return _or_none(lambda raw: {key(k): value(v) for k, v in raw.items()})
    element = inner[0] or _same
    return _or_none(lambda raw: [element(v) for v in raw])


def is_record(kind: type) -> bool:
    """True for NamedTuples and dataclasses."""
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def record_of(kind: type, values: Mapping[str, Any]) -> Any:
    """The row as an instance of a NamedTuple or dataclass, its members restored."""
    return _record(kind)(values)


def _record(kind: type) -> Restore:
    members = {name: restorer(annotation) or _same for name, annotation in annotations_of(kind).items()}
    return _or_none(lambda raw: kind(**{name: restore(raw[name]) for name, restore in members.items()}))


def _or_none(restore: Restore) -> Restore:
    return lambda raw: None if raw is None else restore(raw)


def present(annotation: object) -> object:
    """``X`` of ``X | None``."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [a for a in typing.get_args(annotation) if a is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation


def _same(value: Any) -> Any:
    return value


# --- a quick check of Python values against an Arrow type, by their class -------------------------------------


Fits = Callable[[Any], bool]


def fits(kind: pa.DataType) -> Fits:
    """A check that is True for values that surely fit the Arrow type; for others Arrow has to decide."""
    if pa.types.is_signed_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return lambda value: value is None or (type(value) is int and -most <= value < most)
    if pa.types.is_string(kind):
        return lambda value: value is None or (type(value) is str and value.isascii())
    plain = float if pa.types.is_float64(kind) else bool if pa.types.is_boolean(kind) else None
    return lambda value: value is None or (plain is not None and type(value) is plain)
