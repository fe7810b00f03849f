"""Defaults of fields of Avro, which a schema has as JSON, as the bytes of the values that they stand for."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from sqlstream.formats.avro_schema import Schema, SchemaError


def check_defaults(schema: Schema) -> None:
    """Raises SchemaError where a default of a field, or of one within it, is no value of the field's type."""
    waiting, seen = [schema], {id(schema)}
    while waiting:
        one = waiting.pop()
        for member in one.members:
            if member.has_default:
                default_bytes(member.type, member.default)
        for inner in (*one.inner, *(member.type for member in one.members)):
            if id(inner) not in seen:
                seen.add(id(inner))
                waiting.append(inner)


def default_bytes(schema: Schema, value: Any) -> bytes:
    """Encodes the default of a field as a value of its type: of the first branch of a union that has the value, as Avro
    1.12 says; before, it had to be the first one of all. Raises SchemaError where the type does not have it.
    """
    try:
        return _encoded(schema, value)
    except RecursionError:
        raise SchemaError(f"has the default {_shown(value)}, which holds itself without end") from None


def _encoded(schema: Schema, value: Any) -> bytes:
    if not _has(schema, value):
        raise SchemaError(f"has the default {_shown(value)} for a field of type {_named(schema)}, which lacks it")
    match schema.kind:
        case "union":
            branch = next(number for number, one in enumerate(schema.inner) if _has(one, value))
            return _number(branch) + _encoded(schema.inner[branch], value)
        case "record":
            return b"".join(_encoded(m.type, value.get(m.name, m.default)) for m in schema.members)
        case "array":
            return _block([_encoded(schema.inner[0], item) for item in value])
        case "map":
            return _block([_text(key.encode()) + _encoded(schema.inner[0], item) for key, item in value.items()])
        case "enum":
            return _number(schema.symbols.index(value))
    return _ENCODED[schema.kind](value)


def _has(schema: Schema, value: Any) -> bool:
    """True where JSON is a value of the type, as Avro writes defaults."""
    match schema.kind:
        case "union":
            return any(_has(branch, value) for branch in schema.inner)
        case "array":
            return isinstance(value, list) and all(_has(schema.inner[0], item) for item in value)
        case "map":
            return isinstance(value, dict) and all(_has(schema.inner[0], item) for item in value.values())
        case "record":
            return isinstance(value, dict) and all(
                _has(m.type, value[m.name]) if m.name in value else m.has_default for m in schema.members
            )
        case "enum":
            return value in schema.symbols
        case "fixed":
            return _is_bytes(value) and len(value) == schema.size
    return _HAS[schema.kind](value)


def _is_whole(value: Any, bits: int) -> bool:
    limit = 1 << bits - 1
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _is_number(value: Any) -> bool:
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or value in _NO_NUMBERS


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and all(character <= "\xff" for character in value)  # each character is a byte


_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_HAS: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: _is_whole(value, 32),
    "long": lambda value: _is_whole(value, 64),
    "float": _is_number,
    "double": _is_number,
    "bytes": _is_bytes,
    "string": lambda value: isinstance(value, str),
}


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else "null" if value is None else str(value)


def _named(schema: Schema) -> str:
    if schema.kind == "union":
        return f"[{', '.join(_named(branch) for branch in schema.inner)}]"
    return f'{schema.kind} "{schema.name}"' if schema.name else schema.kind


def _block(items: list[bytes]) -> bytes:
    return (_number(len(items)) + b"".join(items) if items else b"") + _number(0)


def _text(text: bytes) -> bytes:
    return _number(len(text)) + text


def _number(number: int) -> bytes:
    bits = (number << 1) ^ (number >> 63)
    written = bytearray()
    while bits > 0x7F:
        written.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*written, bits])


_ENCODED: Mapping[str, Callable[[Any], bytes]] = {
    "null": lambda value: b"",
    "boolean": lambda value: bytes([value]),
    "int": _number,
    "long": _number,
    "float": lambda value: struct.pack("<f", float(value)),
    "double": lambda value: struct.pack("<d", float(value)),
    "bytes": lambda value: _text(value.encode("latin-1")),
    "fixed": lambda value: bytes(value.encode("latin-1")),
    "string": lambda value: _text(value.encode()),
}
