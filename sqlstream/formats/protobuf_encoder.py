"""Arrow columns as messages of protobuf, many in each step: fields in the order of their numbers, as others write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.formats.avro_encoder import Unwritable, bodies_of, joined, of_size, variable
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.protobuf import NATURAL, Fitting, ProtoType, wrapped_field
from sqlstream.formats.protobuf_columns import wire_of
from sqlstream.formats.protobuf_groups import BYTES, END, HALF, VARINT, WORD
from sqlstream.formats.protobuf_schema import Message, ProtoField
from sqlstream.formats.protobuf_source import REQUIRED
from sqlstream.types import DataType, from_arrow

_SHOWN = 60


@dataclass(frozen=True)
class ProtobufEncoder:
    """Encodes rows as messages of a type. Columns are fields by their names; fields without a column are unset."""

    type: ProtoType

    @cached_property
    def message(self) -> Message:
        """The type. Raises SchemaError."""
        return self.type.message()

    def __getstate__(self) -> tuple[object, ...]:
        return (self.type,)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        object.__setattr__(self, "type", state[0])

    def check(self, columns: Sequence[pa.Field]) -> None:
        """Raises SchemaError where the type does not have the columns, or wants others."""
        for path, declared, has in Fitting(_takes).misfits(self.message, columns):
            if has is None:
                raise SchemaError(f'has no field "{path}" in message {self.message.full_name}')
            raise SchemaError(f'has "{path}" as {has}, as which {from_arrow(declared)} is not written')
        names = {column.name.casefold() for column in columns}
        for field in self.message.fields:
            if field.label == REQUIRED and field.name.casefold() not in names:
                raise SchemaError(f'requires the field "{field.name}", for which there is no column')

    def encoded(self, rows: pa.RecordBatch) -> pa.Array:
        """Returns the messages of rows, as ``pa.binary()``. Raises Unwritable."""
        return joined(_fields(self.message, rows.schema, rows.columns, "", None), rows.num_rows)


def _takes(field: ProtoField, declared: pa.DataType) -> bool:
    """True where columns of a type are written as a field; a number that it does not have is refused with its row."""
    if field.kind == "enum":
        return bool(kinds.is_string(declared) or kinds.is_integer(declared))
    return any(is_one(declared) for is_one in _TAKEN.get(field.kind, (kinds.is_integer, _is_whole)))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(kinds.is_decimal(kind) and kind.scale == 0)


_TAKEN: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "double": (kinds.is_floating,),
    "float": (kinds.is_float32,),
    "bool": (kinds.is_boolean,),
    "string": (kinds.is_string,),
    "bytes": (kinds.is_binary, kinds.is_string),
}


def _fields(
    message: Message, schema: Sequence[pa.Field], columns: Sequence[pa.Array], path: str, there: pa.Array | None
) -> list[pa.Array]:
    """The parts of messages. ``there``: which of them there are; None for all."""
    given = dict(zip((f.name.casefold() for f in schema), columns, strict=True))
    parts: list[pa.Array] = []
    for field in sorted(message.fields, key=lambda f: f.number):
        values = given.get(field.name.casefold())
        if values is not None:
            parts += _field(field, values, f"{path}.{field.name}" if path else field.name, there)
    return parts


def _field(field: ProtoField, values: pa.Array, path: str, there: pa.Array | None) -> list[pa.Array]:
    if field.repeated:
        return _repeated(field, values, path)
    if field.label == REQUIRED and values.null_count:
        lacking = values.is_null() if there is None else pc.and_(there, values.is_null())
        if pc.any(lacking).as_py():
            raise Unwritable(f'column "{path}" is NULL, but its field is required')
    parts, given = _values(field, values, path)
    if field.presence:
        given = None
    elif given is None:
        given = np.ones(len(values), bool)
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        given = valid if given is None else given & valid
    return _where(given, [_tag(field, len(values)), *parts])


def _where(given: np.ndarray | None, parts: list[pa.Array]) -> list[pa.Array]:
    """The parts, empty where nothing is given."""
    if given is None or given.all():
        return parts
    mask = pa.array(given)
    return [pc.if_else(mask, part, pa.scalar(b"", pa.binary())) for part in parts]


def _tag(field: ProtoField, count: int, wire: int | None = None) -> pa.Array:
    bits = field.number << 3 | (wire_of(field) if wire is None else wire)
    return pa.repeat(variable(np.array([bits], np.uint64))[0], count)


def _values(field: ProtoField, values: pa.Array, path: str) -> tuple[list[pa.Array], np.ndarray | None]:
    """The parts of values without their numbers, and which values are not the default of their type; None for all."""
    wire = wire_of(field)
    if field.message is not None:
        bodies = _message(field.message, values, path)
        return ([bodies, _tag(field, len(values), END)] if field.delimited else _after_length(bodies)), None
    if wire == BYTES:
        texts = values.cast(pa.binary()).fill_null(b"")
        lengths = pc.binary_length(texts).to_numpy().astype(np.uint64)
        return [variable(lengths), texts], lengths > 0
    bits = _bits(field, values, path)
    if wire == VARINT:
        return [variable(bits)], bits != 0
    raw = bits.view(np.uint8)  # by which -0.0 is another value than 0.0
    is_set = np.asarray(raw.reshape(-1, bits.itemsize).any(axis=1))
    return [of_size(raw, bits.itemsize)], is_set


def _after_length(bodies: pa.Array) -> list[pa.Array]:
    return [variable(pc.binary_length(bodies).to_numpy().astype(np.uint64)), bodies]


def _message(message: Message, values: pa.Array, path: str) -> pa.Array:
    if not kinds.is_struct(values.type):
        values = _wrapped(message, values)
    there = values.is_valid() if values.null_count else None
    return joined(_fields(message, [*values.type], values.flatten(), path, there), len(values))


def _wrapped(message: Message, values: pa.Array) -> pa.StructArray:
    """The message of a time, or of a value that a message wraps."""
    mask = values.is_null()
    if wrapped_field(message) is not None:
        return pa.StructArray.from_arrays([values], ["value"], mask=mask)
    micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64()).fill_null(0).to_numpy()
    seconds = micros // 1_000_000
    nanos = ((micros - seconds * 1_000_000) * 1_000).astype(np.int32)
    return pa.StructArray.from_arrays([pa.array(seconds), pa.array(nanos)], ["seconds", "nanos"], mask=mask)


def _bits(field: ProtoField, values: pa.Array, path: str) -> np.ndarray:
    """The bits of numbers; 0 for NULL."""
    if field.enum is not None and kinds.is_string(values.type):
        values = _numbers_of(field, values, path)
    natural = NATURAL[field.kind]
    try:
        numbers = values.cast(natural).fill_null(False if field.kind == "bool" else 0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise Unwritable(f'column "{path}" has a number that is no {field.kind}, its type in the schema') from None
    wire = wire_of(field)
    if wire in (WORD, HALF):
        return np.array(numbers)
    if field.kind.startswith("sint"):
        wide = numbers.astype(np.int64)
        zigzag: np.ndarray = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
        return zigzag
    if numbers.dtype.kind in "ub":
        return np.asarray(numbers, np.uint64)
    bits: np.ndarray = np.asarray(numbers, np.int64).view(np.uint64)
    return bits


def _numbers_of(field: ProtoField, values: pa.Array, path: str) -> pa.Array:
    """The numbers of the names of an enum."""
    assert field.enum is not None
    index = pc.index_in(values, pa.array([*field.enum.names], pa.string()))
    if index.null_count > values.null_count:
        other = values.filter(pc.and_(values.is_valid(), index.is_null()))[0].as_py()
        raise Unwritable(f'column "{path}" is "{other[:_SHOWN]}", which is no name of its enum')
    return pa.array([*field.enum.names.values()], pa.int32()).take(index)


def _repeated(field: ProtoField, values: pa.Array, path: str) -> list[pa.Array]:
    """Elements, each after its number, or all in one where they are packed. NULL has none."""
    if field.is_map:
        entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        values = pa.Array.from_buffers(
            pa.list_(entries.type), len(values), values.buffers()[:2], values.null_count, values.offset,
            children=[entries],
        )  # fmt: skip
    elements = values.flatten()
    if field.is_map and elements.field(1).null_count and pc.any(elements.flatten()[1].is_null()).as_py():
        raise Unwritable(f'column "{path}" has NULL as a value of a MAP, which protobuf does not have')
    if elements.null_count:
        raise Unwritable(f'column "{path}" has NULL within an ARRAY, which protobuf does not have')
    parts, _ = _values(field, elements, path)
    if not field.packed:
        return [bodies_of(values, [_tag(field, len(elements)), *parts])[1]]
    counts, bodies = bodies_of(values, parts)
    return _where(counts > 0, [_tag(field, len(values), BYTES), *_after_length(bodies)])


# --- types that are made of columns ---------------------------------------------------------------------------------

_TYPES = {
    "BOOLEAN": "bool", "TINYINT": "int32", "SMALLINT": "int32", "INT": "int32", "BIGINT": "int64", "FLOAT": "float",
    "DOUBLE": "double", "STRING": "string", "BINARY": "bytes", "TIMESTAMP": "google.protobuf.Timestamp",
    "TIMESTAMP_NTZ": "google.protobuf.Timestamp",
}  # fmt: skip


def proto_of_columns(columns: Sequence[tuple[str, DataType]], name: str = "Record") -> str:
    """Returns the text of a ``.proto`` with a message that has a field for each column. Raises SchemaError for a type
    that protobuf does not have.
    """
    body = "\n".join(_members(columns, "  "))
    times = any(part.name.startswith("TIMESTAMP") for _, kind in columns for part in kind.parts())
    imports = 'import "google/protobuf/timestamp.proto";\n\n' if times else ""
    return f'syntax = "proto3";\n\n{imports}message {name} {{\n{body}\n}}\n'


def _members(columns: Sequence[tuple[str, DataType]], indent: str) -> list[str]:
    lines = []
    for number, (name, kind) in enumerate(columns, 1):
        if not name.isidentifier() or not name.isascii():
            raise SchemaError(f'cannot be made: "{name}" is no name in protobuf')
        element = kind.inner[-1] if kind.name in ("ARRAY", "MAP") else kind
        inner = f"{name[0].upper()}{name[1:]}_"
        if element.name == "STRUCT":
            lines += [f"{indent}message {inner} {{", *_members(element.fields(), f"{indent}  "), f"{indent}}}"]
        written = inner if element.name == "STRUCT" else _TYPES.get(element.name)
        if written is None or (kind.name == "MAP" and kind.inner[0].name not in _KEYS):
            raise SchemaError(
                f'cannot be made: protobuf has no {element if written is None else kind}, of column "{name}"'
            )
        if kind.name == "MAP":
            written = f"map<{_TYPES[kind.inner[0].name]}, {written}>"
        elif kind.name == "ARRAY":
            written = f"repeated {written}"
        elif element.name != "STRUCT" and not written.startswith("google"):
            written = f"optional {written}"
        lines.append(f"{indent}{written} {name} = {number};")
    return lines


_KEYS = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING"})
