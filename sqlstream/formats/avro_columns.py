"""Values of Avro as Arrow columns: a reader for each type of a schema, which reads it in many records at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.formats.avro_cursor import Cursor, Faults, slices
from sqlstream.formats.avro_schema import (
    Schema,
    scalar_type,
)
from sqlstream.formats.columnar import converted, uuid_texts
from sqlstream.types import from_arrow

_SHOWN = 60


class Reader(ABC):
    """Reads values of one type. ``path``: the column or the field in it, for faults. ``declared``: the Arrow type to be
    read as; None where the values are only skipped.
    """

    least = 1
    """The least number of bytes of a value."""

    def __init__(self, path: str, declared: pa.DataType | None) -> None:
        self.path, self.declared = f'column "{path}"' if path else "the record", declared

    @abstractmethod
    def skip(self, cursor: Cursor) -> None:
        """Moves behind the values."""

    @abstractmethod
    def read(self, cursor: Cursor) -> pa.Array:
        """Reads the values, as the declared type, and moves behind them. Values of records with a fault may be any."""

    def fitted(self, values: pa.Array, cursor: Cursor) -> pa.Array:
        """Converts values to the declared type. Records whose value it does not have get a fault."""
        assert self.declared is not None
        return fitted(values, self.declared, self.path, cursor.faults, cursor.records)


def fitted(values: pa.Array, declared: pa.DataType, path: str, faults: Faults, records: np.ndarray) -> pa.Array:
    """Converts values to a declared type. ``records``: the record of each, for ``faults`` of values that the type does
    not have; ``path`` names the column.
    """
    try:
        return _as(values, declared)
    except pa.ArrowInvalid:
        wrong = np.zeros(len(values), bool)
        wrong[_wrong(values, declared, 0)] = True
        each = [f"{path} of type {from_arrow(declared)} is {_shown(v)}" for v in values.filter(wrong)]
        faults.add(records[wrong], each)
        return _as(pc.if_else(pa.array(~wrong), values, None), declared)


def _as(values: pa.Array, declared: pa.DataType) -> pa.Array:
    if kinds.is_integer(values.type) and (kinds.is_integer(declared) or kinds.is_floating(declared)):
        return values.cast(declared, safe=kinds.is_integer(declared))
    if kinds.is_decimal(values.type):
        values.validate(full=True)
    return converted(values, declared)


def _wrong(values: pa.Array, declared: pa.DataType, start: int) -> list[int]:
    """The positions of values that the type does not have."""
    try:
        _as(values, declared)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [start]
        half = len(values) // 2
        # A copy, because a slice has the values of the other half in its buffers.
        return [
            *_wrong(pa.concat_arrays([values.slice(0, half)]), declared, start),
            *_wrong(pa.concat_arrays([values.slice(half)]), declared, start + half),
        ]
    return []


def _shown(value: pa.Scalar) -> str:
    if kinds.is_temporal(value.type):
        return f"{value.value:,} {getattr(value.type, 'unit', 'days')}"
    shown = value.as_py()
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else str(shown)
    return f'"{text[:_SHOWN]}"' if isinstance(shown, (str, bytes)) else text


class Nothing(Reader):
    """``null``, which has no bytes."""

    least = 0

    def skip(self, cursor: Cursor) -> None:
        pass

    def read(self, cursor: Cursor) -> pa.Array:
        return pa.nulls(len(cursor), self.declared)


class Constant(Reader):
    """A field that the record lacks: its default."""

    least = 0

    def __init__(self, path: str, declared: pa.DataType, value: pa.Scalar) -> None:
        super().__init__(path, declared)
        self.value = value

    def skip(self, cursor: Cursor) -> None:
        pass

    def read(self, cursor: Cursor) -> pa.Array:
        return pa.repeat(self.value, len(cursor))


class Refused(Reader):
    """A branch of a union that the column cannot have: a fault of the records that have it."""

    def __init__(self, path: str, declared: pa.DataType, schema: Schema, of: Reader) -> None:
        super().__init__(path, declared)
        self.of, self.branch = of, f'{schema.kind} "{schema.name}"' if schema.name else schema.kind

    def skip(self, cursor: Cursor) -> None:
        self.of.skip(cursor)

    def read(self, cursor: Cursor) -> pa.Array:
        reason = f"{self.path} of type {from_arrow(self.declared)} is one of Avro's type {self.branch}"
        cursor.fail(np.ones(len(cursor), bool), reason)
        self.of.skip(cursor)
        return pa.nulls(len(cursor), self.declared)


class Boolean(Reader):
    """One byte, 0 or 1."""

    def skip(self, cursor: Cursor) -> None:
        cursor.byte(self.path)

    def read(self, cursor: Cursor) -> pa.Array:
        values = cursor.byte(self.path)
        if len(values) and values.max() > 1:
            cursor.fail(values > 1, f"{self.path} has a boolean that is neither 0 nor 1")
        return self.fitted(pa.array(values == 1), cursor)


class Number(Reader):
    """``int`` and ``long`` with their logical types."""

    def __init__(self, path: str, declared: pa.DataType | None, schema: Schema) -> None:
        super().__init__(path, declared)
        self.is_int, self.type = schema.kind == "int", scalar_type(schema)

    def skip(self, cursor: Cursor) -> None:
        cursor.skip_number(self.path)

    def read(self, cursor: Cursor) -> pa.Array:
        numbers = cursor.number(self.path)
        if not self.is_int:
            numbers = self._of_day(numbers, cursor)
            return self.fitted(pa.array(numbers).view(self.type), cursor)
        short = numbers.astype(np.int32)
        if not np.array_equal(short, numbers):
            cursor.fail(short != numbers, f"{self.path} has an int of more than 32 bits")
        short = self._of_day(short, cursor)
        return self.fitted(pa.array(short).view(self.type), cursor)

    def _of_day(self, numbers: np.ndarray, cursor: Cursor) -> np.ndarray:
        """The numbers; those of a time of day that no day has are faults, and 0."""
        if not kinds.is_time(self.type):
            return numbers
        wrong = (numbers < 0) | (numbers >= _DAY[self.type.unit])
        if not wrong.any():
            return numbers
        cursor.fail(wrong, f"{self.path} has a time of no day")
        return np.where(wrong, numbers.dtype.type(0), numbers)


_DAY = {"ms": 86_400_000, "us": 86_400_000_000}


class Float(Reader):
    """``float`` and ``double``, of a fixed size."""

    def __init__(self, path: str, declared: pa.DataType | None, schema: Schema) -> None:
        super().__init__(path, declared)
        self.least = self.size = 4 if schema.kind == "float" else 8

    def skip(self, cursor: Cursor) -> None:
        cursor.move(cursor.at + self.size, self.path)

    def read(self, cursor: Cursor) -> pa.Array:
        words = cursor.word(self.size, self.path)
        if self.size == 4:
            return self.fitted(pa.array(words.astype(np.uint32).view(np.float32)), cursor)
        return self.fitted(pa.array(words.view(np.float64)), cursor)


class Bytes(Reader):
    """``bytes``, ``string`` and ``fixed``, also with the logical types decimal and uuid."""

    def __init__(self, path: str, declared: pa.DataType | None, schema: Schema) -> None:
        super().__init__(path, declared)
        self.size = schema.size if schema.kind == "fixed" else None
        self.least = 1 if self.size is None else self.size
        self.type = scalar_type(schema)
        if declared is not None and kinds.is_binary(declared):  # the bytes as they are
            self.type = pa.binary()

    def skip(self, cursor: Cursor) -> None:
        cursor.skip(self._lengths(cursor), self.path)

    def _lengths(self, cursor: Cursor) -> np.ndarray:
        return cursor.number(self.path) if self.size is None else np.full(len(cursor), self.size)

    def read(self, cursor: Cursor) -> pa.Array:
        lengths = self._lengths(cursor)
        starts = cursor.at
        cursor.skip(lengths, self.path)
        if kinds.is_decimal(self.type):
            return self.fitted(self._decimals(cursor, starts, cursor.at), cursor)
        values = slices(cursor.data.bytes, starts, cursor.at)
        if self.size is not None and kinds.is_string(self.type):
            return self.fitted(uuid_texts(values), cursor)
        return self.fitted(values, cursor)

    def _decimals(self, cursor: Cursor, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
        """Numbers in two's complement, the highest byte first, of any length."""
        lengths, bytes_ = ends - starts, cursor.data.bytes
        signs = np.where(bytes_.take(starts, mode="clip") > 0x7F, 0xFF, 0).astype(np.uint8)
        digits = np.empty((len(starts), _DECIMAL), np.uint8)
        for number in range(_DECIMAL):
            read = bytes_.take(np.maximum(ends - 1 - number, starts), mode="clip")
            digits[:, number] = np.where(number < lengths, read, signs)
        wrong = (lengths < 1) | ((lengths > _DECIMAL) & self._exceeds(bytes_, starts, ends, digits))
        if wrong.any():
            cursor.fail(wrong, f"{self.path} has no decimal number of at most {_DECIMAL} bytes")
            digits[wrong] = 0
        return pa.Array.from_buffers(self.type, len(starts), [None, pa.py_buffer(digits.tobytes())])

    @staticmethod
    def _exceeds(bytes_: np.ndarray, starts: np.ndarray, ends: np.ndarray, digits: np.ndarray) -> np.ndarray:
        """True for numbers whose higher bytes are more than a sign."""
        most = int((ends - starts).max(initial=0))
        signs = np.where(digits[:, -1] > 0x7F, 0xFF, 0)
        wrong = np.zeros(len(starts), bool)
        for number in range(_DECIMAL, min(most, _LONGEST)):
            read = bytes_.take(np.maximum(ends - 1 - number, 0), mode="clip")
            wrong |= (ends - starts > number) & (read != signs)
        wrong |= ends - starts > _LONGEST
        return wrong


_DECIMAL, _LONGEST = 16, 64


class Enum(Reader):
    """The number of a symbol. ``like``: the enum of a reader's schema, whose default is read for symbols it lacks."""

    def __init__(self, path: str, declared: pa.DataType | None, schema: Schema, like: Schema | None) -> None:
        super().__init__(path, declared)
        known = schema.symbols if like is None or like.other is None else like.symbols
        read = [symbol if like is None or symbol in known else like.other for symbol in schema.symbols]
        self.symbols = pa.array(read, pa.string())

    def skip(self, cursor: Cursor) -> None:
        cursor.skip_number(self.path)

    def read(self, cursor: Cursor) -> pa.Array:
        numbers = cursor.number(self.path)
        wrong = (numbers < 0) | (numbers >= len(self.symbols))
        if wrong.any():
            cursor.fail(wrong, f"{self.path} has a number of no symbol of its enum")
        return self.fitted(self.symbols.take(pa.array(numbers, mask=wrong)), cursor)


class Array(Reader):
    """Blocks of items, each after their number."""

    def __init__(self, path: str, declared: pa.DataType | None, items: Reader) -> None:
        super().__init__(path, declared)
        self.items = items

    def skip(self, cursor: Cursor) -> None:
        if cursor.enter():
            cursor.items(self.items.skip, self.path, self.items.least)
            cursor.leave()

    def read(self, cursor: Cursor) -> pa.Array:
        items, counts = cursor.items(self.items.skip, self.path, self.items.least)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return self._listed(offsets, items)

    def _listed(self, offsets: np.ndarray, items: Cursor) -> pa.Array:
        values = self.items.read(items)
        return pa.Array.from_buffers(
            self.declared, len(offsets) - 1, [None, pa.py_buffer(offsets)], 0, children=[values]
        )


class Map(Array):
    """Like an array of keys and values. Of a key that a map has twice the last value counts."""

    def _listed(self, offsets: np.ndarray, items: Cursor) -> pa.Array:
        offsets, entries = last_of_keys(offsets, self.items.read(items))
        return pa.Array.from_buffers(
            self.declared, len(offsets) - 1, [None, pa.py_buffer(offsets)], 0, children=[entries]
        )


class Entry(Reader):
    """A key and a value of a map."""

    def __init__(self, path: str, declared: pa.DataType | None, value: Reader) -> None:
        super().__init__(path, declared)
        key = None if declared is None else declared[0].type
        self.key, self.value = Bytes(path, key, Schema("string")), value

    def skip(self, cursor: Cursor) -> None:
        if cursor.enter():
            self.key.skip(cursor)
            self.value.skip(cursor)
            cursor.leave()

    def read(self, cursor: Cursor) -> pa.Array:
        assert self.declared is not None
        keys = self.key.read(cursor).fill_null("")  # a record with a fault
        return pa.StructArray.from_arrays([keys, self.value.read(cursor)], fields=[*self.declared])


def last_of_keys(offsets: np.ndarray, entries: pa.StructArray) -> tuple[np.ndarray, pa.StructArray]:
    """Returns the offsets and the entries of maps with the last entry of each key."""
    maps = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    keys = entries.field(0).dictionary_encode()
    pairs = maps * len(keys.dictionary) + keys.indices.to_numpy().astype(np.int64)
    _, last = np.unique(pairs[::-1], return_index=True)
    if len(last) == len(maps):
        return offsets, entries
    kept = np.sort(len(maps) - 1 - last)
    counts = np.bincount(maps[kept], minlength=len(offsets) - 1)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32), entries.take(pa.array(kept))


class Record(Reader):
    """Fields, one after the other. ``fields``: how each is read, or skipped where it has no declared type, in the order
    of the schema; ``names``: the declared names of those that are read.
    """

    def __init__(
        self, path: str, declared: pa.DataType | None, fields: Sequence[Reader], names: Sequence[str | None]
    ) -> None:
        super().__init__(path, declared)
        self.fields, self.names = fields, names

    def skip(self, cursor: Cursor) -> None:
        if cursor.enter():
            for field in self.fields if len(cursor) else ():
                field.skip(cursor)
            cursor.leave()

    def columns(self, cursor: Cursor, *, to_end: bool = True) -> dict[str, pa.Array]:
        """Reads the fields, by their names. ``to_end``: fields after the last one that is read are skipped, too."""
        columns: dict[str, pa.Array] = {}
        for field, name in zip(self.fields, self.names, strict=True):
            if name is not None:
                columns[name] = field.read(cursor)
            elif to_end or len(columns) < self._wanted:
                field.skip(cursor)
            else:
                break
        return columns

    @cached_property
    def _wanted(self) -> int:
        return sum(name is not None for name in self.names)

    def read(self, cursor: Cursor) -> pa.Array:
        assert self.declared is not None
        columns = self.columns(cursor)
        members = [columns[f.name] for f in self.declared]
        if not members:
            return pa.array([{}] * len(cursor), self.declared)
        return pa.StructArray.from_arrays(members, fields=[*self.declared])


class Union(Reader):
    """The number of a branch, then a value of it."""

    def __init__(self, path: str, declared: pa.DataType | None, branches: Sequence[Reader]) -> None:
        super().__init__(path, declared)
        self.branches = branches

    def skip(self, cursor: Cursor) -> None:
        if not cursor.enter():
            return
        for lanes, branch in self._chosen(cursor):
            if lanes is None:
                branch.skip(cursor)
                continue
            inner = cursor.of(lanes)
            branch.skip(inner)
            cursor.at[lanes] = inner.at
        cursor.leave()

    def read(self, cursor: Cursor) -> pa.Array:
        parts: list[tuple[np.ndarray, pa.Array]] = []
        for lanes, branch in self._chosen(cursor):
            if lanes is None:
                return branch.read(cursor)
            inner = cursor.of(lanes)
            if not isinstance(branch, Nothing):
                parts.append((lanes, branch.read(inner)))
            cursor.at[lanes] = inner.at
        if not parts:
            return pa.nulls(len(cursor), self.declared)
        positions, is_null = np.zeros(len(cursor), np.int64), np.ones(len(cursor), bool)
        start = 0
        for lanes, _ in parts:
            positions[lanes], is_null[lanes] = np.arange(start, start + len(lanes)), False
            start += len(lanes)
        values = parts[0][1] if len(parts) == 1 else pa.concat_arrays([values for _, values in parts])
        return values.take(pa.array(positions, mask=is_null))

    def _chosen(self, cursor: Cursor) -> list[tuple[np.ndarray | None, Reader]]:
        """The branches that occur, with the records that have each; None for all of them. Records that have ended have
        none, so that types that contain themselves are not read on.
        """
        is_over = cursor.at >= cursor.ends
        numbers = cursor.number(self.path)
        if not len(numbers):
            return []
        if is_over.any():
            numbers = np.where(is_over, -1, numbers)
        least, most = int(numbers.min()), int(numbers.max())
        if least < 0 or most >= len(self.branches):
            cursor.fail((numbers < 0) | (numbers >= len(self.branches)), f"{self.path} has a branch of no union")
        elif least == most:
            return [(None, self.branches[least])]
        lanes = ((np.flatnonzero(numbers == n), branch) for n, branch in enumerate(self.branches))
        cursor.at = cursor.at.copy()
        return [(some, branch) for some, branch in lanes if len(some)]
