"""Numbers of the binary log of MySQL and MariaDB: what their bytes are, and the digits that spell them.

Values of one size are the rows of a matrix of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.binlog import decimal_bytes

Part = tuple[np.ndarray, int] | str
"""Numbers with so many digits, or what is between them."""


def matrix_of(data: np.ndarray, starts: np.ndarray, size: int) -> np.ndarray:
    """The ``size`` bytes at each of these positions."""
    matrix: np.ndarray = data[starts[:, None] + np.arange(size)]
    return matrix


def little(matrix: np.ndarray) -> np.ndarray:
    """Unsigned numbers whose lowest byte is the first."""
    number = np.zeros(len(matrix), np.uint64)
    for n in range(matrix.shape[1]):
        number |= matrix[:, n].astype(np.uint64) << np.uint64(8 * n)
    return number


def big(matrix: np.ndarray) -> np.ndarray:
    """Unsigned numbers whose highest byte is the first."""
    return little(matrix[:, ::-1])


def integers(matrix: np.ndarray, *, unsigned: bool) -> pa.Array:
    """Whole numbers whose lowest byte is the first, as texts."""
    numbers = little(matrix)
    if not unsigned:
        unused = np.uint64(64 - 8 * matrix.shape[1])
        numbers = (numbers << unused).view(np.int64) >> unused.astype(np.int64)
    return pa.array(numbers).cast(pa.string())


def decimals(matrix: np.ndarray, digits: int, scale: int) -> pa.Array:
    """Values of DECIMAL(digits, scale) as texts. Nine digits are in four bytes, fewer in as few as hold them; of
    numbers below zero all bits are inverted, and the highest bit is the sign, inverted.
    """
    negative = matrix[:, 0] < 0x80
    bits = matrix.copy()
    bits[negative] = ~bits[negative]
    bits[:, 0] ^= np.where(negative, 0, 0x80).astype(np.uint8)
    bits[:, 0] &= 0x7F
    whole = digits - scale
    groups = [*([whole % 9] if whole % 9 else []), *[9] * (whole // 9), *[9] * (scale // 9)]
    groups += [scale % 9] if scale % 9 else []
    parts, at = [], 0
    for count in groups:
        size = decimal_bytes(count, 0)
        parts.append(digits_of(big(bits[:, at : at + size]).astype(np.int64), count))
        at += size
    figures = np.concatenate(parts, axis=1)
    before = pc.utf8_ltrim(_texts(figures[:, :whole]), "0") if whole else pa.array([""] * len(matrix), pa.string())
    before = pc.if_else(pc.equal(before, ""), "0", before)
    sign = signs(negative)
    if not scale:
        return pc.binary_join_element_wise(sign, before, "")
    return pc.binary_join_element_wise(sign, before, ".", _texts(figures[:, whole:]), "")


def signs(negative: np.ndarray) -> pa.Array:
    """A minus sign where a number is below zero, else nothing."""
    return pa.array(["", "-"], pa.string()).take(pa.array(negative.astype(np.int64)))


def digits_of(numbers: np.ndarray, count: int) -> np.ndarray:
    """The last ``count`` digits of numbers, as characters."""
    powers = 10 ** np.arange(count - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def spelled(parts: Sequence[Part], count: int) -> pa.Array:
    """Texts of the same length, of numbers with so many digits and of what is between them."""
    columns = [
        np.full((count, 1), ord(part), np.uint8) if isinstance(part, str) else digits_of(part[0], part[1])
        for part in parts
    ]
    return _texts(np.concatenate(columns, axis=1))


def _texts(characters: np.ndarray) -> pa.Array:
    rows, width = characters.shape
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(width))
    content = pa.py_buffer(np.ascontiguousarray(characters))
    return pa.Array.from_buffers(pa.string(), rows, [None, offsets, content])


# --- times ----------------------------------------------------------------------------------------------------


def dates(months: np.ndarray, day: np.ndarray) -> list[Part]:
    """The parts of a date. ``months``: of all years, thirteen in each, as there may be a month 0."""
    return [(months // 13, 4), "-", (months % 13, 2), "-", (day, 2)]


def clock(packed: np.ndarray, hour_digits: int = 2) -> list[Part]:
    """The parts of a time of day or of a span of time, whose seconds and minutes are six bits each."""
    hour = packed >> 12 & (31 if hour_digits == 2 else 1023)
    return [(hour, hour_digits), ":", (packed >> 6 & 63, 2), ":", (packed & 63, 2)]


def spans(packed: np.ndarray, negative: np.ndarray, fraction: Sequence[Part]) -> pa.Array:
    """Spans of time with ``fraction`` behind the seconds: hours may be three digits, and spans below zero."""
    long = spelled([*clock(packed, 3), *fraction], len(packed))
    short = pc.if_else(pc.starts_with(long, "0"), pc.utf8_slice_codeunits(long, 1), long)
    return pc.binary_join_element_wise(signs(negative), short, "")
