"""Records that are all written like one of them: the same keys in the same order, with the same spaces.

That is what programs write, and it is found with a third of the work that records of any form need: where the quotes
are says where all values are, and the texts between them are compared with those of the first record, byte by byte.
Objects may be nested, and have arrays of values or of objects that are alike, too, of any length: where an array ends
is where the next bracket is. There are no arrays within these arrays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sqlstream.formats.json_structure import Group, Level, Structure, Tokens
from sqlstream.formats.json_template import Array, Member, Object, Template
from sqlstream.formats.json_text import BACKSLASH, COMMA, QUOTE, Text, check_scalars

_TRIED = 4
"""Records of a block that are tried as templates."""
_MANY = 256

_Edges = tuple[np.ndarray, np.ndarray]
"""Where texts begin and end."""


def split(text: Text) -> tuple[list[Structure], np.ndarray, np.ndarray, np.ndarray]:
    """Separates the records that have the same keys in the same order and the same spacing, which are parsed fastest.

    Returns four things: a structure per such group of records (``roots`` are the indices of its records), the indices
    of all remaining records, and the start and end offsets of all records.
    """
    found = text.data == QUOTE
    found |= text.data == BACKSLASH
    found |= text.data == text.end
    marks = _Marks(Tokens(text, found))
    tokens, count = marks.tokens, len(marks.tokens.starts)
    usable = (marks.widths > 1) & ~tokens.odd
    untried = usable.copy()
    rest, never = np.ones(count, bool), np.zeros(count, bool)
    structures: list[Structure] = []
    for _ in range(_TRIED):
        tried = int(untried.argmax()) if count else 0
        if not _are_many(int(untried.sum()), count):
            break
        untried[tried] = False
        template, tried = _of_record(marks, tried, untried)
        if template is None:
            continue
        alike = marks.like(template, tried, usable & rest)
        if not _are_many(len(alike), count):
            continue
        levels, rows = _matched(marks, alike, template, int(tokens.starts[tried]))
        if _are_many(len(rows), count):
            rest[rows] = untried[rows] = False
            structures.append(Structure(text, tokens.starts, tokens.ends, never, never, tokens.escapes, rows, levels))
    return structures, np.flatnonzero(rest), tokens.starts, tokens.ends


def _are_many(records: int, of: int) -> bool:
    """Whether a template pays for so many records of a block."""
    return 2 * records >= of > 0 or (records >= _MANY and 8 * records >= of)


def _of_record(marks: _Marks, tried: int, others: np.ndarray) -> tuple[Template | None, int]:
    """The template of a record, and the number of the record. Where one of its arrays is empty, the longest one of the
    others may show what elements are like.
    """
    template = marks.template(tried)
    if template is None or not template.lacks:
        return template, tried
    longest = int(np.where(others, marks.tokens.ends - marks.tokens.starts, -1).argmax())
    longer = marks.template(longest) if others[longest] else None
    return (longer, longest) if longer is not None and longer.lacks < template.lacks else (template, tried)


class _Marks:
    """Where the quotes are in records, and the brackets and commas where they are asked for. ``widths``: how many
    quotes and ends each record has.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens, self.data = tokens, tokens.text.data
        self.last = np.flatnonzero(tokens.c == tokens.text.end)
        self.widths = np.diff(self.last)

    @cached_property
    def opens(self) -> np.ndarray:
        """The positions of all ``[``."""
        return np.flatnonzero(self.data == ord("["))

    @cached_property
    def closes(self) -> np.ndarray:
        """The positions of all ``]``."""
        return np.flatnonzero(self.data == ord("]"))

    @cached_property
    def commas(self) -> np.ndarray:
        """The positions of all commas."""
        return np.flatnonzero(self.data == COMMA)

    @cached_property
    def brackets(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Of both brackets: how many are before each record, and how many in it."""
        edges = []
        for positions in (self.opens, self.closes):
            before = np.searchsorted(positions, self.tokens.starts)
            edges.append((before, np.searchsorted(positions, self.tokens.ends) - before))
        return tuple(edges)

    def template(self, record: int) -> Template | None:
        """A record as a template; None where it is none."""
        start, end = int(self.tokens.starts[record]), int(self.tokens.ends[record])
        template = Template.of(self.data[start:end].tobytes())
        if template is not None and not template.arrays and len(template.quotes) != self.widths[record] - 1:
            return None
        return template

    def like(self, template: Template, tried: int, usable: np.ndarray) -> np.ndarray:
        """The numbers of the usable records that may be like the template, which is the record ``tried``."""
        if not template.arrays:
            return np.flatnonzero(usable & (self.widths == self.widths[tried]))
        (_, opens), (_, closes) = self.brackets
        return np.flatnonzero(usable & (opens == len(template.arrays)) & (closes == len(template.arrays)))


@dataclass
class _Texts:
    """Texts like a template: records, or elements of an array. ``quote`` gives the positions of the quote with a number
    in each of them, ``arrays`` where their arrays begin and end.
    """

    template: Template
    starts: np.ndarray
    ends: np.ndarray
    quote: Callable[[int], np.ndarray]
    arrays: Sequence[_Edges] = ()

    def value(self, member: Member) -> _Edges:
        """Where the values of a member begin and end, if the texts are like the template."""
        if isinstance(member.inner, Array):
            return self.arrays[member.inner.number - 1]
        quotes, (start, end) = self.template.quotes, member.value
        opening, closing = bisect_left(quotes, start) - 1, bisect_left(quotes, end)
        ends = self.ends if closing == len(quotes) else self.quote(closing)
        behind = self.template.end if closing == len(quotes) else quotes[closing]
        return self.quote(opening) + (start - quotes[opening]), ends + (end - behind)

    def fit(self, text: Text) -> tuple[np.ndarray, dict[int, _Edges]]:
        """Which of the texts have the same bytes between their values as the template; and the values, by column."""
        template = self.template
        fits, found = np.ones(len(self.starts), bool), dict[int, _Edges]()
        before, behind = self.starts, template.start
        for leaf in template.leaves:
            found[leaf.column] = starts, ends = self.value(leaf)
            fits &= _is_fixed(text, before, starts, template.record[behind : leaf.value[0]])
            before, behind = ends, leaf.value[1]
        fits &= _is_fixed(text, before, self.ends, template.record[behind : template.end])
        found.update((member.column, self.value(member)) for member in template.objects)
        return fits, found


def _is_fixed(text: Text, starts: np.ndarray, ends: np.ndarray, expected: bytes) -> np.ndarray:
    """Whether the bytes between two positions are the expected ones."""
    length = len(expected)
    equal: np.ndarray = ends - starts == length
    if length < 8:
        kept = np.uint64((1 << 8 * length) - 1)
        equal &= (text.words[starts] & kept) == np.uint64(int.from_bytes(expected, "little"))
        return equal
    if not equal.all():  # behind the last record there are not so many bytes
        starts = np.where(equal, starts, 0)
    for offset in {*range(0, length - 7, 8), length - 8}:
        word = np.uint64(int.from_bytes(expected[offset : offset + 8], "little"))
        equal &= text.words[starts + offset] == word
    return equal


def _matched(marks: _Marks, alike: np.ndarray, template: Template, origin: int) -> tuple[list[Level], np.ndarray]:
    """The members of the records that fit the template, and the numbers of these records. ``origin``: where the
    template is in the text.
    """
    text = marks.tokens.text
    quotes, alike = (_quotes_in_segments if template.arrays else _quotes_in_grid)(marks, alike, template)
    starts, ends = marks.tokens.starts[alike], marks.tokens.ends[alike]
    arrays = [_brackets_of(marks, alike, number) for number in range(len(template.arrays))]
    fits, found = _Texts(template, starts, ends, quotes, arrays).fit(text)
    counts = []
    for array, edges in zip(template.arrays, arrays, strict=True):
        elements = _Elements(marks, array, edges)
        good, of_elements = elements.fit()
        if not good.all():
            fits &= np.bincount(elements.owners[~good], minlength=len(fits)) == 0
        fits &= elements.fits
        found |= of_elements
        counts.append(elements.counts)
    edges_of_all = zip(*(found[number] for number in range(len(found))), strict=True)
    values = _Values(template, len(alike), counts, *(np.concatenate(edges) for edges in edges_of_all))
    if not fits.all():
        values, alike = values.of(fits), alike[fits]
    good = values.read(text)
    if not good.all():
        values, alike = values.of(good), alike[good]
        values.read(text)
    return values.levels(alike, origin), alike


def _brackets_of(marks: _Marks, alike: np.ndarray, number: int) -> _Edges:
    """Where the array with a number begins and ends in each record."""
    (opens, _), (closes, _) = marks.brackets
    return marks.opens[opens[alike] + number], marks.closes[closes[alike] + number] + 1


def _quotes_in_grid(
    marks: _Marks, alike: np.ndarray, template: Template
) -> tuple[Callable[[int], np.ndarray], np.ndarray]:
    """The quotes of records without arrays, of which all have as many."""
    width = len(template.quotes) + 1
    if len(alike) == len(marks.widths):
        grid = marks.tokens.p[1:].reshape(-1, width)
    else:
        grid = marks.tokens.p[marks.last[alike][:, None] + np.arange(1, width + 1)]
    return (lambda number: grid[:, number]), alike


def _quotes_in_segments(
    marks: _Marks, alike: np.ndarray, template: Template
) -> tuple[Callable[[int], np.ndarray], np.ndarray]:
    """The quotes of records with arrays, which are counted from the end of the array before; and the records that have
    as many quotes before, between and behind their arrays as the template.
    """
    quotes, p = template.quotes, marks.tokens.p
    bases, limits = [marks.last[alike] + 1], []
    for number in range(len(template.arrays)):
        begin, end = _brackets_of(marks, alike, number)
        limits.append(np.searchsorted(p, begin))
        bases.append(np.searchsorted(p, end))
    limits.append(marks.last[alike + 1])
    firsts = [0, *(template.segment(array.span[1])[1] for array in template.arrays), len(quotes)]
    fits = np.ones(len(alike), bool)
    for base, limit, first, behind in zip(bases, limits, firsts[:-1], firsts[1:], strict=True):
        fits &= limit - base == behind - first
    if not fits.all():
        alike, bases = alike[fits], [base[fits] for base in bases]

    def quote(number: int) -> np.ndarray:
        segment, first = template.segment(quotes[number])
        positions: np.ndarray = p[bases[segment] + (number - first)]
        return positions

    return quote, alike


class _Elements:
    """The elements of an array in all records. ``counts``: how many each record has; ``owners``: the record of each.
    ``fits``: which records have as many quotes in the array as its elements need.
    """

    def __init__(self, marks: _Marks, array: Array, edges: _Edges) -> None:
        self.marks, self.array = marks, array
        self.opens, self.closes = edges[0], edges[1] - 1
        p = marks.tokens.p
        self._begins = np.searchsorted(p, self.opens)
        self._quotes = np.searchsorted(p, self.closes) - self._begins
        self._of_each = 2 if array.template is None else len(array.template.quotes)
        empty = self.closes - self.opens == 1
        if array.elements and array.template is None and not array.elements[0].is_text:
            self._begins = np.searchsorted(marks.commas, self.opens)
            commas = np.searchsorted(marks.commas, self.closes) - self._begins
            self.fits, self.counts = self._quotes == 0, np.where(empty, 0, commas + 1)
        else:
            self.counts, more = np.divmod(self._quotes, self._of_each)
            self.fits = (more == 0) & (empty == (self.counts == 0))
            self.fits &= empty | bool(array.elements)
        self.counts = np.where(self.fits, self.counts, 0)
        self.owners = np.repeat(np.arange(len(self.counts)), self.counts)
        behind = np.cumsum(self.counts)
        self._places = np.arange(len(self.owners)) - np.repeat(behind - self.counts, self.counts)
        self._is_last = np.zeros(len(self.owners), bool)
        self._is_last[behind[self.counts > 0] - 1] = True

    def fit(self) -> tuple[np.ndarray, dict[int, _Edges]]:
        """Which elements are like that of the template, and the values in them by column."""
        if not self.array.elements:
            return np.ones(0, bool), {}
        element, text = self.array.elements[0], self.marks.tokens.text
        if self.array.template is not None:
            return self._objects(self.array.template, element)
        starts, ends = self._texts() if element.is_text else self._scalars()
        return self._divided(text, starts - element.is_text, ends + element.is_text), {element.column: (starts, ends)}

    def _objects(self, template: Template, element: Member) -> tuple[np.ndarray, dict[int, _Edges]]:
        p = self.marks.tokens.p
        firsts = self._begins[self.owners] + self._places * self._of_each
        starts = p[firsts] - (template.quotes[0] - template.start)
        ends = self.closes[self.owners]
        further = np.flatnonzero(~self._is_last)
        ends[further] = starts[further + 1] - len(self.array.separator)
        texts = _Texts(template, starts, ends, lambda number: p[firsts + number])
        good = self._divided(self.marks.tokens.text, starts, ends)
        fits, found = texts.fit(self.marks.tokens.text)
        return good & fits, found | {element.column: (starts, ends)}

    def _texts(self) -> _Edges:
        p, firsts = self.marks.tokens.p, self._begins[self.owners] + 2 * self._places
        return p[firsts] + 1, p[firsts + 1]

    def _scalars(self) -> _Edges:
        """Between the commas, which are no part of texts, as there are no quotes."""
        before = self.array.separator.index(b",")
        behind = len(self.array.separator) - before
        starts, ends = self.opens[self.owners] + 1, self.closes[self.owners]
        commas = self._begins[self.owners] + self._places
        later, further = np.flatnonzero(self._places > 0), np.flatnonzero(~self._is_last)
        starts[later] = self.marks.commas[commas[later] - 1] + behind
        ends[further] = self.marks.commas[commas[further]] - before
        return starts, ends

    def _divided(self, text: Text, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Which elements begin where the array does, or the separator before ends, and so on."""
        good = np.where(self._places == 0, starts == self.opens[self.owners] + 1, True)
        good &= np.where(self._is_last, ends == self.closes[self.owners], True)
        further = np.flatnonzero(~self._is_last)
        good[further] &= _is_fixed(text, ends[further], starts[further + 1], self.array.separator)
        return good & (starts <= ends)


class _Values:
    """Where the values of records that are alike begin and end: of each member of the template those of all records,
    one after the other.

    ``count``: how many records there are. ``counts``: for each array how many elements each of them has.
    """

    def __init__(
        self, template: Template, count: int, counts: Sequence[np.ndarray], starts: np.ndarray, ends: np.ndarray
    ) -> None:
        self.template, self.count, self.counts, self.starts, self.ends = template, count, counts, starts, ends
        sizes = [count, *(int(each.sum()) for each in counts)]
        self._spaces = [
            node.space if isinstance(node, Object) else node.number
            for nodes in template.nodes
            for node in nodes
            for _ in node.members
        ]
        self.edges = np.cumsum([0, *(sizes[space] for space in self._spaces)]).tolist()

    def of(self, records: np.ndarray) -> _Values:
        """Those of some of the records, for which the mask is true."""
        masks = [records, *(np.repeat(records, each) for each in self.counts)]
        chosen = np.concatenate([masks[space] for space in self._spaces])
        counts = [each[records] for each in self.counts]
        return _Values(self.template, int(records.sum()), counts, self.starts[chosen], self.ends[chosen])

    def read(self, text: Text) -> np.ndarray:
        """Reads the kinds and whole numbers of all values. Returns a mask of the records of which all numbers and words
        are spelled well.
        """
        members = self.template.members
        self.kinds = text.data[self.starts]
        for member, first, last in zip(members, self.edges, self.edges[1:], strict=False):
            if member.is_text:
                self.kinds[first:last] = QUOTE
        is_scalar = [member.inner is None and not member.is_text for member in members]
        scalars = np.flatnonzero(np.repeat(is_scalar, np.diff(self.edges)))
        self.plain, self.numbers = np.zeros(len(self.starts), bool), np.zeros(len(self.starts), np.int64)
        well = check_scalars(text, self.kinds, self.starts, self.ends, scalars, self.plain, self.numbers)
        good = np.ones(self.count, bool)
        if not well.all():
            owners = [np.arange(self.count), *(np.repeat(np.arange(self.count), each) for each in self.counts)]
            good[np.concatenate([owners[space] for space in self._spaces])[scalars[~well]]] = False
        return good

    def levels(self, rows: np.ndarray, origin: int) -> list[Level]:
        """The levels of the records. ``rows``: their numbers; ``origin``: where the template is in the text."""
        levels: list[Level] = []
        parents, column = [rows], 0
        for nodes in self.template.nodes:
            columns = sum(len(node.members) for node in nodes)
            part = slice(self.edges[column], self.edges[column + columns])
            parts = _Parts()
            for node, of in zip(nodes, parents, strict=True):
                counts = self.counts[node.number - 1] if isinstance(node, Array) else None
                parts.add(node.members, len(of), counts, origin)
            levels.append(
                Level(
                    np.concatenate(parents), np.concatenate(parts.objects), _joined(parts.owners),
                    _joined(parts.key_starts), _joined(parts.key_ends), self.kinds[part], self.starts[part],
                    self.ends[part], _joined(parts.children), self.plain[part], self.numbers[part],
                    tuple(parts.groups),
                )
            )  # fmt: skip
            parents, column = parts.inner, column + columns
        return levels


@dataclass
class _Parts:
    """What the groups of a level are made of. ``inner``: for each of the objects and arrays in them the members that
    they are in all records.
    """

    groups: list[Group] = field(default_factory=list)
    objects: list[np.ndarray] = field(default_factory=list)
    owners: list[np.ndarray] = field(default_factory=list)
    key_starts: list[np.ndarray] = field(default_factory=list)
    key_ends: list[np.ndarray] = field(default_factory=list)
    children: list[np.ndarray] = field(default_factory=list)
    inner: list[np.ndarray] = field(default_factory=list)
    _containers: int = 0
    _members: int = 0
    _inner: int = 0

    def add(self, members: Sequence[Member], size: int, counts: np.ndarray | None, origin: int) -> None:
        """Adds as many objects or arrays, of which all have the members, or as many elements as ``counts`` says."""
        self.groups.append(Group(size, len(members) if counts is None else 0, counts))
        self.objects.append(np.full(size, counts is None))
        owners = np.arange(self._containers, self._containers + size)
        owners = owners if counts is None else np.repeat(owners, counts)
        for member in members:
            self.owners.append(owners)
            self.key_starts.append(np.full(len(owners), member.key[0] + origin))
            self.key_ends.append(np.full(len(owners), member.key[1] + origin))
            numbers = np.arange(len(owners))
            self.children.append(numbers + (self._inner if member.inner is not None else 0))
            if member.inner is not None:
                self.inner.append(numbers + self._members)
                self._inner += len(owners)
            self._members += len(owners)
        self._containers += size


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, np.intp)
