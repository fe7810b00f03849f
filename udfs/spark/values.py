"""Values of state as Spark keeps them: text of seven bits, compressed.

Spark hands Python a binary value as a text that it builds character by character, 20 ns a byte, and a text of ASCII ten
times faster. Seven bytes make eight characters.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

import numpy as np
import pyarrow as pa

_HEADER = struct.Struct("<ii")
"""The bytes of the value, and those that are kept of it: as many where it is not compressed."""

_CODEC = "lz4_raw"
_LEAST = 128
"""Shorter values are kept as they are."""

_TOGETHER = 1 << 16
"""Bytes or characters that are worked on at a time, or a single value."""

_BYTES, _CHARACTERS = 7, 8

_SPREAD = (
    (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
    (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
    (0x007F007F007F007F, 0x3F803F803F803F80, 1),
)
"""56 bits become two times 28, four times 14, eight times 7: what stays, what moves up, and how far."""

_Item = TypeVar("_Item", bytes, str)


def to_texts(values: Sequence[bytes]) -> list[str]:
    return [text for group in _groups(values) for text in _texts([_packed(value) for value in group])]


def from_texts(texts: Sequence[str]) -> list[bytes]:
    return [_unpacked(packed) for group in _groups(texts) for packed in _bytes(group)]


def _groups(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """Small ones go together, as a call of numpy costs what hundred bytes do; all of a group fits into the cache."""
    group: list[_Item] = []
    size = 0
    for item in items:
        if group and size + len(item) > _TOGETHER:
            yield group
            group, size = [], 0
        group.append(item)
        size += len(item)
    if group:
        yield group


def _texts(packed: Sequence[bytes]) -> list[str]:
    joined = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, _BYTES)
    words = np.zeros((len(joined), _CHARACTERS), np.uint8)
    words[:, :_BYTES] = joined
    _spread(words.view("<u8"))
    text = words.tobytes().decode("ascii")
    return [text[span] for span in _parts([len(value) // _BYTES * _CHARACTERS for value in packed])]


def _bytes(texts: Sequence[str]) -> list[memoryview]:
    words = np.frombuffer(bytearray("".join(texts), "ascii"), np.uint8).reshape(-1, _CHARACTERS)
    _gather(words.view("<u8"))
    joined = memoryview(words[:, :_BYTES].tobytes())
    return [joined[span] for span in _parts([len(text) // _CHARACTERS * _BYTES for text in texts])]


def _parts(lengths: Sequence[int]) -> list[slice]:
    return [slice(end - length, end) for length, end in zip(lengths, accumulate(lengths), strict=True)]


def _packed(value: bytes) -> bytes:
    kept: bytes = pa.compress(value, _CODEC, asbytes=True) if len(value) >= _LEAST else value
    if len(kept) >= len(value):
        kept = value
    return b"".join((_HEADER.pack(len(value), len(kept)), kept, bytes(-(_HEADER.size + len(kept)) % _BYTES)))


def _unpacked(packed: memoryview) -> bytes:
    size, length = _HEADER.unpack_from(packed)
    kept = packed[_HEADER.size : _HEADER.size + length]
    return bytes(kept) if length == size else pa.decompress(kept, size, _CODEC, asbytes=True)


def _spread(words: np.ndarray) -> None:
    for stays, moves, bits in _SPREAD:
        moved = words & moves
        moved <<= bits
        words &= stays
        words |= moved


def _gather(words: np.ndarray) -> None:
    for stays, moves, bits in reversed(_SPREAD):
        moved = words >> bits
        moved &= moves
        words &= stays
        words |= moved
