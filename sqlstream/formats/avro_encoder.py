"""Arrow columns as records of Avro, many in each step, and files of them.

The parts of a record (branches of unions, lengths, bytes) are made for all rows at once, each as an array of bytes, and
Arrow joins them row by row. The schema is that of ``avro_schema.schema_of_columns``: each value is a union with null.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.formats.avro_cursor import slices
from sqlstream.formats.avro_files import COMPRESS, MAGIC
from sqlstream.formats.avro_schema import default_bytes, parse_schema, schema_of_columns
from sqlstream.types import DataType

_BLOCK_BYTES = 64_000
"""The size of a block before compression, that of Avro's own library."""

_DECIMAL = 16
_NANOS = 1_000


def encoded(rows: pa.RecordBatch) -> pa.Array:
    """Returns the records of rows, as ``pa.binary()``."""
    parts = [part for column in rows.columns for part in _nullable(column)]
    return _joined(parts, rows.num_rows)


def _joined(parts: Sequence[pa.Array], count: int) -> pa.Array:
    if not parts:
        return pa.array([b""] * count, pa.binary())
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary())) if len(parts) > 1 else parts[0]


def _nullable(values: pa.Array) -> list[pa.Array]:
    """The parts of a union with null: its branch, then what a value has; nothing for NULL."""
    if kinds.is_null(values.type):
        return []
    branches = np.full(len(values), 2, np.uint8)
    if values.null_count:
        branches[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return [_of_size(branches, 1), *_parts(values)]


def _parts(values: pa.Array) -> list[pa.Array]:
    """The parts of values. Those of NULLs are empty."""
    kind = values.type
    if kinds.is_string(kind) or kinds.is_binary(kind):
        texts = values.cast(pa.binary())
        return [_numbers(pc.binary_length(texts)), texts.fill_null(b"")]
    if kinds.is_struct(kind):
        inner = [part for member in values.flatten() for part in _nullable(member)]
        return [pc.if_else(values.is_valid(), part, b"") for part in inner] if values.null_count else inner
    if kinds.is_list(kind):
        return _listed(values, _nullable(values.flatten()))
    if kinds.is_map(kind):
        entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        lists = pa.Array.from_buffers(
            pa.list_(entries.type), len(values), values.buffers()[:2], values.null_count, values.offset,
            children=[entries],
        )  # fmt: skip
        keys, items = lists.flatten().flatten()
        return _listed(lists, [*_parts(keys), *_nullable(items)])
    return [_scalars(values)]


def _scalars(values: pa.Array) -> pa.Array:
    kind = values.type
    if kinds.is_floating(kind):
        valid = values.drop_null().to_numpy()
        return _of_size(valid.view(np.uint8), valid.itemsize, values)
    if kinds.is_boolean(kind):
        return _of_size(values.drop_null().cast(pa.uint8()).to_numpy(), 1, values)
    if kinds.is_decimal(kind):
        return _decimals(values)
    if kinds.is_time(kind):
        return _numbers(pc.divide(values.cast(pa.time64("ns")).view(pa.int64()), _NANOS))
    if kinds.is_timestamp(kind):
        return _numbers(values.cast(pa.timestamp("us", kind.tz)).view(pa.int64()))
    return _numbers(values.view(pa.int32()) if kinds.is_date(kind) else values)


def _of_size(data: np.ndarray, size: int, values: pa.Array | None = None) -> pa.Array:
    """Values of a fixed size. ``data``: those that are not NULL in ``values``."""
    if values is None or not values.null_count:
        offsets = np.arange(0, len(data) + 1, size, dtype=np.int32)
    else:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        offsets = np.concatenate(([0], np.cumsum(valid * size))).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _numbers(values: pa.Array) -> pa.Array:
    """Whole numbers: zigzag, in as many bytes of seven bits as they need."""
    valid = None
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        values = values.fill_null(0)
    numbers = values.to_numpy(zero_copy_only=False).astype(np.int64)
    bits = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
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


def _decimals(values: pa.Array) -> pa.Array:
    """``bytes`` in two's complement, the highest byte first, without those that only repeat the sign."""
    kind = values.type
    whole = values.cast(pa.decimal128(kind.precision, kind.scale)).drop_null()
    buffer = whole.buffers()[1]
    read = np.frombuffer(buffer or b"", np.uint8)[whole.offset * _DECIMAL : (whole.offset + len(whole)) * _DECIMAL]
    digits = np.ascontiguousarray(read.reshape(-1, _DECIMAL)[:, ::-1])
    signs = np.where(digits[:, :1] > 0x7F, 0xFF, 0)
    # A byte is left out if all before it are, it is the sign's, and so is the highest bit of the next one.
    repeats = (digits[:, :-1] == signs) & ((digits[:, 1:] > 0x7F) == (signs > 0))
    left_out = np.logical_and.accumulate(repeats, axis=1).sum(axis=1)
    ends = np.arange(1, len(digits) + 1) * _DECIMAL
    texts = slices(digits.reshape(-1), ends - _DECIMAL + left_out, ends)
    written = _joined([_numbers(pc.binary_length(texts)), texts], len(texts))
    if not values.null_count:
        return written
    positions = np.cumsum(values.is_valid().to_numpy(zero_copy_only=False)) - 1
    taken = pa.array(positions, mask=values.is_null().to_numpy(zero_copy_only=False))
    return written.take(taken).fill_null(b"")


def _listed(lists: pa.Array, parts: Sequence[pa.Array]) -> list[pa.Array]:
    """Arrays and maps: the number of their items and the items, if there are any, then 0."""
    lengths = lists.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    items = _joined(parts, int(lengths.sum()))
    ends = np.concatenate(([0], np.cumsum(lengths)))
    if len(items):
        of_items = np.frombuffer(items.buffers()[1], np.int32)[items.offset : items.offset + len(items) + 1]
    else:
        of_items = np.zeros(1, np.int32)
    offsets = pa.py_buffer(np.ascontiguousarray(of_items[ends]))
    bodies = pa.Array.from_buffers(pa.binary(), len(lists), [None, offsets, items.buffers()[2]])
    return [
        _numbers(pa.array(lengths, mask=lengths == 0)),
        bodies,
        _of_size(np.zeros(int(valid.sum()), np.uint8), 1, lists),
    ]


class AvroWriter:
    """Writes an object container file. ``columns``: the columns of the rows, by name and type. ``codec``: how blocks
    are compressed. ``legacy``: see ``avro_schema.schema_of_columns``.
    """

    def __init__(
        self, file: BinaryIO, columns: Sequence[tuple[str, DataType]], codec: str, *, legacy: bool = False
    ) -> None:
        self._file, self._compress, self._marker = file, COMPRESS[codec], uuid.uuid4().bytes
        entries = parse_schema('{"type": "map", "values": "bytes"}')
        header = {"avro.schema": schema_of_columns(columns, legacy=legacy), "avro.codec": codec}
        file.write(MAGIC + default_bytes(entries, header) + self._marker)

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows, as blocks of their own."""
        records = encoded(rows)
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
