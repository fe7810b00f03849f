"""Positions in many records of Avro at once, and what stands there.

Records of Avro have no marks between their values, so that a value is found only behind the one before it. But of many
records the next value can be read in one step over arrays: a cursor has the position of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sqlstream.formats.text_rule import bytes_of, offsets_of

PADDING = 16
"""Bytes that must follow the data, so that words can be read at its end."""

_STOPS = np.uint64(0x8080808080808080)
_LENGTHS = np.uint64(0x0102030405060708)
_ONE = np.uint64(1)
_GROUPS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
_WORD = 8


class Data:
    """Bytes that records are in, followed by at least PADDING others."""

    def __init__(self, data: np.ndarray) -> None:
        self.bytes = data
        self.words = np.lib.stride_tricks.as_strided(data[:_WORD].view("<u8"), (len(data) - _WORD + 1,), (1,))

    @property
    def last(self) -> int:
        """The last position of a word."""
        return len(self.words) - 1


@dataclass
class Faults:
    """Why records cannot be read, by their index: the first reason of each."""

    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, records: np.ndarray, reasons: Sequence[str] | str) -> None:
        """Adds faults of records; ``reasons`` is one for all or one for each."""
        each = [reasons] * len(records) if isinstance(reasons, str) else reasons
        for record, reason in zip(records.tolist(), each, strict=True):
            self.reasons.setdefault(record, reason)


class Unread(Faults):
    """Which records cannot be read, without the reasons. ``mask``: true for these."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.mask = np.zeros(count, bool)

    def add(self, records: np.ndarray, reasons: Sequence[str] | str) -> None:
        self.mask[records] = True


class Cursor:
    """The position ``at`` in each of some records, which end at ``ends``. ``records``: their indexes, for faults.

    Positions never pass the end of their record: where a value would, the record has a fault, and what is read from it
    means nothing.
    """

    __slots__ = ("at", "data", "depth", "ends", "faults", "records")

    def __init__(
        self, data: Data, at: np.ndarray, ends: np.ndarray, records: np.ndarray, faults: Faults, depth: int = 0
    ) -> None:
        self.data, self.at, self.ends, self.records, self.faults, self.depth = data, at, ends, records, faults, depth

    def __len__(self) -> int:
        return len(self.at)

    def of(self, lanes: np.ndarray) -> Cursor:
        """Returns a cursor for some of the records, given by their numbers in this one."""
        return Cursor(self.data, self.at[lanes], self.ends[lanes], self.records[lanes], self.faults, self.depth)

    def enter(self) -> bool:
        """Notes that values within the current ones are skipped, until ``leave``. False where these are nested too
        deeply, as only those of types that contain themselves can be: then the records have a fault, and are at an end.
        """
        if self.depth < MOST_NESTED:
            self.depth += 1
            return True
        self.fail(np.ones(len(self), bool), "it is nested too deeply")
        self.at = self.ends.copy()
        return False

    def leave(self) -> None:
        """Ends what ``enter`` began."""
        self.depth -= 1

    def fail(self, wrong: np.ndarray, reasons: Sequence[str] | str) -> None:
        """Notes a fault for the records for which the mask ``wrong`` is true."""
        self.faults.add(self.records[wrong], reasons)

    def move(self, to: np.ndarray, path: str) -> None:
        """Moves to the positions. Records that end before have a fault in the column ``path``."""
        over = to > self.ends
        if over.any():
            self.fail(over, f"it ends within {path}")
            to = np.minimum(to, self.ends)
        self.at = to

    def skip(self, lengths: np.ndarray, path: str) -> None:
        """Moves on by so many bytes, which are faults if they are negative."""
        if len(lengths) and lengths.min() < 0:
            wrong = lengths < 0
            self.fail(wrong, f"{path} has a negative length")
            lengths = np.where(wrong, 0, lengths)
        self.move(self.at + np.minimum(lengths, self.ends - self.at + 1), path)

    def byte(self, path: str) -> np.ndarray:
        """Reads one byte of each record."""
        read = self.data.bytes.take(self.at, mode="clip")
        self.move(self.at + 1, path)
        return read

    def word(self, size: int, path: str) -> np.ndarray:
        """Reads a value of ``size`` bytes, up to 8, as unsigned numbers."""
        words: np.ndarray = self.data.words[np.minimum(self.at, self.data.last)]
        self.move(self.at + size, path)
        return words

    def skip_number(self, path: str) -> None:
        """Moves behind a number of variable length."""
        first = self.data.bytes.take(self.at, mode="clip")
        if not len(first) or first.max() < 0x80:
            self.move(self.at + 1, path)
            return
        stops = ~self.data.words[np.minimum(self.at, self.data.last)] & _STOPS
        low = stops & (~stops + _ONE)
        lengths = (((low >> np.uint64(7)) * _LENGTHS) >> np.uint64(56)).view(np.int64)
        if not stops.all():
            lengths = np.where(stops == 0, self._long_lengths(), lengths)
        self.move(self.at + lengths, path)

    def _long_lengths(self) -> np.ndarray:
        ninth = self.data.bytes.take(self.at + _WORD, mode="clip")
        return np.where(ninth < 0x80, _WORD + 1, _WORD + 2)

    def number(self, path: str) -> np.ndarray:
        """Reads a number of variable length: ``int``, ``long``, a length or the branch of a union."""
        bits = self.bits(path)
        numbers: np.ndarray = ((bits >> _ONE) ^ (~(bits & _ONE) + _ONE)).view(np.int64)
        return numbers

    def bits(self, path: str) -> np.ndarray:
        """Reads the 64 bits that are written in seven of each byte, the lowest first."""
        first = self.data.bytes.take(self.at, mode="clip")
        if not len(first) or first.max() < 0x80:
            self.move(self.at + 1, path)
            return first.astype(np.uint64)
        words = self.data.words[np.minimum(self.at, self.data.last)]
        stops = ~words & _STOPS
        low = stops & (~stops + _ONE)
        lengths = (((low >> np.uint64(7)) * _LENGTHS) >> np.uint64(56)).view(np.int64)
        bits: np.ndarray = words & ((low << _ONE) - _ONE) & ~_STOPS
        for even, odd, shift in _GROUPS:
            bits = (bits & even) | ((bits & odd) >> shift)
        if not stops.all():
            bits, lengths = self._long(stops == 0, bits, lengths, path)
        self.move(self.at + lengths, path)
        return bits

    def _long(
        self, is_long: np.ndarray, bits: np.ndarray, lengths: np.ndarray, path: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """The bits of numbers of nine and ten bytes, too."""
        ninth, tenth = (self.data.bytes.take(self.at + n, mode="clip").astype(np.uint64) for n in (_WORD, _WORD + 1))
        has_tenth = ninth > 0x7F
        self.fail(is_long & has_tenth & (tenth > 1), f"{path} has a number of more than 64 bits")
        more = ((ninth & np.uint64(0x7F)) << np.uint64(56)) | np.where(has_tenth, tenth << np.uint64(63), np.uint64(0))
        return np.where(is_long, bits | more, bits), np.where(is_long, self._long_lengths(), lengths)

    def texts(self, path: str) -> pa.Array:
        """Reads values of type ``bytes`` or ``string``: their length, then so many bytes."""
        lengths = self.number(path)
        starts = self.at
        self.skip(lengths, path)
        return slices(self.data.bytes, starts, self.at)

    def items(self, skip: Callable[[Cursor], None], path: str, least: int) -> tuple[Cursor, np.ndarray]:
        """Moves behind arrays or maps. Returns a cursor with the positions of all their items, and the number of items
        of each record. ``skip`` moves a cursor behind an item, which has at least ``least`` bytes.
        """
        counts = np.zeros(len(self), np.int64)
        at, lanes = [], []
        for active, numbers in self._blocks(path, least):
            inner = self.of(active)
            counts[active] += numbers
            waiting = active
            for number in range(int(numbers.max(initial=0))):
                more = np.flatnonzero(numbers > number)
                if len(more) < len(numbers):
                    self.at[waiting] = inner.at
                    inner, waiting, numbers = inner.of(more), waiting[more], numbers[more]
                at.append(inner.at)
                lanes.append(waiting)
                skip(inner)
            self.at[waiting] = inner.at
        order, every = np.concatenate([*lanes, _NONE]), np.concatenate([*at, _NONE])
        in_order = np.argsort(order, kind="stable")
        order, every = order[in_order], every[in_order]
        return Cursor(self.data, every, self.ends[order], self.records[order], self.faults), counts

    def _blocks(self, path: str, least: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The blocks of arrays: the numbers of the records that have another one, and how many items it has."""
        self.at = self.at.copy()
        active = np.arange(len(self))
        while len(active):
            cursor = self.of(active)
            numbers = cursor.number(path)
            with_size = np.flatnonzero(numbers < 0)
            if len(with_size):
                sized = cursor.of(with_size)
                sized.skip_number(path)
                cursor.at[with_size] = sized.at
                numbers = np.abs(numbers)
            most = (cursor.ends - cursor.at) // least if least else np.full(len(active), MOST_EMPTY)
            wrong = (numbers > most) | (numbers < 0)
            cursor.fail(wrong, f"it ends within {path}")
            self.at[active] = np.where(wrong, cursor.ends, cursor.at)
            numbers = np.where(wrong, 0, numbers)
            some = np.flatnonzero(numbers)
            active = active[some]
            if len(active):
                yield active, numbers[some]


MOST_NESTED = 400
"""The most values within each other: a linked list has two for each of its elements, a record and a union. Each takes
two calls of Python at most, which may have a thousand within each other."""

MOST_EMPTY = 1 << 16
"""The most items without bytes of their own, such as ``null``, in a block."""

_NONE = np.zeros(0, np.int64)


def message_bounds(values: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of messages, and where each begins and ends in them. One that is NULL is empty."""
    values = values.cast(pa.binary())
    offsets, data = offsets_of(values).astype(np.int64), bytes_of(values)
    starts, ends = offsets[:-1], offsets[1:]
    if values.null_count:  # an array may have bytes there
        ends = np.where(values.is_null().to_numpy(zero_copy_only=False), starts, ends)
    return data, starts, ends


def slices(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
    """Returns the bytes between positions, which ascend, as ``pa.binary()``: every second value of an array that has
    the gaps between them as values, too.
    """
    if not len(starts):
        return pa.array([], pa.binary())
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    every = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return every.take(pa.array(np.arange(0, len(offsets) - 1, 2, dtype=np.int32)))
