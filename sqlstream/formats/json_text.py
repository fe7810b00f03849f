"""The bytes of many JSON texts as one array: their pieces as texts of Arrow, and the numbers and words among them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.decoder import is_utf8, reuse_memory

QUOTE, BACKSLASH, COMMA, COLON, MINUS = b'"\\,:-'
OBJECT, ARRAY, TRUE, FALSE, NULL = b"{[tfn"
MISSING = 0
"""The kind of a value that is not there; other kinds are the first byte of the value, digits and minus for numbers."""

_MARGIN = 32
"""Bytes before and behind the records, so that eight bytes can be loaded at any of them."""
_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"


def is_one_of(characters: bytes) -> np.ndarray:
    """Whether each of the 256 bytes is one of the characters."""
    table = np.zeros(256, bool)
    table[list(characters)] = True
    return table


IS_NUMBER = is_one_of(b"-0123456789")
"""Whether a kind is a number."""


class Text:
    """The bytes of many records, separated by the byte ``end``, in an array that is parsed as a whole.

    ``data`` has padding before and after the records. ``words[i]`` is the eight bytes from offset i as one number.
    """

    def __init__(self, records: bytes | pa.Buffer | memoryview, end: int) -> None:
        reuse_memory()
        given = np.frombuffer(records, np.uint8)
        self.end = end
        closed = len(given) == 0 or given[-1] == end
        data = np.full(len(given) + 2 * _MARGIN, ord(" "), np.uint8)
        data[_MARGIN - 1] = end
        data[_MARGIN : _MARGIN + len(given)] = given
        if not closed:
            data[_MARGIN + len(given)] = end
        self.data = data
        # Eight bytes at any position, as one number.
        self.words = np.ndarray((len(data) - 7,), "<u8", buffer=data, strides=(1,))

    def positions(self, indices: np.ndarray) -> np.ndarray:
        """Converts offsets in ``data``, which is padded, into offsets in the records as they were passed in."""
        return np.asarray(indices - _MARGIN)

    def is_utf8(self) -> bool:
        """True where all records are valid UTF-8."""
        if self.end < 0x80:
            return is_utf8(self.data)
        return is_utf8(self.data + (self.data == self.end).view(np.uint8) * np.uint8(0x100 - self.end))  # a 0 for ends

    def slices(self, starts: np.ndarray, ends: np.ndarray, present: np.ndarray | None = None) -> pa.StringArray:
        """Returns an Arrow array of the texts from ``starts[i]`` to ``ends[i]``; NULL where ``present`` is false."""
        if not len(starts):
            return pa.array([], pa.string())
        offsets = np.full(2 * len(starts) + 1, len(self.data), np.int32)
        offsets[0:-1:2], offsets[1::2] = starts, ends
        # A text and what is between it and the next one in turns: only the texts are taken, in Arrow's own loop.
        pieces = pa.Array.from_buffers(
            pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        chosen = np.arange(0, len(offsets) - 1, 2, dtype=np.int32)
        return pieces.take(pa.array(chosen, mask=None if present is None else ~present))


def check_scalars(
    text: Text,
    kinds: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    scalars: np.ndarray,
    plain: np.ndarray,
    numbers: np.ndarray,
) -> np.ndarray:
    """Validates numbers, true, false and null, and parses integers.

    ``kinds``, ``starts``, ``ends``: the first byte and the offsets of each JSON value in ``text``. ``scalars``: the
    indices in these arrays of the values to check. Returns a mask that is true for each valid one. Writes to ``plain``
    whether a value is an integer that fits int64, and to ``numbers`` that integer.
    """
    s, e, kind = starts[scalars], ends[scalars], kinds[scalars]
    good = np.zeros(len(scalars), bool)
    for word, first in ((b"true", TRUE), (b"null", NULL), (b"false", FALSE)):
        which = np.flatnonzero(kind == first)
        tail = word[-4:]
        good[which] = (e[which] - s[which] == len(word)) & (
            (text.words[e[which] - 4] & np.uint64(0xFFFFFFFF)) == np.uint64(int.from_bytes(tail, "little"))
        )
    which = np.flatnonzero(IS_NUMBER[kind] & (s < e))
    is_plain, values = _whole_numbers(text, s[which], e[which])
    good[which] = is_plain
    plain[scalars[which]], numbers[scalars[which]] = is_plain, values
    rest = which[~is_plain]
    if len(rest):
        spelled = pc.match_substring_regex(text.slices(s[rest], e[rest]), _NUMBER)
        good[rest] = spelled.to_numpy(zero_copy_only=False)
    return good


_KEPT = np.array([((1 << 64) - 1) ^ ((1 << 8 * (8 - n)) - 1) for n in range(9)], np.uint64)
"""The last bytes of a word, by their number."""
_ZEROS = np.uint64(0x3030303030303030)
_OVER_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)


def _whole_numbers(text: Text, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which texts are whole numbers of int64, as JSON spells them, without -0; and the numbers, else 0."""
    negative = text.data[starts] == MINUS
    lengths = ends - starts - negative
    low, good = _eight_digits(text, ends, lengths)
    total = low
    for place in (1, 2):
        longer = np.flatnonzero(lengths > 8 * place)
        if not len(longer):
            break
        if place == 1:
            total = total.copy()
        more, digits = _eight_digits(text, ends[longer] - 8 * place, lengths[longer] - 8 * place)
        good[longer] &= digits
        total[longer] += more * np.uint64(10 ** (8 * place))
    zero = text.data[starts + negative] == ord("0")
    good &= (lengths >= 1) & (lengths <= 19) & ~(zero & ((lengths > 1) | negative))
    good &= total <= np.uint64((1 << 63) - 1)
    signed = total.view(np.int64)
    return good, np.where(good, np.where(negative, -signed, signed), 0)


def _eight_digits(text: Text, ends: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that the last eight digits before a position are, or fewer if there are fewer; and whether they are
    digits.
    """
    kept = _KEPT[np.clip(lengths, 0, 8)]
    digits = (text.words[ends - 8] ^ _ZEROS) & kept
    good = (((digits + _OVER_NINE) | digits) & _HIGH_BITS) == 0
    for ten, bits, mask in ((10, 8, 0x00FF00FF00FF00FF), (100, 16, 0x0000FFFF0000FFFF), (10000, 32, 0xFFFFFFFF)):
        digits = (digits * np.uint64(ten) + (digits >> np.uint64(bits))) & np.uint64(mask)
    return digits, good
