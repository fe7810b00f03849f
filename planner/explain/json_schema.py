"""The JSON Schema of plans, made of the classes of nodes that ``to_json`` writes; docs/plan.schema.json is it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from sqlglot import exp

from sqlstream.planner.explain.to_json import TAGGED, VERSION, hints_of, kinds_of_nodes
from sqlstream.planner.node import Node
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HOMES = ("sqlstream.planner.nodes", "sqlstream.planner.operators.")
_EXPRESSION = {
    "description": "SQL, or where that would not parse to the same tree, SQL to read and a tree to load.",
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"sql": {"type": "string"}, "tree": {"type": "array"}},
            "required": ["sql", "tree"],
            "additionalProperties": False,
        },
    ],
}


def plan_schema() -> dict[str, Any]:
    """The schema of a document of ``to_json``."""
    made = _Schema()
    nodes = {name: kind for name, kind in sorted(kinds_of_nodes().items()) if _is_concrete(kind)}
    for kind in nodes.values():
        made.define(kind)
    made.definitions["Node"] = _chosen_by("node", nodes)
    return {
        "$schema": _DIALECT,
        "title": "A plan of sqlstream",
        "type": "object",
        "properties": {"version": {"const": VERSION}, "plan": {"$ref": "#/$defs/Node"}},
        "required": ["version", "plan"],
        "$defs": dict(sorted(made.definitions.items())),
    }


def _chosen_by(tag: str, names: Iterable[str]) -> dict[str, Any]:
    """The definition that the tag names. With ``anyOf`` each reader would try all of them, at each depth again."""
    choices = [
        {"if": {"properties": {tag: {"const": name}}}, "then": {"$ref": f"#/$defs/{name}"}} for name in sorted(names)
    ]
    return {"type": "object", "properties": {tag: {"enum": sorted(names)}}, "required": [tag], "allOf": choices}


def _is_concrete(kind: type[Node]) -> bool:
    """Bases of nodes stand in no plan, nor what the binder alone knows for a while."""
    return not kind.__subclasses__() and kind.__module__.startswith(_HOMES)


class _Schema:
    """Collects the definitions of classes."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {"expression": _EXPRESSION}

    def define(self, kind: type) -> dict[str, Any]:
        """The reference to a class, which is defined with all that it holds."""
        if kind.__name__ not in self.definitions:
            definition: dict[str, Any] = {}
            self.definitions[kind.__name__] = definition
            definition.update(self._of_class(kind))
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def _of_class(self, kind: type) -> dict[str, Any]:
        hints = hints_of(kind)
        tags = {tag: {"const": name} for tag, name in _tags(kind)}
        required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
        return {
            "type": "object",
            "properties": {**tags, **{name: self.of(hint) for name, hint in hints.items()}},
            "required": [*tags, *required],
            "additionalProperties": False,
        }

    def of(self, hint: Any) -> dict[str, Any]:
        """The schema of a value that is annotated so."""
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(one) for one in inner]}
        if origin is tuple:
            return self._tuple(inner)
        if origin is frozenset:
            return {"type": "array", "items": self.of(inner[0]), "uniqueItems": True}
        return self._of_plain(hint) if isinstance(hint, type) else {}

    def _tuple(self, inner: tuple[Any, ...]) -> dict[str, Any]:
        if inner[-1] is Ellipsis:
            return {"type": "array", "items": self.of(inner[0])}
        length = len(inner)
        return {"type": "array", "prefixItems": [*map(self.of, inner)], "minItems": length, "maxItems": length}

    def _of_plain(self, kind: type) -> dict[str, Any]:
        if kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        if issubclass(kind, DataType):
            return {"type": "string", "description": "DDL of a type"}
        if issubclass(kind, exp.Expr):
            return {"$ref": "#/$defs/expression"}
        if issubclass(kind, Enum):
            return {"enum": [member.name for member in kind]}
        if kind is Comparison:
            return {"type": "object", "required": ["column", "operator", "value"]}
        if issubclass(kind, Node) and not _is_concrete(kind):
            return {"$ref": "#/$defs/Node"}
        return self.define(kind) if is_dataclass(kind) else {}


_SIMPLE: dict[type, str] = {str: "string", int: "integer", bool: "boolean", float: "number", NoneType: "null"}


def _tags(kind: type) -> Iterator[tuple[str, str]]:
    if issubclass(kind, Node):
        yield "node", kind.__name__
    yield from ((tag, kind.__name__) for tag, classes in TAGGED.items() if classes.get(kind.__name__) is kind)
