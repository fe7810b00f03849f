"""Which members of many objects have one of some names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sqlstream.formats.json_records import quoted
from sqlstream.formats.json_structure import Level, Text

_FIRST = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""The first bytes of a word, by their number."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LENGTH = np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True)
class _Table:
    """Names with different hashes: ``hashes`` in order, and the number of the name of each."""

    hashes: np.ndarray
    names: np.ndarray


@lru_cache(maxsize=256)
def keys(names: tuple[str, ...]) -> Keys:
    """Returns a ``Keys`` that finds the fields with these names, those of a table or STRUCT, in JSON objects. It is
    cached.
    """
    return Keys(names)


@dataclass(frozen=True)
class Keys:
    """Finds fields by name among the keys of many JSON objects at once. Names are compared byte by byte, as Flink
    does.
    """

    names: tuple[str, ...]

    def columns(self, text: Text, level: Level) -> list[int]:
        """For objects that all have the same keys in the same order: returns a list with the position of each field's
        key among the keys of an object, -1 where it is missing.

        ``text``, ``level``: the records, and their parsed objects.
        """
        starts = level.key_starts[:: len(level.objects)]
        lengths = level.key_ends[:: len(level.objects)] - starts
        numbers = [-1] * len(self.names)
        for names, at in self._matches(text, starts, lengths):
            for name, column in zip(names.tolist(), at.tolist(), strict=True):
                numbers[name] = column
        return numbers

    def members(self, text: Text, level: Level, containers: np.ndarray) -> np.ndarray:
        """Returns a matrix of member indices, one row per field name and one column per JSON object.

        An entry is -1 where the object lacks the field. If an object has a key twice, the last one counts. ``level``:
        parsed objects of the records in ``text``. ``containers``: the indices in ``level`` of the objects to search.
        """
        table = np.full((len(self.names), len(containers)), -1, np.intp)
        whole = len(containers) == len(level.objects) and bool((np.diff(containers) == 1).all())
        if whole:
            members, owners = np.arange(len(level.owners)), level.owners
        else:
            counts = level.counts[containers]
            owners = np.repeat(np.arange(len(containers)), counts)
            firsts = level.firsts[containers] - (np.cumsum(counts) - counts)
            members = np.arange(len(owners)) + np.repeat(firsts, counts)
        starts, lengths = level.key_starts[members], (level.key_ends - level.key_starts)[members]
        for names, at in self._matches(text, starts, lengths):
            table[names, owners[at]] = members[at]
        return table

    def _matches(self, text: Text, starts: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers of names, and which of the keys they are, in order."""
        kept = _FIRST[np.clip(lengths, 0, 8)]
        heads, tails = text.words[starts] & kept, text.words[np.maximum(starts + lengths - 8, starts)] & kept
        hashes = _hash(heads, tails, lengths)
        for table in self._tables:
            at = np.minimum(np.searchsorted(table.hashes, hashes), len(table.hashes) - 1)
            hits = np.flatnonzero(table.hashes[at] == hashes)
            names = table.names[at[hits]]
            equal = self._lengths[names] == lengths[hits]
            longest = int(self._lengths.max(initial=0))
            for place in range(0, longest, 8):
                longer = np.flatnonzero(equal & (self._lengths[names] > place))
                offset, word, kept = (column[names[longer], place // 8] for column in self._padded)
                equal[longer] &= (text.words[starts[hits[longer]] + offset] & kept) == word
            yield names[equal], hits[equal]

    @cached_property
    def _words(self) -> list[list[tuple[int, np.uint64, np.uint64]]]:
        """Each name as words of eight bytes: the offset, the word, and which of its bytes count."""
        split = []
        for spelled in self._spelled:
            places = range(0, max(len(spelled), 1), 8)
            split.append(
                [
                    (p, np.uint64(int.from_bytes(spelled[p : p + 8], "little")), _FIRST[min(len(spelled) - p, 8)])
                    for p in places
                ]
            )
        return split

    @cached_property
    def _padded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shape = (len(self.names), max((len(words) for words in self._words), default=1))
        offsets, words, kept = np.zeros(shape, np.intp), np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
        for name, split in enumerate(self._words):
            for place, (offset, word, mask) in enumerate(split):
                offsets[name, place], words[name, place], kept[name, place] = offset, word, mask
        return offsets, words, kept

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.array([len(spelled) for spelled in self._spelled], np.intp)

    @cached_property
    def _spelled(self) -> list[bytes]:
        """The names as ordinary keys are spelled, with escapes."""
        return [quoted(name)[1:-1].encode() for name in self.names]

    @cached_property
    def _tables(self) -> list[_Table]:
        """The names by hash; names with one hash are in different tables."""
        spelled = self._spelled
        heads = np.array([int.from_bytes(s[:8], "little") for s in spelled], np.uint64)
        tails = np.array([int.from_bytes(s[-8:] if len(s) >= 8 else s, "little") for s in spelled], np.uint64)
        hashes = _hash(heads, tails, self._lengths)
        rest = np.arange(len(spelled))
        tables = []
        while len(rest):
            distinct, first = np.unique(hashes[rest], return_index=True)
            tables.append(_Table(distinct, rest[first]))
            rest = np.delete(rest, first)
        return tables


def _hash(heads: np.ndarray, tails: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = (heads * _MIX) ^ (tails * _LENGTH) ^ lengths.astype(np.uint64)
    return mixed
