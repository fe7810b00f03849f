"""The columns that a schema of a registry has: those of a table whose CREATE TABLE leaves them out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.formats.avro_schema import Schema, SchemaError, natural_type, parse_schema
from sqlstream.formats.protobuf import NATURAL, TIMESTAMP, wrapped_field
from sqlstream.formats.protobuf_schema import Message, ProtoField, parse_proto
from sqlstream.formats.schema_registry import AVRO, PROTOBUF, RegisteredSchema
from sqlstream.types import DataType, from_arrow

ArrowColumn = tuple[str, pa.DataType]


def columns_of_schema(schema: RegisteredSchema, message: str | None = None) -> list[tuple[str, DataType]]:
    """Returns names and types of the columns of a schema. ``message``: the one of a ``.proto``; else its first.

    Raises SchemaError, whose message completes ``schema 7 of the registry …``, where the schema is none of a row, or a
    field has no type of columns.
    """
    match schema.kind:
        case kind if kind == AVRO:
            return [(name, _sql_type(name, type_)) for name, type_ in _of_avro(schema)]
        case kind if kind == PROTOBUF:
            file = parse_proto(schema.text, schema.references)
            chosen = file.at((0,)) if message is None else file.message(message)
            return [(name, _sql_type(name, type_)) for name, type_ in _of_message(chosen, ())]
    return [*_of_json(schema)]


def _sql_type(name: str, kind: pa.DataType) -> DataType:
    if any(map(kinds.is_union, _parts(kind))):
        raise SchemaError(f'has for "{name}" a union of several types, which no column has')
    if any(kinds.is_struct(part) and not part.num_fields for part in _parts(kind)):
        raise SchemaError(f'has for "{name}" a record without fields, or within itself, which no column has')
    return from_arrow(kind)


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    if kinds.is_union(kind):
        return
    for index in range(kind.num_fields):
        yield from _parts(kind.field(index).type)


# --- Avro and protobuf ------------------------------------------------------------------------------------------


def _of_avro(schema: RegisteredSchema) -> list[ArrowColumn]:
    record: Schema = parse_schema(schema.text, schema.references)
    if record.kind != "record":
        raise SchemaError(f"is a {record.kind}, not a record")
    return [(member.name, readable(natural_type(member.type))) for member in record.members]


def readable(kind: pa.DataType) -> pa.DataType:
    """The type of a column that has the values of a type of Arrow."""
    if kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_dictionary(kind):
        return pa.string()
    if kinds.is_list(kind):
        return pa.list_(readable(kind.value_type))
    if kinds.is_map(kind):
        return pa.map_(kind.key_type, readable(kind.item_type))
    if kinds.is_struct(kind):
        return pa.struct([(field.name, readable(field.type)) for field in kind])
    if kinds.is_time(kind):
        return pa.time64("ns")
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return _OTHER.get(kind, kind)


_OTHER = {pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0), pa.null(): pa.string()}
"""Types that no column has, by those that have all of their values."""


def _of_message(message: Message, within: tuple[Message, ...]) -> list[ArrowColumn]:
    inside = (*within, message)
    return [(field.name, _of_field(field, inside)) for field in message.fields]


def _of_field(field: ProtoField, within: tuple[Message, ...]) -> pa.DataType:
    if field.is_map:
        assert field.message is not None
        key, value = field.message.fields
        return pa.map_(_of_one(key, within), _of_one(value, within))
    return pa.list_(_of_one(field, within)) if field.repeated else _of_one(field, within)


def _of_one(field: ProtoField, within: tuple[Message, ...]) -> pa.DataType:
    if field.message is None:
        return pa.string() if field.kind == "enum" else readable(NATURAL[field.kind])
    if field.message.full_name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    wrapped = wrapped_field(field.message)
    if wrapped is not None:
        return _of_one(wrapped, within)
    return pa.struct([] if field.message in within else _of_message(field.message, within))


# --- JSON Schema ------------------------------------------------------------------------------------------------

_ANY = DataType("VARIANT")
_SCALARS = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING"}
_TEXTS = {"date": "DATE", "date-time": "TIMESTAMP"}
_CONNECT = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float32": "FLOAT", "float64": "DOUBLE",
}  # fmt: skip
"""The types of Kafka Connect, which its schemas have beside those of JSON Schema."""
_DEEPEST = 16


def _of_json(schema: RegisteredSchema) -> Iterator[tuple[str, DataType]]:
    try:
        root = json.loads(schema.text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"is no JSON: {error}") from None
    node = _Node(root).resolved(root) if isinstance(root, dict) else {}
    if not isinstance(node.get("properties"), dict) or not node["properties"]:
        raise SchemaError('is no object with "properties"')
    for name, inner in node["properties"].items():
        yield name, _Node(root).type_of(inner, 0)


class _Node:
    """Types of the nodes of a schema, which may refer to others within it."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def resolved(self, node: Any, depth: int = 0) -> dict[str, Any]:
        """The node, or the one that it refers to, or its only alternative but null; none of these: an empty node."""
        if not isinstance(node, dict) or depth > _DEEPEST:
            return {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            return self.resolved(self._at(reference), depth + 1)
        for word in ("oneOf", "anyOf"):
            given = node.get(word)
            if isinstance(given, list):
                some = [part for part in given if not (isinstance(part, dict) and part.get("type") == "null")]
                return self.resolved(some[0], depth + 1) if len(some) == 1 else {}
        return node

    def _at(self, reference: str) -> Any:
        node: Any = self._root
        if not reference.startswith("#"):
            return {}
        for step in filter(None, reference[1:].split("/")):
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node

    def type_of(self, given: Any, depth: int) -> DataType:
        """The type of the values of a node: VARIANT where it says too little of them."""
        node = self.resolved(given)
        if not node or depth > _DEEPEST:
            return _ANY
        kind = node.get("type")
        if isinstance(kind, list):
            some = [one for one in kind if one != "null"]
            kind = some[0] if len(some) == 1 else None
        connect = _CONNECT.get(str(node.get("connect.type")))
        if connect is not None:
            return DataType(connect)
        match kind:
            case "object":
                return self._of_object(node, depth)
            case "array":
                return DataType("ARRAY", (self.type_of(node.get("items"), depth + 1),))
            case "string":
                return DataType(_TEXTS.get(str(node.get("format")), "STRING"))
            case None if isinstance(node.get("enum"), list) and all(isinstance(v, str) for v in node["enum"]):
                return DataType("STRING")
        return DataType(_SCALARS[kind]) if kind in _SCALARS else _ANY

    def _of_object(self, node: Mapping[str, Any], depth: int) -> DataType:
        fields, more = node.get("properties"), node.get("additionalProperties")
        if isinstance(fields, dict) and fields:
            return DataType("STRUCT", tuple((name, self.type_of(inner, depth + 1)) for name, inner in fields.items()))
        if isinstance(more, dict):
            return DataType("MAP", (DataType("STRING"), self.type_of(more, depth + 1)))
        return _ANY
