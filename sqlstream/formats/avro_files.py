"""Object container files of Avro: a header with the schema, then compressed blocks of records between sync markers."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.encodings import AVRO_CODECS
from sqlstream.formats.file_access import LOCAL, Bytes, FileAccess
from sqlstream.formats.varints import varint

MAGIC = b"Obj\x01"
_MARKER = 16
_MOST_BYTES = 1 << 30
"""The most bytes that a block may have, compressed or not."""
_MOST_EMPTY = 1 << 14
"""The most records without bytes, such as those of the type ``null``, that a block may have."""
_PIECE = 1 << 20


class Corrupt(ValueError):
    """A file, or a block of it, is not as the format says. ``at``: the position of the block in the file."""

    def __init__(self, reason: str, at: int = 0, beginning: bytes = b"") -> None:
        super().__init__(reason)
        self.reason, self.at, self.beginning = reason, at, beginning


class StoredBlock(NamedTuple):
    """A block of a file: its position, the number of its records, and their bytes."""

    at: int
    records: int
    data: pa.Buffer


class Container:
    """A file of Avro. ``schema``: the JSON text of the schema that its records were written with.

    Raises Corrupt if the file does not begin as one.
    """

    def __init__(self, content: Bytes) -> None:
        self._content = content
        if content[: len(MAGIC)] != MAGIC:
            raise Corrupt("it does not begin as an Avro file does")
        try:
            entries, end = _entries(content, len(MAGIC))
            self.schema = entries["avro.schema"].decode()
            self.codec = entries.get("avro.codec", b"null").decode()
        except (IndexError, KeyError, UnicodeDecodeError) as error:
            raise Corrupt(f"its header is not complete: {error}") from None
        self._marker, self._first = content[end : end + _MARKER], end + _MARKER
        if self.codec not in _DECOMPRESS:
            raise Corrupt(f'its codec "{self.codec}" is none of {", ".join(AVRO_CODECS)}')
        if len(self._marker) < _MARKER:
            raise Corrupt("its header is not complete")

    def blocks(self, begin: int = 0, end: int | None = None) -> Iterator[StoredBlock | Corrupt]:
        """Yields the blocks that begin between two positions of the file; instead of one that cannot be read, why.

        After such a one it goes on at the next sync marker.
        """
        size = len(self._content)
        end = size if end is None else min(end, size)
        at = self._first if begin <= self._first else self._behind_marker(begin - _MARKER)
        while at < end:
            try:
                block, at = self._block(at, size)
            except Corrupt as error:
                yield error
                at = self._behind_marker(max(at - _MARKER + 1, self._first))
            else:
                yield block

    def _behind_marker(self, start: int) -> int:
        """The position after the next sync marker that begins at ``start`` or later; that of the end without one."""
        found = self._content.find(self._marker, start)
        return len(self._content) if found < 0 else found + _MARKER

    def _block(self, at: int, size: int) -> tuple[StoredBlock, int]:
        beginning = self._content[at : at + 64]
        try:
            count, behind = _number(self._content, at)
            length, behind = _number(self._content, behind)
        except IndexError:
            raise Corrupt("the file ends within a block", at, beginning) from None
        if not (0 <= length <= _MOST_BYTES and count >= 0):
            raise Corrupt(f"a block says that it has {count:,} records of {length:,} bytes", at, beginning)
        if behind + length + _MARKER > size:
            raise Corrupt("the file ends within a block", at, beginning)
        stop = behind + length
        if self._content[stop : stop + _MARKER] != self._marker:
            raise Corrupt("no sync marker follows a block", at, beginning)
        try:
            data = _DECOMPRESS[self.codec](self._content[behind:stop])
        except _UNREADABLE as error:
            raise Corrupt(f"a block cannot be decompressed ({self.codec}): {error}", at, beginning) from None
        if count > max(data.size, _MOST_EMPTY):
            raise Corrupt(f"a block says that it has {count:,} records in {data.size:,} bytes", at, beginning)
        return StoredBlock(at, count, data), stop + _MARKER


def _number(content: Bytes, at: int) -> tuple[int, int]:
    bits, at = varint(content, at)
    return (bits >> 1) ^ -(bits & 1), at


def _entries(content: Bytes, at: int) -> tuple[dict[str, bytes], int]:
    """A map of texts to bytes, and the position behind it."""
    entries: dict[str, bytes] = {}
    while True:
        count, at = _number(content, at)
        if count < 0:
            count, (_, at) = -count, _number(content, at)
        if not count:
            return entries, at
        for _ in range(count):
            key, at = _text(content, at)
            entries[key.decode()], at = _text(content, at)


def _text(content: Bytes, at: int) -> tuple[bytes, int]:
    length, at = _number(content, at)
    if not 0 <= length <= len(content) - at:
        raise IndexError("a text ends behind the file")
    return content[at : at + length], at + length


@contextmanager
def opened(path: str, access: FileAccess = LOCAL) -> Iterator[Container]:
    """A context manager for a file. Raises Corrupt, OSError."""
    with access.content(path) as content:
        if not len(content):
            raise Corrupt("it is empty, and not an Avro file")
        yield Container(content)


def schema_text(path: str, access: FileAccess = LOCAL) -> str:
    """Returns the JSON text of the schema of a file. Raises pa.ArrowInvalid if it is no file of Avro, OSError."""
    try:
        with opened(path, access) as file:
            return file.schema
    except (Corrupt, SchemaError) as error:
        raise pa.ArrowInvalid(str(error)) from None


# --- codecs ---------------------------------------------------------------------------------------------------

_UNREADABLE = (pa.ArrowException, OSError, ValueError, zlib.error, lzma.LZMAError, EOFError)


def _deflated(data: bytes) -> pa.Buffer:
    unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _MOST_BYTES + 1)
    _require_size(len(unpacked))
    return pa.py_buffer(unpacked)


def _require_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")


def _unpacked(stream: BinaryIO | pa.NativeFile) -> pa.Buffer:
    """All bytes of a stream that decompresses, piece by piece, so that a small block does not become a huge one."""
    pieces, size = [], 0
    while piece := stream.read(_PIECE):
        size += len(piece)
        _require_size(size)
        pieces.append(piece)
    return pa.py_buffer(b"".join(pieces))


def _snappy(data: bytes) -> pa.Buffer:
    size, _ = _plain_number(data)
    _require_size(size)
    unpacked = pa.Codec("snappy").decompress(data[:-4], size)
    if struct.unpack(">I", data[-4:])[0] != zlib.crc32(unpacked):
        raise ValueError("its checksum differs")
    return unpacked


def _plain_number(data: bytes) -> tuple[int, int]:
    """The number of bytes at the beginning of Snappy, which has no sign."""
    bits = shift = at = 0
    while at < len(data):
        bits |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return bits, at
        shift += 7
    raise ValueError("it ends within its length")


def _zstandard(data: bytes) -> pa.Buffer:
    with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
        return _unpacked(stream)


def _bzip2(data: bytes) -> pa.Buffer:
    with bz2.BZ2File(BytesIO(data)) as stream:
        return _unpacked(stream)


def _xz(data: bytes) -> pa.Buffer:
    with lzma.LZMAFile(BytesIO(data)) as stream:
        return _unpacked(stream)


def _plain(data: bytes) -> pa.Buffer:
    return pa.py_buffer(data)


_DECOMPRESS: Mapping[str, Callable[[bytes], pa.Buffer]] = {
    "null": _plain,
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
"""How blocks are read, by the name of the codec."""


def _deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


def _with_checksum(data: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(data)) + struct.pack(">I", zlib.crc32(data))


COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _with_checksum,
    "zstandard": lambda data: bytes(pa.Codec("zstd").compress(data)),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
"""How blocks are compressed, by the name of the codec."""
