"""The records of files of text as blocks of bytes, for decoders.

A block has a bounded size and ends where a record ends. Plain files are cut into ranges of bytes that several tasks
read; a record belongs to the range in which it begins. Files that are compressed, in another encoding than UTF-8, or
whose records may have line feeds are one range, and are streamed through as well.

Where records of CSV may have none, one that has them all the same, in quotes, is a single fault. No cut divides it,
because its second half might look like a row.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from sqlstream.formats.compressions import is_compressed, opened
from sqlstream.formats.csv_records import LONGEST_BROKEN, Dialect, begin_of_record, bytes_at, length_of_records
from sqlstream.formats.file_access import LOCAL, FileAccess

BLOCK_BYTES = 1 << 22
"""The size of a block, unless one record is larger: large enough for columns, small enough for the caches."""

_FEED, _RETURN = ord("\n"), ord("\r")
_UTF8 = "utf-8"
_BOM = codecs.BOM_UTF8
_INVALID = "sqlstream.invalid"
_UNTIL_THE_END = 1 << 63

_LONGEST_QUOTED = 1 << 26
"""After so many bytes without an end of a record a quote was never closed: line feeds end records again."""

# A byte that the encoding does not have becomes one that UTF-8 does not have, and so a fault of its record.
codecs.register_error(_INVALID, lambda error: ("\udcff", getattr(error, "end")))  # noqa: B009 - of several classes


@dataclass(frozen=True)
class Block:
    """Whole records of a file, in UTF-8.

    ``start`` is the byte offset of ``data`` in the text of the file, that is after decompression and conversion to
    UTF-8. A byte order mark is not in ``data``, but is counted in ``start``.
    """

    start: int
    data: pa.Buffer


@dataclass(frozen=True)
class TextFile:
    """A text file that is read as blocks of whole records.

    ``encoding``: the name of a Python codec. ``dialect``: that of CSV with quotes; None where every line feed ends a
    record. ``size``: the size of a block in bytes. ``access``: how the file is opened.
    """

    path: str
    encoding: str = _UTF8
    dialect: Dialect | None = None
    size: int = BLOCK_BYTES
    access: FileAccess = LOCAL

    @property
    def divides(self) -> bool:
        """True where the file can be split into byte ranges that are read independently: it is UTF-8, not compressed,
        and no record has line feeds.
        """
        return not is_compressed(self.path) and not self.spans_lines and self._is_utf8

    @property
    def spans_lines(self) -> bool:
        """True where a record may have line breaks."""
        return self.dialect is not None and self.dialect.multi_line

    @property
    def _is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    def blocks(self, begin: int = 0, end: int | None = None) -> Iterator[Block]:
        """Yields the records that begin at byte ``begin`` or later and before byte ``end``, in blocks.

        A file that cannot be split is read whole by the range that begins at 0; other ranges are empty. Raises OSError
        or pyarrow.ArrowException where the file cannot be read or decompressed.
        """
        if self.divides:
            yield from self._range(begin, end)
        elif begin <= 0 and end != 0:
            yield from self._whole()

    def _range(self, begin: int, end: int | None) -> Iterator[Block]:
        with self.access.opened(self.path) as file:
            position, size = self._first_record(file, begin), self.size
            last = _UNTIL_THE_END if end is None else self._first_record(file, end)
            while position < last:
                file.seek(position)
                data = _read(file, min(size, last - position))
                if not data:
                    return
                whole = len(data)
                if whole == size and position + size < last:
                    feed = data.rfind(b"\n") + 1
                    if not feed:
                        size *= 2  # for a record that is longer than the block
                        continue
                    whole = min(self._unbroken(file, position + feed), last) - position
                    if whole > size:
                        file.seek(position + size)
                        data += _read(file, whole - size)
                        whole = len(data)
                mark = len(_BOM) if not position and data.startswith(_BOM) else 0
                if whole > mark:
                    yield Block(position + mark, pa.py_buffer(data).slice(mark, whole - mark))
                position, size = position + whole, self.size

    def _first_record(self, file: BinaryIO, begin: int) -> int:
        """The first position from ``begin`` at which a record begins; the end of the file where none does."""
        return self._unbroken(file, _first_line(file, begin, self.size)) if begin > 0 else 0

    def _unbroken(self, file: BinaryIO, at: int) -> int:
        """The position of a line, or of the first one behind a record of CSV that has it in quotes."""
        if self.dialect is None or at <= 0:
            return at
        low = max(at - 2 * LONGEST_BROKEN, 0)
        file.seek(low)
        around = _read(file, at + LONGEST_BROKEN + 1 - low)
        # From a line on, which may be in quotes itself; hardly any are still open at ``at`` then.
        mark = len(_BOM) if around.startswith(_BOM) else 0
        first = around.find(b"\n") + 1 if low else mark
        return low + first + begin_of_record(around[first:], at - low - first, self.dialect)

    def _whole(self) -> Iterator[Block]:
        position, pieces, unread, enough = 0, list[bytes](), True, 0
        for text in self._texts():
            if unread and text:
                position = len(_BOM) if text.startswith(_BOM) else 0
                text, unread = text[position:], False
            pieces.append(text)
            if b"\n" not in text or sum(map(len, pieces)) < enough:
                continue
            data = b"".join(pieces)
            length = self._length_of_records(data)
            if length:
                yield Block(position, pa.py_buffer(data).slice(0, length))
                position += length
            pieces, enough = [data[length:]], 0 if length else 2 * len(data)
        if data := b"".join(pieces):
            yield Block(position, pa.py_buffer(data))

    def _length_of_records(self, data: bytes) -> int:
        if self.dialect is None:
            return data.rfind(b"\n") + 1
        if self.spans_lines:
            length = length_of_records(data, self.dialect)
            return length if length or len(data) < _LONGEST_QUOTED else data.rfind(b"\n") + 1
        at = data.rfind(b"\n", 0, max(len(data) - LONGEST_BROKEN - 1, 0)) + 1
        first = data.find(b"\n", at - 2 * LONGEST_BROKEN) + 1 if at > 2 * LONGEST_BROKEN else 0
        return first + begin_of_record(data[first:], at - first, self.dialect) if at else 0

    def _texts(self) -> Iterator[bytes]:
        """The text of the file in UTF-8, piece by piece; the first has at least three bytes if the file has."""
        with opened(self.path, self.access) as file:
            pieces = _ahead(file, self.size) if is_compressed(self.path) else iter(lambda: _read(file, self.size), b"")
            if self._is_utf8:
                yield from pieces
                return
            decoder = codecs.getincrementaldecoder(self.encoding)(_INVALID)
            data = next(pieces, b"")
            while data:
                following = next(pieces, b"")
                yield decoder.decode(data, final=not following).encode(_UTF8, "surrogateescape")
                data = following


def _ahead(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The pieces of a file, of which another thread reads the next one while the caller works with one: to unpack a
    file takes about as long as to decode its records, and one task does both.
    """
    with ThreadPoolExecutor(1, "sqlstream-unpack") as thread:
        following = thread.submit(_read, file, size)
        while data := following.result():
            following = thread.submit(_read, file, size)
            yield data


def _read(file: BinaryIO, size: int) -> bytes:
    """``size`` bytes, fewer only at the end of the file: one call of the system may return less."""
    data = file.read(size)
    while 0 < len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _first_line(file: BinaryIO, begin: int, size: int) -> int:
    """The first position from ``begin`` at which a line begins; the end of the file where none does."""
    position = begin - 1
    while position >= 0:
        file.seek(position)
        data = _read(file, min(size, 1 << 16))
        end = data.find(b"\n")
        if end >= 0 or not data:
            return position + end + 1
        position += len(data)
    return 0


_counted: dict[tuple[object, ...], dict[int, int]] = {}
"""How many line ends files have before some positions, as this process knows: by the version of the file."""

_MOST_FILES, _MOST_POSITIONS = 64, 1_000


@dataclass
class LineNumbers:
    """Computes line numbers in a file, for error messages. It reads the file for that only when a number is first
    requested, from the last position on up to which this process has counted before: a file that is read in many
    micro-batches would else be read from its beginning in each of them.

    ``returns``: carriage returns alone end lines, too.
    """

    file: TextFile
    returns: bool = False
    _position: int = field(default=-1, init=False)
    _breaks: int = field(default=0, init=False)
    _known: dict[int, int] = field(default_factory=dict, init=False)

    def before(self, block: Block) -> int:
        """Returns how many line ends the file has before the block. Blocks must be passed in ascending order."""
        if self._position < 0:
            self._known = _counted_in(self.file, self.returns)
            start = max((position for position in self._known if position <= block.start), default=0)
            self._breaks = self._known.get(start, 0)
            for earlier in self.file.blocks(start, block.start):
                if earlier.start >= block.start:
                    break
                self._breaks += _breaks(earlier.data, self.returns)
            self._position = block.start
            self._keep()
        return self._breaks

    def passed(self, block: Block) -> None:
        """Counts the line ends of a block that was read, so that numbers in later blocks need no second read of the
        file.
        """
        if self._position >= 0:
            self._known.pop(self._position, None)
            self._breaks += _breaks(block.data, self.returns)
            self._position = block.start + block.data.size
            self._keep()

    def _keep(self) -> None:
        if self._position > len(_BOM):  # no record begins within a byte order mark
            self._known[self._position] = self._breaks
        if len(self._known) > _MOST_POSITIONS:
            for position in sorted(self._known)[: _MOST_POSITIONS // 2]:
                del self._known[position]

    def of(self, block: Block, starts: list[int]) -> list[int]:
        """Returns the line number, from 1, of each byte offset in ``starts``. The offsets are relative to the block
        and ascend.
        """
        breaks = line_ends(np.frombuffer(block.data, np.uint8), returns=self.returns)
        return [self.before(block) + 1 + count for count in np.searchsorted(breaks, starts).tolist()]


def line_ends(data: np.ndarray, *, returns: bool) -> np.ndarray:
    """Returns the byte offset of the last byte of each line end. ``returns``: carriage returns alone are some, too."""
    ends = data == _FEED
    if returns and (positions := np.flatnonzero(data == _RETURN)).size:
        ends[positions[bytes_at(data, positions + 1) != _FEED]] = True
    return np.flatnonzero(ends)


def _breaks(data: pa.Buffer, returns: bool) -> int:
    return len(line_ends(np.frombuffer(data, np.uint8), returns=returns))


def _counted_in(file: TextFile, returns: bool) -> dict[int, int]:
    """The line ends before positions of a file at which records begin; none of a file that is read whole."""
    if not file.divides:
        return {}
    version = (returns, file.path, *file.access.version(file.path))
    if version not in _counted and len(_counted) >= _MOST_FILES:
        _counted.pop(next(iter(_counted)))
    return _counted.setdefault(version, {})
