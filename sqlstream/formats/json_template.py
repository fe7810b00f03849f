"""Records that are all written like one of them: the same keys in the same order, with the same spaces.

That is what programs write, and it is found with a third of the work that records of any form need: where the quotes
are says where all values are, and the texts between them are compared with those of the first record, byte by byte.
Objects may be nested; arrays may not, because they have more elements in one record than in another.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from sqlstream.formats.json_structure import BACKSLASH, QUOTE, Level, Structure, Text, Tokens, check_scalars

_TRIED = 4
"""Records of a block that are tried as templates."""
_MANY = 256
_DEEPEST = 16
"""Objects around a value."""
_KEY = re.compile(rb"""[ \t\r\n]*"(?P<key>[^"\\]*)"[ \t\r\n]*:[ \t\r\n]*""")
_VALUE = re.compile(rb""""(?P<text>(?:[^"\\]|\\.)*)"|(?P<scalar>[^ \t\r\n"{}\[\],:\\]+)|(?P<object>\{)""", re.DOTALL)
_NEXT = re.compile(rb"[ \t\r\n]*(?P<mark>[,}])")
_BEGIN, _END = re.compile(rb"[ \t\r\n]*\{"), re.compile(rb"[ \t\r\n]*")


@dataclass(frozen=True)
class _Member:
    """A member of the template: where its key and its value begin and end. ``group``: the object that it is in, by its
    number among those of its depth. ``inner``: the same of the object that it is, -1 for other values.
    """

    key: tuple[int, int]
    value: tuple[int, int]
    group: int
    is_text: bool = False
    inner: int = -1


@dataclass
class _Template:
    """A record. ``depths``: its members by the number of objects around them, in their order. ``objects``: how many
    objects have the members of each depth. ``quotes``: the positions of all quotes.
    """

    record: bytes
    depths: list[list[_Member]] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    quotes: list[int] = field(default_factory=list)

    @property
    def members(self) -> list[_Member]:
        """All members, the outer ones first."""
        return [member for members in self.depths for member in members]

    def start(self, position: int) -> tuple[int, int]:
        """The number of the quote before a value, and how far from it the value begins."""
        quote = bisect_left(self.quotes, position) - 1
        return quote, position - self.quotes[quote]

    def end(self, position: int) -> tuple[int, int]:
        """The number of the quote behind a value, and how far from it the value ends; the end of the record is the last
        of them.
        """
        quote = bisect_left(self.quotes, position)
        return quote, position - [*self.quotes, len(self.record)][quote]

    def add(self, at: int, depth: int = 0) -> int:
        """Adds the object that begins at a position. Returns where it ends; 0 where it is no part of a template: it has
        an array or an object without members.
        """
        if depth == _DEEPEST:
            return 0
        if depth == len(self.depths):
            self.depths.append([])
            self.objects.append(0)
        group = self.objects[depth]
        self.objects[depth] += 1
        while True:
            key = _KEY.match(self.record, at + 1)
            value = None if key is None else _VALUE.match(self.record, key.end())
            if key is None or value is None:
                return 0
            self.quotes += [key.start("key") - 1, key.end("key")]
            if value["object"] is None:
                is_text, inner = value["text"] is not None, -1
                start, end = value.span("text" if is_text else "scalar")
                self.quotes += [start - 1, end] if is_text else []
                behind = value.end()
            else:
                is_text, inner = False, self.objects[depth + 1] if depth + 1 < len(self.objects) else 0
                start, end = value.start(), self.add(value.start(), depth + 1)
                behind = end
            following = _NEXT.match(self.record, behind) if behind else None
            if following is None:
                return 0
            self.depths[depth].append(_Member(key.span("key"), (start, end), group, is_text, inner))
            at = following.start("mark")
            if following["mark"] == b"}":
                return at + 1


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
        levels, rows = _matched(tokens, last, alike, template, start)
        if _are_many(len(rows), count):
            rest[rows] = untried[rows] = False
            structures.append(Structure(text, tokens.starts, tokens.ends, never, never, tokens.escapes, rows, levels))
    return structures, np.flatnonzero(rest), tokens.starts, tokens.ends


def _are_many(records: int, of: int) -> bool:
    """Whether a template pays for so many records of a block."""
    return 2 * records >= of > 0 or (records >= _MANY and 8 * records >= of)


def _template(record: bytes, quotes: int) -> _Template | None:
    """A record as a template; None for one that is no object, has arrays or empty objects, or not so many quotes."""
    template, begin = _Template(record), _BEGIN.match(record)
    end = template.add(begin.end() - 1) if begin is not None else 0
    fits = end and _END.fullmatch(record, end) and len(template.quotes) == quotes
    return template if fits else None


def _matched(
    tokens: Tokens, last: np.ndarray, alike: np.ndarray, template: _Template, origin: int
) -> tuple[list[Level], np.ndarray]:
    """The members of the records that fit the template, and the numbers of these records."""
    text, width = tokens.text, int(last[alike[0] + 1] - last[alike[0]])
    if len(alike) == len(last) - 1:
        grid = tokens.p[1:].reshape(-1, width)
    else:
        grid = tokens.p[last[alike][:, None] + np.arange(1, width + 1)]
    fits = np.ones(len(alike), bool)
    members = template.members
    starts, ends = (np.empty((len(members), len(alike)), np.intp) for _ in range(2))
    for number, member in enumerate(members):
        (opening, to_start), (closing, to_end) = template.start(member.value[0]), template.end(member.value[1])
        np.add(grid[:, opening], to_start, out=starts[number])
        np.add(grid[:, closing], to_end, out=ends[number])
    leaves = sorted((n for n, m in enumerate(members) if m.inner < 0), key=lambda n: members[n].value)
    before, behind = tokens.starts[alike], 0
    for number in leaves:
        start, end = members[number].value
        fits &= _is_fixed(text, before, starts[number], template.record[behind:start])
        before, behind = ends[number], end
    fits &= _is_fixed(text, before, grid[:, -1], template.record[behind:])
    if not fits.all():
        alike, starts, ends = alike[fits], starts[:, fits], ends[:, fits]
    found = _Members(text, template, starts, ends)
    if found.good.all():
        return found.levels(alike, origin), alike
    rows = found.good
    return _Members(text, template, starts[:, rows], ends[:, rows]).levels(alike[rows], origin), alike[rows]


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


class _Members:
    """The values of records that are alike: of each member of the template those of all records, one after the other.

    ``good`` is a mask of the records of which all numbers and words are spelled well.
    """

    def __init__(self, text: Text, template: _Template, starts: np.ndarray, ends: np.ndarray) -> None:
        self.template, self.count = template, starts.shape[1]
        self.starts, self.ends = starts.ravel(), ends.ravel()
        self.kinds = text.data[self.starts]
        members = template.members
        for number, member in enumerate(members):
            if member.is_text:
                self.kinds[number * self.count : (number + 1) * self.count] = QUOTE
        self.plain, self.numbers = np.zeros(len(self.starts), bool), np.zeros(len(self.starts), np.int64)
        scalars = np.flatnonzero(np.repeat([m.inner < 0 and not m.is_text for m in members], self.count))
        good = check_scalars(text, self.kinds, self.starts, self.ends, scalars, self.plain, self.numbers)
        self.good = np.ones(self.count, bool)
        if not good.all():
            self.good[scalars[~good] % self.count] = False

    def levels(self, rows: np.ndarray, origin: int) -> list[Level]:
        """The levels of the records. ``rows``: their numbers; ``origin``: where the template is in the text."""
        levels, first, parents = [], 0, rows
        each = np.arange(self.count)
        for members, objects in zip(self.template.depths, self.template.objects, strict=True):
            keys = np.array([member.key for member in members], np.intp) + origin
            key_starts, key_ends = (np.repeat(edge, self.count) for edge in keys.T)
            groups = np.array([member.group for member in members])
            inner = np.array([member.inner for member in members])
            owners = (groups[:, None] * self.count + each).ravel()
            children = (np.maximum(inner, 0)[:, None] * self.count + each).ravel() if (inner >= 0).any() else owners
            part = slice(first * self.count, (first + len(members)) * self.count)
            levels.append(
                Level(
                    parents, np.ones(objects * self.count, bool), owners, key_starts, key_ends, self.kinds[part],
                    self.starts[part], self.ends[part], children, self.plain[part], self.numbers[part],
                    tuple(np.bincount(groups).tolist()),
                )
            )  # fmt: skip
            parents = (np.flatnonzero(inner >= 0)[:, None] * self.count + each).ravel()
            first += len(members)
        return levels
