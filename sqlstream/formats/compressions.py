"""Compressed files, opened as the bytes that are in them.

Arrow unpacks gzip, bzip2, zstd and the frames of LZ4. The other files are those of Hadoop and Spark: ``.deflate`` is
zlib; ``.snappy`` and ``.lz4`` are blocks, each with its length before and after compression. Tools of the command line
write ``.snappy`` and ``.lz4`` in frames, which begin with a mark.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from sqlstream.formats.file_access import LOCAL, FileAccess

_OF_ARROW = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_LZ4_FRAME = b"\x04\x22\x4d\x18"
_SNAPPY_FRAME = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _PLAIN = 0, 1
"""Kinds of pieces in frames of Snappy; others are comments and padding."""
_PIECE = 1 << 16

_OTHER = "it is not compressed as its name says"
_TORN = "it ends within a compressed piece, or is not compressed as its name says"

Unpack = Callable[[bytes, int], bytes]
"""Unpacks a piece, of which at most so many bytes come."""


def is_compressed(path: str) -> bool:
    """True where the name of a file ends as that of a compressed one, such as ``.gz``."""
    return _suffix(path) in (*_OF_ARROW, ".deflate", ".lz4", ".snappy")


def opened(path: str, access: FileAccess = LOCAL) -> BinaryIO:
    """Opens a file for reading, and unpacks it if its name says that it is compressed. Reading raises OSError or
    pyarrow.ArrowException where the file is torn or something else.
    """
    suffix = _suffix(path)
    if suffix in _OF_ARROW:
        return cast(BinaryIO, pa.input_stream(access.streamed(path), compression=_OF_ARROW[suffix]))
    if suffix not in (".deflate", ".lz4", ".snappy"):
        return access.opened(path)
    with access.opened(path) as file:
        begin = file.read(len(_SNAPPY_FRAME))
    if suffix == ".lz4" and begin.startswith(_LZ4_FRAME):
        return cast(BinaryIO, pa.input_stream(access.streamed(path), compression="lz4"))
    packed = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, access.opened(path))))  # closed with what reads it
    if suffix == ".deflate":
        return cast(BinaryIO, _Unpacked(packed, _inflated(packed)))
    if begin.startswith(_SNAPPY_FRAME):
        return cast(BinaryIO, _Unpacked(packed, _snappy_frames(packed)))
    return cast(BinaryIO, _Unpacked(packed, _blocks(packed, _snappy if suffix == ".snappy" else _lz4)))


def _suffix(path: str) -> str:
    return Path(path).suffix.lower()


class _Unpacked(io.RawIOBase):
    """The pieces of a file, one after the other."""

    def __init__(self, packed: BinaryIO, pieces: Iterator[bytes]) -> None:
        self._packed = packed
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()


def _inflated(packed: BinaryIO) -> Iterator[bytes]:
    """The content of zlib streams, of which a file may have several."""
    unpacking, is_empty = zlib.decompressobj(), True
    while data := unpacking.unused_data or packed.read(_PIECE):
        is_empty = False
        if unpacking.eof:
            unpacking = zlib.decompressobj()
        try:
            yield unpacking.decompress(data)
        except zlib.error as error:
            raise OSError(f"{_OTHER}: {error}") from None
    if not (unpacking.eof or is_empty):
        raise OSError(_TORN)


def _blocks(packed: BinaryIO, unpack: Unpack) -> Iterator[bytes]:
    """The content of Hadoop's blocks. A block is compressed in one piece, or in several if one call wrote much."""
    while (head := packed.read(4)) != b"":
        left = _number(head)
        while left:
            piece = _unpacked(unpack, _exactly(packed, _number(packed.read(4))), left)
            if not piece:
                raise OSError(_OTHER)
            left -= len(piece)
            yield piece


def _snappy_frames(packed: BinaryIO) -> Iterator[bytes]:
    """The content of a file in the framing format of Snappy. Its checksums are not looked at."""
    while (head := packed.read(4)) != b"":
        kind, content = head[0], _exactly(packed, int.from_bytes(head[1:], "little"))
        if kind in (_COMPRESSED, _PLAIN):
            yield _unpacked(_snappy, content[4:], _PIECE) if kind == _COMPRESSED else content[4:]


def _number(head: bytes) -> int:
    if len(head) < 4:
        raise OSError(_TORN)
    return int.from_bytes(head, "big")


def _exactly(packed: BinaryIO, size: int) -> bytes:
    data = packed.read(size)
    if len(data) < size:
        raise OSError(_TORN)
    return data


def _unpacked(unpack: Unpack, data: bytes, most: int) -> bytes:
    piece = unpack(data, most)
    if len(piece) > most:
        raise OSError(_OTHER)
    return piece


def _snappy(data: bytes, most: int) -> bytes:
    size = shift = 0
    for byte in data[:5]:  # the length, in groups of seven bits
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(data, min(size, most + 1)))


def _lz4(data: bytes, most: int) -> bytes:
    """The piece does not know its length: it is what is left of the block, unless it has room in less."""
    codec = pa.Codec("lz4_raw")
    try:
        codec.decompress(data, most - 1)
    except (pa.ArrowException, OSError):
        return bytes(codec.decompress(data, most))
    return bytes(codec.decompress(data, _length_of_lz4(data)))


def _length_of_lz4(data: bytes) -> int:
    """The length of a piece of LZ4 when it is unpacked: that of its literals and of its repetitions."""
    position = length = 0

    def more(nibble: int) -> int:
        nonlocal position
        if nibble < 15:
            return nibble
        total = nibble
        while position < len(data):
            byte = data[position]
            position, total = position + 1, total + byte
            if byte < 255:
                break
        return total

    while position < len(data):
        token = data[position]
        position += 1
        literals = more(token >> 4)
        position, length = position + literals, length + literals
        if position < len(data):
            position += 2  # where the repetition begins
            length += 4 + more(token & 15)
    return length
