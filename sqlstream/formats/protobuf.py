"""The decoder of protobuf: messages of one type, whose fields are columns by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.formats.avro_cursor import PADDING, Cursor, Data, Faults
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.columnar import fits, is_list
from sqlstream.formats.decoder import Decoded, Decoder, Fault, Field, rows_of_nothing
from sqlstream.formats.protobuf_columns import (
    Embedded,
    Entries,
    FieldReader,
    MessageReader,
    Piece,
    Repeated,
    Rows,
    Scalar,
    Texts,
    Time,
    Wrapped,
)
from sqlstream.formats.protobuf_schema import Message, ProtoField, parse_descriptors, parse_proto
from sqlstream.formats.text_rule import bytes_of, offsets_of
from sqlstream.types import from_arrow

_AT_ONCE = 1 << 14
"""Messages that are decoded together: their columns stay in the processor's cache."""


@dataclass(frozen=True)
class ProtoType:
    """Where a type of messages is described. ``source``: the text of a ``.proto``, or the bytes of a FileDescriptorSet;
    ``imports``: the texts of those that it imports. ``name``: the message, by its name or by its indexes in the text.
    """

    source: str | bytes
    name: str | tuple[int, ...]
    imports: tuple[str, ...] = ()

    def message(self) -> Message:
        """Returns the message. Raises SchemaError."""
        binary = isinstance(self.source, bytes)
        file = parse_descriptors(self.source) if binary else parse_proto(self.source, self.imports)  # type: ignore[arg-type]
        return file.message(self.name) if isinstance(self.name, str) else file.at(self.name)


@dataclass(frozen=True)
class ProtobufDecoder(Decoder):
    """Decodes messages of one type. ``defaults``: fields that are unset are their defaults, where they would be NULL.
    ``lacks``: columns that the type does not have are NULL, else a mistake.
    """

    fields: tuple[Field, ...]
    type: ProtoType
    defaults: bool = False
    lacks: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f.name, f.type.to_arrow()) for f in self.fields if f.wanted])

    @cached_property
    def reader(self) -> MessageReader:
        """The readers of the columns. Raises SchemaError where the type does not have them."""
        columns = [pa.field(f.name, f.type.to_arrow()) for f in self.fields]
        message = self.type.message()
        for path, declared, has in Fitting(_reads, self.lacks).misfits(message, columns):
            if has is None:
                raise SchemaError(f'has no field "{path}" in message {message.full_name}')
            raise SchemaError(f'has "{path}" as {has}, which is not read as {from_arrow(declared)}')
        return _reader_of(message, columns, "", self.defaults)

    def __getstate__(self) -> tuple[object, ...]:
        return self.fields, self.type, self.defaults, self.lacks

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(("fields", "type", "defaults", "lacks"), state, strict=True):
            object.__setattr__(self, name, value)

    def block(self, data: pa.Buffer) -> Decoded:
        raise AssertionError("messages of protobuf have no marks between them")

    def messages(self, values: pa.BinaryArray) -> Decoded:
        offsets = offsets_of(values).astype(np.int64)
        content = bytes_of(values)[offsets[0] : offsets[-1]]
        data = Data(np.concatenate((content, np.zeros(PADDING, np.uint8))))
        starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
        faults = Faults()
        if values.null_count:  # an array may have bytes there
            nulls = values.is_null().to_numpy(zero_copy_only=False)
            ends = np.where(nulls, starts, ends)
            faults.add(np.flatnonzero(nulls), "the message is empty")
        parts = [
            self._read(data, starts[n : n + _AT_ONCE], ends[n : n + _AT_ONCE], n, faults)
            for n in range(0, len(starts), _AT_ONCE)
        ]
        rows = self._joined(parts, len(starts))
        if not faults.reasons:
            return Decoded(rows, len(starts))
        bad = sorted(faults.reasons)
        good = np.ones(len(starts), bool)
        good[bad] = False
        found = [Fault(i, 0, data.bytes[starts[i] : ends[i]].tobytes(), faults.reasons[i]) for i in bad]
        return Decoded(rows.filter(pa.array(good)), len(starts), found)

    def _read(self, data: Data, starts: np.ndarray, ends: np.ndarray, first: int, faults: Faults) -> list[pa.Array]:
        records = np.arange(first, first + len(starts))
        found: dict[int, list[Piece]] = {}
        self.reader.scan(Cursor(data, starts, ends, records, faults), np.arange(len(starts)), found)
        columns = self.reader.columns(found, Rows(data, faults, records))
        return [columns[f.name] for f in self.schema]

    def _joined(self, parts: Sequence[list[pa.Array]], count: int) -> pa.RecordBatch:
        if not len(self.schema):
            return rows_of_nothing(count)
        if len(parts) == 1:
            return pa.RecordBatch.from_arrays(parts[0], schema=self.schema)
        arrays = [
            pa.concat_arrays(each) if each else pa.array([], f.type)
            for f, each in zip(self.schema, zip(*parts, strict=True) if parts else [()] * len(self.schema), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


# --- which fields are read as which columns -----------------------------------------------------------------------

NATURAL = {
    "double": pa.float64(), "float": pa.float32(), "bool": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
    "uint32": pa.uint32(), "fixed32": pa.uint32(), "uint64": pa.uint64(), "fixed64": pa.uint64(),
    **dict.fromkeys(("int32", "sint32", "sfixed32", "enum"), pa.int32()),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), pa.int64()),
}  # fmt: skip
"""The types of Arrow that have all values of a scalar type."""
TIMESTAMP = "google.protobuf.Timestamp"


Misfit = tuple[str, pa.DataType, str | None]
"""The path of a column, its declared type, and that of protobuf, or None where the message lacks the field."""


@dataclass(frozen=True)
class Fitting:
    """Compares columns with the fields of messages. ``takes``: whether a field and a column of a type go together.
    ``lacks``: columns that a message does not have are no mistake.
    """

    takes: Callable[[ProtoField, pa.DataType], bool]
    lacks: bool = False

    def misfits(self, message: Message, columns: Sequence[pa.Field], within: str = "") -> Iterator[Misfit]:
        """Yields which columns do not go with the fields of a message."""
        for column in columns:
            field = message.field(column.name)
            path = f"{within}{column.name}"
            if field is not None:
                yield from self._of_field(field, column.type, path)
            elif not self.lacks:
                yield path, column.type, None

    def _of_field(self, field: ProtoField, declared: pa.DataType, path: str) -> Iterator[Misfit]:
        if field.is_map:
            assert field.message is not None
            if kinds.is_map(declared):
                key, value = field.message.fields
                yield from self._of_one(key, declared.key_type, path)
                yield from self._of_one(value, declared.item_type, path)
            else:
                yield path, declared, "map"
        elif field.repeated:
            if is_list(declared):
                yield from self._of_one(field, declared.value_type, path)
            else:
                yield path, declared, f"repeated {shown(field)}"
        else:
            yield from self._of_one(field, declared, path)

    def _of_one(self, field: ProtoField, declared: pa.DataType, path: str) -> Iterator[Misfit]:
        if field.message is not None and kinds.is_struct(declared):
            yield from self.misfits(field.message, [*declared], f"{path}.")
        elif field.message is not None:
            wrapped = wrapped_field(field.message)
            is_time = field.message.full_name == TIMESTAMP and kinds.is_timestamp(declared)
            if not is_time and (wrapped is None or not self.takes(wrapped, declared)):
                yield path, declared, shown(field)
        elif not self.takes(field, declared):
            yield path, declared, shown(field)


def _reads(field: ProtoField, declared: pa.DataType) -> bool:
    """True where values of a field are read as a type: Flink's, and larger ones; smaller ones where a value fits."""
    natural = NATURAL[field.kind]
    if field.kind == "enum":
        return bool(kinds.is_string(declared) or kinds.is_integer(declared))
    if kinds.is_integer(natural):
        return bool(kinds.is_integer(declared) or kinds.is_floating(declared) or fits(natural, declared)) and not (
            kinds.is_temporal(declared)
        )
    return fits(natural, declared)


def wrapped_field(message: Message) -> ProtoField | None:
    """Returns the field of a message such as ``google.protobuf.Int64Value``; None for others."""
    is_wrapper = message.full_name.startswith("google.protobuf.") and message.full_name.endswith("Value")
    is_wrapper = is_wrapper and len(message.fields) == 1 and not message.fields[0].repeated
    return message.fields[0] if is_wrapper else None


def shown(field: ProtoField) -> str:
    """Returns the type of a field, without its label, as a ``.proto`` has it."""
    if field.message is not None:
        return field.message.full_name
    return field.enum.full_name if field.enum is not None else field.kind


def _reader_of(message: Message, columns: Sequence[pa.Field], path: str, defaults: bool) -> MessageReader:
    fields, missing = {}, {}
    for column in columns:
        field = message.field(column.name)
        if field is None:
            missing[column.name] = column.type
        else:
            fields[column.name] = _field_reader(
                field, column.type, f"{path}.{column.name}" if path else column.name, defaults
            )
    return MessageReader(f'column "{path}"' if path else "the message", message, fields, missing)


def _field_reader(field: ProtoField, declared: pa.DataType, path: str, defaults: bool) -> FieldReader:
    if not field.repeated:
        return _one(field, declared, path, defaults)
    if field.is_map:
        assert field.message is not None
        entry = pa.struct([pa.field("key", declared.key_type), pa.field("value", declared.item_type)])
        reader = _reader_of(field.message, [*entry], path, defaults)
        kind = pa.struct([declared.key_field, declared.item_field])
        return Entries(field, path, declared, _Entry(field, path, kind, reader))
    return Repeated(field, path, declared, _one(field, declared.value_type, path, defaults))


def _one(field: ProtoField, declared: pa.DataType, path: str, defaults: bool) -> FieldReader:
    if field.message is None:
        made = Texts if field.kind in ("string", "bytes") else Scalar
        return made(field, path, declared, defaults)
    if kinds.is_struct(declared):
        return Embedded(field, path, declared, _reader_of(field.message, [*declared], path, defaults))
    if kinds.is_timestamp(declared):
        parts = [pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())]
        return Time(field, path, declared, _reader_of(field.message, parts, path, defaults))
    return Wrapped(field, path, declared, _reader_of(field.message, [pa.field("value", declared)], path, defaults))


class _Entry(Embedded):
    """A key and a value of a map, named as Arrow's type of the map has them."""

    def _made(self, columns: dict[str, pa.Array], given: np.ndarray, rows: Rows) -> pa.Array:
        keys = columns["key"].fill_null("") if kinds.is_string(columns["key"].type) else columns["key"]
        return pa.StructArray.from_arrays([keys, columns["value"]], fields=[*self.declared])
