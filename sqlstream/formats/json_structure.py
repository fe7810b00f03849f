"""The structure of many JSON texts at once: where each object, array, key and value begins and ends.

As simdjson does it, in two stages, here over numpy arrays. First all structural characters outside strings are found;
then the containers of each depth, with all their members, are cut and checked together, whatever the order of their
keys. A record in which anything is out of the ordinary is only marked as odd: nothing is decided about it here. What
is not marked is valid JSON, one object.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from sqlstream.formats.decoder import is_utf8
from sqlstream.formats.json_text import (
    BACKSLASH,
    COLON,
    COMMA,
    MISSING,
    OBJECT,
    QUOTE,
    Text,
    check_scalars,
    is_one_of,
)

DEEPEST = 64
"""Levels of nesting that are read together; deeper records are odd."""

_INNER_OPEN, _INNER_CLOSE = 1, 2
"""How the ends of a nested container are spelled among the tokens of the level around it."""

_BLANK = is_one_of(b" \t\r\n")
_ESCAPED = is_one_of(b'"\\/bfnrtu')
_HEX = is_one_of(b"0123456789abcdefABCDEF")


def _opens(characters: np.ndarray) -> np.ndarray:
    opening: np.ndarray = (characters | 0x20) == ord("{")
    return opening


def _closes(characters: np.ndarray) -> np.ndarray:
    closing: np.ndarray = (characters | 0x20) == ord("}")
    return closing


class Group(NamedTuple):
    """Containers of a level that are alike: objects with the same keys in the same order, or arrays.

    ``size``: how many containers these are. ``keys``: how many keys each object has. ``counts``: how many elements each
    array has; None for objects.
    """

    size: int
    keys: int = 0
    counts: np.ndarray | None = None

    @property
    def members(self) -> int:
        """How many members all of the containers have."""
        return self.size * self.keys if self.counts is None else int(self.counts.sum())


def _starts(counts: np.ndarray) -> np.ndarray:
    """Where the members of each container begin, if they follow each other."""
    starts: np.ndarray = np.cumsum(counts) - counts
    return starts


@dataclass
class Level:
    """All JSON objects and arrays ("containers") of one nesting depth, with their members, as arrays.

    Per container: ``parents`` (the index of the member that it is in the level above; in the first level, of its
    record) and ``objects`` (true for objects, false for arrays).

    Per member, in text order: ``owners`` (its container), ``key_starts`` and ``key_ends`` (offsets of the key without
    quotes), ``kinds`` (the first byte of the value), ``starts`` and ``ends`` (offsets of the value, of strings without
    quotes), ``children`` (its container in the next level, if the value is nested), ``plain`` (true for integers that
    fit int64, except -0) and ``numbers`` (that integer).
    """

    parents: np.ndarray
    objects: np.ndarray
    owners: np.ndarray
    key_starts: np.ndarray
    key_ends: np.ndarray
    kinds: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    children: np.ndarray
    plain: np.ndarray
    numbers: np.ndarray
    groups: tuple[Group, ...] = ()
    """Where the containers are groups of such as are alike. Members are in the order of the groups; those of objects in
    the order of the keys first, and then of the containers.
    """

    @cached_property
    def counts(self) -> np.ndarray:
        """How many members each container (object or array) has, as an array."""
        return np.bincount(self.owners, minlength=len(self.objects))

    @cached_property
    def firsts(self) -> np.ndarray:
        """The index of the first member of each container (object or array), as an array."""
        if not self.groups:
            return _starts(self.counts)
        of_groups = zip(self.groups, self.first_members, strict=True)
        return np.concatenate(
            [n + (np.arange(g.size) if g.counts is None else _starts(g.counts)) for g, n in of_groups]
        )

    @cached_property
    def width(self) -> int:
        """How many members each container has; 0 where they have different numbers of them."""
        counts = self.counts
        return int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0

    @cached_property
    def first_members(self) -> list[int]:
        """The index of the first member of each group."""
        return [*accumulate((group.members for group in self.groups[:-1]), initial=0)]

    @cached_property
    def _first_containers(self) -> list[int]:
        return [*accumulate((group.size for group in self.groups[:-1]), initial=0)]

    @cached_property
    def _strides(self) -> np.ndarray:
        """How far the members of each container are from each other."""
        strides = [group.size if group.counts is None else 1 for group in self.groups]
        return np.repeat(strides, [group.size for group in self.groups])

    def group_of(self, containers: np.ndarray) -> int | None:
        """Returns the number of the group that these are all containers of, in order; None where they are no group."""
        if not self.groups or not len(containers):
            return None
        number = bisect_right(self._first_containers, int(containers[0])) - 1
        whole = self._first_containers[number] == containers[0] and self.groups[number].size == len(containers)
        return number if whole and bool((np.diff(containers) == 1).all()) else None

    def members_of(self, containers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns how many members each of the containers has, and the indices of these, container by container."""
        counts, firsts = self.counts[containers], self.firsts[containers]
        numbers = np.arange(int(counts.sum())) - np.repeat(_starts(counts), counts)
        if self.groups:
            numbers *= np.repeat(self._strides[containers], counts)
        return counts, numbers + np.repeat(firsts, counts)

    def elements_of(self, containers: np.ndarray) -> tuple[np.ndarray, np.ndarray | slice]:
        """``members_of`` for arrays, whose members are a slice where these arrays are all that there are."""
        group = self.group_of(containers)
        if group is not None and (counts := self.groups[group].counts) is not None:
            first = self.first_members[group]
            return counts, slice(first, first + self.groups[group].members)
        return self.members_of(containers)


@dataclass
class Structure:
    """The parsed structure of many JSON records.

    ``starts`` and ``ends``: the offsets of each record. ``blank``: true where a record is only white space. ``odd``:
    true where a record has unusual or invalid syntax and must be parsed on its own. ``escapes``: the offsets of all
    backslashes. ``roots``: for each object of the first level, the index of its record; it may include odd records.
    ``ordinary``: the text is canonical JSON, see ``structure``.
    """

    text: Text
    starts: np.ndarray
    ends: np.ndarray
    blank: np.ndarray
    odd: np.ndarray
    escapes: np.ndarray
    roots: np.ndarray
    levels: list[Level]
    ordinary: bool = False

    def has_escape(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns a mask that is true where the text from ``starts[i]`` to ``ends[i]`` contains a backslash."""
        found: np.ndarray = np.searchsorted(self.escapes, starts) != np.searchsorted(self.escapes, ends)
        return found

    def has_control(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns a mask that is true where the text from ``starts[i]`` to ``ends[i]`` contains a control character."""
        found: np.ndarray = np.searchsorted(self._controls, starts) != np.searchsorted(self._controls, ends)
        return found

    @cached_property
    def _controls(self) -> np.ndarray:
        return np.flatnonzero((self.text.data < ord(" ")) & (self.text.data != self.text.end))


def structure(text: Text, *, ordinary: bool = False) -> Structure:
    """Parses the structure of all records of a text.

    Records with escapes in keys are marked as odd, so that each is parsed on its own. With ``ordinary`` they are not:
    the text is then canonical JSON (``json_records.regular``).
    """
    return _Scan(text, ordinary).result()


class Tokens:
    """The occurrences of some characters in the records of a text, without escaped quotes: ``p`` has their byte offsets
    and ``c`` the characters. ``found``: a mask of the bytes that are such characters.

    ``odd`` is true for records with invalid escapes or invalid UTF-8, which are parsed on their own.
    """

    def __init__(self, text: Text, found: np.ndarray) -> None:
        self.text, self.data = text, text.data
        self.p = np.flatnonzero(found)
        self.c = self.data[self.p]
        breaks = self.p[self.c == text.end]
        self.starts, self.ends = breaks[:-1] + 1, breaks[1:]
        self.odd = np.zeros(len(self.starts), bool)
        self.escapes = np.empty(0, np.intp)
        if (self.c == BACKSLASH).any():
            self._drop_escaped()
        if not text.is_utf8():
            self._mark_no_utf8()

    def records_of(self, positions: np.ndarray) -> np.ndarray:
        """Returns the index of the record that contains each offset."""
        return np.searchsorted(self.ends, positions)

    def mark(self, positions: np.ndarray) -> None:
        """Marks the records that contain these offsets as odd, so that they are parsed on their own."""
        self.odd[self.records_of(positions)] = True

    def _mark_no_utf8(self) -> None:
        for record in np.unique(self.records_of(np.flatnonzero(self.data >= 0x80))).tolist():
            if not is_utf8(self.data[self.starts[record] : self.ends[record]]):
                self.odd[record] = True

    def _drop_escaped(self) -> None:
        """Drops backslashes and the quotes that they escape, and marks records with escapes that JSON does not have."""
        which = np.flatnonzero(self.c == BACKSLASH)
        at = self.p[which]
        numbers = np.arange(len(at))
        begins = np.concatenate([[True], at[1:] != at[:-1] + 1])
        escapes = ((numbers - np.maximum.accumulate(np.where(begins, numbers, 0))) & 1) == 0
        active, behind = at[escapes], which[escapes] + 1
        following = self.data[active + 1]
        codes = active[following == ord("u")]
        self.mark(active[~_ESCAPED[following]])
        self.mark(codes[~np.logical_and.reduce([_HEX[self.data[codes + i]] for i in range(2, 6)])])
        keep = np.ones(len(self.p), bool)
        keep[which] = False
        keep[behind[(self.p[behind] == active + 1) & (self.c[behind] == QUOTE)]] = False
        self.p, self.c, self.escapes = self.p[keep], self.c[keep], at


class _Scan(Tokens):
    """The first stage: tokens, which are structural characters outside strings, both quotes of each string, and ends
    of records.
    """

    def __init__(self, text: Text, ordinary: bool) -> None:
        self.ordinary = ordinary
        found = ((text.data | 0x20) - np.uint8(0x7B)) <= 2  # { [ } ] and also \ and |, which is odd outside strings
        for character in (QUOTE, COLON, COMMA, text.end):
            found |= text.data == character
        super().__init__(text, found)

    def _without_odd(self) -> None:
        """Drops the tokens of odd records, except their ends."""
        last = np.flatnonzero(self.c == self.text.end)
        keep = np.repeat(np.concatenate([[True], ~self.odd]), np.diff(last, prepend=-1))
        keep[last] = True
        self.p, self.c = self.p[keep], self.c[keep]

    def result(self) -> Structure:
        if self.odd.any():
            self._without_odd()
        self._drop_strings()
        levels = self._depths()
        is_token = (levels == 0) & (self.c != self.text.end)
        openings = np.flatnonzero((levels == 1) & _opens(self.c))
        records = self.records_of(self.p[openings])
        found = np.bincount(records, minlength=len(self.odd))
        wrong = found > 1
        wrong[records[self.c[openings] != OBJECT]] = True
        if is_token.any():
            wrong[self.records_of(self.p[is_token])] = True
        empty = np.flatnonzero((found == 0) & ~self.odd & ~wrong)
        blank = np.zeros(len(self.odd), bool)
        blank[empty] = self.blank(self.starts[empty] - 1, self.ends[empty])
        wrong[empty[~blank[empty]]] = True
        self.odd |= wrong
        if wrong.any():
            self._without_odd()
            levels = self._depths()
            openings = np.flatnonzero((levels == 1) & _opens(self.c))
            records = self.records_of(self.p[openings])
        closings = self.p[(levels == 1) & _closes(self.c)]
        ends_well = self.blank(self.starts[records] - 1, self.p[openings]) & self.blank(closings, self.ends[records])
        self.odd[records[~ends_well]] = True
        cut = list(_levels(self, levels, records))
        return Structure(self.text, self.starts, self.ends, blank, self.odd, self.escapes, records, cut, self.ordinary)

    def _drop_strings(self) -> None:
        """Drops what is inside strings. A record with a string that is not closed is odd."""
        quotes = np.cumsum(self.c == QUOTE, dtype=np.int32)
        at_ends = quotes[self.c == self.text.end]
        unclosed = (np.diff(at_ends) & 1).astype(bool)
        if unclosed.any():
            self.odd |= unclosed
            self._without_odd()
            quotes = np.cumsum(self.c == QUOTE, dtype=np.int32)
        keep = ((quotes & 1) == 0) | (self.c == QUOTE)
        self.p, self.c = self.p[keep], self.c[keep]

    def _depths(self) -> np.ndarray:
        """The depth of the container that each token is in; ends of a container are in it. Unbalanced records are
        odd.
        """
        levels, depths = self._depths_of_all()
        last = np.flatnonzero(self.c == self.text.end)
        if depths[last].any() or levels.max(initial=0) > DEEPEST or depths.min(initial=0) < 0:
            before = depths[last[:-1]]
            lowest = np.minimum.reduceat(depths, last[:-1]) - before
            deepest = np.maximum.reduceat(depths, last[:-1]) - before
            self.odd |= (depths[last[1:]] != before) | (lowest < 0) | (deepest > DEEPEST)
            self._without_odd()
            levels, _ = self._depths_of_all()
        return levels

    def _depths_of_all(self) -> tuple[np.ndarray, np.ndarray]:
        closes = _closes(self.c)
        depths = np.cumsum(_opens(self.c).view(np.int8) - closes.view(np.int8), dtype=np.int32)
        return depths + closes, depths

    def blank(self, before: np.ndarray, behind: np.ndarray) -> np.ndarray:
        """Whether there is only white space between two positions."""
        is_blank = np.ones(len(before), bool)
        open_gaps = np.flatnonzero(behind - before > 1)
        at = before[open_gaps] + 1
        while len(open_gaps):
            good = _BLANK[self.data[at]]
            is_blank[open_gaps[~good]] = False
            at += 1
            more = good & (at < behind[open_gaps])
            open_gaps, at = open_gaps[more], at[more]
        return is_blank


def _levels(scan: _Scan, depths: np.ndarray, records: np.ndarray) -> Iterator[Level]:
    """The second stage: the containers of each depth with their members, from the outside to the inside."""
    parents, deepest = records, int(depths.max(initial=0))
    depths = depths.astype(np.int8)  # there are no more than DEEPEST
    inner_marks = np.where(_opens(scan.c), np.uint8(_INNER_OPEN), np.uint8(0))
    inner_marks[_closes(scan.c)] = _INNER_CLOSE
    for depth in range(1, deepest + 1):
        p, c = scan.p, scan.c
        if deepest > 1:
            here = np.flatnonzero((depths == depth) | ((depths == depth + 1) & (inner_marks > 0)))
            p, c, marks = p[here], c[here], inner_marks[here]
            c = np.where(depths[here] == depth, c, marks)
        level, nested = _level(scan, p, c, parents)
        yield level
        parents = nested


def _level(scan: _Scan, p: np.ndarray, c: np.ndarray, parents: np.ndarray) -> tuple[Level, np.ndarray]:
    """The containers whose tokens these are, and the members that are the containers of the next level."""
    tokens = _Alike.of(p, c) or _Each(p, c)
    c, a, b, owners, objects = tokens.c, tokens.a, tokens.b, tokens.owners, tokens.objects
    scan.mark(tokens.mismatched)
    if tokens.empty.any():
        empty = tokens.empty.copy()
        empty[empty] = scan.blank(p[a[empty]], p[b[empty]])
        a, b, owners = a[~empty], b[~empty], owners[~empty]
    in_object = None if objects.all() else objects[owners]

    wrong = (c[a + 1] != QUOTE) | (c[a + 2] != QUOTE) | (c[a + 3] != COLON)
    v = a + 3
    if in_object is not None:
        wrong &= in_object
        v = np.where(in_object, v, a)
    width, first, second = b - v - 1, c[v + 1], c[v + 2]
    is_text = (width == 2) & (first == QUOTE) & (second == QUOTE)
    is_nested = (width == 2) & (first == _INNER_OPEN) & (second == _INNER_CLOSE)
    is_scalar = width == 0
    wrong |= ~(is_text | is_nested | is_scalar)
    inner = (c == _INNER_OPEN).cumsum() - 1

    # From here on there is a member for each container, where all are alike.
    at, many = tokens.at, tokens.many
    before_keys, key_starts, key_ends, after_keys = at(a), at(a + 1) + 1, at(a + 2), at(a + 3)
    before, behind, first_at, second_at = at(v), at(b), at(v + 1), at(v + 2)
    of_key = ~scan.blank(before_keys, key_starts - 1)
    of_key |= ~scan.blank(key_ends, after_keys)
    if len(scan.escapes) and not scan.ordinary:
        of_key |= np.searchsorted(scan.escapes, key_starts) != np.searchsorted(scan.escapes, key_ends)
    wrong = many(wrong) | (of_key if in_object is None else of_key & many(in_object))
    spaced, scalars = np.flatnonzero(many(~is_scalar)), np.flatnonzero(many(is_scalar))
    starts = np.where(many(is_scalar), before + 1, first_at + many(is_text))
    ends = np.where(many(is_scalar), behind, second_at + many(is_nested))
    wrong[spaced] |= ~scan.blank(before[spaced], first_at[spaced])
    wrong[spaced] |= ~scan.blank(second_at[spaced], behind[spaced])
    _trim(scan.data, starts, ends, scalars)
    kinds = np.where(many(is_text), QUOTE, scan.data[starts]).astype(np.uint8)
    plain, numbers = np.zeros(len(starts), bool), np.zeros(len(starts), np.int64)
    wrong[scalars] |= ~check_scalars(scan.text, kinds, starts, ends, scalars, plain, numbers)
    if wrong.any():
        scan.mark(before_keys[wrong])
        kinds[wrong], plain[wrong] = MISSING, False
    children, nested = tokens.nested(np.flatnonzero(is_nested), inner[v + 1], int(inner[-1]) + 1, len(a))
    owners, objects = tokens.containers(owners, objects)
    level = Level(parents, objects, owners, key_starts, key_ends, kinds, starts, ends, children, plain, numbers)
    return level, nested


class _Each:
    """The tokens of the containers of a level.

    ``a`` and ``b``: for each member the tokens before and behind it. ``owners``: the containers of the members.
    ``objects``: which containers are objects, as they begin. ``mismatched``: the positions of ends that do not fit the
    beginnings. ``empty``: the members that are none, if there is only white space.
    """

    def __init__(self, p: np.ndarray, c: np.ndarray) -> None:
        delimiters = np.flatnonzero(_opens(c) | _closes(c) | (c == COMMA))
        kinds = c[delimiters]
        opens, closes = _opens(kinds), _closes(kinds)
        begun = kinds[opens]
        self.mismatched = p[delimiters[closes]][kinds[closes] != begun + 2]
        self.objects = begun == OBJECT
        begins = np.flatnonzero(~closes)
        self.a, self.b = delimiters[begins], delimiters[begins + 1]
        self.owners = (np.cumsum(opens) - 1)[begins]
        self.empty = (self.b - self.a == 1) & opens[begins] & closes[begins + 1]
        self.p = np.concatenate([p, np.full(6, p[-1] if len(p) else 0)])
        self.c = np.concatenate([c, np.zeros(6, np.uint8)])

    def at(self, tokens: np.ndarray) -> np.ndarray:
        """The positions of tokens."""
        positions: np.ndarray = self.p[tokens]
        return positions

    def many(self, mask: np.ndarray) -> np.ndarray:
        """A mask of members for all containers."""
        return mask

    def containers(self, owners: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The container of each member, and which of them are objects."""
        return owners, objects

    def nested(self, members: np.ndarray, containers: np.ndarray, count: int, of: int) -> tuple[np.ndarray, np.ndarray]:
        """For each of ``of`` members its container in the next level; for each of these ``count`` containers the member
        that it is. ``members``: those that are containers; ``containers``: for each member the number that it would be.
        """
        children, nested = np.zeros(of, np.intp), np.zeros(count, np.intp)
        children[members] = containers[members]
        nested[children[members]] = members
        return children, nested


class _Alike(_Each):
    """The tokens of containers that all have the same ones: only those of the first are looked at."""

    def __init__(self, p: np.ndarray, c: np.ndarray, width: int) -> None:
        super().__init__(p[:width], c[:width])
        self.grid = p.reshape(-1, width)
        self.count, self.last = len(self.grid), width - 1

    @classmethod
    def of(cls, p: np.ndarray, c: np.ndarray) -> _Alike | None:
        """The tokens as those of containers that are alike; None where they are not, or where something is wrong with
        them, which is another thing in each of them.
        """
        width = int(_closes(c).argmax()) + 1 if len(c) else 0
        if width < 2 or len(c) < 2 * width or len(c) % width or (c.reshape(-1, width) != c[:width]).any():
            return None
        alike = cls(p, c, width)
        return None if len(alike.mismatched) or alike.empty.any() else alike

    def at(self, tokens: np.ndarray) -> np.ndarray:
        return self.grid[:, np.minimum(tokens, self.last)].ravel()

    def many(self, mask: np.ndarray) -> np.ndarray:
        return np.tile(mask, self.count)

    def containers(self, owners: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.repeat(np.arange(self.count), len(owners)), np.repeat(objects, self.count)

    def nested(self, members: np.ndarray, containers: np.ndarray, count: int, of: int) -> tuple[np.ndarray, np.ndarray]:
        each = np.arange(self.count)[:, None]
        children, nested = super().nested(members, containers, count, of)
        return (children + each * count).ravel(), (nested + each * of).ravel()


def _trim(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, which: np.ndarray) -> None:
    """Moves the ends of some values to their first and behind their last character that is no white space."""
    for edges, step in ((starts, 1), (ends, -1)):
        rest = which
        while len(rest):
            rest = rest[_BLANK[data[edges[rest] + min(step, 0)]] & (starts[rest] < ends[rest])]
            edges[rest] += step
