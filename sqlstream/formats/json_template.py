"""A record of JSON as the template of others (``json_alike``): where its keys and values are."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property

_DEEPEST = 16
"""Objects around a value."""
_LONGEST = 16
"""Bytes between two elements, at most: more are no habit of a program."""
_KEY = re.compile(rb"""[ \t\r\n]*"(?P<key>[^"\\]*)"[ \t\r\n]*:[ \t\r\n]*""")
_VALUE = re.compile(
    rb""""(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)"|(?P<scalar>[^ \t\r\n"{}\[\],:\\]+)|(?P<object>\{)|(?P<array>\[)""",
    re.DOTALL,
)
_NEXT = re.compile(rb"[ \t\r\n]*(?P<mark>[,}])")
_SEPARATOR = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_BEGIN, _END = re.compile(rb"[ \t\r\n]*\{"), re.compile(rb"[ \t\r\n]*")

Span = tuple[int, int]


class Unlike(Exception):
    """A record that is no template."""


@dataclass
class Member:
    """A member of an object, or the element of an array, which has no key: where its key and its value begin and end.
    ``inner``: the object or array that it is. ``column``: its number among all members of the template.
    """

    key: Span
    value: Span
    is_text: bool = False
    inner: Object | Array | None = None
    column: int = -1


@dataclass
class Object:
    """An object of the template. ``space``: 0 in the record; in an element of an array its number, from 1."""

    space: int
    members: list[Member] = field(default_factory=list)


@dataclass
class Array:
    """An array of the template. ``number``: from 1. ``separator``: what stands between two elements. ``elements``: the
    first one, as a member alone, none in an empty array. ``template``: that of elements that are objects.
    """

    number: int
    span: Span
    separator: bytes
    elements: list[Member] = field(default_factory=list)
    template: Template | None = None

    @property
    def members(self) -> list[Member]:
        return self.elements


class Template:
    """A record, or an object in an array of one, that begins at ``start`` of the bytes. Raises Unlike where it is no
    template.

    ``quotes``: the positions of all quotes outside arrays. ``leaves``: the members that are no objects, in their order.
    """

    def __init__(self, record: bytes, start: int, space: int = 0) -> None:
        self.record, self.start = record, start
        self.quotes: list[int] = []
        self.arrays: list[Array] = []
        self.leaves: list[Member] = []
        self.objects: list[Member] = []
        self._space = space
        self.root, self.end = self._object(start, 1)

    @classmethod
    def of(cls, record: bytes) -> Template | None:
        """The template of a record; None where it is none."""
        begin = _BEGIN.match(record)
        if begin is None:
            return None
        try:
            template = cls(record, begin.end() - 1)
        except Unlike:
            return None
        if not _END.fullmatch(record, template.end):
            return None
        template.start, template.end = 0, len(record)
        for number, member in enumerate(template.members):
            member.column = number
        return template

    @cached_property
    def nodes(self) -> list[list[Object | Array]]:
        """The objects and arrays of each depth."""
        depths: list[list[Object | Array]] = [[self.root]]
        while depths[-1]:
            depths.append([m.inner for node in depths[-1] for m in node.members if m.inner is not None])
        return depths[:-1]

    @property
    def members(self) -> list[Member]:
        """All members, the outer ones first."""
        return [member for nodes in self.nodes for node in nodes for member in node.members]

    @property
    def lacks(self) -> int:
        """How many arrays have no element that says what others are like."""
        return sum(not array.elements for array in self.arrays)

    def segment(self, position: int) -> tuple[int, int]:
        """How many arrays end before a position outside of them, and the number of the first quote behind these."""
        number = bisect_right([array.span[1] for array in self.arrays], position)
        behind = self.arrays[number - 1].span[1] if number else 0
        return number, bisect_left(self.quotes, behind)

    def _object(self, at: int, depth: int) -> tuple[Object, int]:
        """The object that begins at a position, and where it ends."""
        if depth > _DEEPEST:
            raise Unlike
        found = Object(self._space)
        while True:
            key = _KEY.match(self.record, at + 1)
            if key is None:
                raise Unlike
            self.quotes += [key.start("key") - 1, key.end("key")]
            member, behind = self._value(key.span("key"), key.end(), depth)
            found.members.append(member)
            following = _NEXT.match(self.record, behind)
            if following is None:
                raise Unlike
            at = following.start("mark")
            if following["mark"] == b"}":
                return found, at + 1

    def _value(self, key: Span, at: int, depth: int) -> tuple[Member, int]:
        value = _VALUE.match(self.record, at)
        if value is None:
            raise Unlike
        kind = value.lastgroup or "text"
        if kind == "object":
            inner, end = self._object(at, depth + 1)
            member = Member(key, (at, end), inner=inner)
            self.objects.append(member)
            return member, end
        if kind == "array":
            array = self._array(at)
            member, end = Member(key, array.span, inner=array), array.span[1]
        else:
            member, end = Member(key, value.span(kind), kind == "text"), value.end()
            self.quotes += [member.value[0] - 1, member.value[1]] if kind == "text" else []
        self.leaves.append(member)
        return member, end

    def _array(self, at: int) -> Array:
        """The array that begins at a position. Its elements but the first are looked at later, as those of others."""
        end = self.record.find(b"]", at)
        if self._space or end < 0 or self.record.find(b"[", at + 1, end) >= 0:
            raise Unlike
        array = Array(len(self.arrays) + 1, (at, end + 1), self._separator())
        self.arrays.append(array)
        if end == at + 1:
            return array
        element = _VALUE.match(self.record, at + 1)
        if element is None:
            raise Unlike
        kind = element.lastgroup or "text"
        if kind == "object":
            array.template = Template(self.record, at + 1, array.number)
            array.elements = [Member((0, 0), (at + 1, array.template.end), inner=array.template.root)]
        else:
            array.elements = [Member((0, 0), element.span(kind), kind == "text")]
        behind = element.end() if array.template is None else array.template.end
        if behind < end:
            between = _SEPARATOR.match(self.record, behind)
            if between is None or len(between[0]) > _LONGEST:
                raise Unlike
            array.separator = between[0]
        return array

    def _separator(self) -> bytes:
        """What stands between members, and so probably between elements."""
        for leaf in self.leaves:
            between = _SEPARATOR.match(self.record, leaf.value[1] + leaf.is_text)
            if between is not None and len(between[0]) <= _LONGEST:
                return between[0]
        return b","
