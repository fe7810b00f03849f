"""How texts become values of one type: the whole column at once, and where that fails, only what stops it exactly.

What Arrow's cast reads is found by a regular expression then, which costs a tenth of the exact way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.types import DataType

BLANKS = "".join(map(chr, range(0x21)))
"""White space around a text, as ``String.trim`` of Java sees it."""


@dataclass(frozen=True)
class TextRule(ABC):
    """Converts texts into values of one scalar type. Instances are picklable.

    ``zone``: the session's time zone. ``standard``: the required form of timestamps, "SQL" or "ISO-8601"; None accepts
    both.
    """

    kind: DataType
    zone: str = "UTC"
    standard: str | None = None

    def read(self, texts: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, np.ndarray]:
        """Returns a pair: the values in the type's Arrow type, and a mask that is true for each text that is not valid
        for the type. Its value is NULL.
        """
        column = in_one_piece(texts).cast(pa.string())
        try:
            values = self.whole(column)
        except pa.ArrowInvalid:
            values = self._mixed(column, self.plain())
        return values, self.misfits(column, values)

    def misfits(self, texts: pa.Array, values: pa.Array) -> np.ndarray:
        """Returns a mask of the texts that were not valid for the type: it is true where the text is not NULL but its
        value is.
        """
        if values.null_count == texts.null_count:
            return np.zeros(len(texts), bool)
        misfits: np.ndarray = pc.and_(pc.is_valid(texts), pc.is_null(values)).to_numpy(zero_copy_only=False)
        return misfits

    def whole(self, texts: pa.Array) -> pa.Array:
        """Converts all texts with one fast cast. Raises ArrowInvalid where the cast might be wrong for one of them."""
        return self.cast(texts)

    @abstractmethod
    def cast(self, texts: pa.Array) -> pa.Array:
        """Converts all texts with Arrow's cast. Raises ArrowInvalid where it rejects one of them."""

    def each(self, texts: pa.Array) -> pa.Array:
        """Converts the texts by the complete but slow rules of the type. Texts that are not valid become NULL."""
        return self.whole(texts)

    def plain(self) -> Sequence[str]:
        """Returns regular expressions of texts that ``cast`` converts correctly. Texts of different patterns are cast
        separately.
        """
        return ()

    def is_plain(self, texts: pa.Array, pattern: str) -> pa.Array:
        """Returns a mask of the texts that match one of the patterns of ``plain``."""
        return pc.match_substring_regex(texts, pattern).fill_null(False)

    def _mixed(self, texts: pa.Array, patterns: Sequence[str]) -> pa.Array:
        if not patterns or not len(texts):
            return self.each(texts)
        is_plain = self.is_plain(texts, patterns[0])
        values = self.cast(where(is_plain, texts))
        is_odd = pc.and_not(pc.is_valid(texts), is_plain)
        return pc.replace_with_mask(values, is_odd, self._mixed(texts.filter(is_odd), patterns[1:]))


def in_one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array. Arrow's ``combine_chunks`` copies a single chunk, too."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def trimmed(texts: pa.Array) -> pa.Array:
    """Returns the texts without leading and trailing white space."""
    return pc.ascii_trim(texts, BLANKS)


def where(condition: pa.Array | np.ndarray, values: pa.Array) -> pa.Array:
    """Returns ``values`` with NULL wherever ``condition`` is not true."""
    return pc.if_else(pa.array(condition) if isinstance(condition, np.ndarray) else condition, values, None)


def offsets_of(texts: pa.Array) -> np.ndarray:
    """Returns the n + 1 byte offsets of a ``pa.StringArray`` of n texts in its data buffer."""
    offsets = texts.buffers()[1]
    if offsets is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int32)
    return np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]


def bytes_of(texts: pa.Array) -> np.ndarray:
    """Returns the data buffer of a ``pa.StringArray`` as an array of bytes."""
    data = texts.buffers()[2]
    return np.frombuffer(data or b"", np.uint8)


def has_byte(texts: pa.Array, *characters: str) -> bool:
    """True where one of these ASCII characters occurs in one of the texts."""
    offsets = offsets_of(texts)
    data = bytes_of(texts)[offsets[0] : offsets[-1]]
    return any(bool((data == ord(c)).any()) for c in characters)
