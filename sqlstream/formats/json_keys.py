"""Which members of many objects have one of some names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sqlstream.formats.json_records import quoted
from sqlstream.formats.json_structure import Level
from sqlstream.formats.json_text import Text

_FIRST = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""The first bytes of a word, by their number."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LENGTH = np.uint64(0xC2B2AE3D27D4EB4F)
_OWNER = np.uint64(0x165667B19E3779F9)


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

    def columns(self, text: Text, level: Level, group: int) -> list[int]:
        """For a group of objects, which have the same keys in the same order: returns a list with the position of each
        field's key among the keys of an object, -1 where it is missing.

        ``text``, ``level``: the records, and their parsed objects. ``group``: the number of the group.
        """
        of_group = level.groups[group]
        first = level.first_members[group] + np.arange(of_group.keys) * of_group.size
        starts = level.key_starts[first]
        numbers = [-1] * len(self.names)
        for names, at in self._matches(text, starts, level.key_ends[first] - starts):
            for name, column in zip(names.tolist(), at.tolist(), strict=True):
                numbers[name] = column
        return numbers

    def repeated(self, text: Text, level: Level) -> list[int] | None:
        """For objects that all have the same keys in the same order, members of each after the other: returns a list
        with the position of each field's key among the keys of an object, -1 where it is missing. None for others.
        """
        width = level.width
        if not width or not level.objects.all():
            return None
        starts = level.key_starts.reshape(-1, width)
        lengths = level.key_ends.reshape(-1, width) - starts
        expected = lengths[0]
        if (lengths != expected).any():
            return None
        for offset in range(0, max(int(expected.max()), 1), 8):
            which = np.flatnonzero(expected > offset)
            words = text.words[starts[:, which] + offset] & _FIRST[np.minimum(expected[which] - offset, 8)]
            if (words != words[0]).any():
                return None
        numbers = [-1] * len(self.names)
        for names, at in self._matches(text, starts[0], expected):
            for name, column in zip(names.tolist(), at.tolist(), strict=True):
                numbers[name] = column
        return numbers

    def members(self, text: Text, level: Level, containers: np.ndarray) -> np.ndarray:
        """Returns a matrix of member indices, one row per field name and one column per JSON object.

        An entry is -1 where the object lacks the field. If an object has a key twice, the last one counts. ``level``:
        parsed objects of the records in ``text``. ``containers``: the indices in ``level`` of the objects to search.
        """
        table = np.full((len(self.names), len(containers)), -1, np.intp)
        ordered = not level.groups and len(containers) == len(level.objects)
        whole = ordered and bool((np.diff(containers) == 1).all())
        if whole:
            members, owners = np.arange(len(level.owners)), level.owners
        else:
            counts, members = level.members_of(containers)
            owners = np.repeat(np.arange(len(containers)), counts)
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


def with_repeated_keys(text: Text, levels: Sequence[Level]) -> list[np.ndarray]:
    """Returns, for each level of the records in ``text``, a mask of the containers in which an object, at any depth,
    may have a key twice: keys that are unlike each other count as one where their hashes are equal.
    """
    masks = [np.zeros(len(level.objects), bool) for level in levels]
    for depth in range(len(levels) - 1, 0, -1):
        level, mask = levels[depth], masks[depth]
        members = np.flatnonzero(level.objects[level.owners])
        owners, starts = level.owners[members], level.key_starts[members]
        lengths = level.key_ends[members] - starts
        kept = _FIRST[np.clip(lengths, 0, 8)]
        tails = text.words[np.maximum(starts + lengths - 8, starts)] & kept
        hashes = _hash(text.words[starts] & kept, tails, lengths) ^ (owners.astype(np.uint64) * _OWNER)
        order = np.argsort(hashes)
        mask[owners[order[1:][np.diff(hashes[order]) == 0]]] = True
        above = levels[depth - 1]
        masks[depth - 1][above.owners[level.parents[mask]]] = True
    return masks


def _hash(heads: np.ndarray, tails: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = (heads * _MIX) ^ (tails * _LENGTH) ^ lengths.astype(np.uint64)
    return mixed
