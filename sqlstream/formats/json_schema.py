"""JSON Schemas of columns, which a registry has for messages of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlstream.types import DataType

_TYPES: dict[str, Any] = {
    "BOOLEAN": {"type": "boolean"},
    **{name: {"type": "integer"} for name in ("TINYINT", "SMALLINT", "INT", "BIGINT")},
    **{name: {"type": "number"} for name in ("FLOAT", "DOUBLE", "DECIMAL")},
    "BINARY": {"type": "string", "contentEncoding": "base64"},
    "DATE": {"type": "string", "format": "date"},
    "VOID": {"type": "null"},
    "VARIANT": True,
}
"""Types by those of columns; all others are texts."""


def json_schema_of_columns(columns: Iterable[tuple[str, DataType, bool]]) -> str:
    """Returns the JSON Schema of objects with a field for each column: name, type, and whether it may be NULL."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Record", **_object(columns)}
    return json.dumps(schema, separators=(",", ":"))


def _object(columns: Iterable[tuple[str, DataType, bool]]) -> dict[str, Any]:
    given = tuple(columns)
    members = {name: _nullable(kind) if nullable else _of(kind) for name, kind, nullable in given}
    required = [name for name, _, nullable in given if not nullable]
    return {"type": "object", "properties": members} | ({"required": required} if required else {})


def _nullable(kind: DataType) -> Any:
    schema = _of(kind)
    return schema if kind.name in ("VARIANT", "VOID") else {"oneOf": [{"type": "null"}, schema]}


def _of(kind: DataType) -> Any:
    match kind.name:
        case "ARRAY":
            return {"type": "array", "items": _nullable(kind.inner[0])}
        case "MAP":
            return {"type": "object", "additionalProperties": _nullable(kind.inner[1])}
        case "STRUCT":
            return _object((name, inner, True) for name, inner in kind.fields())
    return _TYPES.get(kind.name, {"type": "string"})
