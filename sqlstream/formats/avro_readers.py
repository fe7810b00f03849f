"""The readers of a schema of Avro: for each of its types the one that reads it as declared, or skips it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.formats.avro_columns import (
    Array,
    Boolean,
    Bytes,
    Constant,
    Entry,
    Enum,
    Float,
    Map,
    Nothing,
    Number,
    Reader,
    Record,
    Refused,
    Union,
)
from sqlstream.formats.avro_cursor import PADDING, Cursor, Data, Faults
from sqlstream.formats.avro_defaults import default_bytes
from sqlstream.formats.avro_schema import Member, Schema, SchemaError, as_declared, read_branches, reads
from sqlstream.types import from_arrow


class Skippers:
    """Readers that only skip, one for each type of a schema: records may contain themselves."""

    def __init__(self) -> None:
        self._of: dict[Schema, Reader] = {}

    def of(self, schema: Schema, path: str) -> Reader:
        """The reader of a type. ``path``: the column that is skipped, for faults."""
        if schema in self._of:
            return self._of[schema]
        match schema.kind:
            case "record":
                fields: list[Reader] = []
                reader: Reader = Record(path, None, fields, ())
                self._of[schema] = reader
                fields += [self.of(m.type, path) for m in schema.members]
                reader.least = 0 if schema_is_empty(schema) else 1
            case "array":
                reader = Array(path, None, self.of(schema.inner[0], path))
            case "map":
                reader = Map(path, None, Entry(path, None, self.of(schema.inner[0], path)))
            case "union":
                reader = Union(path, None, [self.of(branch, path) for branch in schema.inner])
            case _:
                reader = _scalar(schema, path, None)
        self._of[schema] = reader
        return reader


def schema_is_empty(schema: Schema, within: tuple[Schema, ...] = ()) -> bool:
    """True where values of the schema may have no bytes."""
    if schema.kind != "record":
        return schema.kind == "null" or (schema.kind == "fixed" and not schema.size)
    return schema not in within and all(schema_is_empty(m.type, (*within, schema)) for m in schema.members)


def _scalar(schema: Schema, path: str, declared: pa.DataType | None, like: Schema | None = None) -> Reader:
    if declared is not None:
        schema = as_declared(schema, declared)
    match schema.kind:
        case "null":
            return Nothing(path, declared)
        case "boolean":
            return Boolean(path, declared)
        case "int" | "long":
            return Number(path, declared, schema)
        case "float" | "double":
            return Float(path, declared, schema)
        case "enum":
            return Enum(path, declared, schema, like)
    return Bytes(path, declared, schema)


def reader_of(schema: Schema, declared: pa.DataType, path: str, skippers: Skippers, like: Schema | None) -> Reader:
    """Returns the reader of a type as the declared one, which it fits (``avro_schema.misfits``).

    ``like``: the schema that a reader of Avro has been given, which has aliases and defaults; None without one.
    """
    match schema.kind:
        case "union":
            return _union(schema, declared, path, skippers, like)
        case "array" if not kinds.is_map(declared):
            return Array(path, declared, reader_of(schema.inner[0], declared.value_type, path, skippers, _item(like)))
        case "map":
            value = reader_of(schema.inner[0], declared.item_type, path, skippers, _item(like))
            entry = pa.struct([declared.key_field, declared.item_field])
            return Map(path, declared, Entry(path, entry, value))
        case "record":
            return record_of(schema, [*declared], path, skippers, _record(like), declared)
    return _scalar(schema, path, declared, _record(like))


def _union(schema: Schema, declared: pa.DataType, path: str, skippers: Skippers, like: Schema | None) -> Reader:
    branches: list[Reader] = []
    read = read_branches(schema, declared)
    for branch in schema.inner:
        if branch.kind == "null":
            branches.append(Nothing(path, declared))
        elif any(branch is one for one in read):
            branches.append(reader_of(branch, declared, path, skippers, like))
        else:
            branches.append(Refused(path, declared, branch, skippers.of(branch, path)))
    return Union(path, declared, branches)


def _item(like: Schema | None) -> Schema | None:
    some = _record(like)
    return some.inner[0] if some is not None and some.kind in ("array", "map") else None


def _record(like: Schema | None) -> Schema | None:
    """A reader's schema without its union with null."""
    if like is None or like.kind != "union":
        return like
    return next((branch for branch in like.inner if branch.kind != "null"), None)


def record_of(
    schema: Schema,
    wanted: Sequence[pa.Field],
    path: str,
    skippers: Skippers,
    like: Schema | None,
    declared: pa.DataType | None = None,
) -> Record:
    """Returns the reader of the wanted fields of a record; fields that it lacks are their defaults, or NULL."""
    names: dict[str, pa.Field] = {}
    missing = []
    for field in wanted:
        member = schema.member(field.name) or _by_alias(schema, like, field.name)
        if member is None or member.name in names:
            missing.append(field)
        else:
            names[member.name] = field
    readers: list[Reader] = []
    for member in schema.members:
        shown = f"{path}.{member.name}" if path else member.name
        if member.name in names:
            mine = like.member(names[member.name].name) if like is not None else None
            kind = names[member.name].type
            readers.append(reader_of(member.type, kind, shown, skippers, mine.type if mine else None))
        else:
            readers.append(skippers.of(member.type, shown))
    read = [names[m.name].name if m.name in names else None for m in schema.members]
    for field in missing:
        default = like.member(field.name) if like is not None else None
        readers.append(_missing(field, default if default is not None and default.has_default else None, skippers))
        read.append(field.name)
    record = Record(path, declared, readers, read)
    record.least = 0 if schema_is_empty(schema) else 1
    return record


def _by_alias(schema: Schema, like: Schema | None, name: str) -> Member | None:
    mine = like.member(name) if like is not None else None
    aliases = mine.aliases if mine is not None else ()
    return next((m for m in schema.members if m.name in aliases), None)


def _missing(field: pa.Field, default: Member | None, skippers: Skippers) -> Constant:
    """The default of a field, which is read from its bytes as other values are; NULL without one."""
    if default is None:
        return Constant(field.name, field.type, pa.scalar(None, field.type))
    if not reads(default.type, field.type):
        wanted = from_arrow(field.type)
        raise SchemaError(f'has a default of "{field.name}" of type {default.type.kind}, which is not read as {wanted}')
    written, faults = default_bytes(default.type, default.default), Faults()
    data = np.frombuffer(written + bytes(PADDING), np.uint8)
    one = Cursor(Data(data), np.zeros(1, np.int64), np.array([len(written)]), np.zeros(1, np.int64), faults)
    value = reader_of(default.type, field.type, field.name, skippers, default.type).read(one)[0]
    if faults.reasons:
        raise SchemaError(f'has a default of "{field.name}" that cannot be read: {faults.reasons[0]}')
    return Constant(field.name, field.type, value)
