"""Checks events against the types that the package of OpenLineage generates from the specification's JSON Schema."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attr
from openlineage.client import event_v2, facet_v2

_FACETS = {
    name: kind
    for module in vars(facet_v2).values()
    if isinstance(module, types.ModuleType)
    for name, kind in vars(module).items()
    if name.endswith("Facet")
}


def checked(event: Mapping[str, Any]) -> event_v2.RunEvent:
    """The event as an object. Raises TypeError or ValueError where the specification does not allow it."""
    made = _made(event_v2.RunEvent, event)
    assert isinstance(made, event_v2.RunEvent)
    return made


def _made(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _of_union([k for k in typing.get_args(kind) if k is not type(None)], value)
    if origin is list:
        (inner,) = typing.get_args(kind)
        return [_made(inner, v) for v in _of_type(list, value)]
    if origin is dict:
        _, inner = typing.get_args(kind)
        return {k: _made(_facet_of(inner, v), v) for k, v in _of_type(dict, value).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    return _object(kind, value) if attr.has(kind) else _of_type(kind, value)


def _of_union(kinds: list[Any], value: Any) -> Any:
    (kind,) = kinds
    return _made(kind, value)


def _of_type(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind}")
    return value


def _facet_of(kind: Any, value: Mapping[str, Any]) -> Any:
    """The class of a facet, which its ``_schemaURL`` names."""
    if not (isinstance(kind, type) and kind.__name__.endswith("Facet")):
        return kind
    facet = _FACETS[value["_schemaURL"].rpartition("/")[2]]
    if not issubclass(facet, kind):
        raise TypeError(f"{facet} is no {kind}")
    return facet


def _object(kind: Any, value: Mapping[str, Any]) -> Any:
    given = dict(value)
    url, producer = given.pop("_schemaURL", None) or given.pop("schemaURL", None), given.pop("_producer", None)
    hints = typing.get_type_hints(kind)
    if unknown := given.keys() - hints.keys():
        raise TypeError(f"{kind} has no {unknown}")
    made = kind(**{key: _made(hints[key], entry) for key, entry in given.items()})
    if url is not None and url != kind._get_schema():
        raise ValueError(f"{url} is not {kind._get_schema()}")
    if "_producer" in hints and not producer:
        raise ValueError(f"{kind} has no producer")
    return made
