"""Values of protobuf as Arrow columns: of many messages the next field is read in one step over arrays.

Fields stand in any order, each behind its number. Programs write them in the order of their numbers, so of all messages
those whose next field has the least number are read first: where they are written alike, one step reads a field of all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.formats.avro_columns import fitted, last_of_keys
from sqlstream.formats.avro_cursor import Cursor, Data, Faults, slices
from sqlstream.formats.protobuf_groups import (
    BEGIN,
    BYTES,
    END,
    HALF,
    NO_FIELD,
    NOT_BEGUN,
    NUMBERS_END,
    SIZES,
    VARINT,
    WORD,
    skip_group,
)
from sqlstream.formats.protobuf_schema import Message, ProtoField
from sqlstream.formats.protobuf_source import REQUIRED

_WIRES = {
    "double": WORD, "fixed64": WORD, "sfixed64": WORD, "float": HALF, "fixed32": HALF, "sfixed32": HALF,
    "string": BYTES, "bytes": BYTES, "message": BYTES,
}  # fmt: skip


def wire_of(field: ProtoField) -> int:
    """Returns how values of a field are written."""
    return BEGIN if field.delimited else _WIRES.get(field.kind, VARINT)


_MOST_SORTED = 256
"""After so many steps messages are not written alike, and each step reads the next field of all of them."""

Piece = tuple[np.ndarray, ...]
"""The rows that have a field, and its bits, or where its bytes begin and end."""


@dataclass(frozen=True)
class Rows:
    """What rows of messages are in. ``records``: the message of each, for faults; ``there``: which of the rows there
    are, where some have no message of this kind; None for all.
    """

    data: Data
    faults: Faults
    records: np.ndarray
    there: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.records)

    def cursor(self, rows: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Cursor:
        """Positions in the bytes of some rows."""
        return Cursor(self.data, starts, ends, self.records[rows], self.faults)


class FieldReader(ABC):
    """Makes a column of a field. ``path``: the column or field, for faults; ``declared``: its type."""

    def __init__(self, field: ProtoField, path: str, declared: pa.DataType) -> None:
        self.field, self.path, self.declared = field, f'column "{path}"', declared
        self.wire = wire_of(field)

    @abstractmethod
    def values(self, pieces: Sequence[Piece], rows: Rows) -> pa.Array:
        """Returns the value of each row; of several the last. Those that are unset are defaults or NULL."""

    @abstractmethod
    def elements(self, piece: Piece, rows: Rows) -> pa.Array:
        """Returns the values of a piece that has one for each of ``rows``."""

    def _fitted(self, values: pa.Array, rows: Rows, declared: pa.DataType | None = None) -> pa.Array:
        return fitted(values, self.declared if declared is None else declared, self.path, rows.faults, rows.records)

    def _missing(self, given: np.ndarray, rows: Rows) -> None:
        if self.field.label == REQUIRED:
            lacking = ~given if rows.there is None else ~given & rows.there
            rows.faults.add(rows.records[lacking], f"{self.path} is required, and not there")


class Scalar(FieldReader):
    """Numbers, booleans and enums."""

    def __init__(self, field: ProtoField, path: str, declared: pa.DataType, defaults: bool) -> None:
        super().__init__(field, path, declared)
        self.defaults = defaults

    def values(self, pieces: Sequence[Piece], rows: Rows) -> pa.Array:
        bits, given = _last(pieces, len(rows))
        if not self.field.presence:
            return self._of(bits, rows, None)
        self._missing(given, rows)
        if self.defaults:
            return self._of(np.where(given, bits, self._default), rows, None)
        return self._of(bits, rows, ~given)

    def elements(self, piece: Piece, rows: Rows) -> pa.Array:
        return self._of(piece[1], rows, None)

    @property
    def _default(self) -> np.ndarray:
        """The bits of the default of a field."""
        value, kind = self.field.default, self.field.kind
        if kind == "double":
            return np.array(value, np.float64).view(np.uint64)
        if kind == "float":
            return np.array(value, np.float32).view(np.uint32).astype(np.uint64)
        if kind == "enum":
            assert self.field.enum is not None
            value = self.field.enum.names[value]
        if kind in ("sint32", "sint64"):
            value = (value << 1) ^ (value >> 63)
        return np.array(int(value) & (1 << 64) - 1, np.uint64)

    def _of(self, bits: np.ndarray, rows: Rows, nulls: np.ndarray | None) -> pa.Array:
        numbers = pa.array(_NUMBERS[self.field.kind](bits), mask=nulls)
        if self.field.enum is not None and not kinds.is_integer(self.declared):
            return self._fitted(self._names(numbers), rows)
        return self._fitted(numbers, rows)

    def _names(self, numbers: pa.Array) -> pa.Array:
        """The names of an enum; a number that it does not have is its digits."""
        assert self.field.enum is not None
        known = self.field.enum.numbers
        index = pc.index_in(numbers, pa.array([*known], pa.int32()))
        names = pa.array([*known.values()], pa.string()).take(index)
        return names if names.null_count == numbers.null_count else pc.coalesce(names, numbers.cast(pa.string()))


def _zigzag(bits: np.ndarray) -> np.ndarray:
    one = bits.dtype.type(1)
    numbers: np.ndarray = (bits >> one) ^ (~(bits & one) + one)
    return numbers


_NUMBERS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "double": lambda bits: bits.view(np.float64),
    "float": lambda bits: bits.astype(np.uint32).view(np.float32),
    "int64": lambda bits: bits.view(np.int64),
    "sfixed64": lambda bits: bits.view(np.int64),
    "sint64": lambda bits: _zigzag(bits).view(np.int64),
    "uint64": lambda bits: bits,
    "fixed64": lambda bits: bits,
    "int32": lambda bits: bits.astype(np.uint32).view(np.int32),
    "sfixed32": lambda bits: bits.astype(np.uint32).view(np.int32),
    "sint32": lambda bits: _zigzag(bits.astype(np.uint32)).view(np.int32),
    "uint32": lambda bits: bits.astype(np.uint32),
    "fixed32": lambda bits: bits.astype(np.uint32),
    "enum": lambda bits: bits.astype(np.uint32).view(np.int32),
    "bool": lambda bits: bits != 0,
}
"""What bits mean by the type of their field."""


def _last(pieces: Sequence[Piece], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The bits of each row, of several the last, and which rows have any."""
    if len(pieces) == 1 and len(pieces[0][0]) == count:
        return pieces[0][1], np.ones(count, bool)
    bits, given = np.zeros(count, np.uint64), np.zeros(count, bool)
    for rows, own in pieces:
        bits[rows], given[rows] = own, True
    return bits, given


class Texts(FieldReader):
    """``string`` and ``bytes``."""

    def __init__(self, field: ProtoField, path: str, declared: pa.DataType, defaults: bool) -> None:
        super().__init__(field, path, declared)
        self.defaults = defaults

    def values(self, pieces: Sequence[Piece], rows: Rows) -> pa.Array:
        count = len(rows)
        if len(pieces) == 1 and len(pieces[0][0]) == count:
            return self.elements(pieces[0], rows)
        starts, ends, given = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, bool)
        for own, begin, end in pieces:
            starts[own], ends[own], given[own] = begin, end, True
        before = np.maximum.accumulate(ends)
        texts = slices(rows.data.bytes, np.where(given, starts, before), np.where(given, ends, before))
        if self.field.presence:
            self._missing(given, rows)
            default = self.field.default if self.defaults else None
            default = default.encode() if isinstance(default, str) else default
            texts = pc.if_else(pa.array(given), texts, pa.scalar(default, pa.binary()))
        return self._fitted(texts, rows)

    def elements(self, piece: Piece, rows: Rows) -> pa.Array:
        return self._fitted(slices(rows.data.bytes, piece[1], piece[2]), rows)


class Embedded(FieldReader):
    """A message within a message: a STRUCT. One that is there several times is merged, as protobuf wants it."""

    def __init__(self, field: ProtoField, path: str, declared: pa.DataType, inner: MessageReader) -> None:
        super().__init__(field, path, declared)
        self.inner = inner

    def values(self, pieces: Sequence[Piece], rows: Rows) -> pa.Array:
        found: dict[int, list[Piece]] = {}
        given = np.full(len(rows), not self.field.presence)
        for own, starts, ends in pieces:
            self.inner.scan(rows.cursor(own, starts, ends), own, found)
            given[own] = True
        self._missing(given, rows)
        return self._made(self.inner.columns(found, Rows(rows.data, rows.faults, rows.records, given)), given, rows)

    def elements(self, piece: Piece, rows: Rows) -> pa.Array:
        found: dict[int, list[Piece]] = {}
        every = np.arange(len(rows))
        self.inner.scan(rows.cursor(every, piece[1], piece[2]), every, found)
        given = np.ones(len(rows), bool)
        return self._made(self.inner.columns(found, rows), given, rows)

    def _made(self, columns: dict[str, pa.Array], given: np.ndarray, rows: Rows) -> pa.Array:
        mask = None if given.all() else pa.array(~given)
        if not len(columns):
            return pc.if_else(pa.array(given), pa.array([{}] * len(given), self.declared), None)
        return pa.StructArray.from_arrays([columns[f.name] for f in self.declared], fields=[*self.declared], mask=mask)


class Wrapped(Embedded):
    """A message with one value, as those of ``google.protobuf.…Value``: the value, or NULL."""

    def _made(self, columns: dict[str, pa.Array], given: np.ndarray, rows: Rows) -> pa.Array:
        (values,) = columns.values()
        return values if given.all() else pc.if_else(pa.array(given), values, pa.scalar(None, values.type))


class Time(Embedded):
    """``google.protobuf.Timestamp`` as a time."""

    def _made(self, columns: dict[str, pa.Array], given: np.ndarray, rows: Rows) -> pa.Array:
        seconds, nanos = (columns[name].to_numpy(zero_copy_only=False) for name in ("seconds", "nanos"))
        wrong = (seconds < _FIRST) | (seconds > _LAST) | (nanos < 0) | (nanos > _NANOS)
        if wrong.any():
            rows.faults.add(rows.records[wrong], f"{self.path} has a time that is not of the years 1 to 9999")
        micros = np.where(wrong, 0, seconds) * 1_000_000 + nanos // 1_000
        return pa.array(micros, mask=None if given.all() else ~given).view(self.declared)


_FIRST, _LAST, _NANOS = -62_135_596_800, 253_402_300_799, 999_999_999


class Repeated(FieldReader):
    """A field that is there any number of times: an ARRAY. Numbers may also be packed."""

    def __init__(self, field: ProtoField, path: str, declared: pa.DataType, of: FieldReader) -> None:
        super().__init__(field, path, declared)
        self.of = of
        self.is_packable = self.wire not in (BYTES, BEGIN)

    def values(self, pieces: Sequence[Piece], rows: Rows) -> pa.Array:
        if pieces:
            own, *given = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
            if len(pieces) > 1:
                order = np.argsort(own, kind="stable")
                own, given = own[order], [array[order] for array in given]
        else:
            own, given = _NONE, [_NONE.view(np.uint64)] if self.is_packable else [_NONE, _NONE]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(own, minlength=len(rows))))).astype(np.int32)
        elements = self.of.elements((own, *given), Rows(rows.data, rows.faults, rows.records[own]))
        return self._listed(offsets, elements, len(rows))

    def _listed(self, offsets: np.ndarray, elements: pa.Array, count: int) -> pa.Array:
        return pa.Array.from_buffers(self.declared, count, [None, pa.py_buffer(offsets)], children=[elements])

    def elements(self, piece: Piece, rows: Rows) -> pa.Array:
        raise AssertionError("arrays of arrays are none of protobuf")

    def unpacked(self, rows: np.ndarray, starts: np.ndarray, inner: Cursor) -> Piece:
        """The numbers that follow each other between ``starts`` and the position of the cursor."""
        ends, path = inner.at, self.path
        size = SIZES.get(self.wire)
        if size is not None:
            inner.fail((ends - starts) % size > 0, f"it ends within {path}")
            counts = (ends - starts) // size
            at = _from_each(starts, counts, size)
            return np.repeat(rows, counts), inner.data.words[at]
        lengths = ends - starts
        at = _from_each(starts, lengths, 1)
        stops = inner.data.bytes[at] < 0x80
        first = np.concatenate(([True], stops[:-1])) if len(stops) else stops
        lanes = np.repeat(np.arange(len(rows)), lengths)
        changes = np.concatenate(([True], lanes[1:] != lanes[:-1])) if len(lanes) else first
        first = first | changes
        lanes, at = lanes[first], at[first]
        numbers = Cursor(inner.data, at, ends[lanes], inner.records[lanes], inner.faults)
        return rows[lanes], numbers.bits(path)


def _from_each(starts: np.ndarray, counts: np.ndarray, step: int) -> np.ndarray:
    """Positions from each start on, so many, at distances of ``step``."""
    numbers = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    positions: np.ndarray = np.repeat(starts, counts) + numbers * step
    return positions


class Entries(Repeated):
    """A map: of a key that it has twice the last value counts."""

    def _listed(self, offsets: np.ndarray, elements: pa.Array, count: int) -> pa.Array:
        offsets, elements = last_of_keys(offsets, elements)
        return pa.Array.from_buffers(self.declared, count, [None, pa.py_buffer(offsets)], children=[elements])


_NONE = np.zeros(0, np.int64)


class MessageReader:
    """Reads fields of messages of a type. ``fields``: their readers, by the name of the column. Others are skipped."""

    def __init__(
        self, path: str, message: Message, fields: Mapping[str, FieldReader], missing: Mapping[str, pa.DataType]
    ) -> None:
        self.path, self.fields, self.missing = path, fields, missing
        self.by_number = {reader.field.number: reader for reader in fields.values()}
        read = [reader.field for reader in fields.values() if reader.field.oneof is not None]
        self.unset = {
            field.number << 3 | wire_of(field): [o.number for o in read if o.oneof == field.oneof and o != field]
            for field in message.fields
            if field.oneof is not None
        }
        """The fields that are unset by one of their oneof which follows them, by its tag."""

    def columns(self, found: Mapping[int, Sequence[Piece]], rows: Rows) -> dict[str, pa.Array]:
        """Returns the columns of what was found; those that the message lacks are NULL."""
        columns = {
            name: reader.values(found.get(reader.field.number, ()), rows) for name, reader in self.fields.items()
        }
        return columns | {name: pa.nulls(len(rows), kind) for name, kind in self.missing.items()}

    def scan(self, cursor: Cursor, rows: np.ndarray, found: dict[int, list[Piece]]) -> None:
        """Adds to ``found``, by the number of their field, where values of some rows are, to the end of the cursor."""
        some = np.flatnonzero(cursor.at < cursor.ends)
        if len(some) < len(cursor):
            cursor, rows = cursor.of(some), rows[some]
        tags, steps = cursor.bits(self.path), 0
        while len(tags):
            steps += 1
            chosen = [tags.min()] if steps <= _MOST_SORTED else np.unique(tags)
            moved: np.ndarray = np.zeros(len(tags), bool)
            for tag in chosen:
                here = tags == tag
                if here.all():
                    self._take(int(tag), cursor, rows, found)
                    moved = here
                else:
                    lanes = np.flatnonzero(here)
                    inner = cursor.of(lanes)
                    self._take(int(tag), inner, rows[lanes], found)
                    cursor.at = cursor.at.copy()
                    cursor.at[lanes] = inner.at
                    moved |= here
            live = cursor.at < cursor.ends
            if not live.all():
                lanes = np.flatnonzero(live | ~moved)
                cursor, rows, tags, moved = cursor.of(lanes), rows[lanes], tags[lanes], moved[lanes]
            if moved.all():
                tags = cursor.bits(self.path)
            elif moved.any():
                lanes = np.flatnonzero(moved)
                inner = cursor.of(lanes)
                tags[lanes] = inner.bits(self.path)
                cursor.at = cursor.at.copy()
                cursor.at[lanes] = inner.at

    def _take(self, tag: int, cursor: Cursor, rows: np.ndarray, found: dict[int, list[Piece]]) -> None:
        number, wire = tag >> 3, tag & 7
        reader = self.by_number.get(number)
        for other in self.unset.get(tag, ()):
            if other in found:
                found[other] = [_without(piece, rows) for piece in found[other]]
        path = self.path if reader is None else reader.path
        if not 0 < number < NUMBERS_END:
            wire = -1
        if wire == VARINT:
            piece: Piece = (rows, cursor.bits(path))
        elif wire in SIZES:
            piece = (rows, cursor.word(SIZES[wire], path))
        elif wire == BYTES:
            lengths = cursor.bits(path).view(np.int64)
            starts = cursor.at
            cursor.skip(lengths, path)
            piece = (rows, starts, cursor.at)
            if isinstance(reader, Repeated) and reader.is_packable:
                found.setdefault(number, []).append(reader.unpacked(rows, starts, cursor))
                return
        elif wire == BEGIN:
            starts = cursor.at
            piece = (rows, starts, skip_group(cursor, number, path))
        else:
            cursor.fail(np.ones(len(cursor), bool), NOT_BEGUN if wire == END else NO_FIELD)
            cursor.at = cursor.ends.copy()
            return
        if reader is not None and reader.wire == wire:  # else it is another field of that number, as unknown ones are
            found.setdefault(number, []).append(piece)


def _without(piece: Piece, rows: np.ndarray) -> Piece:
    """A piece without some of its rows."""
    kept = ~np.isin(piece[0], rows)
    return piece if kept.all() else tuple(array[kept] for array in piece)
