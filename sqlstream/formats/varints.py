"""Numbers of as many bytes as they need, seven bits in each, the lowest first: those of Avro, protobuf and Snappy."""

from __future__ import annotations

from sqlstream.formats.file_access import Bytes


def varint(content: Bytes, at: int) -> tuple[int, int]:
    """Reads a number without a sign at a position, and returns it with the position behind it. IndexError where the
    content ends within it, or it has more than 64 bits.
    """
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError("a number of more than 64 bits")
