"""Schemas of Avro: parsed from JSON, compared with the declared types of columns, and made for columns to be written.

The rules are those of Avro's specification (1.12) and of Flink's mapping of types. A type is read as a declared one
where Parquet's would be (``columnar.fits``), and where Avro promotes it: ``int`` and ``long`` to FLOAT and DOUBLE,
``int`` also to TINYINT and SMALLINT, whose values are checked one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.formats.columnar import fits, is_list
from sqlstream.types import DataType

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_MOST_DIGITS = 38
_MOST_FIXED = 1 << 30
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SchemaError(ValueError):
    """A text is no schema of Avro. The message completes ``its schema …``."""


@dataclass(frozen=True)
class Member:
    """A field of a record. ``default``: the JSON value of its default; ``has_default`` says whether it has one."""

    name: str
    type: Schema
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(eq=False)
class Schema:
    """A type of Avro. ``kind``: ``long``, ``record`` and so on, ``union`` for a JSON array. ``name``: that of a record,
    an enum or a fixed. ``connect``: the logical type of Kafka Connect or Debezium, which has none of Avro.

    ``inner``: the items of an array, the values of a map, or the branches of a union. ``other``: the symbol of an enum
    that stands for those which it lacks. Records may contain themselves, so that a schema is compared by identity.
    """

    kind: str
    name: str = ""
    logical: str | None = None
    connect: str | None = None
    size: int = 0
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    other: str | None = None
    members: tuple[Member, ...] = ()
    inner: tuple[Schema, ...] = field(default=())

    @property
    def is_decimal(self) -> bool:
        """True where the logical type decimal is valid, and Arrow and SQL have its precision."""
        return self.logical == "decimal" and 0 <= self.scale <= self.precision <= _MOST_DIGITS and self.precision > 0

    def member(self, name: str) -> Member | None:
        """Returns the field of a record with the name, else the first that differs only in case, or None."""
        exact = (m for m in self.members if m.name == name)
        return next(exact, None) or next((m for m in self.members if m.name.casefold() == name.casefold()), None)


def parse_schema(text: str, references: Sequence[str] = ()) -> Schema:
    """Parses the JSON text of a schema. ``references``: the texts of others whose types it names, each after those that
    it names itself. Raises SchemaError.
    """
    named: dict[str, Schema] = {}
    try:
        for other in references:
            _parsed(json.loads(other), named, "")
        return _parsed(json.loads(text), named, "")
    except (json.JSONDecodeError, RecursionError) as error:
        raise SchemaError(f"is no JSON: {error}") from None
    except SchemaError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise SchemaError(f"is none of Avro's: {error!r}") from None


def _parsed(node: Any, named: dict[str, Schema], namespace: str) -> Schema:
    if isinstance(node, str):
        return _by_name(node, named, namespace)
    if isinstance(node, list):
        return Schema("union", inner=tuple(_parsed(branch, named, namespace) for branch in node))
    kind = node["type"]
    if not isinstance(kind, str):
        return _parsed(kind, named, namespace)
    match kind:
        case "array" | "map":
            return Schema(kind, inner=(_parsed(node["items" if kind == "array" else "values"], named, namespace),))
        case "record" | "error" | "enum" | "fixed":
            return _named(node, named, namespace)
    if kind not in PRIMITIVES:
        return _by_name(kind, named, namespace)
    return Schema(kind, **_logical(node))


def _by_name(name: str, named: Mapping[str, Schema], namespace: str) -> Schema:
    if name in PRIMITIVES:
        return Schema(name)
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    schema = named.get(full) or named.get(name)
    if schema is None:
        raise SchemaError(f'names the type "{name}", which it does not define')
    return schema


def _named(node: Mapping[str, Any], named: dict[str, Schema], namespace: str) -> Schema:
    name = str(node["name"])
    own = name.rpartition(".")[0] if "." in name else str(node.get("namespace", namespace) or "")
    kind = "record" if node["type"] == "error" else str(node["type"])
    size = int(node.get("size", 0))
    if not 0 <= size <= _MOST_FIXED:
        raise SchemaError(f'has a fixed "{name}" of {size:,} bytes')
    other = node.get("default") if kind == "enum" else None
    schema = Schema(kind, name, symbols=tuple(node.get("symbols", ())), other=other, size=size, **_logical(node))
    named[name if "." in name or not own else f"{own}.{name}"] = schema
    if kind == "record":
        schema.members = tuple(
            Member(
                str(m["name"]),
                _parsed(m["type"], named, own),
                tuple(m.get("aliases", ())),
                "default" in m,
                m.get("default"),
            )
            for m in node["fields"]
        )
    return schema


def _logical(node: Mapping[str, Any]) -> dict[str, Any]:
    logical = node.get("logicalType")
    if logical == "decimal":
        precision, scale = node.get("precision"), node.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int)):  # by Avro's specification ignored
            return {}
        return {"logical": logical, "precision": precision, "scale": scale}
    connect = node.get("connect.name")
    return {
        "logical": logical if isinstance(logical, str) else None,
        "connect": connect if isinstance(connect, str) else None,
    }


_OF_CONNECT = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
}
"""Logical types of Avro that have the values of Debezium's."""


def as_declared(schema: Schema, declared: pa.DataType) -> Schema:
    """Returns the type of a number that is read as a declared type: a date or time of Debezium counts as one only where
    the column is one, too, and so does a decimal with more digits than Arrow has, such as the 64 that Kafka Connect
    writes where it knows no precision. Of these only values with fewer digits are read.
    """
    if schema.logical == "decimal" and schema.precision > _MOST_DIGITS and kinds.is_decimal(declared):
        return replace(schema, precision=_MOST_DIGITS)
    logical = _OF_CONNECT.get(schema.connect or "")
    if schema.logical is not None or logical is None or not kinds.is_temporal(declared):
        return schema
    return replace(schema, logical=logical)


# --- Arrow's types of a schema ----------------------------------------------------------------------------------

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


def natural_type(schema: Schema, within: tuple[Schema, ...] = ()) -> pa.DataType:
    """Returns the Arrow type that has all values of a schema. A union of ``null`` and one type is that type, another
    one Arrow's union; a record within itself has no fields.
    """
    match schema.kind:
        case "array":
            return pa.list_(natural_type(schema.inner[0], within))
        case "map":
            return pa.map_(pa.string(), natural_type(schema.inner[0], within))
        case "union":
            some = [natural_type(branch, within) for branch in schema.inner if branch.kind != "null"]
            if len(some) == 1:
                return some[0]
            return pa.dense_union([pa.field(str(i), kind) for i, kind in enumerate(some)]) if some else pa.null()
        case "record":
            inside = (*within, schema)
            members = () if schema in within else schema.members
            return pa.struct([(m.name, natural_type(m.type, inside)) for m in members])
    return scalar_type(schema)


def scalar_type(schema: Schema) -> pa.DataType:
    """Returns the Arrow type of a schema that has no others in it."""
    if schema.is_decimal and schema.kind in ("bytes", "fixed"):
        return pa.decimal128(schema.precision, schema.scale)
    if schema.kind == "fixed":
        return pa.string() if schema.logical == "uuid" and schema.size == _UUID else pa.binary(schema.size)
    return _LOGICAL.get((schema.kind, schema.logical or ""), _PLAIN[schema.kind])


_UUID = 16


# --- what is read as what -----------------------------------------------------------------------------------------


def promotes(found: pa.DataType, declared: pa.DataType) -> bool:
    """True where Avro, other than Parquet, reads a type as a declared one; see the module."""
    if kinds.is_int32(found):
        return bool(kinds.is_int8(declared) or kinds.is_int16(declared) or _is_float(declared))
    return bool(kinds.is_int64(found) and _is_float(declared))


def _is_float(kind: pa.DataType) -> bool:
    return bool(kinds.is_float32(kind) or kinds.is_float64(kind))


def reads(schema: Schema, declared: pa.DataType) -> bool:
    """True where values of the schema can be read as the declared type, at least those of one branch of each union.
    Fields that a record lacks are NULL.
    """
    return _fit(schema, declared, nulls=True)


def _fit(schema: Schema, declared: pa.DataType, *, nulls: bool) -> bool:
    return next(misfits(schema, declared, "", nulls=nulls), None) is None


def read_branches(union: Schema, declared: pa.DataType) -> list[Schema]:
    """Returns the branches of a union, other than ``null``, that are read as the declared type.

    Since fields that a record lacks are NULL, any record could be read as any STRUCT. Of several records only those
    with the most of its fields are meant: a value of another one would become a row of NULLs.
    """
    some = [branch for branch in union.inner if branch.kind != "null"]
    if len(some) == 1:
        return some
    own = [(branch, _common_fields(branch, declared)) for branch in some if reads(branch, declared)]
    most = max((count for _, count in own), default=0)
    return [branch for branch, count in own if count == most]


def _common_fields(schema: Schema, declared: pa.DataType) -> int:
    """How many fields of a declared STRUCT, and of those nested in it, a schema has."""
    match schema.kind:
        case "union":
            return max((_common_fields(branch, declared) for branch in schema.inner), default=0)
        case "array" if is_list(declared):
            return _common_fields(schema.inner[0], declared.value_type)
        case "map" if kinds.is_map(declared):
            return _common_fields(schema.inner[0], declared.item_type)
        case "record" if kinds.is_struct(declared):
            members = ((schema.member(field.name), field.type) for field in declared)
            return sum(1 + _common_fields(member.type, kind) for member, kind in members if member is not None)
    return 0


def misfits(
    schema: Schema, declared: pa.DataType, path: str, *, nulls: bool
) -> Iterator[tuple[str, pa.DataType, pa.DataType | None, tuple[str, ...]]]:
    """Yields what a column, or a field within it, is not read as: its path, the declared type, and its type in the
    schema, or None and the names that are there if a record lacks it. ``nulls``: what is lacking is NULL.
    """
    match schema.kind:
        case "union":
            some = [branch for branch in schema.inner if branch.kind != "null"]
            if len(some) == 1:
                yield from misfits(some[0], declared, path, nulls=nulls)
            elif some and not any(_fit(branch, declared, nulls=nulls) for branch in some):
                yield path, declared, natural_type(schema), ()
        case "record" if kinds.is_struct(declared):
            yield from missing_or_other(schema, list(declared), nulls=nulls, within=f"{path}.")
        case "array" if is_list(declared):
            yield from misfits(schema.inner[0], declared.value_type, path, nulls=nulls)
        case "map" if kinds.is_map(declared) and kinds.is_string(declared.key_type):
            yield from misfits(schema.inner[0], declared.item_type, path, nulls=nulls)
        case "record" | "array" | "map":
            yield path, declared, natural_type(schema), ()
        case _:
            found = scalar_type(as_declared(schema, declared))
            if not fits(found, declared) and not promotes(found, declared):
                yield path, declared, found, ()


def missing_or_other(
    schema: Schema, declared: Sequence[pa.Field], *, nulls: bool, within: str = ""
) -> Iterator[tuple[str, pa.DataType, pa.DataType | None, tuple[str, ...]]]:
    """Yields the ``misfits`` of columns, or of the fields of a STRUCT, in a record."""
    for column in declared:
        member = schema.member(column.name)
        if member is not None:
            yield from misfits(member.type, column.type, f"{within}{column.name}", nulls=nulls)
        elif not nulls:
            yield f"{within}{column.name}", column.type, None, tuple(m.name for m in schema.members)


# --- schemas of columns that are written ------------------------------------------------------------------------

_WRITTEN = {
    "VOID": "null",
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "bytes",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "long", "logicalType": "time-micros"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
    "TIMESTAMP_NTZ": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def is_name(text: str) -> bool:
    """True where Avro allows the text as the name of a field."""
    return _NAME.fullmatch(text) is not None


def unwritable(kind: DataType) -> str | None:
    """Says why no schema holds values of a type, as the end of a message; None where one does."""
    for nested in kind.parts():
        if nested.name == "MAP" and nested.inner[0].name != "STRING":
            return "keys of a MAP are texts in Avro"
        if nested.name not in (*_WRITTEN, "DECIMAL", "ARRAY", "MAP", "STRUCT"):
            return f"Avro has no {nested.name}"
        for name, _ in nested.fields():
            if not is_name(name):
                return f'"{name}" is no name in Avro'
    return None


def schema_of_columns(
    columns: Sequence[tuple[str, DataType]],
    *,
    legacy: bool = False,
    required: Collection[str] = (),
    millis: Collection[str] = (),
) -> str:
    """Returns the JSON text of the schema with which columns are written: a record whose fields are unions of ``null``
    and a type, as Flink's, and have the default NULL; within columns those that are NOT NULL are no unions.

    ``legacy``: TIMESTAMP_NTZ is an instant, ``timestamp-micros``, as in Flink before 1.19. ``required``: columns that
    are no unions, because they are NOT NULL. ``millis``: timestamps that count milliseconds.
    """
    record = _record("record", [(name, replace(kind, nullable=True)) for name, kind in columns], legacy)
    for member in record["fields"]:
        if member["name"] in millis:
            member["type"][1]["logicalType"] = member["type"][1]["logicalType"].replace("micros", "millis")
        if member["name"] in required and isinstance(member["type"], list):
            member["type"] = member["type"][1]
            del member["default"]
    return json.dumps(record, separators=(",", ":"))


def _record(name: str, columns: Sequence[tuple[str, DataType]], legacy: bool) -> dict[str, Any]:
    types = [(n, _nullable(t, f"{name}_{n}", legacy)) for n, t in columns]
    with_default = {n for n, written in types if written == "null" or isinstance(written, list)}
    fields = [{"name": n, "type": t} | ({"default": None} if n in with_default else {}) for n, t in types]
    return {"type": "record", "name": name, "fields": fields}


def _nullable(kind: DataType, name: str, legacy: bool) -> Any:
    if kind.name == "VOID":
        return "null"
    written = _written(kind, name, legacy)
    return ["null", written] if kind.nullable else written


def _written(kind: DataType, name: str, legacy: bool) -> Any:
    match kind.name:
        case "DECIMAL":
            precision, scale = kind.args
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case "ARRAY":
            return {"type": "array", "items": _nullable(kind.inner[0], name, legacy)}
        case "MAP":
            return {"type": "map", "values": _nullable(kind.inner[1], name, legacy)}
        case "STRUCT":
            return _record(name, kind.fields(), legacy)
    written = _WRITTEN["TIMESTAMP" if legacy and kind.name == "TIMESTAMP_NTZ" else kind.name]
    return dict(written) if isinstance(written, dict) else written
