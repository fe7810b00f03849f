"""Records that are all written like one of them: the same keys in the same order, with the same spaces.

That is what programs write, and it is found with a third of the work that records of any form need: where the quotes
are says where all values are, and the texts between them are compared with those of the first record, byte by byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from sqlstream.formats.json_structure import BACKSLASH, QUOTE, Level, Structure, Text, Tokens, check_scalars

_TRIED = 4
"""Records of a block that are tried as templates."""
_MANY = 256
_MEMBER = re.compile(
    rb"""[ \t\r\n]*[{,][ \t\r\n]*"(?P<key>[^"\\]*)"[ \t\r\n]*:[ \t\r\n]*"""
    rb"""(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<scalar>[^ \t\r\n"{}\[\],:\\]+))[ \t\r\n]*""",
    re.DOTALL,
)
_END = re.compile(rb"}[ \t\r\n]*")


@dataclass(frozen=True)
class _Place:
    """A position in a record: ``offset`` bytes behind its quote number ``quote``; -1 is the byte before the record."""

    quote: int
    offset: int


@dataclass(frozen=True)
class _Leaf:
    """A member of the template."""

    key: tuple[int, int]
    is_text: bool
    start: _Place
    end: _Place
    fixed: bytes
    """What stands between the value before and this one."""


@dataclass(frozen=True)
class _Template:
    leaves: tuple[_Leaf, ...]
    last: bytes
    """What stands behind the last value."""


def split(text: Text) -> tuple[list[Structure], np.ndarray, np.ndarray, np.ndarray]:
    """Separates the records that have the same keys in the same order and the same spacing, which are parsed fastest.

    Returns four things: a structure per such group of records (``roots`` are the indices of its records), the indices
    of all remaining records, and the start and end offsets of all records.
    """
    found = text.data == QUOTE
    found |= text.data == BACKSLASH
    found |= text.data == text.end
    tokens = Tokens(text, found)
    count = len(tokens.starts)
    last = np.flatnonzero(tokens.c == text.end)
    widths = np.diff(last)
    rest, never = np.ones(count, bool), np.zeros(count, bool)
    usable = (widths > 1) & ~tokens.odd
    untried = usable.copy()
    structures: list[Structure] = []
    for _ in range(_TRIED):
        tried = int(untried.argmax()) if count else 0
        if not _are_many(int(untried.sum()), count):
            break
        untried[tried] = False
        alike = np.flatnonzero(usable & rest & (widths == widths[tried]))
        start, end = int(tokens.starts[tried]), int(tokens.ends[tried])
        template = _template(text.data[start:end].tobytes(), int(widths[tried]) - 1)
        if template is None or not _are_many(len(alike), count):
            continue
        level, rows = _matched(tokens, last, alike, template, start)
        if _are_many(len(rows), count):
            rest[rows] = untried[rows] = False
            structures.append(Structure(text, tokens.starts, tokens.ends, never, never, tokens.escapes, rows, [level]))
    return structures, np.flatnonzero(rest), tokens.starts, tokens.ends


def _are_many(records: int, of: int) -> bool:
    """Whether a template pays for so many records of a block."""
    return 2 * records >= of > 0 or (records >= _MANY and 8 * records >= of)


def _template(record: bytes, quotes: int) -> _Template | None:
    """A flat object as a template; None for other records."""
    leaves: list[_Leaf] = []
    at = seen = before = 0
    while member := _MEMBER.match(record, at):
        if record[at : member.start("key")].lstrip().startswith(b"{") != (not leaves):
            return None
        is_text = member["text"] is not None
        start, end = member.span("text" if is_text else "scalar")
        if is_text:
            places = _Place(seen + 2, 1), _Place(seen + 3, 0)
        else:
            places = _Place(seen + 1, start - member.end("key")), _Place(seen + 2, 0)
        leaves.append(_Leaf(member.span("key"), is_text, *places, record[before:start]))
        seen += 4 if is_text else 2
        at, before = member.end(), end
    if not leaves or seen != quotes or not _END.fullmatch(record, at):
        return None
    # A scalar value ends before what stands between it and the next quote, or the end of the record.
    following = [leaf.fixed.index(b'"') for leaf in leaves[1:]] + [len(record) - before]
    for number, length in enumerate(following):
        leaf = leaves[number]
        if not leaf.is_text:
            leaves[number] = _Leaf(leaf.key, False, leaf.start, _Place(leaf.end.quote, -length), leaf.fixed)
    return _Template(tuple(leaves), record[before:])


def _matched(
    tokens: Tokens, last: np.ndarray, alike: np.ndarray, template: _Template, origin: int
) -> tuple[Level, np.ndarray]:
    """The members of the records that fit the template, and the numbers of these records."""
    text, width = tokens.text, int(last[alike[0] + 1] - last[alike[0]])
    if len(alike) == len(last) - 1:
        grid = tokens.p[1:].reshape(-1, width)
    else:
        grid = tokens.p[last[alike][:, None] + np.arange(1, width + 1)]
    fits = np.ones(len(alike), bool)
    before = tokens.starts[alike]
    starts, ends = (np.empty((len(template.leaves), len(alike)), np.intp) for _ in range(2))
    for number, leaf in enumerate(template.leaves):
        np.add(grid[:, leaf.start.quote], leaf.start.offset, out=starts[number])
        np.add(grid[:, leaf.end.quote], leaf.end.offset, out=ends[number])
        fits &= _is_fixed(text, before, starts[number], leaf.fixed)
        before = ends[number]
    fits &= _is_fixed(text, before, grid[:, -1], template.last)
    if not fits.all():
        alike, starts, ends = alike[fits], starts[:, fits], ends[:, fits]
    level = _level(text, template, starts, ends, alike, origin)
    scalars = np.flatnonzero(np.repeat([not leaf.is_text for leaf in template.leaves], len(alike)))
    good = check_scalars(text, level.kinds, level.starts, level.ends, scalars, level.plain, level.numbers)
    if good.all():
        return level, alike
    rows = np.ones(len(alike), bool)
    rows[scalars[~good] % len(alike)] = False
    level = _level(text, template, starts[:, rows], ends[:, rows], alike[rows], origin)
    scalars = np.flatnonzero(np.repeat([not leaf.is_text for leaf in template.leaves], len(alike[rows])))
    check_scalars(text, level.kinds, level.starts, level.ends, scalars, level.plain, level.numbers)
    return level, alike[rows]


def _is_fixed(text: Text, starts: np.ndarray, ends: np.ndarray, expected: bytes) -> np.ndarray:
    """Whether the bytes between two positions are the expected ones."""
    length = len(expected)
    equal: np.ndarray = ends - starts == length
    if length < 8:
        kept = np.uint64((1 << 8 * length) - 1)
        equal &= (text.words[starts] & kept) == np.uint64(int.from_bytes(expected, "little"))
        return equal
    for offset in {*range(0, length - 7, 8), length - 8}:
        word = np.uint64(int.from_bytes(expected[offset : offset + 8], "little"))
        equal &= text.words[starts + offset] == word
    return equal


def _level(
    text: Text, template: _Template, starts: np.ndarray, ends: np.ndarray, rows: np.ndarray, origin: int
) -> Level:
    columns, count = starts.shape
    begins, stops = starts.ravel(), ends.ravel()
    kinds = text.data[begins]
    for number, leaf in enumerate(template.leaves):
        if leaf.is_text:
            kinds[number * count : (number + 1) * count] = QUOTE
    keys = np.array([leaf.key for leaf in template.leaves], np.intp) + origin
    key_starts, key_ends = (np.repeat(edge, count) for edge in keys.T)
    owners = np.tile(np.arange(count), columns)
    none = np.zeros(len(begins), np.intp)
    plain, numbers = np.zeros(len(begins), bool), np.zeros(len(begins), np.int64)
    objects = np.ones(count, bool)
    return Level(
        rows, objects, owners, key_starts, key_ends, kinds, begins, stops, none, plain, numbers, columns=columns
    )
