"""What a decoder of text records takes and gives.

A block is bytes of whole records: a piece of a file that ends where a record ends. Messages are records of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sqlstream.types import DataType


@dataclass(frozen=True)
class Field:
    """A column of the decoded records. ``wanted``: the column is part of the rows; otherwise its values are only
    validated.
    """

    name: str
    type: DataType
    wanted: bool = True


@dataclass(frozen=True)
class Fault:
    """A record that could not be decoded.

    ``record``: its index among all records of the block or of the messages, from 0. ``start``: the offset of its first
    byte in the block; 0 for messages. ``text``: its original bytes without the line end. ``reason``: why it is
    invalid, such as the values that do not fit, with column and type.
    """

    record: int
    start: int
    text: bytes
    reason: str


@dataclass(frozen=True)
class Decoded:
    """The result of decoding a block or an array of messages.

    ``rows``: the wanted columns of the valid records, in input order. ``faults``: the invalid records, in input order.
    ``records``: how many records there were, valid and invalid together. ``origins``: the record of each row where a
    record may be no row or several; None where each valid record is one row.
    """

    rows: pa.RecordBatch
    records: int
    faults: Sequence[Fault] = field(default=())
    origins: np.ndarray | None = None

    @property
    def numbers(self) -> np.ndarray:
        """The record of each row, by its index among all records, in ascending order."""
        if self.origins is not None:
            return self.origins
        return np.delete(np.arange(self.records), [fault.record for fault in self.faults])


class Decoder(ABC):
    """Decodes the records of one table, of one format, into Arrow columns. Decoders are pickled, as Spark's tasks use
    them.
    """

    returns_end_lines: ClassVar[bool] = False
    """A carriage return alone ends a line, too."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of the rows: the wanted columns in declared order. TIMESTAMP columns are in UTC."""

    def starts(self, data: pa.Buffer) -> np.ndarray:
        """Returns the byte offset of each record of a block, valid or not."""
        return self.spans(data)[0]

    def spans(self, data: pa.Buffer) -> tuple[np.ndarray, np.ndarray]:
        """Returns the byte offsets at which the records of a block begin and end, valid or not, without their line
        ends. By default each line that is not blank is a record.
        """
        starts, ends = lines_of(data)
        if not len(starts):
            return starts, ends
        filled: np.ndarray = np.add.reduceat(np.frombuffer(data, np.uint8) > ord(" "), starts) > 0
        return starts[filled], ends[filled]

    @abstractmethod
    def block(self, data: pa.Buffer) -> Decoded:
        """Decodes the records of a block. Empty lines are skipped."""

    def begin(self) -> None:  # noqa: B027 - most decoders find out nothing
        """Called by a task before it decodes messages of a micro-batch: what others had to find out for earlier
        messages, such as a schema that did not exist, may be different now.
        """

    @abstractmethod
    def messages(self, values: pa.BinaryArray) -> Decoded:
        """Decodes messages, each of which is one record. NULL is a fault, and so is an empty message, unless the format
        has a value that is spelled so.
        """


@dataclass(frozen=True)
class OptionalRecords(Decoder):
    """Decodes messages as ``of`` does, and each that is NULL as a row of NULLs."""

    of: Decoder

    @property
    def schema(self) -> pa.Schema:
        return self.of.schema

    def begin(self) -> None:
        self.of.begin()

    def block(self, data: pa.Buffer) -> Decoded:
        return self.of.block(data)

    def messages(self, values: pa.BinaryArray) -> Decoded:
        if not values.null_count:
            return self.of.messages(values)
        given = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        decoded = self.of.messages(values.take(pa.array(given)))
        faults = [replace(fault, record=int(given[fault.record])) for fault in decoded.faults]
        nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
        numbers = np.append(given[decoded.numbers], nulls)
        order = np.argsort(numbers, kind="stable")
        is_null = order >= decoded.rows.num_rows
        rows = decoded.rows.take(pa.array(order, mask=is_null))
        return Decoded(rows, len(values), faults, numbers[order])


def lines_of(data: pa.Buffer) -> tuple[np.ndarray, np.ndarray]:
    """Returns the byte offsets at which the lines of a block begin and end, without their LF or CR LF."""
    read = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero(read == ord("\n"))
    starts, ends = np.append(0, feeds + 1), np.append(feeds, len(read))
    if starts[-1] == len(read):
        starts, ends = starts[:-1], ends[:-1]
    return starts, ends - ((ends > starts) & (read[ends - 1] == ord("\r")))


def cut(data: pa.Buffer, starts: np.ndarray, ends: np.ndarray) -> pa.BinaryArray:
    """Returns the parts of a block between these byte offsets, which ascend."""
    offsets = np.append(np.stack([starts, ends], axis=1).ravel(), data.size).astype(np.int32)
    both = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), data])
    return both.take(pa.array(np.arange(0, len(both), 2)))  # those between them are what is left out


def rows_of_nothing(count: int) -> pa.RecordBatch:
    """Returns a batch of ``count`` rows without columns, for queries that only count rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["none"]).select([])


_FEW = 64
"""Where no more than one row in so many is left out, the runs of rows between them are copied whole."""


def without(columns: Sequence[pa.Array], bad: np.ndarray) -> list[pa.Array]:
    """Returns the columns without the rows for which the mask ``bad`` is true."""
    rows = np.flatnonzero(bad)
    if len(rows) * _FEW >= len(bad):
        good = pa.array(~bad)
        return [column.filter(good) for column in columns]
    starts, ends = np.append(0, rows + 1).tolist(), np.append(rows, len(bad)).tolist()
    runs = [(start, end - start) for start, end in zip(starts, ends, strict=True) if start < end]
    return [pa.concat_arrays([column.slice(*run) for run in runs]) for column in columns]


def is_utf8(data: np.ndarray) -> bool:
    """True where all bytes together are valid UTF-8."""
    if data.max(initial=0) < 0x80:  # ASCII: to look at all bytes is cheaper than to check them
        return True
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(np.ascontiguousarray(data))])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


@cache
def reuse_memory() -> None:
    """Lets the C library reuse the memory of arrays instead of giving it back after each step.

    Fresh pages are half of the time otherwise. glibc raises its bounds up to the largest block that is freed, and this
    one is never touched; elsewhere it does nothing.
    """
    np.empty(30 << 20, np.uint8)


def in_order(parts: Sequence[tuple[np.ndarray, pa.RecordBatch]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of parts that were decoded apart, each with the numbers of its records, in the order of the records."""
    if len(parts) == 1:
        return parts[0][1]
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=schema)
    order = pa.array(np.argsort(np.concatenate([numbers for numbers, _ in parts]), kind="stable"))
    if not len(schema):
        return rows_of_nothing(len(order))
    (rows,) = pa.Table.from_batches([rows for _, rows in parts]).take(order).combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=schema)
    ]
    return rows
