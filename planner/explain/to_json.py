"""Plans as versioned JSON and back, equal: ``from_json(to_json(plan)) == plan``. ``json_schema`` describes it.

A node is an object with ``"node"``, its fields and its ``"input"`` or ``"branches"``; a window has ``"window"``, a
trigger ``"trigger"``, an evictor ``"evictor"``, a function that is looked up ``"source"``. Types are DDL. An expression
is its SQL where that parses to the same tree, else an object with ``"sql"`` for reading and ``"tree"`` for loading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache, lru_cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from sqlglot import exp, serde

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner import catalog, firing, windows
from sqlstream.planner.node import Node
from sqlstream.types import UNKNOWN, DataType, parse_type
from sqlstream.udfs.lookup.source import Comparison

VERSION = 1
"""Changes where plans of before are read no longer. A new field with a default is none of that: it is read as that."""

TAGGED = {
    "window": {c.__name__: c for c in get_args(windows.Window)},
    "trigger": {c.__name__: c for c in get_args(firing.Trigger)},
    "evictor": {c.__name__: c for c in (firing.KeepRows, firing.KeepInterval, firing.EvictDelta, firing.UserEvictor)},
    "source": {"Function": catalog.Function},
}
"""By the key that names the class: the classes of values that may be of several."""


@cache
def kinds_of_nodes() -> dict[str, type[Node]]:
    """The classes of plan nodes by name, including those in ``planner.operators``."""
    import_module("sqlstream.planner.operators")  # by name, because this room imports no operator
    waiting, by_name = [Node], {}
    while waiting:
        kind = waiting.pop()
        by_name[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return by_name


@on_deep_stack
def to_json(plan: Node) -> dict[str, Any]:
    """The plan as an object of JSON values, for ``json.dumps``."""
    return {"version": VERSION, "plan": encode(plan)}


@on_deep_stack
def from_json(document: dict[str, Any] | str) -> Node:
    """Makes a plan from a document or its JSON text. The document may come from anyone: reading it imports nothing.

    ValueError for a document of another version, and for expressions other than sqlglot's.
    """
    parsed = json.loads(document) if isinstance(document, str) else document
    if parsed.get("version") != VERSION:
        raise ValueError(f"plan of version {parsed.get('version')}, but this is version {VERSION}")
    plan = decode(Node, parsed["plan"])
    assert isinstance(plan, Node)
    return plan


# --- writing --------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Returns a value of a plan's field as JSON values; ``decode`` is the inverse."""
    match value:
        case None | bool() | int() | str():
            return value
        case DataType():
            return value.ddl()
        case Enum():
            return value.name
        case exp.Expr():
            return _encode_expression(value)
        case frozenset():
            return sorted(encode(v) for v in value)
        case Comparison():
            return {"column": value.column, "operator": value.operator, "value": _encode_constant(value.value)}
        case tuple():
            return [encode(v) for v in value]
    if is_dataclass(value):
        return {**_tag(value), **{f.name: encode(getattr(value, f.name)) for f in fields(value)}}
    raise TypeError(f"{type(value).__name__} has no JSON")


def _encode_constant(value: object) -> Any:
    match value:
        case tuple():
            return [_encode_constant(v) for v in value]
        case Decimal():
            return {"decimal": str(value)}
        case datetime():
            return {"datetime": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
    return value


def _tag(value: Any) -> dict[str, str]:
    name = type(value).__name__
    if isinstance(value, Node):
        return {"node": name}
    return {tag: name for tag, classes in TAGGED.items() if classes.get(name) is type(value)}


def _encode_expression(expression: exp.Expr) -> Any:
    text = expression.sql(SqlStream, comments=False)
    try:
        if _read_again(text) == expression:
            return text
    except SqlStreamError:
        pass
    return {"sql": text, "tree": serde.dump(_bare(expression))}


def _parsed(text: str) -> exp.Expr:
    expression = parse_query(f"SELECT {text}").expressions[0]
    assert isinstance(expression, exp.Expr)
    return expression


@lru_cache(4096)
def _read_again(text: str) -> exp.Expr:
    """What the text is to a reader, to compare with: plans hold the same few columns over and over."""
    return _parsed(text)


def _bare(expression: exp.Expr) -> exp.Expr:
    """Without positions in the script, which are no part of the plan."""
    copy = expression.copy()
    for node in copy.walk():
        node._meta = None
    return copy


# --- reading --------------------------------------------------------------------------------------------------


def decode(kind: Any, value: Any) -> Any:
    """Returns the value of a plan's field from JSON values; ``kind`` is the field's annotated type."""
    if get_origin(kind) in (Union, UnionType):
        return _decode_union(get_args(kind), value)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(decode(k, v) for k, v in zip(kinds, value, strict=True))
    if get_origin(kind) is frozenset:
        return frozenset(decode(get_args(kind)[0], v) for v in value)
    if kind is DataType:
        return UNKNOWN if value == "UNKNOWN" else parse_type(value)
    if isinstance(kind, type) and issubclass(kind, exp.Expr):
        return _decode_expression(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[value]
    if kind is Comparison:
        return Comparison(value["column"], value["operator"], _decode_constant(value["value"]))
    if isinstance(kind, type) and issubclass(kind, Node):
        kind = kinds_of_nodes()[value["node"]]
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_fields(kind, value)
    return value


def _decode_fields(kind: type, value: dict[str, Any]) -> Any:
    """A field that the plan of an older version does not have is what it was then: its default."""
    given = {name: decode(hint, value[name]) for name, hint in hints_of(kind).items() if name in value}
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} lacks what every version of it has: {error}") from None


def _decode_constant(value: Any) -> object:
    match value:
        case list():
            return tuple(map(_decode_constant, value))
        case {"decimal": text}:
            return Decimal(text)
        case {"datetime": text}:
            return datetime.fromisoformat(text)
        case {"date": text}:
            return date.fromisoformat(text)
    constant: object = value
    return constant


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        for tag, classes in TAGGED.items():
            if isinstance(value.get(tag), str):
                return decode(classes[value[tag]], value)
    # A measure is a number or rows, a gap a number or an expression.
    kinds = tuple(k for k in kinds if k is not type(None) and (k is int) == isinstance(value, int))
    return decode(kinds[0], value)


def _decode_expression(value: Any) -> exp.Expr:
    if isinstance(value, str):
        return _parsed(value)
    _require_expressions(value["tree"])
    expression = serde.load(value["tree"])
    assert isinstance(expression, exp.Expr)
    return expression


def _require_expressions(tree: Any) -> None:
    """sqlglot would import any module that a tree names, and call what it names there."""
    for entry in tree:
        name = entry.get(serde.CLASS)
        if name is not None and name not in _expressions():
            raise ValueError(f"a tree holds {name!r}, which is no expression of sqlglot")
        if entry.get(serde.TYPE):
            _require_expressions(entry[serde.TYPE])


@cache
def _expressions() -> frozenset[str]:
    """The classes of sqlglot's expressions, by the names that its trees have for them."""
    waiting, names = [exp.Expr], {serde.DATA_TYPE}
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith(f"{exp.__name__}."):
            names.add(f"{kind.__module__}.{kind.__qualname__}")
        waiting += kind.__subclasses__()
    return frozenset(names)


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """Returns a dictionary from the name of each field of the dataclass ``kind`` to the field's type."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


# --- JSON Schema -----------------------------------------------------------------------------------------------
# It is made of the classes of nodes; docs/plan.schema.json is it.

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
    """Returns the JSON Schema of the documents that ``to_json`` makes."""
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
    """Plans contain no base classes, nor nodes that exist only while binding."""
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
