"""Arrow columns as records of Avro, many in each step, and files of them.

The parts of a record (branches of unions, lengths, bytes) are made for all rows at once, each as an array of bytes, and
Arrow joins them row by row, as the schema says.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.formats.avro_cursor import slices
from sqlstream.formats.avro_defaults import default_bytes
from sqlstream.formats.avro_files import COMPRESS, MAGIC
from sqlstream.formats.avro_schema import Schema, parse_schema, schema_of_columns
from sqlstream.formats.avro_writable import branch_of, logical_type
from sqlstream.types import DataType

_BLOCK_BYTES = 64_000
"""The size of a block before compression, that of Avro's own library."""

_DECIMAL = 16
_NANOS = 1_000
_UUID = 16
_SHOWN = 60


class Unwritable(ValueError):
    """A value that the schema does not have. The message is a whole sentence's end: ``column "a" …``."""


@dataclass(frozen=True)
class AvroEncoder:
    """Encodes rows as records of a schema. ``text``: its JSON text, a record with a field for each column, by name; a
    field without a column has its default. ``references``: the texts of the schemas that it names.
    """

    text: str
    references: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        """The parsed schema. Raises SchemaError."""
        return parse_schema(self.text, self.references)

    def __getstate__(self) -> tuple[object, ...]:
        return self.text, self.references

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(("text", "references"), state, strict=True):
            object.__setattr__(self, name, value)

    def encoded(self, rows: pa.RecordBatch) -> pa.Array:
        """Returns the records of rows, as ``pa.binary()``. Raises Unwritable."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        return joined(_fields(self.schema, columns, rows.num_rows, None, ""), rows.num_rows)


def joined(parts: Sequence[pa.Array], count: int) -> pa.Array:
    """Returns the parts of ``count`` records one after the other."""
    if not parts:
        return pa.array([b""] * count, pa.binary())
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary())) if len(parts) > 1 else parts[0]


def _fields(
    schema: Schema, columns: Mapping[str, pa.Array], count: int, given: pa.Array | None, path: str
) -> list[pa.Array]:
    """The parts of records. ``given``: which of them are no NULL, whose parts are empty; None for all."""
    by_name = {name.casefold(): values for name, values in columns.items()}
    parts: list[pa.Array] = []
    for member in schema.members:
        values = columns.get(member.name)
        values = by_name.get(member.name.casefold()) if values is None else values
        if values is None:
            default = pa.scalar(default_bytes(member.type, member.default), pa.binary())
            parts.append(pa.repeat(default, count) if given is None else pc.if_else(given, default, b""))
        else:
            parts += _parts(values, member.type, given, f"{path}.{member.name}" if path else member.name)
    return parts


def _parts(values: pa.Array, schema: Schema, given: pa.Array | None, path: str) -> list[pa.Array]:
    """The parts of values as a type. Values that are not ``given`` are within NULL, and have empty parts."""
    if schema.kind == "union":
        return _union(values, schema, given, path)
    if schema.kind == "null":
        if values.null_count < len(values):
            raise Unwritable(f'column "{path}" is not NULL, which is all that its type in the schema has')
        return []
    if values.null_count:
        lacking = values.is_null() if given is None else pc.and_(given, values.is_null())
        if pc.any(lacking).as_py():
            raise Unwritable(f'column "{path}" is NULL, which its type in the schema does not have')
    match schema.kind:
        case "record":
            members = dict(zip((f.name for f in values.type), values.flatten(), strict=True))
            return _fields(schema, members, len(values), values.is_valid() if values.null_count else None, path)
        case "array":
            return _listed(values, _parts(values.flatten(), schema.inner[0], None, path))
        case "map":
            keys, lists = _entries(values)
            return _listed(lists, [*_texts(keys), *_parts(lists.flatten().field(1), schema.inner[0], None, path)])
    return _scalars(values, schema, path)


def _entries(values: pa.MapArray) -> tuple[pa.Array, pa.ListArray]:
    entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
    lists = pa.Array.from_buffers(
        pa.list_(entries.type), len(values), values.buffers()[:2], values.null_count, values.offset, children=[entries]
    )
    return lists.flatten().field(0), lists


def _union(values: pa.Array, schema: Schema, given: pa.Array | None, path: str) -> list[pa.Array]:
    """The parts of a union: its branch, then what a value has. All values have one branch, NULLs another."""
    null = next((n for n, branch in enumerate(schema.inner) if branch.kind == "null"), None)
    number = branch_of(schema, values.type)
    if number is None:  # a column of NULLs only
        number, values = null or 0, pa.nulls(len(values), values.type)
    nulls = values.is_null() if values.null_count else None
    if nulls is not None and null is None:
        return [_branch(values, number, given), *_parts(values, schema.inner[number], given, path)]
    branches = np.full(len(values), 2 * number, np.uint8)
    if nulls is not None:
        branches[nulls.to_numpy(zero_copy_only=False)] = 2 * (null or 0)
    inner = [] if number == null else _parts(values, schema.inner[number], values.is_valid(), path)
    return [_of_lanes(branches, given), *inner]


def _branch(values: pa.Array, number: int, given: pa.Array | None) -> pa.Array:
    return _of_lanes(np.full(len(values), 2 * number, np.uint8), given)


def _of_lanes(data: np.ndarray, given: pa.Array | None) -> pa.Array:
    """A byte for each value; nothing for those that are not given."""
    return of_size(data, 1) if given is None else pc.if_else(given, of_size(data, 1), b"")


def _texts(values: pa.Array) -> list[pa.Array]:
    texts = values.cast(pa.binary())
    return [_numbers(pc.binary_length(texts)), texts.fill_null(b"")]


def _scalars(values: pa.Array, schema: Schema, path: str) -> list[pa.Array]:
    logical = logical_type(schema)
    match schema.kind:
        case "bytes" | "fixed" if logical == "decimal":
            return [_decimals(_rescaled(values, schema, path), schema, path)]
        case "fixed":
            return [_fixed(values, schema, path, uuid=logical == "uuid")]
        case "string" | "bytes":
            return _texts(values)
        case "enum":
            return [_symbols(values, schema, path)]
        case "float" | "double":
            valid = values.drop_null().cast(pa.float32() if schema.kind == "float" else pa.float64()).to_numpy()
            return [of_size(valid.view(np.uint8), valid.itemsize, values)]
        case "boolean":
            return [of_size(values.drop_null().cast(pa.uint8()).to_numpy(), 1, values)]
    return [_numbers(_counted(values, logical, path))]


def _symbols(values: pa.Array, schema: Schema, path: str) -> pa.Array:
    numbers = pc.index_in(values, pa.array(schema.symbols, pa.string()))
    if numbers.null_count > values.null_count:
        other = values.filter(pc.and_(values.is_valid(), numbers.is_null()))[0].as_py()
        raise Unwritable(f'column "{path}" is "{other[:_SHOWN]}", which is no symbol of its enum')
    return _numbers(numbers)


def _counted(values: pa.Array, logical: str, path: str) -> pa.Array:
    """Whole numbers, dates and times as numbers of their unit."""
    if logical.startswith("time-"):
        return _floored(values.cast(pa.time64("ns")).view(pa.int64()), 10 ** (9 - _DIGITS[logical[5:]]))
    if "timestamp" in logical:
        unit = logical.rpartition("-")[2]
        micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
        return _nanos(micros, path) if unit == "nanos" else _floored(micros, 10 ** (6 - _DIGITS[unit]))
    return values.view(pa.int32()) if kinds.is_date(values.type) else values


_DIGITS = {"millis": 3, "micros": 6}


def _floored(numbers: pa.Array, by: int) -> pa.Array:
    """The quotients, rounded down, also of times before 1970."""
    if by == 1:
        return numbers
    divided = numbers.fill_null(0).to_numpy() // by
    return pa.array(divided, mask=numbers.is_null().to_numpy(zero_copy_only=False) if numbers.null_count else None)


def _nanos(micros: pa.Array, path: str) -> pa.Array:
    try:
        return pc.multiply_checked(micros, _NANOS)
    except pa.ArrowInvalid:
        raise Unwritable(f'column "{path}" has a time that 64 bits do not have in nanoseconds') from None


def of_size(data: np.ndarray, size: int, values: pa.Array | None = None) -> pa.Array:
    """Returns values of a fixed size as ``pa.binary()``. ``data``: those that are not NULL in ``values``, or all."""
    if values is None or not values.null_count:
        offsets = np.arange(0, len(data) + 1, size, dtype=np.int32)
    else:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        offsets = np.concatenate(([0], np.cumsum(valid * size))).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _fixed(values: pa.Array, schema: Schema, path: str, *, uuid: bool) -> pa.Array:
    """Values of the size of a ``fixed``: bytes, or UUIDs as texts."""
    if uuid:
        valid = pc.utf8_lower(values.drop_null())
        if not pc.all(pc.match_substring_regex(valid, _UUID_TEXT)).as_py():
            raise Unwritable(f'column "{path}" has a text that is no UUID')
        digits = np.frombuffer("".join(valid.to_pylist()).replace("-", "").encode(), np.uint8)
        halves = np.where(digits > ord("9"), digits - (ord("a") - 10), digits - ord("0"))
        return of_size((halves[0::2] << 4 | halves[1::2]).astype(np.uint8), _UUID, values)
    if not pc.all(pc.equal(pc.binary_length(values.drop_null()), schema.size)).as_py():
        raise Unwritable(f'column "{path}" has not {schema.size:,} bytes, as its fixed type in the schema')
    return values.cast(pa.binary()).fill_null(b"")


_UUID_TEXT = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def _rescaled(values: pa.Array, schema: Schema, path: str) -> pa.Array:
    kind = pa.decimal128(schema.precision, schema.scale)
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        number = f"DECIMAL({schema.precision}, {schema.scale})"
        raise Unwritable(f'column "{path}" has a number that is no {number}, its type in the schema') from None


def _numbers(values: pa.Array) -> pa.Array:
    """Whole numbers: zigzag, in as many bytes of seven bits as they need."""
    valid = None
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        values = values.fill_null(0)
    numbers = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return variable(((numbers << 1) ^ (numbers >> 63)).view(np.uint64), valid)


def variable(bits: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """Returns numbers of 64 bits in as many bytes of seven bits as they need, the lowest first, as ``pa.binary()``.
    ``valid``: the others are empty.
    """
    sizes = np.ones(len(bits), np.int32)
    most = int(bits.max(initial=0))
    shift = 7
    while shift < 64 and most >> shift:
        sizes += bits >= np.uint64(1 << shift)
        shift += 7
    if valid is not None:
        sizes[~valid] = 0
    offsets = np.zeros(len(bits) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    for number in range(int(sizes.max(initial=0))):
        rows = slice(None) if number == 0 and valid is None else np.flatnonzero(sizes > number)
        more = np.where(sizes[rows] > number + 1, 0x80, 0)
        data[offsets[:-1][rows] + number] = ((bits[rows] >> np.uint64(7 * number)) & np.uint64(0x7F)) | more.astype(
            np.uint64
        )
    return pa.Array.from_buffers(pa.binary(), len(bits), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _decimals(values: pa.Array, schema: Schema, path: str) -> pa.Array:
    """Two's complement, the highest byte first; of ``bytes`` without those that only repeat the sign."""
    whole = values.drop_null()
    buffer = whole.buffers()[1]
    read = np.frombuffer(buffer or b"", np.uint8)[whole.offset * _DECIMAL : (whole.offset + len(whole)) * _DECIMAL]
    digits = np.ascontiguousarray(read.reshape(-1, _DECIMAL)[:, ::-1])
    signs = np.where(digits[:, :1] > 0x7F, 0xFF, 0)
    if schema.kind == "fixed":
        return of_size(_resized(digits, signs, schema.size, path).reshape(-1), schema.size, values)
    # A byte is left out if all before it are, it is the sign's, and so is the highest bit of the next one.
    repeats = (digits[:, :-1] == signs) & ((digits[:, 1:] > 0x7F) == (signs > 0))
    left_out = np.logical_and.accumulate(repeats, axis=1).sum(axis=1)
    ends = np.arange(1, len(digits) + 1) * _DECIMAL
    texts = slices(digits.reshape(-1), ends - _DECIMAL + left_out, ends)
    written = joined([_numbers(pc.binary_length(texts)), texts], len(texts))
    if not values.null_count:
        return written
    positions = np.cumsum(values.is_valid().to_numpy(zero_copy_only=False)) - 1
    taken = pa.array(positions, mask=values.is_null().to_numpy(zero_copy_only=False))
    return written.take(taken).fill_null(b"")


def _resized(digits: np.ndarray, signs: np.ndarray, size: int, path: str) -> np.ndarray:
    """Numbers of ``_DECIMAL`` bytes as such of ``size`` bytes."""
    if size >= _DECIMAL:
        filled = np.repeat(signs, size - _DECIMAL, axis=1)
        return np.concatenate((filled, digits), axis=1).astype(np.uint8)
    left, kept = digits[:, : _DECIMAL - size], digits[:, _DECIMAL - size :]
    if not ((left == signs).all() and ((kept[:, :1] > 0x7F) == (signs > 0)).all()):
        raise Unwritable(f'column "{path}" has a number of more than {size} bytes, as its fixed type in the schema')
    return np.ascontiguousarray(kept)


def _listed(lists: pa.Array, parts: Sequence[pa.Array]) -> list[pa.Array]:
    """Arrays and maps: the number of their items and the items, if there are any, then 0."""
    lengths, bodies = bodies_of(lists, parts)
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    return [
        _numbers(pa.array(lengths, mask=lengths == 0)),
        bodies,
        of_size(np.zeros(int(valid.sum()), np.uint8), 1, lists),
    ]


def bodies_of(lists: pa.Array, parts: Sequence[pa.Array]) -> tuple[np.ndarray, pa.Array]:
    """Returns how many items lists have, and these one after the other. ``parts``: those of all items."""
    lengths = lists.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    items = joined(parts, int(lengths.sum()))
    ends = np.concatenate(([0], np.cumsum(lengths)))
    if len(items):
        of_items = np.frombuffer(items.buffers()[1], np.int32)[items.offset : items.offset + len(items) + 1]
    else:
        of_items = np.zeros(1, np.int32)
    offsets = pa.py_buffer(np.ascontiguousarray(of_items[ends]))
    return lengths, pa.Array.from_buffers(pa.binary(), len(lists), [None, offsets, items.buffers()[2]])


class AvroWriter:
    """Writes an object container file. ``columns``: the columns of the rows, by name and type. ``codec``: how blocks
    are compressed. ``legacy``: see ``avro_schema.schema_of_columns``.
    """

    def __init__(
        self, file: BinaryIO, columns: Sequence[tuple[str, DataType]], codec: str, *, legacy: bool = False
    ) -> None:
        self._file, self._compress, self._marker = file, COMPRESS[codec], uuid.uuid4().bytes
        entries = parse_schema('{"type": "map", "values": "bytes"}')
        schema = schema_of_columns(columns, legacy=legacy)
        self._encoder, header = AvroEncoder(schema), {"avro.schema": schema, "avro.codec": codec}
        file.write(MAGIC + default_bytes(entries, header) + self._marker)

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, as blocks of their own."""
        records = self._encoder.encoded(rows)
        if not len(records):
            return
        offsets = np.frombuffer(records.buffers()[1], np.int32)[records.offset : records.offset + len(records) + 1]
        total, start = int(offsets[-1]), 0
        data = memoryview(records.buffers()[2] or b"")
        while start < len(records):
            limit = int(offsets[start]) + _BLOCK_BYTES
            end = (
                len(records)
                if limit >= total
                else max(int(np.searchsorted(offsets, limit, side="right")) - 1, start + 1)
            )
            packed = self._compress(bytes(data[int(offsets[start]) : int(offsets[end])]))
            count, size = (_long(number) for number in (end - start, len(packed)))
            self._file.write(count + size + packed + self._marker)
            start = end

    def close(self) -> None:
        """Completes the file, which needs nothing more."""


def _long(number: int) -> bytes:
    return default_bytes(_LONG, number)


_LONG = parse_schema('"long"')
